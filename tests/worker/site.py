"""Settings of the processes that the tests of this folder start."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403
from tests.worker.configured import storages, tasks

STORAGES = storages(os.environ["OBJQ_TEST_FOLDER"])
TASKS = tasks(float(os.environ.get("OBJQ_TEST_GRACE", "30")))
