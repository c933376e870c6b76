"""What becomes of a request: found brokers, lost replies, repeats, deadlines (S7, S11, S12)."""

from __future__ import annotations

import asyncio

import pytest

from objq.broker.election import Reach
from objq.broker.probe_http import Readiness
from objq.client.client import Client
from objq.client.watching import Disconnected
from objq.core import ops
from objq.core.requests import parse_request
from objq.errors import (
    Conflict,
    DocumentError,
    ExpiredId,
    Invalid,
    NoDocument,
    NotBroker,
    ObjqError,
    Overloaded,
    QueueFull,
    Unauthorized,
    Unavailable,
    Unknown,
)
from objq.worker.calls import Trouble
from objq.worker.claims import Claims
from tests.client.fakes import FakeBroker, Socket, World
from tests.virtual import virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def pushes(broker: FakeBroker) -> list[ops.Push]:
    return [op for op in broker.ops if isinstance(op, ops.Push)]


# --- finding the broker --------------------------------------------------------------------------


@virtual
async def test_push_finds_the_broker_by_the_header() -> None:
    world = World()
    broker = world.broker().lead()

    answer = await world.client().push([world.job()])

    assert answer.items[0].state == "ready"
    assert answer.position == (1, 3, 0)
    assert world.jobs() == ["job-1"]
    assert world.store.calls == ["read_head"]
    assert world.tokens == ["Bearer document-1/broker-1"]
    assert isinstance(broker.ops[0], ops.Hello)
    assert broker.ops[0].document == "document-1"


def test_with_a_broker_url_the_store_is_not_asked_for_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    @virtual
    async def check() -> None:
        world = World()
        broker = world.broker().lead()
        world.brokers["wss://public/objq/v1/"] = broker

        async def ask(url: str) -> Readiness:
            asked.append(url)
            said = {"broker": "broker-1", "document": "document-1", "epoch": 1, "seq": 2}
            return Readiness(Reach.ANSWERED, {**said, "leading": len(asked) > 1})

        monkeypatch.setattr("objq.client.headers.ask_readiness", ask)
        await world.client(broker_url="wss://public/objq/v1/").push([world.job()])
        assert world.connects == ["wss://public/objq/v1/"]
        assert world.tokens == ["Bearer document-1/broker-1"]
        assert world.store.calls == []

    check()
    assert asked == ["wss://public/objq/v1/"] * 2, "asked again until it leads"


@virtual
async def test_a_broker_behind_an_address_may_not_know_yet_what_others_have_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    broker = world.broker().lead()
    said = {"broker": "broker-1", "document": "document-1", "epoch": 1, "seq": 2, "leading": True}

    async def ask(url: str) -> Readiness:
        return Readiness(Reach.ANSWERED, said)

    monkeypatch.setattr("objq.client.headers.ask_readiness", ask)
    client = world.client(broker_url=broker.url)
    await client.push([world.job(1)])
    broker.stop()
    answer = await client.push([world.job(2)])
    assert answer.position == (1, 4, 0), "directly, past a broker that is out of reach"
    world.brokers[broker.url] = broker  # which looks at the document only now and then
    began = now()
    await client.push([world.job(3)])
    assert now() - began < 1
    assert len(world.connects) > 1


@virtual
async def test_many_callers_share_one_read_and_one_connection() -> None:
    world = World()
    broker = world.broker().lead()
    client = world.client()

    await asyncio.gather(*(client.push([world.job(n)]) for n in range(50)))

    assert world.store.calls == ["read_head"]
    assert len(world.connects) == 1
    assert len(world.jobs()) == 50
    assert len(broker.frames) == 2, "hello, and one frame for all that was asked at once"


@virtual
async def test_a_broker_that_refuses_connections_is_said_to_do_so() -> None:
    world = World()
    broker = world.broker().lead()
    url = broker.url
    world.brokers.clear()
    with pytest.raises(Unavailable) as told:
        await world.client(direct_fallback=False).push([world.job()])
    assert told.value.message == (
        f"The broker at {url} refuses connections: it is probably not running. "
        "No other broker took over within 10 s. The push request was not sent, so nothing changed."
    )


@virtual
async def test_an_address_that_means_every_machine_itself_is_said_to_be_one() -> None:
    world = World()
    broker = world.broker()
    broker.url = "ws://127.0.0.1:3000/objq/v1/"
    broker.lead()
    world.brokers.clear()
    with pytest.raises(Unavailable, match="probably not running, or not on this machine"):
        await world.client(direct_fallback=False).push([world.job()])


