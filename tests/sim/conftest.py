from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Let no world log: each has thousands of lines, and tells its story when it is replayed."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
