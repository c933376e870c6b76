#!/usr/bin/env python
"""Django's command line for the site in `project/`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    # The dashboard's package is in a folder of its own, as it is not the folder that is installed.
    sys.path.insert(0, str(Path(__file__).resolve().parent / "dashboard"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
