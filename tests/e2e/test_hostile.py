"""A real broker, and a real worker, against whoever does not mean well."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from django.core import signing
from django.test import override_settings
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from objq.framing import MAX_FRAME_BYTES
from objq.server import listener
from objq.tokens import ROLES, SALT, Role, make_token
from tests.e2e.stack import ROOT, Stack, a_stack, free_port
from tests.fuzz.port import HANDSHAKE, frame
from tests.servers import skip_or_fail

pytestmark = pytest.mark.xdist_group("hostile")

PATIENCE_S = 60.0
DROP_PATIENCE_S = 180.0
"""For a peer that reads nothing: the broker waits for a ping and for its answer."""

CONNECTIONS = 2_000
HELLO = {"id": 0, "op": "hello", "client": "hostile"}
BEAT = {"id": 1, "op": "heartbeat", "tokens": []}


@dataclass
class Site:
    """A stack whose broker leads, as whoever knows its secret sees it."""

    stack: Stack
    port: int

    def document(self) -> Any:
        return json.loads((self.stack.folder / "queue" / "queue.json").read_bytes())

    def token(self, role: Role = "manage", ttl_s: float = 600.0) -> str:
        return make_token(role, self.document()["document"], ttl_s=ttl_s)

    @contextlib.asynccontextmanager
    async def dial(self, token: str, **more: Any) -> AsyncIterator[ClientConnection]:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"ws://127.0.0.1:{self.port}/objq/v1/"
        options = {"compression": None, "proxy": None, "ping_interval": None, **more}
        async with connect(url, additional_headers=headers, **options) as client:
            yield client

    @contextlib.asynccontextmanager
    async def session(self, role: Role = "manage", **more: Any) -> AsyncIterator[ClientConnection]:
        async with self.dial(self.token(role), **more) as client:
            assert "ok" in await ask(client, HELLO)
            yield client

    def push(self, *jobs: dict[str, Any], request: int = 1) -> dict[str, Any]:
        prefix = f"{self.document()['seq']}-{jobs[0]['id']}"
        return {"id": 7, "op": "push", "request": f"{prefix}:{request}", "jobs": list(jobs)}

    def forget_peak(self) -> int:
        """Let the peak of the broker's memory begin anew; return what there is of it now."""
        pid = self.stack.processes["broker"].pid
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        return self.peak_bytes()

    def peak_bytes(self) -> int:
        pid = self.stack.processes["broker"].pid
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def sockets(self) -> int:
        """Return how many websockets the broker counts."""
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE_S) as response:
            text = response.read().decode()
        return int(float(text.partition("\nobjq_sockets ")[2].split()[0]))


async def ask(client: ClientConnection, message: Any) -> Any:
    await client.send(message if isinstance(message, str) else json.dumps(message))
    return json.loads(await asyncio.wait_for(client.recv(), PATIENCE_S))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with a_site(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@contextlib.contextmanager
def a_site(folder: Path, **env: str) -> Iterator[Site]:
    folder.mkdir(exist_ok=True)
    storage = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(folder / "queue")},
    }
    with a_stack(folder, storage, {}, **env) as stack:
        port = free_port()
        stack.leader("broker", port)  # of which the document tells a little earlier than it
        yield Site(stack, port)


# --- tokens --------------------------------------------------------------------------------------


def forged(site: Site) -> str:
    token = site.token("push")
    head, _, signature = token.rpartition(":")
    return f"{head}:{signature[::-1]}"


def of_more_power(site: Site) -> str:
    """Take the payload of a token for everything, and the signature of one that may push."""
    return site.token().rpartition(":")[0] + ":" + site.token("push").rpartition(":")[2]


def of_another_site(site: Site) -> str:
    with override_settings(SECRET_KEY="another"):
        return site.token()


def of_another_purpose(site: Site) -> str:
    payload = {"role": "manage", "document": site.document()["document"], "expires_s": 2**40}
    return signing.Signer(salt=f"{SALT}x").sign_object(payload)


def expired(site: Site) -> str:
    return site.token(ttl_s=-1)


def of_another_document(site: Site) -> str:
    return make_token("manage", "another", ttl_s=600)


