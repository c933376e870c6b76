"""The checker's first half: one walk over the store's version log (S1, S3–S10, S14, S15).

It reads the bytes with structs of its own and knows the rules only as promises: nothing of the code
under test decides here. Every version is compared with the one before it, so the walk is linear in
what was written.

What an operator's hand did is no violation, and what it undid is promised to nobody: the jobs of
which it took something away are `rewound`, and all that is said of them is left out. Every write is
held against what its process had been given before, whatever an operator had done (S14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from objq.core import ops
from objq.core.codec import to_json
from objq.core.ops import JobView
from tests.sim.expiry import SLACK, Expiries, is_broker
from tests.sim.lives import Lives
from tests.sim.process import Process
from tests.sim.store import Version

if TYPE_CHECKING:
    from tests.sim.world import World

NEVER: Final = float("inf")
END_STATES: Final = ("succeeded", "dead", "cancelled")
OUTCOMES: Final = {"complete": "succeeded", "fail": "failed", "release": "released"}
"""How a claim ends, by the report that ends it."""


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
    moved_at: float = 0.0
    """When a heartbeat was last written down."""
    by_hand: bool = False
    """Granted between an operator's two acts, and undone by the second."""


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
        self.rewound: set[str] = set()
        self.durable_at: dict[tuple[int, int], float] = {}
        self.files: dict[tuple[str, int, int], list[File]] = {}
        """By document, epoch and seq; more than one where an operator went back in time."""
        self._bytes: set[bytes] = set()
        self._commits: set[str] = set()
        self._owners: dict[str, Process] = {}
        self.led_since: dict[str, tuple[float, float]] = {}
        self._challenged_at: dict[str, float] = {}
        self._views: dict[bytes, JobView] = {}
        self._file: File | None = None
        self._leader: ops.BrokerInfo | None = None
        self._jobs: dict[str, bytes] = {}
        self._true: tuple[File, dict[str, bytes]] | None = None
        """What counts, while an operator has put something else in its place."""
        self._hand_at: list[float] = []
        self._aside: list[tuple[float, float]] = []
        """From when until when something else stood in the place of what counts."""
        self._is_muted = False
        self._is_gone = False
        """There is no document at the moment."""
        self._asked = self._requests()
        self.ran = {run.token for run in world.history.runs}
        self._expiries = Expiries(self)
        self._lives = Lives(self, self._asked, self._view)
        self._reported = {token for asked in world.history.reported for token in asked.ids}
        self._said: dict[tuple[str, str], float] = {}
        """By token and outcome: when its holder first began to say so."""
        for asked in world.history.reported:
            for token in asked.ids:
                said = token, OUTCOMES[ops.op_name(asked.op)]
                self._said[said] = min(asked.began, self._said.get(said, asked.began))

    @property
    def leader(self) -> ops.BrokerInfo | None:
        """Who leads by the version that is looked at, or did by the one before."""
        return self._leader

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
            if version.data is None or version.kind == "spoils":
                self._hand_at.append(version.at)
                self._take_away(version)
                self._is_gone = True
                continue
            try:
                file = msgspec.json.decode(to_json(version.data), type=File)
            except Exception as error:
                self.say("S14", version, f"not a document: {error!r}")
                return
            self.files.setdefault((file.document, file.epoch, file.seq), []).append(file)
            self.durable_at.setdefault((file.epoch, file.seq), version.at)
            if version.kind == "write":
                self._check_knowledge(version, file)
                self._check_version(version, file, index)
            else:
                self._put_by_hand(version, file)
            self._file = file

    def say(self, promise: str, version: Version, text: str) -> None:
        if self._is_muted:
            return
        by = version.by.name if version.by else "an operator"
        self.problems.append(f"{promise}: {version.tag} at {version.at:.2f} by {by}: {text}")

    # --- an operator's hand -----------------------------------------------------------------------

    def _take_away(self, version: Version) -> None:
        if self._true is None and self._file is not None:
            self._true = self._file, self._jobs
            self._aside.append((version.at, float("inf")))
        self._file, self._jobs = None, {}

    def _back(self, version: Version) -> None:
        self._true = None
        self._aside[-1] = self._aside[-1][0], version.at

    def is_aside(self, at: float) -> bool:
        """Tell whether an operator had put something else in the place of what counts."""
        return any(since <= at <= until for since, until in self._aside)

    def _put_by_hand(self, version: Version, file: File) -> None:
        self._hand_at.append(version.at)
        self._is_gone = False
        if version.kind == "restores":
            self._take_away(version)
        elif self._true is not None:
            self._back(version)  # with all that was written before it was taken away
        self._jobs = self._jobs_of(version, file)

    def _follow_by_hand(self, version: Version, file: File, jobs: dict[str, bytes]) -> None:
        """Note a write to what an operator has put there for a while."""
        for job_id in self._jobs.keys() | jobs.keys():
            raw = jobs.get(job_id)
            if self._jobs.get(job_id) == raw:
                continue
            self.rewound.add(job_id)
            view = self._view(raw) if raw is not None else None
            if view is not None and view.claim is not None:
                self._note_live(version, view, by_hand=True)

    def _check_adoption(self, version: Version, file: File, jobs: dict[str, bytes]) -> None:
        before, true = self._file, self._true
        if before is None or true is None:
            self.say("S14", version, "adopted what nobody had restored")
            return
        if file.document in (before.document, true[0].document) or file.broker is not None:
            self.say("S14", version, "adopted, with the old id or a broker")
        if (file.epoch, file.seq) != (before.epoch + 1, before.seq + 1) or jobs != self._jobs:
            self.say("S14", version, "adopted something else than what was there")
        was = true[1]
        for job_id in was.keys() | jobs.keys():
            if was.get(job_id) == jobs.get(job_id):
                continue
            self.rewound.add(job_id)
            view = self._view(jobs[job_id]) if job_id in jobs else None
            if view is not None and view.claim is not None:
                self._note_live(version, view, by_hand=False)
        self._back(version)

    def _note_live(self, version: Version, view: JobView, *, by_hand: bool) -> None:
        claim = view.claim
        assert claim is not None
        self.tokens[claim.token] = Token(
            view.id, claim.worker, claim.id, 0.0, moved_at=version.at, by_hand=by_hand
        )

    def _check_knowledge(self, version: Version, file: File) -> None:
        """Check that its process knew of nothing newer, and of no other document (S14)."""
        knew, writer = version.knew, version.by
        assert writer is not None
        was_gone, self._is_gone = self._is_gone, False
        if was_gone and knew is not None and not self._is_from_before(version):
            self.say("S14", version, "written where an operator had left no document")
        if knew is None or _is_doctor(writer):
            return
        if file.document != knew.document or file.epoch < knew.epoch or file.seq <= knew.seq:
            known = f"epoch {knew.epoch}, seq {knew.seq} of {knew.document}"
            self.say("S14", version, f"written by one who knew of {known}")

    # --- versions ---------------------------------------------------------------------------------

    def _check_version(self, version: Version, file: File, index: int) -> None:
        assert version.data is not None
        assert version.by is not None
        stood_there = version.data in self._bytes or file.commit in self._commits
        # What an operator puts back may have the tag for which an old write is still under way.
        if (stood_there and not self._is_from_before(version)) or not file.commit:
            self.say("S3", version, "its bytes or its commit id stood there before")
        self._bytes.add(version.data)
        self._commits.add(file.commit)
        before = self._file
        self._leader = file.broker or (before.broker if before is not None else None)
        jobs = self._jobs_of(version, file)
        if _is_doctor(version.by) and not self._is_from_before(version):
            self._check_adoption(version, file, jobs)
        elif _is_doctor(version.by):  # a late copy, where the same bytes were restored once more
            self._follow_by_hand(version, file, jobs)
        else:
            if before is not None:
                self._check_chain(version, before, file)
            elif index == 0 and file.seq != 1:
                self.say("S3", version, f"the first version has seq {file.seq}")
            if self._true is None or not self._is_from_before(version):
                self._check_leader(version, before, file)
            elif file.broker is not None and (before is None or before.broker != file.broker):
                # A take-over that was on its way, onto bytes that were put back: it leads.
                self._note_leader(version, None, file, file.broker, version.by)
            if file.challenge is not None:
                self._challenged_at.setdefault(file.challenge.id, version.at)
            if self._true is not None:
                self._follow_by_hand(version, file, jobs)
            else:
                self._check_jobs(version, before, file, jobs, index)
        self._jobs = jobs
        self._check_totals(version, file)

    def _is_from_before(self, version: Version) -> bool:
        """Tell whether the write was sent before an operator's last act."""
        return bool(self._hand_at) and version.sent_at <= self._hand_at[-1]

    def _jobs_of(self, version: Version, file: File) -> dict[str, bytes]:
        jobs: dict[str, bytes] = {}
        for raw in (*file.jobs, *file.dead, *file.finished):
            data = bytes(raw)
            view = self._view(data)
            if view.id in jobs:
                self.say("S7", version, f"{view.id} stands there twice")
            jobs[view.id] = data
        return jobs

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
        if not is_broker(writer):
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
        # Not where an operator's hand undid its take-over before it knew that it had led.
        if leader.id in self._owners and self._true is None:
            self.say("S4", version, f"broker {leader.id} leads again")
        self._owners[leader.id] = writer
        wait_s = file.settings.heartbeat_timeout_s
        if before is not None:
            wait_s = max(wait_s, before.settings.heartbeat_timeout_s)
        self.led_since[leader.id] = version.at, wait_s
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
        since = self._challenged_at.get(before.challenge.id, 0.0)
        if sent_at - since < ttl_s / SLACK:
            self.say("take-over", version, f"{sent_at - since:.2f} s after the challenge")
        if owner.was_paused(since - ttl_s, sent_at):
            return
        if any(since - ttl_s <= at <= sent_at for at in self._hand_at):
            return  # it could not answer
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
        assert version.by is not None
        only_pushes = before is not None and before.broker is not None
        only_pushes = only_pushes and not is_broker(version.by)
        for job_id, raw in jobs.items():
            old_raw = self._jobs.get(job_id)
            if old_raw == raw:
                continue
            self._is_muted = job_id in self.rewound
            if only_pushes and old_raw is not None:
                self.say("direct", version, f"changed {job_id} while a broker is recorded")
            old = self._view(old_raw) if old_raw is not None else None
            new = self._view(raw)
            if old is None:
                self._check_new(version, file, new)
            else:
                self._check_change(version, old, new)
            if self._note_claims(version, file, old, new, index):
                granted.append(new)
                self._check_due(version, old, new)
        for job_id in sorted(self._jobs.keys() - jobs.keys()):
            self._is_muted = job_id in self.rewound
            if only_pushes:
                self.say("direct", version, f"dropped {job_id} while a broker is recorded")
            self._check_gone(version, file, self._view(self._jobs[job_id]))
        self._is_muted = False
        if before is not None:
            self._lives.check_order(version, before, file, granted)
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
        self._lives.check_new(version, new)

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
        self._lives.check_change(version, old, new)

    def _note_claims(
        self, version: Version, file: File, old: JobView | None, new: JobView, index: int
    ) -> bool:
        """Note which claims ended, moved and began; return whether one was granted."""
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
        if claim is None:
            return False
        if before is not None and before.token == claim.token:
            if before.heartbeat_seq != claim.heartbeat_seq:
                self.tokens[claim.token].moved_at = version.at
            return False
        self._note_grant(version, file, new, claim, index)
        return True

    def _note_grant(
        self, version: Version, file: File, new: JobView, claim: ops.Claim, index: int
    ) -> None:
        assert version.by is not None
        if claim.epoch != (file.epoch if is_broker(version.by) else None):
            self.say("S5", version, f"{new.id}: granted in the name of epoch {claim.epoch}")
        if claim.token in self.tokens:
            self.say("S5", version, f"{new.id}: token {claim.token} is live again")
        # Only an id in the form of a request's is remembered beyond the life of what it granted.
        first = self.claim_versions.setdefault(claim.id, index)
        if first != index and ":" in claim.id:
            self.say("S7", version, f"claim {claim.id} was granted more at its repeat")
        self.tokens[claim.token] = Token(
            new.id, claim.worker, claim.id, version.at, moved_at=version.at
        )

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
            self._expiries.check(version, old, attempt)
            burnt = old is not None and new.claim is None and new.attempts > old.attempts
            if attempt.started_at is None and (new.state == "dead" or burnt):
                self.say("S10", version, f"{new.id}: an unstarted claim burnt an attempt")
        elif self._said.get((attempt.token, attempt.outcome), NEVER) > version.sent_at:
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
        was_due = old is not None and old.state != "scheduled"  # by a clock that was ahead, perhaps
        if was_due or new.id in self._asked.get("run_now", {}):
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
            if view.state == "ready" and self._jobs.get(view.id, data) == data and not paused:
                passed.setdefault(line, view.id)


def _is_doctor(process: Process) -> bool:
    return process.name.startswith("doctor")
