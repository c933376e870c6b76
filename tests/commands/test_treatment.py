"""`objq_doctor --adopt` goes on from a restored document; `--upgrade` has nothing to do yet."""

from __future__ import annotations

import builtins
from typing import Any, NoReturn

import pytest
from django.core.management import CommandError

import objq
from objq.core import ops
from objq.core.codec import decode, decode_head
from objq.doctor.treatment import adopt_document
from objq.errors import Conflict, ForeignDocument, Unknown
from objq.store.base import Ambiguous, Expect, Store, Tag, Unavailable
from tests.commands.conftest import Queue, recorded, run
from tests.core.world import World
from tests.e2e.stack import Stack, free_port


def a_world() -> World:
    world = World()
    world.push("a", "b")
    world.document.broker = recorded()
    return world


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> list[str]:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return answer

    monkeypatch.setattr(builtins, "input", ask)
    return asked


# --- adopting ------------------------------------------------------------------------------------


def test_adopting_gives_a_new_id_the_next_epoch_and_no_broker_and_keeps_the_jobs(
    queue: Queue,
) -> None:
    before = queue.put_world(a_world()).header()
    said = run("objq_doctor", "--adopt", "--yes")
    after = decode(queue.data)
    assert after.id not in ("", before.document)
    assert (after.epoch, after.seq, after.broker) == (before.epoch + 1, before.seq + 1, None)
    assert set(after.jobs) == {"a", "b"}
    assert f"Adopted as document {after.id}, epoch {after.epoch}." in said.out
    assert "will run again" in said.out


def test_it_asks_first_and_changes_nothing_without_a_yes(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.put_world(a_world())
    data = queue.data
    for answer in ("no", "", "y", "YES!"):
        asked = answering(monkeypatch, answer)
        with pytest.raises(CommandError, match="Nothing was changed"):
            run("objq_doctor", "--adopt")
        assert len(asked) == 1
    assert queue.data == data
    answering(monkeypatch, "yes")
    run("objq_doctor", "--adopt")
    assert queue.data != data


@pytest.mark.parametrize("error", [EOFError, RuntimeError("input(): lost sys.stdin")])
def test_where_nobody_can_be_asked_it_says_how_to_go_on(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def ask(prompt: str) -> NoReturn:
        raise error

    monkeypatch.setattr(builtins, "input", ask)
    queue.put_world(a_world())
    data = queue.data
    with pytest.raises(CommandError, match="Give --yes"):
        run("objq_doctor", "--adopt")
    assert queue.data == data


@pytest.mark.parametrize("data", [b"?", b'{"objq": 2}'])
def test_what_is_not_understood_is_not_adopted(queue: Queue, data: bytes) -> None:
    queue.put(data)
    with pytest.raises(CommandError):
        run("objq_doctor", "--adopt", "--yes")
    assert queue.data == data


def test_where_there_is_no_document_none_is_made(queue: Queue) -> None:
    with pytest.raises(CommandError, match="runbroker"):
        run("objq_doctor", "--adopt", "--yes")
    assert queue.store.read() is None


def test_only_the_document_that_was_shown_is_adopted(queue: Queue) -> None:
    shown = queue.put_world(a_world())
    run("objq_doctor", "--adopt", "--yes")
    data = queue.data
    with pytest.raises(ForeignDocument, match="somebody else"):
        adopt_document(queue.store, shown)
    assert queue.data == data


class OtherFirst:
    """A store in which somebody else writes between our read and our write, once."""

    def __init__(self, store: Store, other: bytes) -> None:
        self.store = store
        self.other: bytes | None = other
        self.name, self.pace_s = store.name, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def write(self, data: bytes, expect: Expect) -> Tag:
        if self.other is not None:
            other, self.other = self.other, None
            self.store.write(other, expect)
        return self.store.write(data, expect)


def test_a_push_that_comes_between_is_kept(queue: Queue) -> None:
    world = a_world()
    queue.put_world(world)
    shown = decode(queue.data)
    world.push("c")
    store: Any = OtherFirst(queue.store, world.reload())
    adopted = adopt_document(store, shown)
    assert set(adopted.jobs) == {"a", "b", "c"}
    assert decode_head(queue.data) == adopted.header()


class LostReply(OtherFirst):
    """A store whose first write is applied, and its reply lost."""

    def write(self, data: bytes, expect: Expect) -> Tag:
        tag = self.store.write(data, expect)
        if self.other is not None:
            self.other = None
            raise Ambiguous("lost")
        return tag


def test_a_write_whose_reply_is_lost_is_recognised_as_ones_own(queue: Queue) -> None:
    before = queue.put_world(a_world()).header()
    store: Any = LostReply(queue.store, b"")
    adopted = adopt_document(store, decode(queue.data))
    assert decode_head(queue.data) == adopted.header()
    assert adopted.epoch == before.epoch + 1


class Dead(OtherFirst):
    def write(self, data: bytes, expect: Expect) -> Tag:
        raise Unavailable("gone")


def test_a_store_that_goes_away_leaves_the_outcome_unknown(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq.doctor.treatment.TIMEOUT_S", 0.2)
    shown = queue.put_world(a_world())
    store: Any = Dead(queue.store, b"")
    with pytest.raises(Unknown, match="look at the document's id"):
        adopt_document(store, shown)


def test_a_document_that_is_led_without_trouble_is_left_alone(queue: Queue, live: Stack) -> None:
    with pytest.raises(CommandError, match="stop every broker first"):
        run("objq_doctor", "--adopt", "--yes")
    with pytest.raises(Conflict):
        adopt_document(queue.store, decode(queue.data))


def test_after_a_restore_everything_goes_on_from_the_adopted_document(
    queue: Queue, live: Stack
) -> None:
    objq.connect().push([ops.NewJob(id="kept", task="t")])
    backup = queue.data
    objq.connect().push([ops.NewJob(id="lost", task="t")])
    live.kill("broker")
    queue.put(backup)
    run("objq_doctor", "--adopt", "--yes")
    live.leader("next", free_port())
    document = decode(queue.data)
    assert set(document.jobs) == {"kept"}
    # This process has seen the version that was lost: until it is restarted, it stays away.
    with pytest.raises(objq.DocumentError):
        objq.connect().push([ops.NewJob(id="later", task="t")], timeout_s=3)
    assert set(decode(queue.data).jobs) == {"kept"}


# --- upgrading -----------------------------------------------------------------------------------


def test_there_is_nothing_to_upgrade(queue: Queue) -> None:
    queue.put_world(a_world())
    data = queue.data
    assert "there is nothing to do" in run("objq_doctor", "--upgrade").out
    assert queue.data == data
    queue.put(b'{"objq": 2}')
    with pytest.raises(CommandError, match="schema 2"):
        run("objq_doctor", "--upgrade")


def test_only_one_treatment_at_a_time() -> None:
    with pytest.raises(CommandError, match="not allowed with"):
        run("objq_doctor", "--adopt", "--upgrade")