def of_another_broker(site: Site) -> str:
    return make_token("manage", site.document()["document"], "another")


@pytest.mark.parametrize(
    ("make", "code", "close"),
    [
        (forged, "unauthorized", 4401),
        (of_more_power, "unauthorized", 4401),
        (of_another_site, "unauthorized", 4401),
        (of_another_purpose, "unauthorized", 4401),
        (expired, "unauthorized", 4401),
        (of_another_document, "unauthorized", 4401),
        (of_another_broker, "not_broker", 4410),
    ],
)
async def test_a_token_that_is_not_for_this_is_refused(
    site: Site, make: Any, code: str, close: int
) -> None:
    async with site.dial(make(site)) as client:
        assert json.loads(await client.recv())["error"]["code"] == code
        with contextlib.suppress(ConnectionClosed):
            await client.send(json.dumps([HELLO, site.push({"id": "never", "task": "t"})]))
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == close
    assert "never" not in [job["id"] for job in site.document()["jobs"]]


ASKED: dict[str, dict[str, Any]] = {
    "push": {"request": "1-role:1", "jobs": [{"id": "by-role", "task": "t"}]},
    "claim": {"claim": "1-role:2"},
    "complete": {"items": [{"token": "t"}]},
    "stats": {},
    "delete": {"request": "1-role:3", "ids": ["j"], "expected": "dead"},
    "pause": {"request": "1-role:4", "queue": "mail"},
}
MAY: dict[Role, set[str]] = {
    "push": {"push"},
    "work": {"push", "claim", "complete"},
    "read": {"stats"},
    "manage": set(ASKED),
}


@pytest.mark.parametrize("role", ROLES)
async def test_a_token_of_another_role_does_what_that_may_and_no_more(
    site: Site, role: Role
) -> None:
    async with site.session(role) as client:
        for op, fields in ASKED.items():
            reply = await ask(client, {"id": 5, "op": op, **fields})
            is_forbidden = "error" in reply and reply["error"]["code"] == "forbidden"
            assert is_forbidden == (op not in MAY[role]), (op, reply)
        if role == "manage":
            await ask(client, {"id": 6, "op": "resume", "request": "1-role:5", "queue": "mail"})


async def test_a_frame_that_is_replayed_with_its_token_has_no_second_effect(site: Site) -> None:
    token = site.token("work")
    pushed = site.push({"id": "replayed", "task": "t", "queue": "replay"})
    claimed = {"id": 2, "op": "claim", "queues": ["replay"], "claim": f"{pushed['request']}1"}
    async with site.dial(token) as client:
        await ask(client, HELLO)
        first = await ask(client, pushed)
        (grant,) = (await ask(client, claimed))["ok"]["jobs"]
        done = {"id": 3, "op": "complete", "items": [{"token": grant["token"]}]}
        assert (await ask(client, done))["ok"]["items"][0]["state"] == "succeeded"
    async with site.dial(token) as thief:
        await ask(thief, HELLO)
        again = await ask(thief, pushed)
        assert [item["id"] for item in again["ok"]["items"]] == [
            item["id"] for item in first["ok"]["items"]
        ]
        assert (await ask(thief, claimed))["ok"].get("jobs", []) == []
        assert (await ask(thief, done))["ok"]["items"][0]["state"] == "succeeded"
        failed = {
            "id": 4,
            "op": "fail",
            "items": [{"token": grant["token"], "error": {"type": "E"}}],
        }
        assert (await ask(thief, failed))["ok"]["items"][0]["error"]["code"] == "claim_lost"
    document = site.document()
    assert [job["id"] for job in document["finished"]].count("replayed") == 1
    assert document["totals"]["replay"]["pushed"] == document["totals"]["replay"]["succeeded"] == 1


async def test_a_broker_s_token_is_worth_nothing_with_its_successor(tmp_path: Path) -> None:
    with a_site(tmp_path) as own:
        document = own.document()
        token = make_token("manage", document["document"], document["broker"]["id"])
        async with own.dial(token) as client:
            assert "ok" in await ask(client, HELLO)
        own.stack.terminate("broker")
        own.stack.broker("broker", own.port)
        old = document["broker"]["id"]
        own.stack.until(lambda: (own.document()["broker"] or {"id": old})["id"] != old)
        async with own.dial(token) as client:
            assert json.loads(await client.recv())["error"]["code"] == "not_broker"


