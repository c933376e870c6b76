"""Exceptions as they are reported.

An exception is other people's code: its text, its class and what hangs on it may raise anything
when they are looked at, an exit too. Whatever cannot be told is said to be so; nothing gets out.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from objq.core.ending import shorten_error
from objq.core.ops import MAX_RECORD_BYTES, JobError

MAX_BYTES: Final = MAX_RECORD_BYTES // 2
"""Of the texts of an error, as JSON, that leave the worker: as much as `MAX_ERROR_BYTES` may be."""


def describe(error: BaseException, own_files: Collection[str], more: str = "") -> JobError:
    """Return an exception as it is reported, without the frames of `own_files` at the top."""
    try:
        said = JobError(
            type=_told("type", partial(_path_of, type(error))),
            message=_told("text", partial(str, error)),
            traceback=_told("traceback", partial(_traceback_of, error, own_files)) + more,
        )
        return shorten_error(said, MAX_BYTES)
    except BaseException as problem:  # no memory for texts of that size, say
        return JobError(type=_name_of(type(error)), message=_instead("description", problem))


def _told(what: str, tell: Callable[[], str]) -> str:
    try:
        return str.__str__(tell())  # a plain one, whatever class of strings it returns
    except BaseException as problem:
        return _instead(what, problem)


def _instead(what: str, problem: BaseException) -> str:
    return f"<its {what} raised {_name_of(type(problem))}>"


def _path_of(kind: type) -> str:
    return f"{_own(kind, '__module__')}.{_name_of(kind)}"


def _name_of(kind: type) -> str:
    return str.__str__(_own(kind, "__qualname__"))


def _own(kind: type, attribute: str) -> str:
    """Return an attribute that every class has, whatever the class of the class says it is."""
    value: str = type.__dict__[attribute].__get__(kind)
    return value


def _traceback_of(error: BaseException, own_files: Collection[str]) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in own_files:
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except BaseException as problem:
        # Where it was raised is the least that a developer needs, and no code of its own tells it.
        frames = "".join(traceback.format_tb(trace))
        return f"Traceback (most recent call last):\n{frames}{_instead('description', problem)}\n"


def whereabouts(thread: int | None, own_file: str) -> str:
    """Return where a thread is at this moment, from the last frame of `own_file` on."""
    frame = sys._current_frames().get(thread or 0)
    if frame is None:
        return ""
    stack = list(traceback.extract_stack(frame))
    own = [index for index, entry in enumerate(stack) if entry.filename == own_file]
    lines = traceback.format_list(stack[own[-1] + 1 :] if own else stack)
    return "\nIts thread still runs, just now here:\n" + "".join(lines)
