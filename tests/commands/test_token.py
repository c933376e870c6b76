"""`objq_token` makes tokens that a broker honours, and teaches whoever asks for another."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from objq.core import ops
from objq.durations import in_words, parse_duration_s
from objq.errors import Unauthorized
from objq.issuing import allowed_to
from objq.tokens import ROLES, read_token, role_allows
from tests.commands.conftest import Queue, recorded, run
from tests.core.world import World


@pytest.fixture(autouse=True)
def document(queue: Queue) -> None:
    world = World()
    world.document.broker = recorded()
    queue.put_world(world)


@pytest.mark.parametrize("role", ROLES)
def test_the_token_names_role_and_document_and_stands_alone_on_stdout(role: str) -> None:
    said = run("objq_token", "--role", role, "--ttl", "12h")
    token = said.out.strip()
    assert said.out == token + "\n"
    assert read_token(token, "doc", "any broker") == role
    with pytest.raises(Unauthorized):
        read_token(token, "another document", "any broker")
    assert "ends in 12 h" in said.err
    assert "ws://127.0.0.1:9/objq/v1/" in said.err


def test_it_says_nothing_else_when_asked_to_be_quiet() -> None:
    assert run("objq_token", "--role", "read", "--ttl", "60", "-v", "0").err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Give the token a role"),
        (["--role", "admin", "--ttl", "1h"], "There is no role 'admin'"),
        (["--role", "push"], "Give the token a time to live"),
        (["--role", "push", "--ttl", "soon"], "45m, 12h or 30d"),
        (["--role", "push", "--ttl", "0"], "--ttl is from 1 s"),
        (["--role", "push", "--ttl", "4000d"], "3,650d"),
    ],
)
def test_what_is_missing_or_wrong_is_explained(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError) as error:
        run("objq_token", *arguments)
    assert said in str(error.value)
    if "role" in said:
        assert all(f"  {role} " in str(error.value) for role in ROLES)


def test_what_is_said_of_a_role_is_what_it_allows() -> None:
    for role in ("push", "work", "read"):
        named = {*allowed_to(role).replace(",", " ").split()} - {"and"}
        assert {name for name in ops.REQUESTS if role_allows(role, name)} == {"hello", *named}


def test_without_a_document_there_is_nothing_to_make_a_token_for(settings: object) -> None:
    settings.TASKS["default"]["OPTIONS"]["NAME"] = "other.json"  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match="runbroker"):
        run("objq_token", "--role", "push", "--ttl", "1h")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7_200), (" 30d ", 2_592_000)],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1w", "-5", "1h30m"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write 90"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.25, "0.25 s"), (59, "59 s"), (90, "1.5 min"), (7_200, "2 h"), (2_592_000, "30 d")],
)
def test_times_are_written(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