# --- frames --------------------------------------------------------------------------------------


async def test_a_frame_at_the_limit_is_served_and_beyond_it_refused(site: Site) -> None:
    async with site.session() as client:
        beat = json.dumps(BEAT)
        assert "ok" in await ask(client, beat.ljust(MAX_FRAME_BYTES))
        refused = await ask(client, beat.ljust(MAX_FRAME_BYTES + 1))
        assert (refused["id"], refused["error"]["code"]) == (None, "too_large")
        refused = await ask(client, beat.ljust(listener.MAX_MESSAGE_BYTES))
        assert refused["error"]["code"] == "too_large"
        assert "ok" in await ask(client, BEAT)
        with contextlib.suppress(ConnectionClosed):
            await client.send(beat.ljust(listener.MAX_MESSAGE_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


HOSTILE = {
    "NaN": "[NaN]",
    "infinite": "[Infinity]",
    "beyond a double": "[1e999]",
    "an integer of five thousand digits": f"[{'9' * 5000}]",
    "half a surrogate pair": '["\\ud800"]',
    "a surrogate in a key": '[{"\\udfff": 1}]',
    "a key twice": '[{"a": 1, "a": 2}]',
    "a key twice, spelt differently": '[{"a": 1, "\\u0061": 2}]',
    "a hundred and one levels": "[" * 101 + "]" * 101,
    "ten thousand levels": "[" * 10_000 + "]" * 10_000,
    "a trailing comma": "[1,]",
    "a comment": "[1 /* one */]",
    "no array": '{"0": 1}',
}


@pytest.mark.parametrize("args", HOSTILE.values(), ids=list(HOSTILE))
async def test_arguments_that_could_be_understood_differently_are_refused(
    site: Site, args: str
) -> None:
    async with site.session("push") as client:
        message = site.push({"id": "bad", "task": "t", "args": "@"}, {"id": "bad-2", "task": "t"})
        reply = await ask(client, json.dumps(message).replace('"@"', args))
        if "ok" in reply:  # the good neighbour is there
            reply = reply["ok"]["items"][0]
        assert reply["error"]["code"] == "invalid"
        assert "ok" in await ask(client, {"id": 9, "op": "get", "ids": ["bad"]})
    assert "bad" not in [job["id"] for job in site.document()["jobs"]]


# --- connections ---------------------------------------------------------------------------------


async def test_one_that_asks_for_much_and_reads_nothing_is_dropped(site: Site) -> None:
    async with site.session() as other:
        large = {"id": "large", "task": "t", "queue": "large", "args": ["x" * 250_000]}
        assert "ok" in await ask(other, site.push(large))
        before = site.forget_peak()
        get = json.dumps([{"id": n, "op": "get", "ids": ["large"] * 16} for n in range(200)])
        async with site.session(max_queue=1, max_size=None, close_timeout=1) as deaf:
            both = await asyncio.to_thread(site.sockets)
            deaf.transport.pause_reading()
            asking = asyncio.create_task(ask_without_end(deaf, get))
            async with asyncio.timeout(DROP_PATIENCE_S):
                while await asyncio.to_thread(site.sockets) == both:
                    assert "ok" in await ask(other, BEAT)
            asking.cancel()
            deaf.transport.resume_reading()
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(ConnectionClosed) as closed:
                    await read_without_end(deaf)
        assert closed.value.rcvd is None  # it was not asked to go
        assert "which does not read" in (site.stack.folder / "broker.log").read_text()
        assert "ok" in await ask(other, BEAT)
        # 200 answers of 4 MB each were asked for in every frame.
        assert site.peak_bytes() - before < 200 * 1024 * 1024


async def read_without_end(client: ClientConnection) -> None:
    while True:
        await client.recv()


async def ask_without_end(client: ClientConnection, message: str) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await client.send(message)


async def test_two_thousand_are_served_while_others_idle_and_drip(
    site: Site, request: pytest.FixtureRequest
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + 1000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        skip_or_fail(f"this machine allows {hard} open files and {wanted} are needed")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    token = site.token("work")
    gate = asyncio.Semaphore(50)
    before = site.forget_peak()

    async def opened(first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            writer.write(first)
            if first.endswith(b"\r\n\r\n"):
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
            return reader, writer

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: Any) -> None:
        async with gate:
            writer.write(frame(json.dumps(what).encode()))
            # Alone or in an array; the rest of an answer is read with the next.
            granted = b'{"id":%d,"ok":' % what["id"]
            await asyncio.wait_for(reader.readuntil(granted), PATIENCE_S)

    handshake = HANDSHAKE.format(token=token).encode()
    silent = await asyncio.gather(*(opened(b"") for _ in range(100)))
    dripping = await asyncio.gather(*(opened(b"GET /objq/v1/ HTTP/1.1\r\n") for _ in range(100)))
    everybody = []
    try:
        everybody = await asyncio.gather(*(opened(handshake) for _ in range(CONNECTIONS)))
        for _, writer in everybody[:100]:  # a frame that says it is long, and never ends
            writer.write(frame(b"{", says=3_000_000))
        rest = everybody[100:]
        await asyncio.gather(*(served(*one, HELLO) for one in rest))
        await asyncio.gather(*(served(*one, BEAT) for one in rest))
        assert site.peak_bytes() - before < 400 * 1024 * 1024
        # Who has not said what it wants within the time for that is dropped, drip or not.
        for _, writer in dripping:
            writer.write(b"X-A: b\r\n")
        for reader, _ in (*silent, *dripping):
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        await asyncio.gather(*(served(*one, {**BEAT, "id": 2}) for one in rest))
    finally:
        for _, writer in (*silent, *dripping, *everybody):
            writer.transport.abort()
    async with site.session() as client:
        assert "ok" in await ask(client, BEAT)


# --- what a worker can be made to run ------------------------------------------------------------

MINE = "import pathlib\npathlib.Path({mark!r}).touch()\nimport objq\n\n@objq.task\ndef run(): ...\n"


async def test_a_push_token_makes_a_worker_run_tasks_and_nothing_else(tmp_path: Path) -> None:
    mark = tmp_path / "imported"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "landmine.py").write_text(MINE.format(mark=str(mark)))
    paths = [
        *("os.system", "os.abort", "sys.exit", "builtins.eval", "subprocess.run", "posix._exit"),
        *("landmine.run", "landmine", "antigravity.fly", "this.s", "idlelib.__main__.idlelib"),
        *("tests.e2e.tasks.os.system", "tests.e2e.tasks.record.func", "tests.e2e.tasks.Path"),
        *("django.core.management.call_command", "objq.stopping.exit_at_once", "..", "a..b"),
        *("tests/../elsewhere/landmine.run", "tests.e2e.tasks.__builtins__.eval", "\u202e.x"),
    ]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "dashboard", elsewhere)))
    ledger = tmp_path / "ledger"
    with a_site(tmp_path / "site", OBJQ_TEST_LEDGER=str(ledger), PYTHONPATH=path) as own:
        own.stack.worker("worker")
        process = own.stack.processes["worker"]
        async with own.session("push") as client:
            jobs = [
                {"id": f"bad-{n}", "task": path, "args": [f"touch {mark}"], "max_attempts": 1}
                for n, path in enumerate(paths)
            ]
            reply = await ask(client, own.push(*jobs))
            assert all("error" not in item for item in reply["ok"]["items"])
            good = {"id": "good", "task": "tests.e2e.tasks.record", "args": [7]}
            assert "ok" in await ask(client, own.push(good))
            own.stack.until(lambda: len(own.document()["dead"]) == len(paths))
            own.stack.until(lambda: own.document()["finished"] != [])
        assert process.poll() is None
        errors = {job["task"]: job["history"][0]["error"] for job in own.document()["dead"]}
        assert errors.keys() == set(paths)
        types = {error["type"] for error in errors.values()}
        names = ("ForeignModule", "NotATask", "TaskMissing")
        assert types <= {f"objq.finding.{name}" for name in names}, errors
        assert errors["landmine.run"]["type"] == "objq.finding.ForeignModule"
        assert ledger.read_text().split() == ["7"]
    assert not mark.exists()
