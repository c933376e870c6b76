"""Randomness comes in from outside: everything that draws ids or jitter takes an `Ids`."""

from __future__ import annotations

import base64
import random
import uuid


class Ids:
    """Draws ids and jitter; with a seeded `random.Random` the draws can be replayed."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng: random.Random = rng if rng is not None else random.SystemRandom()

    def token(self) -> str:
        """Return 96 random bits as 16 URL-safe characters: commit ids, claim tokens, broker ids."""
        return base64.urlsafe_b64encode(self.rng.getrandbits(96).to_bytes(12, "big")).decode()

    def job_id(self, now_ms: int) -> str:
        """Return a time-ordered UUID (version 7, RFC 9562) as 36 characters."""
        value = (now_ms & (1 << 48) - 1) << 80 | self.rng.getrandbits(80)
        value = value & ~(0xF << 76) | 0x7 << 76
        value = value & ~(0x3 << 62) | 0x2 << 62
        return str(uuid.UUID(int=value))

    def prefix(self, seq: int) -> str:
        """Return a new request-id prefix `<seq>-<random>` (promise S7) for a `seq` just seen."""
        return f"{seq}-{self.token()}"

    def jitter(self, seconds: float) -> float:
        """Return a random time between a half and all of `seconds`."""
        return seconds * (0.5 + self.rng.random() / 2)
