"""`python -m tests.sim.mutants`: deliberate faults in the real code, each of which must be caught.

A mutant breaks one promise, in the way that it is broken in real systems, for as long as it is
applied. The worlds of its seeds are run until the checker objects. A mutant that none of them shows
is a hole in the simulation or in the checker, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest import mock

import msgspec
from django.conf import settings

from objq.broker import batch, commit, confidence, election, leader, leases, reading, standby
from objq.broker.broker import Broker
from objq.broker.reading import Found, Reader
from objq.broker.watchers import Watchers
from objq.client import session
from objq.client.alone import Alone
from objq.client.horizon import Horizon
from objq.client.session import Session
from objq.client.ticket import Ticket
from objq.client.versions import Versions
from objq.client.watching import Watching
from objq.core import claiming, codec, ending, leading, ops, outcomes, pushing
from objq.core.document import Document
from objq.core.requests import RequestMemory
from objq.core.silence import SilenceWatch
from objq.doctor import treatment
from objq.errors import ClaimLost, Corrupt
from objq.store.base import ABSENT, Ambiguous, TooLarge
from objq.worker.holdings import Holdings, Stage
from tests.sim import faults
from tests.sim.company import Company

BASE: Final = 10_000
MOST_SEEDS: Final = 400

Patch = Callable[[Any, str, Any], Any]
Mutant = Callable[[Patch], None]

MUTANTS: Final[dict[str, Mutant]] = {}
WHERE: Final[dict[str, tuple[faults.Fault, ...]]] = {}
"""The faults of the worlds in which some mutants show; the others are looked for in all kinds."""


COMPANY: Final[dict[str, Company]] = {}
"""Who is in the worlds in which some mutants show; the others are looked for in all company."""


def mutant(function: Mutant) -> Mutant:
    MUTANTS[function.__name__] = function
    return function


def shown_by(*kinds: faults.Fault) -> Callable[[Mutant], Mutant]:
    def register(function: Mutant) -> Mutant:
        WHERE[function.__name__] = kinds
        return function

    return register


def in_company(**who: Any) -> Callable[[Mutant], Mutant]:
    def register(function: Mutant) -> Mutant:
        COMPANY[function.__name__] = Company(**who)
        return function

    return register


@contextlib.contextmanager
def applied(name: str) -> Iterator[None]:
    """Break the code as the mutant does, for a while."""
    with contextlib.ExitStack() as stack:

        def patch(owner: Any, attribute: str, replacement: Any) -> Any:
            before = getattr(owner, attribute)
            stack.enter_context(mock.patch.object(owner, attribute, replacement))
            return before

        MUTANTS[name](patch)
        yield


_BROKEN: Final = re.compile(r"\b(?:died of|raised) (?:Attribute|Import|Name|Type)Error\b")


class BrokenMutant(Exception):
    """The mutant no longer fits the code that it is to change: that it fails shows nothing."""


def caught_by(name: str, most: int = MOST_SEEDS) -> tuple[int, str] | None:
    """Return the first seed whose world shows the mutant, and what the checker said.

    Raises BrokenMutant.
    """
    from tests.sim.checker import check
    from tests.sim.world import run_world

    for seed in range(BASE, BASE + most):
        with applied(name):
            problems = check(run_world(seed, WHERE.get(name), COMPANY.get(name))).problems
        if not problems:
            continue
        for problem in problems:
            if _BROKEN.search(problem):
                raise BrokenMutant(f"{name}: {problem}")
        # What the code does without the mutant is not the mutant's doing.
        if not check(run_world(seed, WHERE.get(name), COMPANY.get(name))).problems:
            return seed, problems[0]
    return None


# --- the document and its versions ----------------------------------------------------------------


@mutant
def no_commit_id_in_the_bytes(patch: Patch) -> None:
    """Two versions with equal contents may have equal bytes, so an old write may fit again."""
    seal = codec.seal

    def without_id(document: Document, commit_id: str, now: int, *, leading: bool) -> bytes:
        return seal(document, "commit", now, leading=leading)

    patch(commit, "seal", without_id)


@mutant
def seq_stands_still(patch: Patch) -> None:
    """Nobody can tell an older version from a newer one."""
    seal = codec.seal

    def unnumbered(document: Document, commit_id: str, now: int, *, leading: bool) -> bytes:
        document.seq -= document.seq > 1
        return seal(document, commit_id, now, leading=leading)

    patch(commit, "seal", unnumbered)


@mutant
def retry_with_different_bytes(patch: Patch) -> None:
    """After a lost reply the version is made anew."""
    put = commit.Committer._put

    async def resealed(self: Any, data: bytes, expect: Any) -> Any:
        if getattr(self, "_sent_to", None) == expect:
            now = self._clock.wall_ms()
            data = codec.seal(self._document, self._ids.token(), now, leading=True)
        self._sent_to = expect
        return await put(self, data, expect)

    patch(commit.Committer, "_put", resealed)


@mutant
def first_write_unconditional(patch: Patch) -> None:
    """Two brokers that start at once overwrite each other's document."""
    put = commit.Committer._put

    async def anyway(self: Any, data: bytes, expect: Any) -> Any:
        content = self._store._store.content
        if expect is ABSENT and content is not None:
            expect = content.tag
        return await put(self, data, expect)

    patch(commit.Committer, "_put", anyway)


