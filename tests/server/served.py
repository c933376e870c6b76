"""A process that serves a fake broker: `python -m tests.server.served KIND`."""

from __future__ import annotations

import asyncio
import resource
import sys
import threading

import django

from objq.server.serving import serve
from tests.server.fakes import FakeBroker


class Stubborn(FakeBroker):
    async def stop(self) -> bool:
        print("stopping", flush=True)
        return await asyncio.Event().wait()


class Broken(FakeBroker):
    async def run(self) -> None:
        raise ValueError("broken on purpose")


class Late(FakeBroker):
    """Its time to stop is over, and a thread of it hangs."""

    async def stop(self) -> bool:
        threading.Thread(target=threading.Event().wait).start()
        await super().stop()
        return False


KINDS: dict[str, type[FakeBroker]] = {
    "plain": FakeBroker,
    "limited": FakeBroker,
    "stubborn": Stubborn,
    "broken": Broken,
    "late": Late,
}


def main(kind: str) -> None:
    if kind == "limited":
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    django.setup()
    serve(lambda address: KINDS[kind](), ("127.0.0.1", 0), lambda line: print(line, flush=True))
    print("stopped", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
