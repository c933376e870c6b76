"""What is remembered of requests is bounded, whatever the clocks say and whoever asks (S7, S13)."""

from __future__ import annotations

from typing import Any

import pytest

from objq.core import codec, ops
from objq.errors import ExpiredId, Overloaded, Rejected
from tests.core.world import World

HOUR_MS = 3_600_000
TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS


def let_a_fast_clock_commit(world: World, ahead_ms: int) -> None:
    world.now += ahead_ms
    world.reload()
    world.now -= ahead_ms


def push_from_new_prefixes(world: World, minutes: int, clients: int) -> int:
    """Let so many clients draw a prefix a minute, as they do; return how many were refused."""
    refused = 0
    for minute in range(minutes):
        world.pass_ms(60_000)
        for client in range(clients):
            request = f"{world.document.seq}-{minute}.{client}:1".replace(".", "x")
            try:
                world.push(f"{request}-{client}", request=request)
            except Rejected:
                refused += 1
        world.document.seq += 1
    return refused


@pytest.mark.parametrize("ahead_ms", [90_000, HOUR_MS // 6, HOUR_MS // 4, HOUR_MS, TEN_YEARS_MS])
def test_clients_find_room_while_the_files_time_stands_still(ahead_ms: int) -> None:
    """One commit by a clock that was ahead; no age is over until the others have come so far, nor
    within the window after that."""
    world = World(max_clients=100)
    let_a_fast_clock_commit(world, ahead_ms)
    assert push_from_new_prefixes(world, minutes=30, clients=10) == 0
    assert len(world.document.requests.clients) <= 100


def test_clocks_that_differ_a_little_let_ages_decide() -> None:
    """Those of who write differ all the time, and nobody pays for it."""
    world = World(max_clients=80)
    world.push("first", request="1-first:1")
    world.pass_ms(1000)
    let_a_fast_clock_commit(world, 500)
    for client in range(79):
        world.push(f"j{client}", request=f"1-{client}:1")
    world.pass_ms(1)
    assert len(world.document.requests.clients) == 80
    with pytest.raises(Overloaded):
        world.push("one more", request="1-another:1")


def test_what_is_forgotten_while_time_stands_still_is_refused_and_never_doubles() -> None:
    world = World(max_clients=8)
    let_a_fast_clock_commit(world, HOUR_MS)
    world.push("j", request="1-first:1")
    world.complete(world.take("1-worker:1"))
    assert push_from_new_prefixes(world, minutes=8, clients=1) == 0
    with pytest.raises(ExpiredId):
        world.push("j", request="1-first:1")
    with pytest.raises(ExpiredId):
        world.claim("1-worker:1")


def test_while_time_stands_still_the_least_recently_used_go_also_after_a_take_over() -> None:
    world = World(max_clients=8)
    let_a_fast_clock_commit(world, HOUR_MS)
    for client in range(8):
        world.push(f"j{client}", request=f"1-{client}:1")
    world.push("again", request="1-0:2")
    world.reload()
    world.pass_ms(1)
    assert list(world.document.requests.clients) == ["1-5", "1-6", "1-7", "1-0"]


def test_the_bytes_that_are_remembered_find_room_too_while_time_stands_still() -> None:
    world = World(max_bytes=65_536)
    let_a_fast_clock_commit(world, HOUR_MS)
    assert push_from_new_prefixes(world, minutes=40, clients=5) == 0
    assert world.document.requests.size_bytes <= world.document.requests_bytes()


def test_claims_under_ever_new_prefixes_do_not_grow_the_document_without_bound() -> None:
    """A grant is never refused for want of room (S13), so what was used least recently goes."""
    world = World(max_bytes=1 << 18)
    world.push(*(f"j{number}" for number in range(300)), request="1-client:1")
    for number in range(1, 301):
        world.complete(world.take(claim_id(number)))
        world.document.seq += 1
    assert world.document.requests.size_bytes <= world.document.requests_bytes()
    assert world.document.requests.size_bytes == size_when_read_again(world)
    with pytest.raises(ExpiredId):
        world.claim(claim_id(1))
    assert not world.claim(claim_id(300)), "what is remembered is a repeat"


def claim_id(number: int) -> str:
    return f"{number}-{'w' * 40}:1"


def size_when_read_again(world: World) -> int:
    return codec.decode(codec.encode(world.document)).requests.size_bytes


REPEATED: dict[str, Any] = {
    "push": ops.Push(request="1-r:1", jobs=(ops.NewJob(id="j", task="another"),), repeat=True),
    **{
        ops.op_name(kind(request="", ids=("x",), expected="ready")): kind(
            request="1-r:1", ids=("absent",), expected="ready", repeat=True
        )
        for kind in (ops.Cancel, ops.Retry, ops.Delete, ops.RunNow)
    },
}


def test_every_request_that_can_say_that_it_is_a_repeat_has_its_refusal_recorded() -> None:
    """Else its caller could never be told more than Unknown (S12)."""
    can = {name for name, kind in ops.REQUESTS.items() if "repeat" in kind.__struct_fields__}
    assert can == set(REPEATED)
    for op in REPEATED.values():
        world = World()
        world.push("j")
        assert world.changed(op)
        (item,) = world.apply(op).items
        assert item.error.final
