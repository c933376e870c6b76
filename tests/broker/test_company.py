"""Who leads, who would and who has led, as the leader tells it in `history`."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from objq.broker.broker import Broker
from objq.broker.company import GONE_AFTER_S, MAX_LEADERSHIPS, MAX_STANDBYS, Company
from objq.core import ops
from objq.core.document import Header
from tests.broker.world import world
from tests.virtual import virtual

PROCESS = ops.Process(host="box", pid=42, started_at=1)


class Watch:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)


def info(name: str) -> ops.BrokerInfo:
    return ops.BrokerInfo(id=name, url=f"ws://{name}:3000/", since=1, version="1")


def header(epoch: int, name: str | None = None) -> Header:
    broker = None if name is None else info(name)
    return Header(
        objq=1, document="d", seq=epoch, epoch=epoch, commit="c", broker=broker, challenge=None
    )


async def history(broker: Broker) -> ops.RecentHistory:
    answer = await broker.submit(ops.History())
    assert isinstance(answer, ops.RecentHistory)
    return answer


# --- leaderships ---------------------------------------------------------------------------------


@virtual
async def test_a_standby_that_takes_over_tells_of_the_leader_before_it_and_why_it_leads() -> None:
    async with world() as made:
        first = await made.lead(1)
        second = made.start(2)
        await asyncio.sleep(10)  # of virtual time
        (only,) = (await history(first)).leaderships
        assert (only.epoch, only.broker.id, only.why) == (1, first.id, "there is no document")
        await made.kill(first)
        await made.leads(second)
        newest, before = (await history(second)).leaderships
        assert (newest.epoch, newest.broker.id) == (2, second.id)
        assert newest.why == "the leader's port, reached before, now refuses"
        assert (before.epoch, before.broker.id, before.why) == (1, first.id, "")


def test_each_leadership_is_told_once_newest_first_and_only_so_many() -> None:
    company = Company(Watch(), None)
    for epoch in range(1, MAX_LEADERSHIPS + 10):
        for _ in range(2):
            company.saw(header(epoch, f"b{epoch}"))
        company.saw(header(epoch))  # nobody leads any more
    told = [each.epoch for each in company.leaderships()]
    assert told == list(range(MAX_LEADERSHIPS + 9, 9, -1))


# --- standbys ------------------------------------------------------------------------------------


def test_a_standby_is_told_of_while_it_asks() -> None:
    clock = Watch()
    company, other = Company(clock, None), Company(clock, PROCESS)
    company.asked(other.introduction(info("standby")))
    clock.now += 2.5
    (told,) = company.standbys("leader")
    assert told == ops.StandbyView(
        id="standby", url="ws://standby:3000/", version="1", host="box", pid=42, asked_ago_s=2.5
    )
    clock.now += GONE_AFTER_S
    assert company.standbys("leader") == ()


def test_a_leader_that_has_asked_itself_is_no_standby() -> None:
    company = Company(Watch(), PROCESS)
    company.asked(company.introduction(info("leader")))
    assert company.standbys("leader") == ()
    assert len(company.standbys("another")) == 1


def test_standbys_do_not_pile_up_whatever_anybody_says() -> None:
    company = Company(Watch(), None)
    for number in range(2 * MAX_STANDBYS):
        company.asked(company.introduction(info(f"b{number}")))
    assert len(company.standbys("leader")) == MAX_STANDBYS


@pytest.mark.parametrize(
    "said",
    [b"", b"nonsense", b"[]", b"{}", b'{"id": 1}', b"\xff", msgspec.json.encode({"id": "x" * 65})],
)
def test_what_is_no_introduction_is_ignored(said: bytes) -> None:
    company = Company(Watch(), None)
    company.asked(said)
    assert company.standbys("leader") == ()


@virtual
async def test_the_leader_says_where_it_runs_if_it_was_told() -> None:
    async with world() as made:
        broker = await made.lead()
        assert (await history(broker)).process is None
        broker.company.process = PROCESS
        assert (await history(broker)).process == PROCESS
