"""A push that no broker answers is written directly, and may safely land twice (design §1, S7)."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.core.files.storage import FileSystemStorage, InMemoryStorage

from objq import wire
from objq.broker.election import Reach
from objq.broker.probe_http import Readiness
from objq.broker.reading import READS_BEFORE_TROUBLE
from objq.client.client import Client
from objq.client.direct import DirectLink
from objq.client.session import LEAST_PAUSE_S
from objq.clock import SYSTEM_CLOCK
from objq.core import ops
from objq.core.codec import decode, seal
from objq.core.document import Document
from objq.core.ending import complete
from objq.core.leading import adopt
from objq.core.rules import apply
from objq.errors import (
    DocumentError,
    Invalid,
    NoDocument,
    ObjqError,
    QueueFull,
    Unavailable,
    Unknown,
)
from objq.ids import Ids
from objq.store.aio import InThread
from objq.store.base import ABSENT, Ambiguous, Content, Sentinel, Store, Tag
from objq.store.base import TooLarge as StoreTooLarge
from objq.store.base import Unavailable as StoreUnavailable
from objq.store.file import FileStore
from objq.store.memory import MemoryStore
from tests.client.fakes import Socket, World
from tests.client.test_session import now, pushes
from tests.newer import newer
from tests.virtual import virtual


@virtual
async def test_after_half_its_time_a_push_is_written_directly() -> None:
    world = World()
    began = now()
    answer = await world.client().push([world.job()])

    assert 5 <= now() - began < 5.5
    assert answer.items[0].state == "ready"
    assert answer.position == (0, 2, 0)
    assert world.jobs() == ["job-1"]


@virtual
async def test_an_outage_is_told_once_however_many_pushes_meet_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    client = world.client()
    with caplog.at_level("WARNING", "objq.client"):
        for number in range(20):
            await client.push([world.job(number)])
            await asyncio.sleep(number)
        assert events(caplog) == ["no_broker", "writes_directly"]
        broker = world.broker().lead()
        await asyncio.sleep(10)
        await client.push([world.job(100)])
        broker.stop()
        await client.push([world.job(101)])
    assert events(caplog) == ["no_broker", "writes_directly"] * 2


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.event for record in caplog.records if hasattr(record, "event")]


@virtual
async def test_what_waits_together_is_written_together() -> None:
    world = World()
    client = world.client()
    await asyncio.gather(*(client.push([world.job(n)]) for n in range(100)))
    assert world.store.calls.count("write") == 1
    assert world.store.calls.count("read") == 1
    assert len(world.jobs()) == 100


@virtual
async def test_what_comes_during_a_write_goes_into_the_next() -> None:
    world = World()
    client = world.client()
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def slow(name: str) -> None:
        if name == "write":
            writing.set()
            await go_on.wait()

    world.store.before = slow
    first = asyncio.create_task(client.push([world.job(0)]))
    await asyncio.sleep(2)
    later = [asyncio.create_task(client.push([world.job(n)])) for n in range(1, 50)]
    await writing.wait()
    await asyncio.sleep(3)
    assert world.store.calls.count("write") == 1, "never two writes in flight"
    go_on.set()
    await asyncio.gather(first, *later)
    assert world.store.calls.count("write") == 2
    assert len(world.jobs()) == 50


@virtual
async def test_conflict_takes_along_what_has_come_since() -> None:
    world = World()
    client = world.client()

    async def interfere(name: str) -> None:
        if name == "write" and world.store.calls.count("write") == 1:
            world.commit(lambda document: None)

    world.store.before = interfere
    await client.push([world.job()])
    assert world.store.calls.count("write") == 2
    assert world.store.document().totals["default"].pushed == 1


@virtual
async def test_broker_that_comes_back_is_used_again() -> None:
    world = World()
    client = world.client()
    await client.push([world.job(1)])
    broker = world.broker().lead()
    await asyncio.sleep(10)
    began = now()
    await client.push([world.job(2)])
    assert now() - began < 2.5
    assert len(pushes(broker)) == 1


@virtual
async def test_only_one_push_waits_for_a_broker_that_is_away_and_the_next_ones_do_not() -> None:
    world = World()
    client = world.client()
    await client.push([world.job(1)])
    began = now()
    for number in range(2, 12):
        await client.push([world.job(number)])
    assert now() - began < 5
    assert len(world.jobs()) == 11


@virtual
async def test_frame_and_direct_write_both_land_once() -> None:
    """The broker got the push, stalled, and applied it after the client had written it directly."""
    world = World()
    broker = world.broker().lead()
    late: list[tuple[Socket, int, ops.Op]] = []
    broker.handler = lambda socket, number, op: late.append((socket, number, op))
    answer = await world.client().push([world.job()])

    assert answer.items[0].state == "ready"
    assert late
    for _, _, op in late:
        again = broker.answer(op)
        assert isinstance(again, ops.Outcomes)
        assert again.items[0].error is None
    document = world.store.document()
    assert list(document.jobs) == ["job-1"]
    assert document.totals["default"].pushed == 1


@virtual
async def test_late_frame_of_a_job_that_has_run_and_gone_has_no_effect() -> None:
    world = World()
    broker = world.broker().lead()
    late: list[ops.Op] = []

    def handler(socket: Socket, number: int, op: ops.Op) -> None:
        late.append(op)

    broker.handler = handler
    await world.client().push([world.job()])
    granted = world.apply(ops.TakeClaim(claim="c"), broker.epoch)
    assert isinstance(granted, ops.Granted)

    def finish(document: Document) -> None:
        done = ops.Complete(items=(ops.Completion(token=granted.jobs[0].token),))
        complete(document, done, 2)
        document.remove(document.finished["job-1"])

    world.commit(finish)
    broker.answer(late[0])
    assert world.jobs() == []


@virtual
async def test_broker_that_answers_first_is_believed() -> None:
    world = World()
    broker = world.broker().lead()
    hung = asyncio.Event()
    broker.handler = lambda socket, number, op: broker.answer(op) if hung.is_set() else None

    async def hang(name: str) -> None:
        if name == "read":
            hung.set()
            await asyncio.Event().wait()

    world.store.before = hang
    answer = await world.client().push([world.job()])
    assert answer.items[0].state == "ready"
    assert pushes(broker)[-1].repeat


@virtual
async def test_store_out_of_reach_means_not_sent() -> None:
    world = World()

    async def refuse(name: str) -> None:
        if name == "read":
            raise StoreUnavailable("no route")

    world.store.before = refuse
    began = now()
    with pytest.raises(Unavailable):
        await world.client().push([world.job()])
    assert now() - began == pytest.approx(10)
    world.store.calls.clear()
    await asyncio.sleep(60)
    assert world.store.calls == [], "nobody waits, so nothing is tried"


@virtual
async def test_write_without_an_answer_is_unknown_and_leaves_the_next_push_alone() -> None:
    world = World()
    lost = True

    async def lose(name: str) -> None:
        if name == "write" and lost:
            raise Ambiguous("no reply")

    world.store.before = lose
    client = world.client()
    with pytest.raises(Unknown) as caught:
        await client.push([world.job(1)])
    assert caught.value.ids == ("job-1",)
    assert caught.value.request is not None
    lost = False

    await client.push([world.job(2)])
    await client.push([world.job(1)], request=caught.value.request, repeat=True)
    assert sorted(world.jobs()) == ["job-1", "job-2"]


@virtual
async def test_lost_reply_of_the_write_is_recognised() -> None:
    world = World()

    def lose() -> None:
        world.store.after_write = None
        raise Ambiguous("no reply")

    world.store.after_write = lose
    answer = await world.client().push([world.job()])
    assert answer.items[0].state == "ready"
    assert world.store.document().totals["default"].pushed == 1


@virtual
async def test_a_push_that_is_in_but_was_forgotten_before_that_was_seen_is_unknown() -> None:
    """The reply is lost; somebody whose clock is an hour ahead writes on top and drops the id."""
    world = World()

    def lose_and_forget() -> None:
        world.store.after_write = None
        world.commit(lambda document: document.requests.prune(1 << 60))
        raise Ambiguous("the reply was lost")

    world.store.after_write = lose_and_forget
    with pytest.raises(Unknown):
        await world.client().push([world.job()])
    assert world.jobs() == ["job-1"]


@virtual
async def test_corrupt_document_is_kept_and_named() -> None:
    world = World()
    assert world.store.content is not None
    world.store.content = Content(b'{"objq": 1', world.store.content.tag)
    with pytest.raises(ObjqError, match="not a document of objq"):
        await world.client().push([world.job()])
    assert world.store.content.data == b'{"objq": 1'


@virtual
async def test_over_a_newer_schema_the_broker_is_found_and_nothing_is_written_directly() -> None:
    world = World()
    leader = world.broker().lead()
    assert world.store.content is not None
    written = newer(world.store.content.data)
    world.store.content = Content(written, world.store.content.tag)
    leader.handler = lambda socket, number, op: ops.Outcomes(
        items=(ops.ItemOutcome(id="job-1", state="ready"),)
    )
    assert (await world.client().push([world.job()])).items[0].state == "ready"

    leader.stop()
    with pytest.raises(DocumentError, match=r"schema 2 .*left alone"):
        await world.client().push([world.job(2)])
    assert world.store.content.data == written


@virtual
async def test_limits_are_the_documents() -> None:
    world = World()
    full = ops.DocumentSettings(max_jobs=1)

    def lower(document: Document) -> None:
        document.settings = full

    world.commit(lower)
    client = world.client()
    await client.push([world.job(1)])
    answer = await client.push([world.job(2)])
    assert answer.items[0].error is not None
    assert answer.items[0].error.code == "queue_full"


@virtual
async def test_object_too_large_for_the_store_is_a_refusal() -> None:
    world = World()

    async def refuse(name: str) -> None:
        if name == "write":
            raise StoreTooLarge("5 GiB")

    world.store.before = refuse
    with pytest.raises(QueueFull):
        await world.client().push([world.job()])


@virtual
async def test_request_that_breaks_the_rules_code_harms_no_other() -> None:
    world = World()

    def broken(document: Document, op: Any, *args: Any, **kwargs: Any) -> Any:
        if op.jobs[0].id == "job-3":
            document.jobs.clear()
            raise ZeroDivisionError
        return apply(document, op, *args, **kwargs)

    with mock.patch("objq.client.alone.apply", broken):
        client = world.client()
        answers = await asyncio.gather(
            *(client.push([world.job(n)]) for n in range(6)), return_exceptions=True
        )
    assert [isinstance(answer, Invalid) for answer in answers] == [n == 3 for n in range(6)]
    assert len(world.jobs()) == 5


@virtual
async def test_without_a_broker_a_job_is_looked_up_in_the_document_itself() -> None:
    world = World()
    client = world.client()
    await client.push([world.job()])
    began = now()
    (found,) = (await client.get(["job-1"])).jobs
    assert found is not None
    assert found.state == "ready"
    assert now() - began < 5, "the push before it has waited for a broker already"
    assert world.store.calls.count("write") == 1


@virtual
async def test_all_but_pushes_and_gets_wait_for_a_broker() -> None:
    world = World()
    for call in (world.client().stats(), world.client().pause("default")):
        with pytest.raises(Unavailable):
            await call
    assert "write" not in world.store.calls


@virtual
async def test_a_fault_that_a_push_met_is_not_told_to_others_later() -> None:
    world = World()
    broker = world.broker().lead()
    client = world.client()
    await client.push([world.job(1)])
    broker.stop()
    content, world.store.content = world.store.content, None
    with pytest.raises(DocumentError, match="vanished"):
        await client.push([world.job(2)])
    world.store.content = content
    with pytest.raises(Unavailable, match="refuses connections") as told:
        await client.stats()
    assert not isinstance(told.value, DocumentError)
    await client.push([world.job(3)])


@virtual
async def test_a_direct_client_that_is_closed_says_so_also_while_it_looks_for_a_seq() -> None:
    world = World()
    world.broker().lead()
    client = world.client(mode="direct")
    (session,) = world.sessions
    await client.cancel(["job-1"], "ready")  # which the broker does, since one is recorded
    await asyncio.sleep(2 * session.settings.dedupe_window_s)
    looks = asyncio.Event()

    async def hang(_name: str) -> None:
        looks.set()
        await asyncio.Event().wait()

    world.store.before = hang
    calling = asyncio.create_task(client.cancel(["job-1"], "ready"))
    await looks.wait()
    await session.close()
    with pytest.raises(Unavailable, match="closed"):
        await calling


@virtual
async def test_what_only_its_header_told_is_not_written_around_after_an_adoption() -> None:
    """The client saw the document that was, but never read it whole; its request id is fresh."""
    world = World()
    broker = world.broker().lead()
    client = world.client()
    await client.push([world.job(1)])
    broker.stop()
    world.commit(lambda document: adopt(document, "document-2"))

    with pytest.raises(DocumentError, match="--adopt"):
        await client.push([world.job(2)])
    assert "write" not in world.store.calls
    assert world.jobs() == ["job-1"]


@virtual
async def test_an_old_version_that_was_put_back_is_not_written_upon() -> None:
    world = World()
    broker = world.broker().lead()
    backup = world.store.content
    client = world.client()
    await client.push([world.job(1)])
    await client.push([world.job(2)])
    await world.client(mode="direct").stats()
    broker.stop()
    assert backup is not None
    assert world.store.content is not None
    # What this client knows of is newer, though only by the header.
    await world.sessions[0]._discovery.find(now())
    world.store.put(backup.data, world.store.content.tag)

    with pytest.raises(DocumentError, match="went back"):
        await client.push([world.job(3)])
    assert "write" not in world.store.calls


@virtual
@pytest.mark.parametrize("kind", ["delete", "pause", "claim"])
async def test_what_was_written_when_a_broker_took_over_is_never_said_to_be_unsent(
    kind: str,
) -> None:
    """The reply to the write was lost, and the broker that leads now cannot be reached (S12)."""
    world = World()
    client = world.client(mode="direct")
    await client.push([world.job()])
    write = world.store.write

    async def lose_the_reply(data: bytes, expect: Tag | Sentinel) -> Tag:
        world.store.write = write  # type: ignore[method-assign]
        await write(data, expect)
        world.silent.add(world.broker().lead().url)
        raise Ambiguous("the reply was lost")

    world.store.write = lose_the_reply  # type: ignore[method-assign]
    calls = {
        "delete": client.delete(["job-1"], "ready"),
        "pause": client.pause("default"),
        "claim": client.claim(claim="mine"),
    }
    calling = calls.pop(kind)
    for other in calls.values():
        other.close()
    with pytest.raises(Unknown):
        await calling
    document = world.store.document()
    assert (not document.jobs, bool(document.queues), bool(document.claims)) == (
        kind == "delete",
        kind == "pause",
        kind == "claim",
    )


@virtual
async def test_a_direct_process_can_read_also_while_deltas_overtake_every_read() -> None:
    world = World()
    broker = world.broker().lead()
    session = world.session(mode="direct")
    watches: list[tuple[Socket, int]] = []

    def note(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        if isinstance(op, ops.Watch):
            watches.append((socket, number))
        return broker.answer(op)

    broker.handler = note
    watch = session.watch()
    await anext(watch)

    async def commit(name: str) -> None:
        """Let the broker commit and tell of it while the store answers."""
        before = world.store.document().seq
        seq = world.commit(lambda document: None).seq
        body = wire.encode_delta_body(ops.Delta(after=before, seq=seq, epoch=1, at=1))
        ((socket, number),) = watches
        socket._to_client.put_nowait(wire.encode_delta(number, body).decode())
        await anext(watch)

    read = world.store.read

    async def read_slowly(unless: Tag | None = None) -> Content | Sentinel | None:
        found = await read(unless)
        await commit("while it is on its way")
        return found

    world.store.read = read_slowly  # type: ignore[method-assign]
    (found,) = (await Client(session).get(["no-such-job"])).jobs
    assert found is None
    assert world.store.calls.count("read") == 1


def test_a_push_falls_back_also_where_the_broker_is_known_by_its_address_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(url: str) -> Readiness:
        return Readiness(Reach.REFUSED, {})

    monkeypatch.setattr("objq.client.headers.ask_readiness", ask)

    @virtual
    async def check() -> None:
        world = World()
        client = world.client(broker_url="ws://broker-1/objq/v1/")
        assert (await client.push([world.job()])).items[0].state == "ready"
        assert world.jobs() == ["job-1"]

    check()


@virtual
async def test_a_read_that_a_brokers_answer_overtakes_is_no_old_version() -> None:
    world = World()
    broker = world.broker().lead()
    client = world.client()
    await client.push([world.job(0)])
    known = world.sessions[0]._discovery._known
    link = DirectLink(world.store, world.clock, world.ids, known=known)
    overtaken = iter(range(1, 3 * READS_BEFORE_TROUBLE))
    read = world.store.read

    async def read_slowly(unless: Tag | None = None) -> Content | Sentinel | None:
        found = await read(unless)
        for number in islice(overtaken, 1):
            await client.push([world.job(number)])
        return found

    world.store.read = read_slowly  # type: ignore[method-assign]
    began = now()
    await link.call(ops.Push(request="1-a:1", jobs=(world.job(100),)), lambda: None)
    assert link.versions.trouble is None
    assert now() - began < LEAST_PAUSE_S, "it was read again at once"
    assert len(world.jobs()) == 1 + 3 * READS_BEFORE_TROUBLE
    await link.close()
    broker.stop()


# --- with real stores ----------------------------------------------------------------------------


def _file(path: Path) -> Store:
    return FileStore(FileSystemStorage(location=path), "queue.json", "objq")


def _memory(path: Path) -> Store:
    return MemoryStore(InMemoryStorage(), "queue.json", "objq")


@pytest.fixture(params=[_file, _memory], ids=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = request.param(tmp_path)
    return made


def _push(number: int, ids: Ids) -> ops.Push:
    job = ops.NewJob(id=f"job-{number}", task="shop.tasks.send")
    return ops.Push(request=f"{ids.prefix(1)}:1", jobs=(job,))


async def test_processes_push_side_by_side(store: Store) -> None:
    ids = Ids()
    document = Document.new("document-1", ops.DocumentSettings(), 1)
    store.write(seal(document, ids.token(), SYSTEM_CLOCK.wall_ms(), leading=False), ABSENT)
    stores = [InThread(store) for _ in range(4)]
    links = [DirectLink(opened, SYSTEM_CLOCK, ids) for opened in stores]
    try:
        answers = await asyncio.gather(
            *(links[n % 4].call(_push(n, ids), lambda: None) for n in range(80))
        )
    finally:
        for link in links:
            await link.close()
        for opened in stores:
            opened.close()
    content: Any = store.read()
    final = decode(content.data)
    assert len(final.jobs) == 80
    assert final.totals["default"].pushed == 80
    assert len({answer.position for answer in answers}) == 80


async def test_nothing_creates_a_document(store: Store) -> None:
    opened = InThread(store)
    link = DirectLink(opened, SYSTEM_CLOCK, Ids())
    with pytest.raises(NoDocument, match="runbroker"):
        await link.call(_push(1, Ids()), lambda: None)
    await link.close()
    opened.close()
    assert store.read() is None
