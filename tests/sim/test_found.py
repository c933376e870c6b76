"""Faults that the worlds have found, each in the least that shows it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from objq.broker.broker import Broker
from objq.client.known import Known
from objq.client.versions import Versions
from objq.core import ops
from objq.core.codec import decode, decode_head, seal
from objq.core.document import Document, QueueState
from objq.core.leading import step_down, take_over
from objq.ids import Ids
from objq.store.base import Ambiguous, Tag
from tests.broker.fakestore import FakeStore, Meets
from tests.broker.world import T_S, TTL_S, complete, until, world
from tests.virtual import VirtualClock, virtual


@virtual
async def test_a_claim_that_is_repeated_in_the_commit_that_would_expire_it_keeps_its_jobs() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push())
        claim = made.claim()
        await broker.submit(claim)  # and the answer is lost on its way
        await asyncio.sleep(T_S * 0.7)
        made.store.hold()
        pushed = broker.submit(made.push())
        await asyncio.sleep(T_S * 0.4)
        repeated = broker.submit(claim)
        made.store.release()

        await pushed
        answer = await repeated
        assert isinstance(answer, ops.Granted)
        token = answer.jobs[0].token
        assert token in made.document().claims
        ended = await broker.submit(complete(token))
        assert isinstance(ended, ops.Outcomes)
        assert ended.items[0].error is None


@virtual
async def test_a_store_that_answers_first_after_a_pause_expires_nothing() -> None:
    async with world() as made:
        broker = await made.lead()
        await asyncio.sleep(T_S)
        await broker.submit(made.push())
        granted = await broker.submit(made.claim())
        assert isinstance(granted, ops.Granted)
        made.store.hold()
        pushed = broker.submit(made.push())
        await made.store.next_attempt()

        made.clock.jump_s += 2 * T_S
        made.store.release()
        await until(pushed.done)

        pushed.cancel() if not pushed.done() else pushed.exception()
        assert granted.jobs[0].token in made.document().claims


@virtual
async def test_an_id_whose_take_over_was_superseded_unseen_never_leads_again() -> None:
    async with world() as made:
        first: Broker = await made.lead(1)
        second = made.start(2)
        await asyncio.sleep(TTL_S)
        await made.kill(first)
        made.store.plan = [Meets.LOST_REPLY, *[Ambiguous("timed out")] * 8]
        await made.store.next_write()
        led_unseen = made.document().broker
        assert led_unseen is not None
        assert led_unseen.id == second.id

        # Meanwhile another takes over, and steps down again.
        third = ops.BrokerInfo(id="third", url="ws://10.0.0.1:3/objq/v1/", since=1, version="0")
        for change in (
            lambda document: take_over(document, third, document.settings),
            lambda document: step_down(document, third.id),
        ):
            document = made.document()
            change(document)
            made.store.put(seal(document, made.ids.token(), 0, leading=True))

        await until(lambda: second.leading, step_s=TTL_S / 10)
        now_leads = made.document().broker
        assert now_leads is not None
        assert now_leads.id != led_unseen.id


class Pusher:
    """A process that pushes around a broker, and learns of newer versions from headers, too."""

    def __init__(self) -> None:
        self.store = FakeStore(latency_s=0.1)
        self.clock = VirtualClock()
        self.ids = Ids(random.Random(1))
        self.known = Known()
        self.versions = Versions(
            self.store,
            self.clock,
            self.ids,
            creates=None,
            on_confirmed=lambda document, began: None,
            seen=set(),
            known=self.known,
        )
        self.document = Document.new("document-1", ops.DocumentSettings(), 1)
        self.commit()

    def commit(self) -> bytes:
        """Write the next version, as somebody else does, and return it."""
        self.store.put(seal(self.document, self.ids.token(), 1, leading=False))
        assert self.store.data is not None
        return self.store.data

    def pause(self) -> asyncio.Task[Document]:
        def change(document: Document) -> bool:
            document.queues["mail"] = QueueState(paused=True)
            return True

        return asyncio.create_task(self.versions.transact(change))

    def read_header(self) -> None:
        assert self.store.data is not None
        self.known.saw(decode_head(self.store.data))

    async def waits_upon(
        self, older: bytes, newest: bytes, writing: asyncio.Task[Document]
    ) -> None:
        """Check that it leaves `older` alone, and goes on with `newest` when that is back."""
        await asyncio.sleep(30)
        assert self.store.data == older
        assert self.versions.trouble is not None
        assert not writing.done()
        self.store.put(newest)
        document = await writing
        assert document.seq == decode_head(newest).seq + 1
        self.versions.stop()


@virtual
async def test_what_a_header_tells_while_a_write_is_in_doubt_binds_that_write() -> None:
    """An older version is put back, and somebody who knows no better goes on from there."""
    pusher = Pusher()
    pusher.store.plan = [Ambiguous("timed out")] * 3
    writing = pusher.pause()
    await pusher.store.next_attempt()
    first = pusher.store.data
    assert first is not None
    pusher.commit()
    pusher.commit()
    newest = pusher.commit()
    pusher.read_header()

    branch = decode(first)
    pusher.store.put(seal(branch, pusher.ids.token(), 1, leading=False))
    assert pusher.store.data is not None
    await pusher.waits_upon(pusher.store.data, newest, writing)


@virtual
async def test_a_write_in_doubt_is_not_repeated_onto_an_old_version_put_back_with_its_tag() -> None:
    """Where a tag is a hash of the bytes, the old expectation holds again."""
    pusher = Pusher()
    pusher.store.plan = [Ambiguous("timed out")] * 2
    writing = pusher.pause()
    await pusher.store.next_attempt()
    first, tag = pusher.store.data, pusher.store.tag
    assert first is not None
    pusher.commit()
    pusher.commit()
    newest = pusher.commit()
    pusher.read_header()
    pusher.store.put(first)
    pusher.store.tag = tag
    await pusher.waits_upon(first, newest, writing)


@virtual
async def test_an_old_version_put_back_with_its_tag_does_not_pass_for_unchanged() -> None:
    """The newer header is read while the read that finds the tag again is under way."""
    pusher = Pusher()
    await pusher.pause()
    first, tag = pusher.store.data, pusher.store.tag
    assert first is not None
    pusher.document = decode(first)
    await asyncio.sleep(1)
    newest = pusher.commit()
    read = pusher.store.read

    async def reading(unless: Tag | None = None) -> Any:
        pusher.store.read = read  # type: ignore[method-assign]
        pusher.read_header()
        pusher.store.put(first)
        pusher.store.tag = tag
        return await read(unless)

    pusher.store.read = reading  # type: ignore[method-assign]
    await pusher.waits_upon(first, newest, pusher.pause())


@virtual
async def test_a_process_that_was_throttled_does_not_lose_to_the_others_for_ever() -> None:
    """Its interval is stretched still, and in every one of these somebody else writes."""
    pusher = Pusher()
    await pusher.pause()
    pusher.versions._committer.pace.interval_s = 1.8

    async def others() -> None:
        while True:
            await asyncio.sleep(0.7)
            assert pusher.store.data is not None
            pusher.document = decode(pusher.store.data)
            pusher.commit()

    writing = asyncio.create_task(others())
    async with asyncio.timeout(2 * 1.8 + 1):
        await pusher.pause()
    writing.cancel()
