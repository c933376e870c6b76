"""What the users of the queue did, were told and saw, with the world's times, for the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from objq.client.watching import Event
from objq.core import ops
from tests.sim.process import Process

Told = Literal["ok", "rejected", "unsent", "unknown", "open"]
"""What a caller may conclude (S12); `open`: it was never told anything."""


@dataclass(kw_only=True)
class Asked:
    """One request that changes something. `told` has an entry for each of `ids`."""

    op: ops.Op
    ids: tuple[str, ...]
    by: Process
    began: float
    ended: float | None = None
    told: dict[str, Told] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    position: ops.Position | None = None


@dataclass(kw_only=True)
class Run:
    """One execution of a job. `how`: complete or fail, once it ended by itself."""

    job: str
    token: str
    by: Process
    began: float
    args: bytes
    ended: float | None = None
    how: str = ""


@dataclass(kw_only=True)
class History:
    pushed: list[Asked] = field(default_factory=list)
    reported: list[Asked] = field(default_factory=list)
    """Complete, fail and release: by token."""
    operated: list[Asked] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    reads: dict[str, list[tuple[float, tuple[int, int]]]] = field(default_factory=dict)
    """By session: the version of each answer that was handed out (S11)."""
    heard: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By the broker process's name and token: when a frame named the token there."""
    draining: dict[str, float] = field(default_factory=dict)
    """By the worker process's name: when it was asked to end."""
    cut: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By place: when it was cut from the network or the store, in whole or in part."""
    problems: list[str] = field(default_factory=list)
    """Violations that were seen on the spot."""
    watched: dict[str, list[tuple[float, Event]]] = field(default_factory=dict)
    """By session: what a watcher was told, and when it looked."""
    notes: list[tuple[float, str]] = field(default_factory=list)
    """What happened, for people."""

    def hear(self, process: Process, token: str) -> None:
        self.heard.setdefault((process.name, token), []).append(process.timeline.now)

    def note(self, at: float, text: str) -> None:
        self.notes.append((at, text))

    def saw(self, process: Process, answer: ops.Answer) -> None:
        """Note the version that an answer shows."""
        version: Any = None
        if isinstance(answer, ops.Statistics):
            version = (answer.epoch, answer.seq)
        elif answer.position is not None:
            version = answer.position[:2]
        if version is not None:
            seen = self.reads.setdefault(process.name, [])
            seen.append((process.timeline.now, version))
