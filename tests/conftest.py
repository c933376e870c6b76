from __future__ import annotations

import signal

from hypothesis import settings

pytest_plugins = ["tests.servers"]

# No test asserts a duration; how to see a failure again is printed with it.
settings.register_profile("objq", deadline=None, print_blob=True)
settings.load_profile("objq")

# Whoever is started in a shell's background ignores SIGINT, and so would all that is started here:
# tests that press Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
