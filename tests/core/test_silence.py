"""The rule by which direct workers end claims of the silent (design §1), with times made up."""

from __future__ import annotations

from objq.core.ops import Claim
from objq.core.silence import SilenceWatch

T_S = 30.0


def claim(token: str = "t", seq: int = 1, epoch: int | None = None) -> Claim:
    return Claim(
        token=token,
        id="c",
        worker="w",
        claimed_at=0,
        heartbeat_at=0,
        heartbeat_seq=seq,
        epoch=epoch,
    )


def look(watch: SilenceWatch, at: float, *claims: Claim, took: float = 0.0) -> list[str]:
    watch.look(claims, apart_s=T_S / 4, began=at, ended=at + took)
    return watch.silent(T_S)


def watched(upto: float, *, every: float = 5.0, took: float = 0.0) -> SilenceWatch:
    """A watch that has seen one unmoved claim from 0 to `upto`."""
    watch = SilenceWatch()
    at = 0.0
    while at <= upto:
        assert look(watch, at, claim(), took=took) == []
        at += every
    return watch


def test_a_claim_unmoved_for_a_full_timeout_is_silent() -> None:
    assert look(watched(25), 30, claim()) == ["t"]


def test_not_a_moment_earlier() -> None:
    assert look(watched(25), 29.9, claim()) == []


def test_the_first_sighting_counts_from_the_end_of_its_read() -> None:
    """A commit while the first read was under way may be what it brought."""
    watch = SilenceWatch()
    watch.look([claim()], apart_s=T_S / 4, began=0, ended=2)
    for at in (5, 10, 15, 20, 25, 30, 31.9):
        assert look(watch, at, claim()) == []
    assert look(watch, 32, claim()) == ["t"]


def test_the_last_sighting_counts_to_the_beginning_of_its_read() -> None:
    assert look(watched(25), 29, claim(), took=2) == []


def test_a_heartbeat_begins_the_time_anew() -> None:
    watch = watched(25)
    assert look(watch, 29, claim(seq=2)) == []
    for at in (35, 40, 45, 50, 55, 58.9):
        assert look(watch, at, claim(seq=2)) == []
    assert look(watch, 59, claim(seq=2)) == ["t"]


def test_a_missed_read_restarts_the_watch() -> None:
    """The store was away from everybody, or this process was stopped: nobody is to blame."""
    watch = watched(25)
    assert look(watch, 33, claim()) == []
    for at in (40, 47, 54, 61):
        assert look(watch, at, claim()) == []
    assert look(watch, 63, claim()) == ["t"]


def test_a_read_that_hangs_counts_as_missed() -> None:
    watch = watched(25)
    assert look(watch, 30, claim(), took=3) == []


def test_reads_exactly_a_quarter_apart_are_near_enough() -> None:
    assert look(watched(22.5, every=7.5), 30, claim()) == ["t"]


def test_claims_of_a_broker_are_left_alone() -> None:
    watch = SilenceWatch()
    for at in range(0, 100, 5):
        assert look(watch, at, claim(epoch=3)) == []


def test_each_claim_has_its_own_time() -> None:
    watch = SilenceWatch()
    for at in (0, 5):
        look(watch, at, claim("a"))
    for at in (10, 15, 20, 25):
        look(watch, at, claim("a"), claim("b"))
    assert look(watch, 30, claim("a"), claim("b")) == ["a"]
    assert look(watch, 35, claim("b")) == []
    assert look(watch, 40, claim("b")) == ["b"]
    assert watch.unmoved_s("b") == 30
    assert watch.unmoved_s("a") is None


def test_a_claim_that_was_away_begins_anew() -> None:
    watch = watched(20)
    look(watch, 25)
    assert look(watch, 30, claim()) == []


def test_after_a_broker_has_led_everybody_has_a_full_timeout() -> None:
    watch = watched(25)
    watch.restart()
    for at in (30, 35, 40, 45, 50, 55):
        assert look(watch, at, claim()) == []
    assert look(watch, 60, claim()) == ["t"]


def test_a_shorter_timeout_asks_for_nearer_reads() -> None:
    watch = SilenceWatch()
    for at in (0, 2, 4):
        watch.look([claim()], apart_s=1, began=at, ended=at)
    assert watch.silent(4) == []
