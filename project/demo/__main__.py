"""Start broker, workers and site, save Python's standard library through the site, and report.

All the while the dashboard shows it, in a browser that is opened if there is a screen. It then
stays, to be looked at, until Ctrl-C. With --once it ends after the report: 0 if every page
was saved, indexed and found.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from project.demo import ROOT, DemoError, Stop
from project.demo.corpus import library


def main() -> int:
    options = parse()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup and a shell's & have it
            signal.signal(number, leave)
    data = Path(os.environ.get("OBJQ_DEMO_DATA") or ROOT / ".demo").absolute()
    data.mkdir(parents=True, exist_ok=True)
    # Its own for every run, so that several can go on at once.
    folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=data))
    keep = True
    try:
        # Not before: Django's settings are read at import, and they ask for this folder.
        configure(folder)
        from project.demo.run import run

        run(folder, options.source, once=options.once)
    except Stop:
        keep = options.keep
        print("Stopped.")
        return 130 if options.once else 0
    except DemoError as error:
        print(f"\n{error}\n\nThe demo did not work. What it wrote is in {folder}", file=sys.stderr)
        return 1
    else:
        keep = options.keep
        return 0
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m project.demo", description=__doc__)
    parser.add_argument(
        "--once",
        action="store_true",
        default=os.environ.get("ONCE", "") not in ("", "0"),
        help="end after the report (also with ONCE=1 in the environment)",
    )
    parser.add_argument(
        "--source",
        type=Path,
        metavar="FOLDER",
        default=library(),
        help="a folder of Python files to save, instead of the standard library",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder with database, queue and logs"
    )
    return parser.parse_args()


def configure(folder: Path) -> None:
    path = [str(ROOT), str(ROOT / "dashboard"), os.environ.get("PYTHONPATH", "")]
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "OBJQ_DEMO_DATA": str(folder),
        "OBJQ_DEMO_SECRET_KEY": secrets.token_urlsafe(40),
        "OBJQ_DEMO_ENTRANCE": secrets.token_urlsafe(16),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PYTHONUNBUFFERED": "1",
    }
    sys.path.insert(0, str(ROOT / "dashboard"))


def leave(_number: int, _frame: object) -> NoReturn:
    raise Stop


if __name__ == "__main__":
    sys.exit(main())