@mutant
def truncated_document_taken_for_an_empty_one(patch: Patch) -> None:
    """What cannot be read is begun anew."""
    judge = Reader._judge

    def forgiving(self: Any, content: Any, ours: bytes, started: float, known: Any) -> Any:
        try:
            return judge(self, content, ours, started, known)
        except Corrupt:
            if self.seen is None:
                raise
            empty = Document(self.seen, ops.DocumentSettings(), {}, RequestMemory(0, {}), {})
            return Found(content.tag, self.seen, empty, started)

    patch(Reader, "_judge", forgiving)


@mutant
def ambiguous_reported_as_failed(patch: Patch) -> None:
    """A write whose reply was lost is told as refused."""
    put = commit.Committer._put

    async def pessimistic(self: Any, data: bytes, expect: Any) -> Any:
        try:
            return await put(self, data, expect)
        except Ambiguous as error:
            raise TooLarge(str(error)) from error

    patch(commit.Committer, "_put", pessimistic)


@mutant
def conflict_taken_for_ours(patch: Patch) -> None:
    """Precondition failed after a lost reply: it must have been our own write."""
    read_back = commit.Committer._read_back

    async def believing(self: Any, data: bytes) -> Any:
        found = await read_back(self, data)
        return found and found._replace(document=None)

    patch(commit.Committer, "_read_back", believing)


# --- answers --------------------------------------------------------------------------------------


@mutant
def ack_before_commit(patch: Patch) -> None:
    """A push is answered as soon as it is admitted."""
    admit = leader.Leader._admit

    def hasty(self: Any, op: Any, future: asyncio.Future[Any]) -> None:
        ours = asyncio.get_running_loop().create_future() if isinstance(op, ops.Push) else future
        admit(self, op, ours)
        if isinstance(op, ops.Push):
            items = tuple(ops.ItemOutcome(id=job.id, state="ready") for job in op.jobs)
            future.set_result(ops.Outcomes(items=items))

    patch(leader.Leader, "_admit", hasty)


@mutant
def served_while_cut_from_the_store(patch: Patch) -> None:
    """A broker that cannot know whether it still leads goes on answering."""
    refusal = confidence.Confidence.refusal

    def bold(self: Any) -> Any:
        error = refusal(self)
        return None if error is not None and "reach the store" in error.message else error

    patch(confidence.Confidence, "refusal", bold)


@mutant
def request_memory_dropped(patch: Patch) -> None:
    """The document does not remember which requests it has seen."""
    patch(RequestMemory, "record", lambda self, request, stamp, refused=None: None)


@mutant
@shown_by(faults.cut_connections, faults.slow_network)
def refusal_of_a_repeat_not_committed(patch: Patch) -> None:
    """A refusal is called final, and an earlier copy of the request is still applied later."""
    once = outcomes.once

    def forgetful(document: Any, op: Any, items: Any, context: Any) -> Any:
        was_dirty = document.dirty
        answer = once(document, op, items, context)
        if op.repeat and all(item.error is not None for item in answer.items):
            prefix = op.request.rpartition(":")[0]
            document.requests.clients.pop(prefix, None)
            document.dirty = was_dirty
        return answer

    patch(pushing, "once", forgetful)


