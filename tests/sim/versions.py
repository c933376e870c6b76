"""The checker's first half: one walk over the store's version log (S1, S3–S10, S15).

It reads the bytes with structs of its own and knows the rules only as promises: nothing of the code
under test decides here. Every version is compared with the one before it, so the walk is linear in
what was written.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from objq.core import ops
from objq.core.codec import to_json
from objq.core.ops import JobView
from tests.sim.process import Process
from tests.sim.store import Access, Version

if TYPE_CHECKING:
    from tests.sim.world import World

END_STATES: Final = ("succeeded", "dead", "cancelled")
SLACK: Final = 1.02
"""Wall and monotonic clocks drift by less than this."""


class File(Struct):
    """One version, as it stands in the store."""

    document: str
    seq: int
    epoch: int
    commit: str
    broker: ops.BrokerInfo | None
    challenge: ops.Challenge | None
    jobs: list[Raw]
    dead: list[Raw]
    finished: list[Raw]
    settings: ops.DocumentSettings
    queues: dict[str, dict[str, Any]]
    totals: dict[str, dict[str, int]]
    at: int = 0
    uptime_ms: int = 0


class Token(Struct):
    """What the log says of one claim. `ended_at` is infinite while it lives."""

    job: str
    worker: str
    claim: str
    granted_at: float
    ended_at: float = float("inf")
    outcome: str = "live"
    started: bool = False
    version: int = 0


class Walk:
    """Walks the log once; the second half asks what it found."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.problems: list[str] = []
        self.tokens: dict[str, Token] = {}
        self.first_at: dict[str, tuple[float, int]] = {}
        """By job: when it first stood in a version, and in which seq."""
        self.gone_at: dict[str, float] = {}
        self.duplicated: set[str] = set()
        self.lost: set[str] = set()
        self.retried: dict[str, int] = {}
        self.claim_versions: dict[str, int] = {}
        self._bytes: set[bytes] = set()
        self._commits: set[str] = set()
        self._owners: dict[str, Process] = {}
        self._led_since: dict[str, tuple[float, float]] = {}
        self._challenged_at: dict[str, float] = {}
        self._views: dict[bytes, JobView] = {}
        self._file: File | None = None
        self._jobs: dict[str, bytes] = {}
        self._asked = self._requests()
        self._ran = {run.token for run in world.history.runs}
        self._reported = {token for asked in world.history.reported for token in asked.ids}

    def _requests(self) -> dict[str, dict[str, int]]:
        """Return how often each operation was asked for each job, by the operation's name."""
        asked: dict[str, dict[str, int]] = {}
        for request in self.world.history.operated:
            of_kind = asked.setdefault(ops.op_name(request.op), {})
            for job_id in request.ids:
                of_kind[job_id] = of_kind.get(job_id, 0) + 1
        return asked

    def run(self) -> None:
        for index, version in enumerate(self.world.store.log):
            if version.kind != "write":
                self._file = None  # by an operator's hand: nothing is promised across it
            if version.data is None:
                continue
            try:
                file = msgspec.json.decode(to_json(version.data), type=File)
            except Exception as error:
                self.say("S14", version, f"not a document: {error!r}")
                return
            self._check_version(version, file, index)
            self._file = file

    def say(self, promise: str, version: Version, text: str) -> None:
        by = version.by.name if version.by else "an operator"
        self.problems.append(f"{promise}: {version.tag} at {version.at:.2f} by {by}: {text}")

    # --- versions ---------------------------------------------------------------------------------

    def _check_version(self, version: Version, file: File, index: int) -> None:
        assert version.data is not None
        if version.kind == "write":
            if version.data in self._bytes or file.commit in self._commits or not file.commit:
                self.say("S3", version, "its bytes or its commit id stood there before")
            self._bytes.add(version.data)
            self._commits.add(file.commit)
        before = self._file
        if before is not None:
            self._check_chain(version, before, file)
        if version.kind == "write":
            self._check_leader(version, before, file)
        if file.challenge is not None:
            self._challenged_at.setdefault(file.challenge.id, version.at)
        jobs = {}
        for raw in (*file.jobs, *file.dead, *file.finished):
            data = bytes(raw)
            view = self._view(data)
            if view.id in jobs:
                self.say("S7", version, f"{view.id} stands there twice")
            jobs[view.id] = data
        if before is not None or version.kind == "write":
            self._check_jobs(version, before, file, jobs, index)
        self._jobs = jobs
        self._check_totals(version, file)

    def _view(self, raw: bytes) -> JobView:
        view = self._views.get(raw)
        if view is None:
            view = self._views[raw] = msgspec.json.decode(raw, type=JobView)
        return view

    def _check_chain(self, version: Version, before: File, file: File) -> None:
        if file.document != before.document:
            self.say("S14", version, "another document")
        if file.seq != before.seq + 1:
            self.say("S3", version, f"seq {before.seq} → {file.seq}")
        if file.at < before.at or file.uptime_ms < before.uptime_ms:
            self.say("S15", version, "times in the file went back")
        took_over = file.broker is not None and (
            before.broker is None or before.broker.id != file.broker.id
        )
        if file.epoch != before.epoch + took_over:
            self.say("S3", version, f"epoch {before.epoch} → {file.epoch}")

    def _check_leader(self, version: Version, before: File | None, file: File) -> None:
        writer, leader = version.by, file.broker
        assert writer is not None
        was = before.broker if before is not None else None
        if not writer.name.startswith("broker"):
            if leader != was:
                self.say("S4", version, "a client changed the leader")
            return
        if leader is not None and (was is None or was.id != leader.id):
            self._note_leader(version, before, file, leader, writer)
        elif leader is None:
            if was is None or self._owners.get(was.id) is not writer:
                self.say("S4", version, "somebody else's leadership was ended")
        elif self._owners.get(leader.id) is not writer:
            asks = file.challenge is not None and before is not None and before.challenge is None
            if not asks or self._changes_jobs(file):
                self.say("S4", version, f"committed while {leader.id} leads")

    def _note_leader(
        self,
        version: Version,
        before: File | None,
        file: File,
        leader: ops.BrokerInfo,
        writer: Process,
    ) -> None:
        if leader.id in self._owners:
            self.say("S4", version, f"broker {leader.id} leads again")
        self._owners[leader.id] = writer
        wait_s = file.settings.heartbeat_timeout_s
        if before is not None:
            wait_s = max(wait_s, before.settings.heartbeat_timeout_s)
        self._led_since[leader.id] = version.at, wait_s
        if before is not None and before.broker is not None:
            self._check_take_over(version, before, before.broker)

    def _changes_jobs(self, file: File) -> bool:
        now = {bytes(raw) for raw in (*file.jobs, *file.dead, *file.finished)}
        return now != set(self._jobs.values())

    def _check_take_over(self, version: Version, before: File, was: ops.BrokerInfo) -> None:
        owner = self._owners.get(was.id)
        sent_at = version.sent_at
        if (
            owner is None
            or owner is version.by
            or (owner.died_at is not None and owner.died_at <= sent_at)
        ):
            return
        ttl_s = before.settings.broker_ttl_s
        if before.challenge is None:
            self.say("take-over", version, f"of {owner.name}, which lives and was not challenged")
            return
        since = self._challenged_at[before.challenge.id]
        if sent_at - since < ttl_s / SLACK:
            self.say("take-over", version, f"{sent_at - since:.2f} s after the challenge")
        if owner.was_paused(since - ttl_s, sent_at):
            return
        accesses = self.world.store.accesses.get(owner.name, [])
        # A store that throttles has the leader wait for several times that long.
        recent = [a for a in accesses if a.ended >= since - 8 * ttl_s and a.began <= sent_at]
        if recent and all(a.ok and a.ended - a.began < ttl_s / 8 for a in recent):
            self.say("take-over", version, f"of {owner.name}, which lives and reaches the store")

    def _check_totals(self, version: Version, file: File) -> None:
        here: dict[str, int] = {}
        for raw in file.jobs:
            view = self._view(bytes(raw))
            here[view.queue] = here.get(view.queue, 0) + 1
        for queue, count in file.totals.items():
            ended = sum(count[name] for name in ("succeeded", "dead", "cancelled", "deleted"))
            left = count["pushed"] + count["retried"] - ended
            # A dead job that is retried was counted as dead, and counts again as retried.
            if left != here.get(queue, 0):
                self.say("totals", version, f"{queue}: {count} and {here.get(queue, 0)} jobs")

    # --- jobs -------------------------------------------------------------------------------------

    def _check_jobs(
        self, version: Version, before: File | None, file: File, jobs: dict[str, bytes], index: int
    ) -> None:
        granted = []
        for job_id, raw in jobs.items():
            old_raw = self._jobs.get(job_id)
            if old_raw == raw:
                continue
            old = self._view(old_raw) if old_raw is not None else None
            new = self._view(raw)
            if old is None:
                self._check_new(version, file, new)
            else:
                self._check_change(version, old, new)
            if self._note_claims(version, old, new, index):
                granted.append(new)
                self._check_due(version, old, new)
        for job_id in self._jobs.keys() - jobs.keys():
            self._check_gone(version, file, self._view(self._jobs[job_id]))
        if granted and before is not None:
            self._check_order(version, before, file, granted)

    def _check_new(self, version: Version, file: File, new: JobView) -> None:
        pushed = self.world.jobs.get(new.id)
        if pushed is None or bytes(pushed.args) != bytes(new.args):
            self.say("S9", version, f"{new.id} was never pushed like that")
        if new.id in self.gone_at:
            self.duplicated.add(new.id)
            self.say("S7", version, f"{new.id} came again after it had left")
        self.first_at.setdefault(new.id, (version.at, file.seq))

    def _check_change(self, version: Version, old: JobView, new: JobView) -> None:
        if bytes(old.args) != bytes(new.args) or old.queue != new.queue:
            self.say("S9", version, f"{new.id} has other contents")
        if old.state == "succeeded" or (old.state == "cancelled" and new.state == "dead"):
            self.say("S6", version, f"{new.id} was {old.state} and is {new.state}")
        if old.state in ("dead", "cancelled") and new.state not in ("dead", "cancelled"):
            self.retried[new.id] = self.retried.get(new.id, 0) + 1
            if self.retried[new.id] > self._asked.get("retry", {}).get(new.id, 0):
                self.say("S7", version, f"{new.id} was retried more often than asked")
        if new.attempts > new.max_attempts:
            self.say("S10", version, f"{new.id} has {new.attempts} of {new.max_attempts} attempts")
        if new.state == "dead" and new.attempts < new.max_attempts:
            self.say("S10", version, f"{new.id} is dead after {new.attempts} attempts")

    def _note_claims(self, version: Version, old: JobView | None, new: JobView, index: int) -> bool:
        """Note which claims ended and began; return whether one was granted."""
        known = {attempt.token for attempt in old.history} if old is not None else set()
        for attempt in new.history:
            if attempt.token not in known:
                self._note_end(version, old, new, attempt, index)
        claim = new.claim
        before = old.claim if old is not None else None
        if before is not None and (claim is None or claim.token != before.token):
            token = self.tokens[before.token]
            if token.outcome == "live":
                self.say("S5", version, f"{new.id}: its claim vanished")
                token.ended_at, token.outcome = version.at, "vanished"
        if claim is None or (before is not None and before.token == claim.token):
            return False
        if claim.token in self.tokens:
            self.say("S5", version, f"{new.id}: token {claim.token} is live again")
        # Only an id in the form of a request's is remembered beyond the life of what it granted.
        first = self.claim_versions.setdefault(claim.id, index)
        if first != index and ":" in claim.id:
            self.say("S7", version, f"claim {claim.id} was granted more at its repeat")
        self.tokens[claim.token] = Token(new.id, claim.worker, claim.id, version.at)
        return True

    def _note_end(
        self, version: Version, old: JobView | None, new: JobView, attempt: ops.Attempt, index: int
    ) -> None:
        token = self.tokens.get(attempt.token)
        if token is None or token.outcome != "live" or token.job != new.id:
            self.say("S6", version, f"{new.id}: a claim ended that was not live")
            return
        token.ended_at, token.outcome, token.version = version.at, attempt.outcome, index
        token.started = attempt.started_at is not None
        if attempt.outcome == "expired":
            self._check_expiry(version, attempt)
            burnt = old is not None and new.claim is None and new.attempts > old.attempts
            if attempt.started_at is None and (new.state == "dead" or burnt):
                self.say("S10", version, f"{new.id}: an unstarted claim burnt an attempt")
        elif attempt.token not in self._reported:
            self.say("S5", version, f"{new.id}: its holder never said {attempt.outcome}")

    def _check_gone(self, version: Version, file: File, old: JobView) -> None:
        self.gone_at[old.id] = version.at
        if old.claim is not None:
            token = self.tokens[old.claim.token]
            if token.outcome == "live":
                token.ended_at, token.outcome = version.at, "gone"
        settings = file.settings
        asked = self._asked
        if old.id in asked.get("delete", {}):
            return
        where, most, ttl_s = "finished", settings.max_finished, settings.result_ttl_s
        if old.state == "dead":
            where, most, ttl_s = "dead", settings.max_dead, settings.dead_ttl_s
        # Others may have been retried or deleted after this one had to make room for a third.
        full = any(f is not None and len(getattr(f, where)) >= most for f in (self._file, file))
        aged = file.uptime_ms - (old.kept_from_ms or 0) >= ttl_s * 1000
        if old.state in END_STATES and (aged or full):
            return
        ended = old.claim is not None and old.claim.token in self._reported
        if full and (ended or old.id in asked.get("cancel", {})):
            return  # it ended, and was not kept, in the same commit
        self.lost.add(old.id)
        self.say("S1", version, f"{old.id} was {old.state} and is gone")

    def _check_due(self, version: Version, old: JobView | None, new: JobView) -> None:
        assert version.by is not None
        if new.id in self._asked.get("run_now", {}) or (old is not None and old.state == "ready"):
            return
        pushed = self.world.jobs.get(new.id)
        due = old.run_after if old is not None else pushed.run_after if pushed else None
        if due is not None and due > version.by.clock.highest_wall_ms(version.sent_at):
            self.say("S15", version, f"{new.id} was granted before its time")

    def _check_order(
        self, version: Version, before: File, file: File, granted: list[JobView]
    ) -> None:
        """Look for a ready job that was passed over within its queue and priority (S8)."""
        new = {view.id for view in granted}
        passed: dict[tuple[str, int], str] = {}
        for raw in file.jobs:
            data = bytes(raw)
            view = self._view(data)
            line = view.queue, view.priority
            if view.id in new and line in passed:
                self.say("S8", version, f"{view.id} was granted before {passed[line]}")
            paused = any(f.queues.get(view.queue, {}).get("paused") for f in (before, file))
            if view.state == "ready" and self._jobs.get(view.id) == data and not paused:
                passed.setdefault(line, view.id)

    # --- expiry -----------------------------------------------------------------------------------

    def _check_expiry(self, version: Version, attempt: ops.Attempt) -> None:
        """Check that silence was long enough when the leader decided to end the claim (S5).

        That was after the last answered access of its process before the bytes were sent (`after`),
        and no later than when they were (`sent`).
        """
        writer = version.by
        assert writer is not None
        leader = self._file.broker if self._file is not None else None
        timeout_s = self.world.options.heartbeat_timeout_s / SLACK
        sent = version.sent_at
        accesses = self.world.store.accesses.get(writer.name, [])
        last = bisect_right(accesses, sent, key=lambda access: access.ended)
        after = accesses[last - 1].ended if last else 0.0
        heard = self.world.history.heard.get((writer.name, attempt.token), [])
        if any(sent - timeout_s < at <= after for at in heard):
            self.say("S5", version, f"expired {attempt.token}, heard within the timeout")
        if leader is not None and leader.id in self._led_since:
            since, wait_s = self._led_since[leader.id]
            if sent < since + wait_s / SLACK:
                self.say("S5", version, f"expired a claim {sent - since:.2f} s after its take-over")
        settings = self.world.options
        limit_s = min(settings.heartbeat_timeout_s / 4, settings.broker_ttl_s / 2) * 1.3
        for begin, end in writer.pauses:
            if end - begin > limit_s and sent - timeout_s < end <= after:
                self.say("S5", version, f"expired a claim {sent - end:.2f} s after its own pause")
        if self._was_cut(accesses[:last], sent - timeout_s):
            self.say("S5", version, "expired a claim too soon after it was cut from the store")
        self._check_reason(version, attempt, sent)

    def _was_cut(self, accesses: list[Access], since: float) -> bool:
        """Tell whether a gap of T/2 between accesses ended since then."""
        half_s = self.world.options.heartbeat_timeout_s / 2 * SLACK
        later: Access | None = None
        for access in reversed(accesses):
            if not access.ok:
                continue
            if later is not None and later.began - access.began > half_s:
                return True
            if access.ended <= since:
                return False
            later = access
        return False

    def _check_reason(self, version: Version, attempt: ops.Attempt, sent: float) -> None:
        """Check that the holder was dead, stopped, cut or ending: nothing else loses a claim."""
        world = self.world
        if attempt.token not in self._ran:
            return  # nobody knew of this claim, so nothing of it runs twice
        holder = next((p for p in world.processes if p.name == attempt.worker), None)
        if holder is None or (holder.died_at is not None and holder.died_at <= sent):
            return
        since = sent - 2 * world.options.heartbeat_timeout_s
        assert version.by is not None
        places = (holder.place, version.by.place, "*")
        cuts = [cut for place in places for cut in world.history.cut.get(place, ())]
        if holder.was_paused(since, sent) or any(a < sent and b > since for a, b in cuts):
            return
        slow_s = world.options.heartbeat_timeout_s / 6
        for access in world.store.accesses.get(holder.name, ()):
            if access.ended > since and (not access.ok or access.ended - access.began > slow_s):
                return
        if holder.name in world.history.draining:
            return
        self.say("S5", version, f"{holder.name} lost the claim of {attempt.token} for no reason")
