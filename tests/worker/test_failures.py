"""Exceptions that resist being told: their code may raise anything, an exit too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from objq.core.ending import shorten_error
from objq.core.ops import MAX_NAME, MAX_RECORD_BYTES, MAX_RETRY_AFTER_S, Fail, Failure
from objq.wire import encode_request
from objq.worker import failures
from objq.worker.failures import MAX_BYTES, describe


class PlainText(str):
    """A string that is none when somebody looks at it more closely."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise SystemExit

    def encode(self, *args: Any, **options: Any) -> bytes:
        raise SystemExit


def exits(*_: Any) -> Any:
    raise SystemExit("from the exception's own code")


def interrupts(*_: Any) -> Any:
    raise KeyboardInterrupt


def exception(**members: Any) -> type[Exception]:
    return type("Odd", (Exception,), members)


def of_odd_class(**members: Any) -> BaseException:
    error: BaseException = type("OddClass", (type,), members)("Odd", (Exception,), {})("no order")
    return error


def behind(attribute: str, hidden: BaseException) -> BaseException:
    error = ValueError("no order")
    setattr(error, attribute, hidden)
    return error


ODD: dict[str, Callable[[], BaseException]] = {
    "its text exits": lambda: exception(__str__=exits)(),
    "its text interrupts": lambda: exception(__str__=interrupts, __repr__=interrupts)(),
    "its text is no text": lambda: exception(__str__=lambda self: 5)(),
    "its text is odd": lambda: exception(__str__=lambda self: PlainText("no order"))(),
    "its module": lambda: of_odd_class(__module__=property(exits)),
    "its name": lambda: of_odd_class(__getattribute__=exits),
    "its class": lambda: exception(__class__=property(exits))(),
    "its notes": lambda: exception(__notes__=property(exits))(),
    "its cause": lambda: exception(__cause__=property(exits))(),
    "its context": lambda: exception(__context__=property(interrupts))(),
    "its traceback": lambda: exception(__traceback__=property(exits))(),
    "everything": lambda: exception(__getattribute__=exits, __str__=exits)(),
    "a cause that exits": lambda: behind("__cause__", exception(__str__=exits)()),
    "an odd context": lambda: behind("__context__", of_odd_class(__module__=property(exits))),
    "a note that is none": lambda: behind("__notes__", ValueError()),
}


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("name", ODD)
def test_whatever_an_exception_does_it_is_described(name: str) -> None:
    error = describe(raised(ODD[name]()), ())
    assert error.type.rpartition(".")[2] in {"Odd", "ValueError"}
    for text in (error.type, error.message, error.traceback):
        assert type(text) is str
    encode_request(1, Fail(items=(Failure(token="token", error=error),)))


def test_where_it_was_raised_is_told_of_an_exception_that_cannot_be_formatted() -> None:
    error = describe(raised(ODD["its module"]()), ())
    assert error.type == "tests.worker.test_failures.Odd"
    assert error.message == "no order"
    assert "test_failures.py" in error.traceback
    assert "raise error" in error.traceback
    assert error.traceback.endswith("<its description raised SystemExit>\n")


def test_an_error_for_which_there_is_no_memory_is_still_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def out_of_memory(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(failures, "shorten_error", out_of_memory)
    error = describe(ValueError("x"), ())
    assert (error.type, error.message) == ("ValueError", "<its description raised MemoryError>")


@pytest.mark.parametrize("character", ["x", "\0", "€", "😀", "\ud800", '"'])
@pytest.mark.parametrize("around", [MAX_BYTES // 7, MAX_BYTES, MAX_RECORD_BYTES, 1_000_000])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_an_error_of_any_size_fits_a_frame_and_loses_nothing_that_could_be_kept(
    character: str, around: int, more: int
) -> None:
    text = character * (around + more)
    error = describe(raised(ValueError(text)), (), more=text)
    item = Failure(token="t" * MAX_NAME, error=error, retry_after=MAX_RETRY_AFTER_S)
    encode_request(2**53, Fail(items=(item,)))
    assert shorten_error(error, MAX_RECORD_BYTES // 2) == error  # the most MAX_ERROR_BYTES can be
    assert len(error.message) >= MAX_BYTES // 4 // 7 - 20
