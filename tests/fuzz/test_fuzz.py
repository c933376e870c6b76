"""A short run finds nothing, and faults that are planted are found: so the long one can fail."""

from __future__ import annotations

import gc
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core import signing
from msgspec import Raw

from objq import framing, incoming
from objq.core import jsontext
from objq.server import consumer, listener
from tests.fuzz import guided
from tests.fuzz.guard import Finding, Guard, Hang
from tests.fuzz.mutate import mutants
from tests.fuzz.run import NAMES, engines, opened, run

ROOT = Path(__file__).parents[2]
SHORT_RUN_INPUTS = 100
TIMEOUT_S = 600.0
INPUTS = 4_000
"""Among so many a planted fault has to be found."""

Plant = Callable[[pytest.MonkeyPatch], None]


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "PYTHONPATH": f"{ROOT}:{ROOT / 'dashboard'}"},
        timeout=TIMEOUT_S,
    )


def test_a_short_run_finds_nothing() -> None:
    done = fuzz("--inputs", str(SHORT_RUN_INPUTS))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["ok"] and report["crashes"] == report["hangs"] == 0
    assert set(report["targets"]) == set(NAMES)
    is_there = guided.missing() is None
    assert report["atheris"] == "ran" if is_there else "not installed" in report["atheris"]
    for name, target in report["targets"].items():
        given = target["by_engine"]
        assert set(given) == set(engines(name, with_atheris=is_there)), f"{name}: {target}"
        for engine in ("mutations", "hypothesis"):
            assert given[engine] == SHORT_RUN_INPUTS, f"{name}: {target}"


def test_an_engine_that_gives_nothing_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.properties.run", lambda *_: None)
    report = run(60.0, 1, ["token"], inputs=10)
    assert report["ok"] is False
    assert "token: hypothesis" in report["idle"]


def findings(
    name: str, *, cpu_limit_s: float = 3.0, memory_limit_bytes: int = 1 << 30
) -> Finding | None:
    """Return what so many mutations find in a target."""
    with opened(name) as target:
        guard = Guard(target.feed, cpu_limit_s=cpu_limit_s, memory_limit_bytes=memory_limit_bytes)
        inputs = mutants(random.Random(1), target.seeds(), target.most_bytes)
        for _ in range(INPUTS):
            if not guard.give(next(inputs), "mutations"):
                break
        return guard.tally.finding


# --- planted faults ------------------------------------------------------------------------------


def too_much_nesting_is_not_expected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(incoming, "_MALFORMED", (ValueError,))


def a_loop_does_not_advance(patch: pytest.MonkeyPatch) -> None:
    def skip(text: str, position: int) -> int:
        while text[position : position + 1] == " ":
            pass
        return position

    patch.setattr(framing, "_skip_space", skip)


def bad_items_are_refused_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(incoming, "MAX_REFUSED_ITEMS", 1 << 60)
    patch.setattr(incoming, "_decode_items", msgspec.json.Decoder(list[Raw]).decode)


def bad_messages_are_left_out(patch: pytest.MonkeyPatch) -> None:
    def some(data: bytes) -> list[Any]:
        return [message for message in framing.split(data) if b"dance" not in bytes(message)]

    patch.setattr("objq.incoming.split", some)


def arguments_are_encoded_anew(patch: pytest.MonkeyPatch) -> None:
    def own(struct: Any, field: str, raw: Raw) -> None:
        text = json.dumps(json.loads(bytes(raw))).encode()
        msgspec.structs.force_setattr(struct, field, Raw(text))

    patch.setattr(incoming, "_own", own)
    patch.setattr(incoming, "SMALL_FRAME_BYTES", 0)


def numbers_may_be_none(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jsontext, "_strict", json.JSONDecoder())


def keys_may_stand_twice(patch: pytest.MonkeyPatch) -> None:
    lenient = json.JSONDecoder(
        parse_constant=jsontext._refuse_constant, parse_float=jsontext._refuse_overflow
    )
    patch.setattr(jsontext, "_strict", lenient)


