"""The worker. `core` is the loop, `process` puts it into a process with threads and signals."""

from objq.worker.core import Worker
from objq.worker.ending import Ending
from objq.worker.seam import Caller, Control, Executor, Outcome, WorkerOptions

__all__ = ["Caller", "Control", "Ending", "Executor", "Outcome", "Worker", "WorkerOptions"]
