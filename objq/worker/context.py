"""What a running task can learn of its job."""

from __future__ import annotations

from dataclasses import dataclass

from objq.compat import TaskContext
from objq.worker.seam import Control


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(TaskContext):  # type: ignore[misc,type-arg]  # generic in the stubs only
    """What a task with `takes_context` is given, on top of what Django says of it."""

    control: Control

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked that the job stop. Raise to end it as cancelled."""
        return self.control.cancel_requested

    @property
    def claim_lost(self) -> bool:
        """Whether the job is no longer this worker's: it may run elsewhere, stop if you can."""
        return self.control.claim_lost
