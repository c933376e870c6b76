"""Settings of the processes of the end-to-end tests; what varies is in the environment."""

from __future__ import annotations

import json
import os

from tests.settings import *  # noqa: F403  # the usual way to build upon other settings

STORAGES["objq"] = json.loads(os.environ["OBJQ_TEST_STORAGE"])  # noqa: F405  # from tests.settings
TASKS["default"]["OPTIONS"] = {  # noqa: F405  # from tests.settings
    "STORAGE": "objq",
    **json.loads(os.environ["OBJQ_TEST_OPTIONS"]),
}
