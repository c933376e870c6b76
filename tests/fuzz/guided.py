"""atheris as an engine: `python -m tests.fuzz.guided TARGET --seed S --report FILE --seconds N`.

It follows the branches of objq's own code and looks for inputs that take new ones. libFuzzer ends
the process that it runs in, so it has one of its own, and what it found is in a file.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.guard import Finding, Guard, Tally

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

ROOT: Final = Path(__file__).parents[2]
TARGETS: Final = ("frame", "reply", "document", "arguments")
"""The targets that are pure: what atheris cannot follow into a loop, or a hash, it is not given."""

LEAST_S: Final = 8.0
"""Below this it would hardly have begun."""

EVERY: Final = 500
"""After so many inputs the report is written anew; the first ones each."""

STARTING_S: Final = 120.0
INPUTS_S: Final = 600.0
"""Patience with a number of inputs."""


def missing() -> str | None:
    """Return why atheris does not run here; None: it does."""
    if importlib.util.find_spec("atheris") is None:
        return "atheris is not installed for this Python: `pip install atheris` where it has wheels"
    return None


def run(
    target: Target, tally: Tally, seed: int, seconds: float, inputs: int | None = None
) -> str | None:
    """Let it run so long, or for so many inputs; add to the tally; return what kept it from it."""
    with tempfile.TemporaryDirectory(prefix="objq-fuzz-") as name:
        folder = Path(name)
        corpus, report = folder / "corpus", folder / "report"
        corpus.mkdir()
        for number, example in enumerate(target.seeds()):
            (corpus / str(number)).write_bytes(example[: target.most_bytes])
        bound = ["--seconds", str(int(seconds))] if inputs is None else ["--inputs", str(inputs)]
        asked = [*bound, "--seed", str(seed), "--report", str(report), target.name, str(corpus)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.guided", *asked],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "dashboard")))},
            capture_output=True,
            timeout=STARTING_S + (seconds if inputs is None else INPUTS_S),
            check=False,
        )
        if not report.exists():
            return f"atheris ended with {done.returncode}: {done.stderr.decode()[-500:]}"
        found = json.loads(report.read_text())
    _add(tally, found)
    if done.returncode and tally.finding is None:
        detail = done.stderr.decode(errors="replace")[-3000:]
        tally.finding = Finding(kind="crash", engine="atheris", detail=detail, data=b"")
    return None


def _add(tally: Tally, found: dict[str, Any]) -> None:
    for name, count in found["inputs"].items():
        tally.inputs[name] = tally.inputs.get(name, 0) + count
    tally.outcomes = dict(Counter(tally.outcomes) + Counter(found["outcomes"]))
    tally.most_bytes = max(tally.most_bytes, found["most_bytes"])
    tally.slowest_s = max(tally.slowest_s, found["slowest_s"])
    if found["finding"] is not None:
        data = bytes.fromhex(found["finding"].pop("data"))
        tally.finding = tally.finding or Finding(**found["finding"], data=data)


# --- in the process of its own -------------------------------------------------------------------


def _write(report: Path, tally: Tally) -> None:
    finding = tally.finding
    text = json.dumps(
        {
            "inputs": tally.inputs,
            "outcomes": tally.outcomes,
            "most_bytes": tally.most_bytes,
            "slowest_s": tally.slowest_s,
            "finding": finding and {**vars(finding), "data": finding.data.hex()},
        }
    )
    fresh = report.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(report)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    bound = parser.add_mutually_exclusive_group(required=True)
    bound.add_argument("--seconds", type=int)
    bound.add_argument("--inputs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("corpus")
    arguments = parser.parse_args()
    atheris: Any = importlib.import_module("atheris")  # mypy has it on few machines
    with atheris.instrument_imports(include=["objq"]):
        from tests.fuzz.run import prepare

        prepare()
        from tests.fuzz.targets import TARGETS as ALL
    target = next(one for one in ALL if one.name == arguments.target)
    guard = Guard(target.feed)
    count = 0

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        holds = guard.give(data, "atheris")
        if count < EVERY or count % EVERY == 0 or not holds:
            _write(arguments.report, guard.tally)
        if not holds:
            os._exit(1)  # what was found is in the report

    by_clock = arguments.inputs is None
    options = [
        sys.argv[0],
        f"-max_total_time={arguments.seconds}" if by_clock else f"-runs={arguments.inputs}",
        f"-max_len={min(target.most_bytes, 64_000)}",
        f"-seed={arguments.seed % 2**32 or 1}",
        "-rss_limit_mb=4096",
        "-print_final_stats=0",
        "-verbosity=0",
        arguments.corpus,
    ]
    atheris.Setup(options, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
