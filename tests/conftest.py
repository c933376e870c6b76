from __future__ import annotations

import importlib.util

if importlib.util.find_spec("tests.servers") is not None:
    pytest_plugins = ["tests.servers"]