@mutant
def outcome_forgotten_when_a_request_is_lost(patch: Patch) -> None:
    """A client takes a request that was sent and not answered for one that was never sent."""

    def sure(self: Any, copy: Any) -> None:
        self._open -= 1

    patch(Ticket, "lost", sure)


@mutant
@shown_by(faults.pause_anyone)
def answer_dropped_at_the_deadline(patch: Patch) -> None:
    """An answer that comes in the very moment of the deadline is forgotten."""

    class Forgetful(Ticket):
        @property
        def answer(self) -> None:
            return None

        @answer.setter
        def answer(self, value: Any) -> None:
            self.last = value

    send = Session._send

    async def sending(self: Any, ticket: Any, link: Any) -> Any:
        answer = await send(self, ticket, link)
        forgotten: Any = answer
        return ticket.last if forgotten is None else answer

    patch(session, "Ticket", Forgetful)
    patch(Session, "_send", sending)


@mutant
@shown_by(faults.cut_store_of_broker)
def reads_go_back_in_time(patch: Patch) -> None:
    """A session hands out whatever a broker says."""
    patch(Horizon, "is_behind", lambda self, op, answer: False)


@mutant
def repeat_of_a_report_refused(patch: Patch) -> None:
    """The repeat of an outcome that was applied is told that the claim is lost."""

    def strict(document: Any, token: str, same: str) -> Any:
        raise ClaimLost("no longer live")

    patch(ending, "_repeated", strict)


# --- claims ---------------------------------------------------------------------------------------


@mutant
def token_used_again(patch: Patch) -> None:
    """The token of a job is the same for each of its grants."""
    grant = claiming._grant

    def same(document: Any, job: Any, op: Any, context: Any, alone: bool) -> Any:
        return grant(document, job, op, context._replace(mint=lambda: f"t-{job.id}"), alone)

    patch(claiming, "_grant", same)


@mutant
@shown_by(faults.pause_worker)
@in_company()
def no_fence_on_complete(patch: Patch) -> None:
    """Whoever once held a job can complete it, whoever holds it now."""
    complete_one = ending._complete_one

    def open_to_all(document: Any, item: Any, context: Any) -> Any:
        job = document.ended.get(item.token)
        if item.token not in document.claims and job is not None and job.claim is not None:
            item = msgspec.structs.replace(item, token=job.claim.token)
        return complete_one(document, item, context)

    patch(ending, "_complete_one", open_to_all)


@mutant
def claim_repeated_grants_more(patch: Patch) -> None:
    """A claim that is sent again is a new claim."""
    take = claiming.take

    def generous(document: Any, op: Any, context: Any) -> Any:
        held, document.claims_by_id = document.claims_by_id, {}
        find = document.requests.find
        document.requests.find = lambda request, seq: None
        try:
            return take(document, op, context)
        finally:
            document.requests.find = find
            for claim_id, jobs in document.claims_by_id.items():
                held.setdefault(claim_id, {}).update(jobs)
            document.claims_by_id = held

    from objq.core import waiting

    patch(waiting, "take", generous)
    patch(claiming, "take", generous)


@mutant
def newest_first(patch: Patch) -> None:
    """Jobs are granted in the wrong order."""
    init = Document._job

    def backwards(self: Any, view: Any, raw: bytes) -> Any:
        job = init(self, view, raw)
        job.order = -job.order
        return job

    patch(Document, "_job", backwards)


@mutant
def ready_before_its_time(patch: Patch) -> None:
    """A scheduled job is granted an hour early."""
    make_due_ready = Document.make_due_ready
    patch(
        Document,
        "make_due_ready",
        lambda self, now: make_due_ready(self, now + 3_600_000),
    )


