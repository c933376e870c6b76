"""When a claim counts as silent."""

from __future__ import annotations

from objq.broker.leases import Leases


def test_a_token_is_silent_after_the_timeout_and_not_before() -> None:
    leases = Leases(30)
    leases.hear("a", 0)
    leases.hear("b", 10)
    assert leases.silent(29.9) == []
    assert leases.silent(30) == ["a"]
    assert leases.next_silence() == 30
    leases.hear("a", 30)
    assert leases.silent(40) == ["b"]
    assert leases.next_silence() == 40


def test_a_restart_gives_everybody_a_full_timeout_however_long_silent() -> None:
    leases = Leases(30)
    leases.hear("a", 0)
    leases.restart(100)
    assert leases.silent(129.9) == []
    assert leases.next_silence() == 130
    assert leases.silent(130) == ["a"]


def test_a_restart_waits_the_larger_of_two_timeouts() -> None:
    leases = Leases(3)
    leases.hear("a", 0)
    leases.restart(0, 30)
    leases.hear("b", 28)
    assert leases.silent(29.9) == []
    assert leases.silent(30) == ["a"]
    assert leases.silent(31) == ["a", "b"]


def test_tokens_kept_from_a_document_count_as_heard_when_first_seen() -> None:
    leases = Leases(30)
    leases.hear("old", 0)
    leases.hear("gone", 0)
    leases.keep(["new", "old"], 20)
    assert leases.silent(30) == ["old"]
    assert leases.silent(50) == ["old", "new"]
    assert "gone" not in leases
    leases.forget("old")
    assert leases.heard_ago_s("new", 21) == 1
    assert leases.heard_ago_s("old", 21) is None


def test_nobody_held_is_nobody_silent() -> None:
    assert Leases(30).silent(1e9) == []
    assert Leases(30).next_silence() is None