@virtual
async def test_a_claim_is_in_doubt_only_from_when_it_is_sent() -> None:
    world = World()
    session = world.session()
    calling = asyncio.create_task(session.call(ops.TakeClaim(claim="1-a:1", wait=5.0), 30))
    await asyncio.sleep(1)
    assert not session.in_doubt("1-a:1"), "there is no broker to send it to"
    broker = world.broker()
    broker.handler = lambda socket, number, op: None
    broker.lead()
    while not any(isinstance(op, ops.TakeClaim) for op in broker.ops):
        await broker.heard.get()
    assert session.in_doubt("1-a:1")
    calling.cancel()
    await asyncio.wait({calling})
    assert not session.in_doubt("1-a:1"), "no call is under way"


@virtual
async def test_an_old_version_that_was_put_back_between_two_brokers_is_noticed() -> None:
    """By what the first one answered, though its header was never read so late (S11, S14)."""
    world = World()
    first = world.broker().lead()
    backup = world.store.content
    client = world.client()
    watch = client.watch()
    assert isinstance(await anext(watch), ops.Statistics)
    for number in range(5):
        await client.push([world.job(number)])
    first.stop()
    assert backup is not None
    assert world.store.content is not None
    world.store.put(backup.data, world.store.content.tag)
    world.broker("broker-2").lead()

    with pytest.raises(DocumentError, match="went back from epoch 1, seq 7 to epoch 2, seq 3"):
        await client.push([world.job(6)])
    assert world.jobs() == []
    assert isinstance(await anext(watch), Disconnected)
    await watch.aclose()
    # Who has not seen what was there goes on.
    await world.client().push([world.job(7)])


@virtual
async def test_mass_reconnect_reads_the_header_once() -> None:
    world = World()
    first = world.broker().lead()
    first.handler = lambda socket, number, op: None
    client = world.client()
    calls = [asyncio.create_task(client.push([world.job(n)])) for n in range(50)]
    for _ in calls:
        await first.heard.get()
    world.store.calls.clear()

    first.stop()
    second = world.broker("broker-2").lead()
    await asyncio.gather(*calls)

    assert world.store.calls == ["read_head"]
    assert len(second.sockets) == 1
    assert len(world.jobs()) == 50
    assert all(op.repeat for op in pushes(second))


@virtual
async def test_what_kept_waiting_once_is_not_told_of_a_later_silence() -> None:
    """The document was damaged for a while; later the broker, over the same link, falls silent."""
    world = World()
    leader = world.broker().lead()
    client = world.client(direct_fallback=False)
    await client.stats()
    content = world.store.content
    assert content is not None
    world.store.content = content._replace(data=b"{")
    leader.handler = lambda socket, number, op: Unavailable("not now")
    with pytest.raises(DocumentError):
        await client.stats(timeout_s=3)
    world.store.content = content
    leader.handler = None
    await client.stats()
    leader.handler = lambda socket, number, op: None
    with pytest.raises(Unavailable):
        await client.stats(timeout_s=3)


@virtual
async def test_not_broker_leads_to_the_new_broker() -> None:
    world = World()
    first = world.broker().lead()
    client = world.client()
    await client.push([world.job(1)])
    second = world.broker("broker-2").lead()

    await client.push([world.job(2)])

    assert [type(op) for op in second.ops] == [ops.Hello, ops.Push]
    assert not pushes(second)[0].repeat, "a refusal for want of leadership leaves no doubt"
    assert len(pushes(first)) == 2


@virtual
async def test_unavailable_stays_until_another_broker_is_named() -> None:
    world = World()
    first = world.broker().lead()
    first.handler = lambda socket, number, op: Unavailable("the store is out of reach")
    client = world.client()
    call = asyncio.create_task(client.push([world.job()]))
    await first.heard.get()
    await first.heard.get()
    assert len(first.sockets) == 1, "nobody else is named, so it stays"

    second = world.broker("broker-2").lead()
    answer = await call

    assert answer.items[0].error is None
    assert pushes(second)[0].repeat, "unavailable may be said of a request that was applied"


