"""The broker of `bench.broker` with a smaller buffer, so that a small load is too much for it.

`python -m tests.chaos.smallbroker LATENCY_S MAX_REQUESTS`
"""

from __future__ import annotations

import sys
from unittest.mock import patch

from bench import broker
from objq.broker import inbox

if __name__ == "__main__":
    with patch.object(inbox, "MAX_REQUESTS", int(sys.argv[2])):
        broker.main(float(sys.argv[1]))
