"""A page that is looked on: one websocket, which is sent the page, and then what changes of it.

Messages to the page: `{"snapshot": page}`, then `{"delta": patch}` (see `patches`; `{}` when long
nothing has changed, by which the page knows that it is not cut off), `{"trouble": true}` when the
page could not be built (what is shown is old, and it is tried again), and before the socket is
closed `{"closing": why, "reason": …}`:

=========  ====  ==============================================================================
`denied`   4403  signed out, or not permitted (any more)
`unknown`  4404  there is no such page, backend, language or time zone, or no pass (`signedin`)
`full`     4429  more sockets than MAX_SOCKETS, or of this session than MAX_OF_ONE: poll instead
`failed`   4500  a fault of the site's, which its log tells: come back later
=========  ====  ==============================================================================

The page answers each message but the last with `{"got": true}`. More than MAX_UNREAD are not sent
without: whatever server is in between, nothing piles up for a page that does not read, and when it
does it gets the newest.

Sign-in and permission are read from the database again and again, in threads of their own, so that
a store that hangs delays no refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import Http404

from objq_dashboard.live import subscription
from objq_dashboard.live.closing import MAX_REASON, Closing
from objq_dashboard.live.hub import hub_of
from objq_dashboard.live.signedin import refusal
from objq_dashboard.live.threads import in_thread

if TYPE_CHECKING:
    from objq_dashboard.page import Page

logger = logging.getLogger("objq_dashboard")

MAX_SOCKETS: Final = 100
"""In this process. Each costs a page built every second; who comes later polls. As many again may
be arriving, of whom it is not known yet whether they may: of more, nothing is looked up."""

MAX_OF_ONE: Final = 25
"""Of one session, so that nobody takes all the places."""

MAX_UNREAD: Final = 2
UNREAD_FOR_S: Final = 60.0
"""After how long a page that takes no notice of what it is sent gives up its place."""

CHECK_EVERY_S: Final = 4.0
CHECK_TIMEOUT_S: Final = 5.0
"""So nobody looks on for ten seconds after it was forbidden, also if the database hangs: then the
socket is closed."""

QUIET_S: Final = 10.0
"""After how long without a change an empty delta is sent."""

FIRST_TROUBLE_S: Final = 1.0
MAX_TROUBLE_S: Final = 10.0
"""After how long a page that could not be built is tried again: each time twice as long."""

BUILDERS: Final = ThreadPoolExecutor(4, thread_name_prefix="objq dashboard page")
CHECKERS: Final = ThreadPoolExecutor(2, thread_name_prefix="objq dashboard check")

MAX_MESSAGE: Final = 100
"""Characters of what a page may send: it has little to say."""

PROTOCOL: Final = "objq"
"""What a page offers, beside its pass: headers are not logged as addresses are."""

EMPTY: Final = subscription.encode({"delta": {}})
TROUBLE: Final = subscription.encode({"trouble": True})


class Gone(Exception):
    """The server could not send: the browser has left."""


class Live(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    channel_layer_alias = ""  # it needs none, and should not wait for a site's Redis
    _arriving: Final[set[Live]] = set()
    _open: Final[set[Live]] = set()

    def __init__(self) -> None:
        super().__init__()
        self._task: asyncio.Task[None] | None = None
        self._sent: Page | None = None
        self._unread = 0
        self._readable = asyncio.Event()
        self._readable.set()

    # --- the socket ------------------------------------------------------------------------------

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._arriving.discard(self)
            if self._task is not None:
                self._task.cancel()

    async def dispatch(self, message: dict[str, Any]) -> None:
        # The base class closes old database connections in a thread first; here is none to close.
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        # Accepted first: a browser tells a page nothing about a handshake that was refused.
        await self.accept(PROTOCOL if PROTOCOL in self.scope["subprotocols"] else None)
        if len(self._arriving) + len(self._open) >= 2 * MAX_SOCKETS:
            await self._close(Closing("full"))
            return
        self._arriving.add(self)
        self._task = asyncio.create_task(self._serve(), name="objq dashboard socket")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data is None or len(text_data) > MAX_MESSAGE:
            await self._close(Closing("unknown", "A page sends nothing like this."))
            return
        self._unread = max(0, self._unread - 1)
        self._readable.set()

    async def _tell(self, text: str) -> None:
        self._unread += 1
        if self._unread >= MAX_UNREAD:
            self._readable.clear()
        try:
            await self.send(text_data=text)
        except Exception as error:  # servers differ in what they raise
            raise Gone from error

    async def _close(self, closing: Closing) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        parting = {"closing": closing.why, "reason": closing.reason}
        with contextlib.suppress(Gone):
            await self._tell(subscription.encode(parting))
            await self.close(closing.code, closing.reason[:MAX_REASON] or None)

    # --- what is served --------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await self._check()
                look = await in_thread(CHECKERS, subscription.parse, self.scope["query_string"])
            of_one = sum(other._session_key == self._session_key for other in self._open)
            if len(self._open) >= MAX_SOCKETS or of_one >= MAX_OF_ONE:
                raise Closing("full")
            self._arriving.discard(self)
            self._open.add(self)
            await self._until_one_ends(self._keep_checking(), self._show(look))
        except Closing as closing:
            await self._close(closing)
        except subscription.UnknownPage as error:
            await self._close(Closing("unknown", str(error)))
        except Gone:
            pass  # the server says so as well, and that ends it
        except Exception:
            logger.exception(
                "A page of the dashboard failed.", extra={"event": "dashboard_socket_failed"}
            )
            await self._close(Closing("failed"))
        finally:
            self._arriving.discard(self)
            self._open.discard(self)

    async def _until_one_ends(self, *parts: Any) -> None:
        """Run both, which never end by themselves; raise what ends the first."""
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    @property
    def _session_key(self) -> Any:
        return self.scope["session"].session_key

    @property
    def _given_pass(self) -> str:
        others = [name for name in self.scope["subprotocols"] if name != PROTOCOL]
        return others[0] if others else ""

    async def _check(self) -> None:
        why = await in_thread(CHECKERS, refusal, self._session_key, self._given_pass)
        if why is not None:
            raise Closing(why)

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await self._check()

    async def _show(self, look: subscription.Look) -> None:
        loop = asyncio.get_running_loop()
        trouble_s, told_at = 0.0, loop.time()
        with hub_of(look.backend).looking_on() as woken:
            while True:
                await self._until_readable()
                woken.clear()
                try:
                    text = await in_thread(BUILDERS, self._next, look)
                    if trouble_s:
                        trouble_s, text = 0.0, text or EMPTY
                except Http404 as error:
                    raise Closing("unknown", str(error)) from error
                except Exception:
                    trouble_s = min(2 * trouble_s or FIRST_TROUBLE_S, MAX_TROUBLE_S)
                    logger.exception(
                        "The page %s of the dashboard could not be built; again in %.0f s.",
                        look.page,
                        trouble_s,
                        extra={"event": "dashboard_page_failed"},
                    )
                    text = TROUBLE
                if text is None and loop.time() - told_at > QUIET_S:
                    text = EMPTY
                if text is not None:
                    told_at = loop.time()
                    await self._tell(text)
                await asyncio.sleep(trouble_s)
                await woken.wait()

    async def _until_readable(self) -> None:
        try:
            async with asyncio.timeout(UNREAD_FOR_S):
                await self._readable.wait()
        except TimeoutError:
            raise Closing("failed", "What it was sent was not read.") from None

    def _next(self, look: subscription.Look) -> str | None:
        """Build the page; return what is new to the browser. Runs in a thread, one at a time."""
        page = look.page_now()
        text = subscription.message(self._sent, page)
        self._sent = page
        return text