@virtual
async def test_a_broker_of_an_older_epoch_is_not_believed() -> None:
    world = World()
    old = world.broker().lead()
    url, real = old.url, old.answer

    def stale(op: ops.Op) -> ops.Answer | ObjqError:
        answer = real(op)
        if isinstance(answer, ops.Welcome):
            return ops.Welcome(
                **{name: getattr(answer, name) for name in answer.__struct_fields__} | {"epoch": 0}
            )
        return answer

    old.answer = stale  # type: ignore[method-assign]
    call = asyncio.create_task(world.client(direct_fallback=False).push([world.job()]))
    await asyncio.sleep(1)
    assert not pushes(old)
    assert url in world.connects
    old.answer = real  # type: ignore[method-assign]
    await call


@virtual
async def test_refused_token_is_told_at_once_and_not_covered_by_a_direct_push() -> None:
    world = World()
    broker = world.broker().lead()
    broker.answer = lambda op: Unauthorized("bad token")  # type: ignore[method-assign]
    began = now()

    with pytest.raises(Unauthorized):
        await world.client().push([world.job()])

    assert now() - began < world.options.enqueue_timeout_s / 2
    assert world.jobs() == []


# --- lost replies and repeats --------------------------------------------------------------------


@virtual
async def test_lost_reply_is_repeated_with_the_same_ids() -> None:
    world = World()
    broker = world.broker().lead()

    def lose_first(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        answer = broker.answer(op)
        if len(pushes(broker)) > 1:
            return answer
        socket.cut()
        return None

    broker.handler = lose_first
    answer = await world.client().push([world.job()])

    first, second = pushes(broker)
    assert answer.items[0].state == "ready"
    assert (first.request, first.jobs) == (second.request, second.jobs)
    assert (first.repeat, second.repeat) == (False, True)
    assert world.store.document().totals["default"].pushed == 1


@virtual
async def test_claim_is_repeated_with_the_same_claim_id() -> None:
    world = World()
    broker = world.broker().lead()
    client = world.client()
    await client.push([world.job(1), world.job(2)])

    def lose_first(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        answer = broker.answer(op)
        if sum(isinstance(op, ops.TakeClaim) for op in broker.ops) > 1:
            return answer
        socket.cut()
        return None

    broker.handler = lose_first
    granted = await client.claim()

    claims = [op for op in broker.ops if isinstance(op, ops.TakeClaim)]
    assert claims[0].claim == claims[1].claim
    assert parse_request(claims[0].claim) is not None
    assert [job.id for job in granted.jobs] == ["job-1"]
    assert len(world.store.document().claims) == 1


@virtual
async def test_refusal_without_doubt_is_a_rejection() -> None:
    world = World()
    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: QueueFull("full")

    with pytest.raises(QueueFull):
        await world.client().push([world.job()])

    assert len(pushes(broker)) == 1


@pytest.mark.parametrize(("final", "raised"), [(True, Conflict), (False, Unknown)])
def test_refusal_in_doubt_counts_only_if_it_is_committed(
    final: bool, raised: type[ObjqError]
) -> None:
    async def scenario() -> None:
        world = World()
        broker = world.broker().lead()

        def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
            if len(pushes(broker)) > 1:
                return Conflict("no", final=final)
            socket.cut()
            return None

        broker.handler = handler
        with pytest.raises(raised) as caught:
            await world.client().push([world.job()])
        if isinstance(caught.value, Unknown):
            assert caught.value.ids == ("job-1",)
            assert caught.value.request == pushes(broker)[0].request

    virtual(scenario)()


@virtual
async def test_item_refused_in_doubt_is_unknown_unless_committed() -> None:
    world = World()
    broker = world.broker().lead()

    def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        if len(pushes(broker)) == 1:
            socket.cut()
            return None
        problem = ops.Problem(code="conflict", message="no")
        final = ops.Problem(code="too_large", message="no", final=True)
        return ops.Outcomes(
            items=(
                ops.ItemOutcome(id="job-1", error=problem),
                ops.ItemOutcome(id="job-2", error=final),
                ops.ItemOutcome(id="job-3", state="ready"),
            )
        )

    broker.handler = handler
    answer = await world.client().push([world.job(n) for n in (1, 2, 3)])

    codes = [item.error and item.error.code for item in answer.items]
    assert codes == ["unknown", "too_large", None]


@virtual
async def test_claim_lost_for_a_repeated_report_stays_claim_lost() -> None:
    world = World()
    broker = world.broker().lead()

    def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        if len([op for op in broker.ops if isinstance(op, ops.Complete)]) > 1:
            return broker.answer(op)
        socket.cut()
        return None

    broker.handler = handler
    answer = await world.client().complete([ops.Completion(token="gone")], timeout_s=None)

    assert answer.items[0].error is not None
    assert answer.items[0].error.code == "claim_lost"


@virtual
async def test_outcome_report_waits_for_ever() -> None:
    world = World()
    call = asyncio.create_task(
        world.client().complete([ops.Completion(token="gone")], timeout_s=None)
    )
    await asyncio.sleep(3600)
    assert not call.done()

    world.broker().lead()
    answer = await call
    assert len(answer.items) == 1


@virtual
async def test_everything_else_needs_a_deadline() -> None:
    world = World()
    client = world.client()
    with pytest.raises(Invalid, match="deadline"):
        await client.push([world.job()], timeout_s=None)
    with pytest.raises(Invalid, match="DEDUPE_WINDOW"):
        await client.push([world.job()], timeout_s=121)


@virtual
async def test_one_bad_answer_harms_no_other_request() -> None:
    world = World()
    broker = world.broker().lead()

    def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        if isinstance(op, ops.Push) and op.jobs[0].id == "job-1":
            return Invalid("no")
        return broker.answer(op)

    broker.handler = handler
    client = world.client()
    bad, good = await asyncio.gather(
        client.push([world.job(1)]), client.push([world.job(2)]), return_exceptions=True
    )
    assert isinstance(bad, Invalid)
    assert isinstance(good, ops.Outcomes)


@virtual
async def test_slow_claim_does_not_hold_up_a_heartbeat() -> None:
    world = World()
    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: (
        None if isinstance(op, ops.TakeClaim) else broker.answer(op)
    )
    client = world.client()
    claim = asyncio.create_task(client.claim(wait_s=5))
    await broker.heard.get()

    beaten = await client.heartbeat(["gone"])

    assert beaten.lost == ("gone",)
    assert not claim.done()
    claim.cancel()


# --- request ids ---------------------------------------------------------------------------------


@virtual
async def test_numbers_count_up_and_the_prefix_is_drawn_anew() -> None:
    world = World()
    broker = world.broker().lead()
    client = world.client()
    for number in range(3):
        await client.push([world.job(number)])
    await asyncio.sleep(30)
    await client.push([world.job(3)])
    await asyncio.sleep(45)
    await client.push([world.job(4)])

    keys = [parse_request(push.request) for push in pushes(broker)]
    assert all(keys)
    assert [key.number for key in keys if key] == [1, 2, 3, 4, 1]
    assert len({key.prefix for key in keys if key}) == 2
    assert keys[0] is not None
    assert keys[0].seq == 2
    assert keys[4] is not None
    assert keys[4].seq == 6, "from the answer half a minute before, without asking the store"
    assert world.store.calls == ["read_head"]


@virtual
async def test_after_a_long_silence_a_fresh_seq_is_read_first() -> None:
    world = World()
    broker = world.broker().lead()
    client = world.client()
    await client.push([world.job(1)])
    await asyncio.sleep(61)
    await client.push([world.job(2)])

    key = parse_request(pushes(broker)[1].request)
    assert key is not None
    assert key.seq == 3
    assert world.store.calls == ["read_head", "read_head"]
    assert len(world.connects) == 1


@virtual
async def test_expired_id_of_what_was_never_sent_before_is_drawn_anew() -> None:
    world = World()
    broker = world.broker().lead()

    def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        return ExpiredId("too old") if len(pushes(broker)) == 1 else broker.answer(op)

    broker.handler = handler
    answer = await world.client().push([world.job()])

    first, second = pushes(broker)
    assert answer.items[0].state == "ready"
    assert first.request.partition(":")[0] != second.request.partition(":")[0]
    assert not second.repeat


@virtual
async def test_expired_id_of_a_repeat_is_unknown() -> None:
    world = World()
    broker = world.broker().lead()

    def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        if len(pushes(broker)) > 1:
            return ExpiredId("too old")
        socket.cut()
        return None

    broker.handler = handler
    with pytest.raises(Unknown) as caught:
        await world.client().push([world.job()])
    assert caught.value.ids == ("job-1",)


@virtual
async def test_caller_who_repeats_after_unknown_is_in_doubt_from_the_start() -> None:
    world = World()
    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: ExpiredId("too old")
    with pytest.raises(Unknown):
        await world.client().push([world.job()], request="1-abc:1", repeat=True)
    assert len(pushes(broker)) == 1


@virtual
async def test_a_claim_that_has_expired_over_a_session_is_the_workers_to_draw_anew() -> None:
    """The repeat that hurries a waiting claim has the id of the one that waits."""
    world = World()
    broker = world.broker().lead()

    def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        return ExpiredId("too old") if len(claims()) == 1 else None

    def claims() -> list[ops.TakeClaim]:
        return [op for op in broker.ops if isinstance(op, ops.TakeClaim)]

    broker.handler = handler
    session = world.session()
    await session.call(ops.Hello(client="c"), 1)  # a seq is known, from which to draw
    taking = Claims(
        session,
        world.clock,
        world.ids,
        worker="w",
        queues=("default",),
        settings=lambda: session.settings,
        claim_id=session.claim_id,
        in_doubt=session.in_doubt,
        trouble=Trouble("claims"),
    )
    async with asyncio.timeout(60):
        work = asyncio.create_task(taking.take(1, 5.0))
        while len(claims()) < 2:
            await broker.heard.get()
        hurry = asyncio.create_task(taking.hurry())
        while len(claims()) < 3:
            await broker.heard.get()
    for task in (work, hurry):
        task.cancel()
    old, new, hurried = claims()
    assert old.claim.partition(":")[0] != new.claim.partition(":")[0]
    assert hurried.claim == new.claim


# --- deadlines and overload ----------------------------------------------------------------------


@virtual
async def test_overloaded_is_waited_out() -> None:
    world = World()
    broker = world.broker().lead()

    def handler(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        if len(pushes(broker)) < 3:
            return Overloaded("busy", retry_after_s=2)
        return broker.answer(op)

    broker.handler = handler
    began = now()
    await world.client().push([world.job()])
    assert now() - began >= 4
    assert not any(push.repeat for push in pushes(broker))
    assert "write" not in world.store.calls, "a broker that answers is not bypassed"


@virtual
async def test_overloaded_to_the_end_is_raised() -> None:
    world = World()
    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: Overloaded("busy", retry_after_s=1)
    began = now()
    with pytest.raises(Overloaded):
        await world.client().push([world.job()])
    assert now() - began == pytest.approx(10)
    assert world.jobs() == []


@virtual
async def test_without_fallback_an_unsent_push_is_unavailable_and_a_sent_one_unknown() -> None:
    world = World()
    client = world.client(direct_fallback=False)
    began = now()
    with pytest.raises(Unavailable, match="not sent"):
        await client.push([world.job()])
    assert now() - began == pytest.approx(10)

    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: None
    with pytest.raises(Unknown) as caught:
        await client.push([world.job()])
    assert caught.value.ids == ("job-1",)
    assert now() - began == pytest.approx(20)


@virtual
async def test_deadline_of_a_read_is_unavailable_and_closes_a_silent_link() -> None:
    world = World()
    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: None
    client = world.client()
    with pytest.raises(Unavailable):
        await client.stats()
    broker.handler = None
    assert (await client.stats()).document == "document-1"
    assert len(broker.sockets) == 2


@virtual
async def test_no_document_is_told_when_a_direct_push_would_need_one() -> None:
    world = World(empty=True)
    began = now()
    with pytest.raises(NoDocument, match="runbroker"):
        await world.client().push([world.job()])
    assert now() - began < 6
    assert world.store.content is None

    with pytest.raises(NoDocument, match="runbroker"):
        await world.client(direct_fallback=False).push([world.job()])


@virtual
async def test_a_waiting_client_takes_the_broker_that_comes() -> None:
    world = World(empty=True)
    call = asyncio.create_task(world.client().push([world.job()]))
    await asyncio.sleep(2)
    world.store.content = World().store.content
    world.broker().lead()
    answer = await call
    assert answer.items[0].state == "ready"
    assert "write" not in world.store.calls


@virtual
async def test_a_holder_gets_from_a_silent_address_to_the_successor_within_the_timeout() -> None:
    """The dead leader's machine does not even refuse, and the take-over comes as it is dialled."""
    world = World(heartbeat_timeout_s=6.0, broker_ttl_s=6.0)
    first = world.broker().lead()
    world.silent.add(first.url)
    client = world.client()
    beating = asyncio.create_task(client.heartbeat(["token"], timeout_s=60))
    while len(world.connects) < 5:  # noqa: ASYNC110 - the time is virtual
        await asyncio.sleep(0.01)
    second = world.broker("broker-2").lead()
    async with asyncio.timeout(6.0 - 6.0 / 6):  # a sixth is left for what else may get lost
        await second.heard.get()
    assert (await beating).lost == ("token",)


@virtual
async def test_nobody_waits_nobody_dials() -> None:
    world = World()
    with pytest.raises(Unavailable):
        await world.client(direct_fallback=False).get(["job-1"])
    world.store.calls.clear()
    await asyncio.sleep(60)
    assert world.store.calls == []


@virtual
async def test_cancelled_caller_leaves_the_others_and_the_link_alone() -> None:
    world = World()
    broker = world.broker().lead()
    held: list[tuple[Socket, int, ops.Op]] = []

    def hold(socket: Socket, number: int, op: ops.Op) -> None:
        held.append((socket, number, op))

    broker.handler = hold
    client = world.client()
    first = asyncio.create_task(client.push([world.job(1)]))
    second = asyncio.create_task(client.push([world.job(2)]))
    await broker.heard.get()
    await broker.heard.get()
    first.cancel()
    await asyncio.sleep(0)
    for socket, number, op in held:
        socket.reply(number, broker.answer(op))
    assert (await second).items[0].state == "ready"
    assert first.cancelled()
    assert len(broker.sockets) == 1


@virtual
async def test_cancelled_while_dialling_does_not_cancel_the_next_caller() -> None:
    world = World()
    client = world.client()
    first = asyncio.create_task(client.push([world.job(1)]))
    await asyncio.sleep(0.3)
    first.cancel()
    second = asyncio.create_task(client.push([world.job(2)]))
    world.broker().lead()
    assert (await second).items[0].state == "ready"


@virtual
async def test_close_tells_who_still_waits() -> None:
    world = World()
    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: None
    session = world.session()
    sent = asyncio.create_task(session.call(ops.Push(request="", jobs=(world.job(),))))
    await broker.heard.get()
    await session.close()
    with pytest.raises(Unknown):
        await sent
    with pytest.raises(Unavailable, match="closed"):
        await session.call(ops.Stats())


@virtual
async def test_close_while_the_header_is_read_again_tells_who_still_waits() -> None:
    world = World()
    world.broker().lead().handler = lambda socket, number, op: Unavailable("no store")
    session = world.session()
    waiting = asyncio.create_task(Client(session).push([world.job()]))
    await asyncio.sleep(1.0)
    await session.close()
    with pytest.raises(Unknown, match="closed"):
        await waiting


@virtual
async def test_what_a_broker_said_is_told_at_the_deadline() -> None:
    world = World()
    reason = "s3://jobs/queue.json: AccessDenied (the credentials have expired)"
    world.broker().lead().handler = lambda socket, number, op: Unavailable(reason)
    client = world.client(direct_fallback=False)
    with pytest.raises(Unknown, match=r"no conclusive answer.*AccessDenied \(the credentials"):
        await client.push([world.job()])
    with pytest.raises(Unavailable, match=r"no conclusive answer.*AccessDenied"):
        await client.get(["x"])


@virtual
async def test_close_while_dialling() -> None:
    world = World()
    session = world.session()
    call = asyncio.create_task(session.call(ops.Stats()))
    await asyncio.sleep(1)
    await session.close()
    with pytest.raises(Unavailable, match="closed"):
        await call


# --- S11 -----------------------------------------------------------------------------------------


@virtual
async def test_a_reader_never_sees_the_queue_go_back() -> None:
    world = World()
    broker = world.broker().lead()
    client = world.client()
    old = broker.answer(ops.Get(ids=("job-1",)))
    await client.push([world.job(1)])
    answers: list[ops.Answer | ObjqError] = [old]
    broker.handler = lambda socket, number, op: answers.pop() if answers else broker.answer(op)

    found = await client.get(["job-1"])

    assert found.jobs[0] is not None


@virtual
async def test_not_broker_with_nobody_to_name_is_retried_with_backoff() -> None:
    world = World()
    broker = world.broker().lead()
    broker.handler = lambda socket, number, op: NotBroker("stepping down")
    began = now()
    with pytest.raises(Unavailable):
        await world.client(direct_fallback=False).push([world.job()])
    assert now() - began == pytest.approx(10)
    assert 4 < len(world.connects) < 20