@mutant
@shown_by(faults.crash_worker, faults.pause_worker)
def unstarted_grant_burns_an_attempt(patch: Patch) -> None:
    """A grant that expires unstarted counts as a start."""
    expire_one = ending._expire_one

    def harsh(document: Any, job: Any, context: Any) -> Any:
        view = job.view()
        expired = expire_one(document, job, context)
        if view.claim.started_at is None and job.state == "ready":
            document.change(job, attempts=min(view.attempts + 1, view.max_attempts))
        return expired

    patch(ending, "_expire_one", harsh)


# --- silence --------------------------------------------------------------------------------------


@mutant
def no_grace_after_take_over(patch: Patch) -> None:
    """A new leader holds nobody's silence before its time against them, except that it does."""
    keep = leases.Leases.keep

    def long_ago(self: Any, tokens: Any, now: float) -> None:
        keep(self, tokens, now)
        if not getattr(self, "_kept", False):
            self._heard = dict.fromkeys(self._heard, now - self.timeout_s)
        self._kept = True

    patch(leases.Leases, "keep", long_ago)
    patch(leases.Leases, "restart", lambda self, now, timeout_s=None: None)


@mutant
@shown_by(faults.pause_broker)
def pause_not_noticed(patch: Patch) -> None:
    """A broker that was stopped takes the silence for its workers'."""
    patch(Broker, "_notice_pause", lambda self: False)


@mutant
@shown_by(faults.pause_broker)
@in_company()
def pause_noticed_too_late(patch: Patch) -> None:
    """What was ready when the process went on is handled before anybody looks at the clock."""
    init = leader.Leader.__init__

    def unaware(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **{**kwargs, "notice_pause": lambda: None})

    patch(leader.Leader, "__init__", unaware)


@mutant
def wall_clock_for_expiry(patch: Patch) -> None:
    """Silence is measured by a clock that may step."""
    init = leader.Leader.__init__

    def by_the_wall(
        self: Any, committer: Any, document: Any, own: Any, clock: Any, *args: Any, **kw: Any
    ) -> None:
        init(self, committer, document, own, clock, *args, **kw)
        held = self._leases
        silent, hear = held.silent, held.hear
        held.silent = lambda now: silent(clock.wall_ms() / 1000)
        held.hear = lambda token, now: hear(token, clock.wall_ms() / 1000)
        held.next_silence = lambda: None
        held._not_before = float("-inf")
        held._heard = {token: clock.wall_ms() / 1000 for token in held._heard}
        held.keep = lambda tokens, now: leases.Leases.keep(held, tokens, clock.wall_ms() / 1000)

    patch(leader.Leader, "__init__", by_the_wall)


@mutant
@shown_by(faults.cut_connections)
def expiry_before_heartbeats_in_a_batch(patch: Patch) -> None:
    """What was heard since the last commit counts only after the claims have expired."""
    hear, answer = leader.Leader._hear, leader.Leader._answer

    def later(self: Any, op: Any) -> None:
        self.__dict__.setdefault("_unheard", []).append(op)

    def then(self: Any, batch_: Any, document: Any) -> None:
        answer(self, batch_, document)
        if batch_.entries:  # as one does who takes heartbeats for requests like any other
            for op in self.__dict__.pop("_unheard", []):
                hear(self, op)

    patch(leader.Leader, "_hear", later)
    patch(leader.Leader, "_answer", then)


@mutant
@shown_by(faults.pause_worker, faults.cut_connections)
@in_company()
def repeated_claim_expires_in_its_batch(patch: Patch) -> None:
    """A claim is told its tokens by the very commit that ends them."""

    def silent(self: Any, batch_: Any, document: Any, at: float | None) -> list[str]:
        if at is None:
            return []
        found = []
        for token in self._leases.silent(at):
            if token in document.claims:
                found.append(token)
            else:
                self._leases.forget(token)
        return found

    patch(batch.Group, "_silent", silent)


@mutant
@shown_by(faults.pause_worker, faults.block_path)
def start_without_looking_at_the_clock(patch: Patch) -> None:
    """A worker starts a job whenever it has one, however old its claim."""
    startable = Holdings.startable
    patch(
        Holdings,
        "startable",
        lambda self, now, window_s: startable(self, now, float("inf")),
    )


