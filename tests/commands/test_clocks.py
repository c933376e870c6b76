"""The doctor compares clocks by the header `Date`, whose second may be anywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from objq.doctor.clocks import check_clock, measure_skew_s

NOW_S = 1_764_430_000


class Clock:
    """A wall clock that stands still, or steps by `travel_s` while an answer is under way."""

    def __init__(self, now_s: float, travel_s: float = 0.0) -> None:
        self.now_s = now_s
        self.travel_s = travel_s

    def wall_ms(self) -> int:
        now_ms = round(self.now_s * 1000)
        self.now_s += self.travel_s
        return now_ms

    def monotonic(self) -> float:
        return 0.0


class Handler(BaseHTTPRequestHandler):
    date: str | None = formatdate(NOW_S, usegmt=True)

    def do_GET(self) -> None:
        self.send_response_only(403)
        if self.date is not None:
            self.send_header("Date", self.date)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/bucket"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("ours_s", "travel_s", "skew_s"),
    [
        (NOW_S, 0.0, 0.0),
        (NOW_S + 0.9, 0.0, 0.0),  # within the second that the header names
        (NOW_S - 3, 4.0, 0.0),  # the answer travelled
        (NOW_S + 11, 0.0, -10.0),
        (NOW_S - 10, 0.0, 10.0),
    ],
)
def test_only_what_neither_rounding_nor_travel_explains_is_skew(
    url: str, ours_s: float, travel_s: float, skew_s: float
) -> None:
    assert measure_skew_s(url, "/", Clock(ours_s, travel_s)) == pytest.approx(skew_s)


@pytest.mark.parametrize(
    ("ours_s", "level", "said"),
    [
        (NOW_S + 1.5, "ok", "agree within 2 s"),
        (NOW_S - 3_600, "warning", "1 h behind the store's"),
        (NOW_S + 91, "warning", "1.5 min ahead of the store's"),
    ],
)
def test_a_clock_that_is_wrong_is_a_warning(url: str, ours_s: float, level: str, said: str) -> None:
    (finding,) = check_clock("clock", "The store", url, "/", Clock(ours_s))
    assert (finding.level, said in finding.message) == (level, True)
    assert (finding.advice != "") is (level == "warning")


def test_who_does_not_tell_the_time_is_skipped(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(NOW_S)
    for nowhere in (None, "http://127.0.0.1:9/", "file:///tmp/x", "http://127.0.0.1:99999/"):
        (finding,) = check_clock("clock", "The store", nowhere, "/", clock)
        assert finding.level == "skipped"
    for date in (None, "yesterday"):
        monkeypatch.setattr(Handler, "date", date)
        (finding,) = check_clock("clock", "The store", url, "/", clock)
        assert finding.level == "skipped"
