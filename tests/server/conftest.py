from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.server.harness import Wire, open_wire


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with open_wire() as opened:
        yield opened