@mutant
@shown_by(faults.cut_connections)
def running_jobs_do_not_beat(patch: Patch) -> None:
    """Heartbeats name only the jobs that have not begun."""

    def waiting(self: Any) -> tuple[str, ...]:
        return tuple(t for t, held in self._held.items() if held.stage is Stage.WAITING)

    patch(Holdings, "tokens", waiting)
    patch(Holdings, "started", lambda self: ())


# --- leadership -----------------------------------------------------------------------------------


@mutant
@shown_by(faults.pause_broker)
def deposed_broker_keeps_committing(patch: Patch) -> None:
    """A broker does not look who leads."""
    patch(batch.Group, "require_leadership", lambda self, document: None)
    adopted = confidence.Confidence._adopted

    def unmoved(self: Any, document: Any) -> None:
        adopted(self, document)
        self.ended = False

    patch(confidence.Confidence, "_adopted", unmoved)


@mutant
def epoch_stands_still(patch: Patch) -> None:
    """A take-over does not count."""
    take_over = leading.take_over

    def quiet(document: Any, broker: Any, settings_: Any) -> None:
        epoch = document.epoch
        take_over(document, broker, settings_)
        document.epoch = max(1, epoch)

    patch(standby, "take_over", quiet)


@mutant
@shown_by(faults.block_path)
def take_over_without_a_challenge(patch: Patch) -> None:
    """A standby that cannot reach the leader takes the lead."""

    def at_once(self: Any, *args: Any) -> Any:
        return election.Decision(election.Action.TAKE_OVER, "the leader is out of order")

    patch(election.Election, "_by_challenge", at_once)


@mutant
@shown_by(faults.block_path)
def challenge_not_answered(patch: Patch) -> None:
    """A leader's commit leaves the challenge where it is."""
    seal = codec.seal
    patch(
        commit,
        "seal",
        lambda document, commit_id, now, *, leading: seal(document, commit_id, now, leading=False),
    )


@mutant
@shown_by(faults.pause_broker)
def step_down_clears_any_broker(patch: Patch) -> None:
    """A broker that has lost its leadership ends that of its successor."""
    be_deposed = Broker._be_deposed

    def clear(document: Any) -> bool:
        document.broker = None
        return True

    def spiteful(self: Any, error: Any) -> None:
        be_deposed(self, error)
        task = asyncio.ensure_future(self._committer.transact(clear))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    patch(Broker, "_be_deposed", spiteful)


# --- without a broker -----------------------------------------------------------------------------


@mutant
@shown_by(faults.crash_worker, faults.step_clock)
@in_company(brokers="none", direct_workers=3)
def direct_worker_expires_by_the_wall_clock(patch: Patch) -> None:
    """Silence is the difference of two machines' clocks."""

    def by_the_wall(self: Any, document: Any) -> list[str]:
        oldest_ms = self._clock.wall_ms() - document.settings.heartbeat_timeout_s * 1000
        return [
            token
            for token, job in document.claims.items()
            if job.claim.epoch is None and job.claim.heartbeat_at < oldest_ms
        ]

    patch(Alone, "_silent", by_the_wall)


@mutant
@shown_by(faults.crash_worker, faults.pause_worker)
@in_company(brokers="stopped", direct_workers=2)
def direct_worker_expires_what_a_broker_granted(patch: Patch) -> None:
    """Holders that beat over the wire only look silent in the file."""
    look = SilenceWatch.look

    def everything(self: Any, claims: Any, **times: Any) -> None:
        look(self, [msgspec.structs.replace(c, epoch=None) for c in claims], **times)

    patch(SilenceWatch, "look", everything)


@mutant
@shown_by(faults.pause_worker, faults.outage)
@in_company(brokers="none", direct_workers=3)
def silence_over_missed_reads(patch: Patch) -> None:
    """A direct worker takes the time in which it did not look for the holder's silence."""
    look = SilenceWatch.look
    patch(
        SilenceWatch,
        "look",
        lambda self, claims, apart_s, **times: look(self, claims, apart_s=float("inf"), **times),
    )


