"""A document to try the rules on: short calls, tokens that count up, time that only tests move."""

from __future__ import annotations

import itertools
from typing import Any

from msgspec import Raw

from objq.core import claiming, codec, ending, ops, rules
from objq.core.document import Document
from objq.core.ops import DocumentSettings, JobView

START_MS = 1_764_430_000_000


class World:
    def __init__(self, **settings: Any) -> None:
        self.now = START_MS
        self.document = Document.new("doc", DocumentSettings(**settings), self.now)
        self.document.seq = 1  # as if it had been written once: request ids name a seq
        self._tokens = itertools.count(1)
        self._requests = itertools.count(1)
        self.prefix = "1-client"

    def mint(self) -> str:
        return f"token-{next(self._tokens)}"

    def request(self) -> str:
        return f"{self.prefix}:{next(self._requests)}"

    def apply(self, op: ops.Change, *, epoch: int | None = 1) -> Any:
        return rules.apply(self.document, op, self.now, mint=self.mint, epoch=epoch).answer

    def changed(self, op: ops.Change) -> bool:
        return rules.apply(self.document, op, self.now, mint=self.mint, epoch=1).changed

    def push(
        self, *ids: str, request: str | None = None, repeat: bool = False, **fields: Any
    ) -> Any:
        for name in ("args", "kwargs"):
            if name in fields:
                fields[name] = Raw(fields[name])
        jobs = tuple(ops.NewJob(id=job_id, task="tasks.t", **fields) for job_id in ids)
        return self.apply(ops.Push(request=request or self.request(), jobs=jobs, repeat=repeat))

    def claim(self, claim: str = "c", most: int = 1, *queues: str) -> list[ops.Grant]:
        op = ops.TakeClaim(claim=claim, queues=queues or ("default",), max=most, worker="w")
        return list(self.apply(op).jobs)

    def take(self, claim: str | None = None) -> str:
        """Claim one job and return its token."""
        (grant,) = self.claim(claim or self.request())
        return grant.token

    def complete(self, token: str, result: bytes = b"null") -> ops.ItemOutcome:
        item = ops.Completion(token=token, result=Raw(result))
        outcome: ops.ItemOutcome = self.apply(ops.Complete(items=(item,))).items[0]
        return outcome

    def fail(self, token: str, **fields: Any) -> ops.ItemOutcome:
        error = fields.pop("error", ops.JobError(type="builtins.ValueError", message="no"))
        item = ops.Failure(token=token, error=error, **fields)
        outcome: ops.ItemOutcome = self.apply(ops.Fail(items=(item,))).items[0]
        return outcome

    def release(self, token: str) -> ops.ItemOutcome:
        outcome: ops.ItemOutcome = self.apply(ops.Release(tokens=(token,))).items[0]
        return outcome

    def start(self, token: str) -> None:
        claiming.beat(self.document, [token], [token], self.now)

    def expire(self, *tokens: str) -> int:
        return len(ending.expire(self.document, tokens, self.now))

    def operate(self, kind: type[ops.JobsRequest], job_id: str, expected: Any) -> ops.ItemOutcome:
        op = kind(request=self.request(), ids=(job_id,), expected=expected)
        outcome: ops.ItemOutcome = self.apply(op).items[0]  # type: ignore[arg-type]  # a subclass
        return outcome

    def job(self, job_id: str) -> JobView:
        (view,) = self.document.views([job_id])
        assert view is not None, job_id
        return view

    def state(self, job_id: str) -> str:
        job = self.document.find(job_id)
        return job.state if job else "absent"

    def pass_ms(self, milliseconds: int) -> None:
        self.now += milliseconds
        rules.tick(self.document, self.now, milliseconds)
        rules.tidy(self.document)

    def reload(self) -> bytes:
        """Write the document and read it again, as a broker that takes over would."""
        data = codec.seal(self.document, f"commit-{self.document.seq + 1}", self.now, leading=True)
        self.document = codec.decode(data)
        return data
