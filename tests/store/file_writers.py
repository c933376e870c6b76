"""Sixteen processes that change one document of a `FileStore` while they are killed with -9.

A script of its own, since it forks. Prints one JSON object with what it found, and ends with status
1 if an acknowledged change is missing or the document was ever torn.

Each writer counts under a name of its own, and says on a pipe what it was told is written. Whoever
is killed is replaced by a writer with a new name.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final, NoReturn
from zlib import crc32

from django.conf import settings

settings.configure(STORAGES={})

from django.core.files.storage import FileSystemStorage  # noqa: E402

from objq.store.base import ABSENT, Conflict, Content  # noqa: E402
from objq.store.file import FileStore  # noqa: E402

PROCESSES: Final = 16
KILLS: Final = 60
PADDING: Final = "x" * 20_000  # makes the write long enough to be killed within
RECORD_BYTES: Final = 4


def encode(counts: dict[str, int]) -> bytes:
    body = json.dumps({"counts": counts, "padding": PADDING})
    return f"{crc32(body.encode()):08x}{body}".encode()


def decode(data: bytes) -> dict[str, int]:
    """Return the counts; ValueError if the document is torn."""
    if int(data[:8], 16) != crc32(data[8:]):
        raise ValueError("torn")
    counts: dict[str, int] = json.loads(data[8:])["counts"]
    return counts


def write_forever(store: FileStore, name: str, pipe: int) -> NoReturn:
    while True:
        content = store.read()
        assert isinstance(content, Content)
        counts = decode(content.data)
        count = counts[name] = counts.get(name, 0) + 1
        try:
            store.write(encode(counts), content.tag)
        except Conflict:
            continue
        os.write(pipe, count.to_bytes(RECORD_BYTES, "big"))


class Writer:
    def __init__(self, store: FileStore, name: str) -> None:
        self.name = name
        self.acknowledged = 0
        self.pipe, child_pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                write_forever(store, name, child_pipe)
            finally:
                os._exit(1)
        os.close(child_pipe)

    def listen(self) -> None:
        data = os.read(self.pipe, 65536)
        if not data:
            raise RuntimeError(f"Writer {self.name} ended by itself.")
        self.acknowledged = int.from_bytes(data[-RECORD_BYTES:], "big")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        while data := os.read(self.pipe, 65536):
            self.acknowledged = int.from_bytes(data[-RECORD_BYTES:], "big")
        os.close(self.pipe)


def run(folder: Path, rng: random.Random) -> dict[str, Any]:
    store = FileStore(FileSystemStorage(location=str(folder)), "queue.json")
    store.write(encode({}), ABSENT)
    writers = [Writer(store, str(number)) for number in range(PROCESSES)]
    ended: list[Writer] = []
    try:
        while len(ended) < KILLS:
            ready, _, _ = select.select([writer.pipe for writer in writers], [], [])
            for writer in writers:
                if writer.pipe in ready:
                    writer.listen()
            decode((folder / "queue.json").read_bytes())
            # A write takes about a millisecond: any instant of it may be the last.
            time.sleep(rng.random() * 0.002)
            victim = writers.pop(rng.randrange(PROCESSES))
            victim.kill()
            ended.append(victim)
            writers.append(Writer(store, str(PROCESSES + len(ended))))
    finally:
        for writer in writers:
            writer.kill()
    return result(folder, decode((folder / "queue.json").read_bytes()), ended + writers)


def result(folder: Path, counts: dict[str, int], writers: list[Writer]) -> dict[str, Any]:
    # A writer may have been killed after its write and before it said so.
    wrong = {
        writer.name: (writer.acknowledged, counts.get(writer.name, 0))
        for writer in writers
        if counts.get(writer.name, 0) - writer.acknowledged not in (0, 1)
    }
    files = sorted(path.name for path in folder.iterdir() if path.suffix != ".tmp")
    return {"changes": sum(counts.values()), "kills": KILLS, "wrong": wrong, "files": files}


if __name__ == "__main__":
    found = run(Path(sys.argv[1]), random.Random(int(sys.argv[2])))
    print(json.dumps(found))
    sys.exit(1 if found["wrong"] else 0)
