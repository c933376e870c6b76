"""A run: every target under every engine, for a share of the time or some inputs; a report."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.fuzz import guided, properties
from tests.fuzz.guard import Bound, Guard, Tally, peak_bytes
from tests.fuzz.mutate import mutants

NAMES: Final = ("frame", "reply", "document", "arguments", "token", "socket", "port")
FINDINGS: Final = Path(".cache/fuzz")


def prepare() -> None:
    """Set Django up as the tests do."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import logging

    import django

    django.setup()
    logging.disable(logging.CRITICAL)


@contextlib.contextmanager
def opened(name: str) -> Iterator[Any]:
    """Give the target of that name, with what it needs to live."""
    from tests.fuzz import port, sockets, targets

    if name == "socket":
        made = sockets.Sockets()
        with contextlib.closing(made):
            yield sockets.target(made)
    elif name == "port":
        server = port.Port()
        with contextlib.closing(server):
            yield port.target(server)
    else:
        yield next(one for one in targets.TARGETS if one.name == name)


def run(
    seconds: float, seed: int, names: Sequence[str] = NAMES, inputs: int | None = None
) -> dict[str, Any]:
    """Fuzz for so long, or with so many inputs for each target and engine; return the report.

    `ok`: nothing was found, and no engine was idle.
    """
    before, growth_bytes = peak_bytes(), 0
    share_s = seconds / len(names)
    why_not = guided.missing()
    if why_not is None and inputs is None and share_s / 2 < guided.LEAST_S:
        why_not = "atheris is installed, and a run this short leaves no time for it"
    print(why_not or "atheris runs on what it can follow", flush=True)
    reports: dict[str, Any] = {}
    findings: list[dict[str, Any]] = []
    idle: list[str] = []
    for name in names:
        tally = _fuzz(name, seed, share_s, inputs, with_atheris=why_not is None)
        growth_bytes = max(growth_bytes, peak_bytes() - before)
        reports[name] = {
            "inputs": sum(tally.inputs.values()),
            "by_engine": tally.inputs,
            "outcomes": dict(sorted(tally.outcomes.items())),
            "max_input_bytes": tally.most_bytes,
            "slowest_cpu_s": round(tally.slowest_s, 3),
        }
        print(f"{name}: {reports[name]}", flush=True)
        if tally.finding is not None:
            findings.append(_keep(name, tally))
        else:
            wanted = engines(name, with_atheris=why_not is None)
            idle += [f"{name}: {engine}" for engine in wanted if not tally.inputs.get(engine)]
    if idle:
        print(f"These engines gave no input: {', '.join(idle)}", flush=True)
    kinds = [finding["kind"] for finding in findings]
    return {
        "ok": not findings and not idle,
        "seed": seed,
        "seconds": seconds,
        "inputs": sum(report["inputs"] for report in reports.values()),
        "crashes": kinds.count("crash"),
        "hangs": kinds.count("hang"),
        "over_memory": kinds.count("memory"),
        "broken_promises": kinds.count("promise"),
        "findings": findings,
        "idle": idle,
        "max_input_bytes": max(report["max_input_bytes"] for report in reports.values()),
        "memory_growth_bytes": growth_bytes,
        "atheris": why_not or "ran",
        "targets": reports,
    }


def engines(name: str, *, with_atheris: bool) -> list[str]:
    """Return the engines that a target is run under."""
    atheris = ["atheris"] if with_atheris and name in guided.TARGETS else []
    return [*atheris, "mutations", properties.ENGINE]


def _fuzz(name: str, seed: int, seconds: float, inputs: int | None, *, with_atheris: bool) -> Tally:
    with opened(name) as target:
        guard = Guard(target.feed)
        began = time.monotonic()
        if with_atheris and name in guided.TARGETS:
            trouble = guided.run(target, guard.tally, seed, seconds / 2, inputs)
            if trouble:
                print(trouble, flush=True)
        left_s = max(0.0, began + seconds - time.monotonic())

        def bound() -> Bound:
            if inputs is not None:
                return Bound(most=inputs)
            return Bound(until=time.monotonic() + left_s / 2)

        mutations = bound()
        rng = random.Random(f"{seed}/{name}")
        for data in mutants(rng, target.seeds(), target.most_bytes):
            if guard.failed or not guard.give(data, "mutations"):
                break
            if mutations.is_reached(guard.given("mutations")):
                break
        properties.run(target, guard, seed, bound())
        return guard.tally


def _keep(name: str, tally: Tally) -> dict[str, Any]:
    """Keep what was found in a file, and say how to see it again."""
    finding = tally.finding
    assert finding is not None
    FINDINGS.mkdir(parents=True, exist_ok=True)
    path = FINDINGS / f"{name}-{finding.kind}"
    path.write_bytes(finding.data)
    print(f"{name}: {finding.kind} by {finding.engine}: {finding.detail}")
    print(f"see it again: python -m tests.fuzz --replay {name} {path}", flush=True)
    return {
        "target": name,
        "kind": finding.kind,
        "engine": finding.engine,
        "detail": finding.detail.strip().rpartition("\n")[2][:300],
        "file": str(path),
    }


def replay(name: str, path: Path) -> str | None:
    """Feed one input; return what was found, or None."""
    with opened(name) as target:
        guard = Guard(target.feed)
        guard.give(path.read_bytes(), "replay")
        finding = guard.tally.finding
        return None if finding is None else f"{finding.kind}: {finding.detail}"
