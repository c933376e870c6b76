"""Exceptions as they are reported."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Collection
from typing import Final

from objq.core.ops import JobError

MAX_TEXT: Final = 100_000
"""Characters of a message or traceback that leave the worker; the document keeps fewer."""


def describe(error: BaseException, own_files: Collection[str], more: str = "") -> JobError:
    """Return an exception as it is reported, without the frames of `own_files` at the top."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in own_files:
        trace = trace.tb_next
    try:
        message = str(error)
    except Exception as problem:
        message = f"<its text raised {type(problem).__name__}>"
    text = "".join(traceback.format_exception(type(error), error, trace)) + more
    return JobError(
        type=f"{type(error).__module__}.{type(error).__qualname__}",
        message=_clean(message),
        traceback=_clean(text),
    )


def whereabouts(thread: int | None, own_file: str) -> str:
    """Return where a thread is at this moment, from the last frame of `own_file` on."""
    frame = sys._current_frames().get(thread or 0)
    if frame is None:
        return ""
    stack = list(traceback.extract_stack(frame))
    own = [index for index, entry in enumerate(stack) if entry.filename == own_file]
    lines = traceback.format_list(stack[own[-1] + 1 :] if own else stack)
    return "\nIts thread still runs, just now here:\n" + "".join(lines)


def _clean(text: str) -> str:
    """Return Unicode of bounded length: lone surrogates escaped, the middle left out."""
    if len(text) > MAX_TEXT:
        half = MAX_TEXT // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
    return text.encode(errors="backslashreplace").decode()
