from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.servers"]

# No test asserts a duration; how to see a failure again is printed with it.
settings.register_profile("objq", deadline=None, print_blob=True)
settings.load_profile("objq")