def nesting_has_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jsontext, "_too_deep", lambda text: False)


def half_characters_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jsontext, "_LONE_SURROGATE_POSSIBLE", re.compile(b"$^"))


def what_is_not_compressed_well_is_not_expected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("zstandard.ZstdError", ZeroDivisionError)


def signatures_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    payload = {"role": "manage", "document": "d", "broker": "b"}
    patch.setattr(signing.Signer, "unsign_object", lambda self, text: payload)


def refusals_are_not_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer.Consumer, "_refuse", lambda self, incoming, error: None)


def answers_have_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer, "MAX_OUT_BYTES", 1 << 60)


def a_refused_handshake_is_ended_like_a_socket(patch: pytest.MonkeyPatch) -> None:
    patch.delattr(listener.Socket, "onClose")
    patch.delattr(listener.Socket, "server")


FAULTS: dict[Plant, tuple[str, str]] = {
    too_much_nesting_is_not_expected: ("frame", "crash"),
    a_loop_does_not_advance: ("frame", "hang"),
    bad_items_are_refused_without_end: ("frame", "promise"),
    bad_messages_are_left_out: ("frame", "promise"),
    arguments_are_encoded_anew: ("frame", "promise"),
    numbers_may_be_none: ("arguments", "crash"),
    keys_may_stand_twice: ("arguments", "promise"),
    nesting_has_no_bound: ("arguments", "promise"),
    half_characters_are_taken: ("arguments", "crash"),
    what_is_not_compressed_well_is_not_expected: ("document", "crash"),
    signatures_are_not_looked_at: ("token", "promise"),
    refusals_are_not_sent: ("socket", "promise"),
    answers_have_no_bound: ("socket", "promise"),
    a_refused_handshake_is_ended_like_a_socket: ("port", "promise"),
}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_fault_that_is_planted_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    name, kind = FAULTS[plant]
    plant(monkeypatch)
    found = findings(name, cpu_limit_s=0.5 if kind == "hang" else 3.0)
    assert found is not None
    assert found.kind == kind, found.detail


def test_a_hang_is_found_though_the_first_alarm_goes_unheard() -> None:
    limit_s = 0.2
    unheard: list[str] = []

    def use_time_in_a_callback(phase: str, info: object) -> None:
        try:
            spend(10 * limit_s)
        except Hang:
            unheard.append(phase)
            raise

    def feed(data: bytes) -> list[str]:
        gc.collect()
        gc.callbacks.remove(use_time_in_a_callback)
        spend(10 * limit_s)
        return []

    gc.callbacks.append(use_time_in_a_callback)
    guard = Guard(feed, cpu_limit_s=limit_s, memory_limit_bytes=1 << 30)
    assert not guard.give(b"", "mutations")
    assert guard.tally.finding is not None
    assert guard.tally.finding.kind == "hang"
    assert unheard


def spend(seconds: float) -> None:
    """Use CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_memory_without_bound_is_found_and_the_run_fails(tmp_path: Path) -> None:
    code = (
        "import sys, tests.fuzz.guard as guard, objq.core.codec as codec\n"
        "from tests.fuzz import __main__ as command\n"
        "codec.SLICE_BYTES = 1 << 40\n"
        "guard.MEMORY_LIMIT_BYTES = 128 << 20\n"
        "sys.argv[1:] = ['--inputs', '1000', '--only', 'document']\n"
        "sys.exit(command.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": f"{ROOT}:{ROOT / 'dashboard'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["ok"], report["over_memory"]) == (False, 1)
    (file,) = (tmp_path / ".cache/fuzz").iterdir()
    assert file.name == "document-memory"


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_alone_find_nothing(name: str) -> None:
    with opened(name) as target:
        guard = Guard(target.feed, memory_limit_bytes=1 << 30)
        for data in target.seeds():
            assert guard.give(data, "examples"), guard.tally.finding