@mutant
@in_company(brokers="none", direct_workers=3)
def direct_holder_writes_no_heartbeats(patch: Patch) -> None:
    """A long job without a broker looks dead to the others."""
    patch(Alone, "_beat", lambda self, document, now: document.dirty)


@mutant
@in_company(brokers="later", later=0.3, direct_workers=2)
def direct_worker_goes_on_beside_a_broker(patch: Patch) -> None:
    """Claims, heartbeats and expiry are written directly, whoever leads."""
    run = Alone.run

    def heedless(self: Any, entries: Any, document: Any) -> bool:
        leader, document.broker = document.broker, None
        try:
            return run(self, entries, document)
        finally:
            document.broker = leader

    patch(Alone, "run", heedless)


# --- an operator's hand ---------------------------------------------------------------------------


@mutant
@in_company(direct_workers=1, hand="restores")
def older_version_written_upon(patch: Patch) -> None:
    """What an operator has put back is taken for the newest version."""
    patch(reading, "check_successor", lambda seen, found, **_: None)


@mutant
@in_company(brokers="later", later=0.9, direct_workers=1, hand="restores", content_tags=True)
def headers_bind_no_write(patch: Patch) -> None:
    """A process writes upon what is older than a version whose header it has read."""
    new_committer = Versions._new_committer

    def unaware(self: Any, seen: Any) -> Any:
        committer = new_committer(self, seen)
        committer.reader.also_seen = lambda: None
        return committer

    patch(Versions, "_new_committer", unaware)


@mutant
@in_company(brokers="none", direct_workers=2, hand="deletes")
def vanished_document_begun_anew(patch: Patch) -> None:
    """Who has seen the document creates another when it is gone."""
    create = Versions._create

    async def creating(self: Any, settings_: Any) -> None:
        self._seen.clear()
        await create(self, settings_)

    patch(Reader, "_refuse_absence", lambda self: setattr(self, "seen", None))
    patch(Versions, "_create", creating)


@mutant
@in_company(hand="adopts")
def adopted_under_the_old_id(patch: Patch) -> None:
    """Nobody can tell what belongs to the time that was lost."""
    adopt = leading.adopt
    patch(treatment, "adopt", lambda document, new_id: adopt(document, document.id))


# --- those who watch ------------------------------------------------------------------------------


@mutant
@in_company(watchers=2, direct_workers=1)
def gap_ignored(patch: Patch) -> None:
    """A watcher goes on with what it knows, though it has missed something."""

    async def careless(self: Any) -> Any:
        delta = await self._stream.get()
        if delta is None or delta.seq <= self._newest[1]:
            return None
        self._newest = (delta.epoch, delta.seq)
        return delta

    patch(Watching, "_delta", careless)


@mutant
@in_company(watchers=2)
def told_before_it_is_durable(patch: Patch) -> None:
    """Watchers are told of what is being written."""
    patch(commit.Committer, "settled", property(lambda self: self._document))


@mutant
@shown_by(faults.cut_store_of_broker)
@in_company(watchers=2)
def watch_of_a_broker_without_a_store_goes_on(patch: Patch) -> None:
    """A deposed broker that cannot know it keeps those who watch, and tells them nothing."""
    patch(Watchers, "refuse", lambda self, error: None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="some mutants only")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="worlds for each at most")
    arguments = parser.parse_args()
    settings.configure(SECRET_KEY="simulated")
    logging.disable(logging.CRITICAL)
    caught: dict[str, int] = {}
    missed = []
    for name in arguments.names or MUTANTS:
        began = time.perf_counter()
        found = caught_by(name, arguments.seeds)
        seconds = time.perf_counter() - began
        if found is None:
            missed.append(name)
            print(f"NOT CAUGHT {name} ({seconds:.1f} s)", flush=True)
            continue
        seed, problem = found
        caught[name] = seed - BASE + 1
        print(f"{name}: world {seed - BASE + 1} ({seconds:.1f} s): {problem[:150]}", flush=True)
    print(json.dumps({"ok": not missed, "caught": len(caught), "missed": missed, "worlds": caught}))
    return 0 if not missed else 1


if __name__ == "__main__":
    sys.exit(main())
