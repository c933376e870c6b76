"""Keeps one link to whoever leads: finds the broker, opens the link, and anew when it has ended.

All callers share one attempt. There is one while somebody waits, and none otherwise. Nothing here
has a deadline; callers bring theirs, and `why` tells what kept them waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from objq.broker.addresses import leads_here
from objq.client.backoff import Backoff
from objq.client.discovery import Discovery, Found, retrieve
from objq.client.link import ClientClosed, Link, LinkLost
from objq.client.seam import Connect, ConnectionEnded, ConnectionRefused
from objq.client.ticket import NotRunning
from objq.clock import Clock
from objq.core import ops
from objq.errors import NotBroker, ObjqError, Overloaded, Rejected, Unavailable
from objq.ids import Ids

logger = logging.getLogger("objq.client")

REFUSALS_BELIEVED: Final = 3
"""A broker that restarts in place refuses for a moment; one that goes on means it."""

MakeToken = Callable[[str, str], str]
"""Makes the bearer token for a document and a broker, by their ids."""


class NoBroker(Unavailable):
    """The document names no broker, so that a direct process has the queue to itself."""


class Dialer:
    def __init__(
        self,
        discovery: Discovery,
        connect: Connect,
        hello: ops.Hello,
        make_token: MakeToken,
        clock: Clock,
        ids: Ids,
        *,
        welcomed: Callable[[ops.Welcome, float], bool],
        open_s: Callable[[], float],
        insists: bool = True,
    ) -> None:
        """`welcomed(welcome, asked_at)` is told of a new link and returns whether to keep it.

        `open_s()`: how long the connection and `hello` may take together.
        `insists`: wait for a broker where the document names none, instead of raising NoBroker.
        """
        self.why: ObjqError | None = None
        self.backoff = Backoff(ids)
        self._discovery = discovery
        self._connect = connect
        self._hello = hello
        self._make_token = make_token
        self._clock = clock
        self._welcomed = welcomed
        self._open_s = open_s
        self._insists = insists
        self._link: Link | None = None
        self._dialing: asyncio.Task[Link] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._waiters = 0
        self._refusals = 0
        self._distrusted_at = float("-inf")
        """Headers read before this are not believed any more."""
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    async def link(self) -> Link:
        """Return the open link; wait until there is one.

        Raises Rejected (Unauthorized …) if the broker goes on refusing this client.
        """
        link = self._link
        if link is not None:
            if link.is_open:
                return link
            self._lost(link)
        if self._closed:
            raise ClientClosed
        if self._dialing is None or self._dialing.done():
            self._dialing = asyncio.create_task(self._dial(), name="objq dials")
            self._dialing.add_done_callback(retrieve)
        dialing = self._dialing
        self._waiters += 1
        try:
            return await asyncio.shield(dialing)
        except asyncio.CancelledError:
            if self._was_closed(dialing):
                raise ClientClosed from None
            raise
        finally:
            self._waiters -= 1
            if not self._waiters and not dialing.done():
                dialing.cancel()
                self._dialing = None

    @property
    def connected(self) -> bool:
        """Tell whether there is a link that is not known to have ended."""
        return self._link is not None and self._link.is_open

    def distrust(self) -> None:
        """Believe no header that was read before: a newer version says otherwise."""
        self._distrusted_at = self._clock.monotonic()

    def leave(self, link: Link) -> None:
        """Use this link no more, and believe the header no more that led to it."""
        if link is self._link:
            self._link = None
            self._distrusted_at = self._clock.monotonic()
            self.backoff.failed()
        self._close_soon(link)

    def leave_silent(self, silence_s: float) -> None:
        """Leave the link if nothing was heard over it for so long, though something was asked."""
        link = self._link
        if link is not None and self._clock.monotonic() - link.heard_at >= silence_s:
            self.leave(link)

    def answered(self, version: tuple[int, int] | None) -> None:
        """Note an answer, of this (epoch, seq) if it tells: what kept callers waiting is over."""
        if version is not None:
            self._discovery.heard(*version)
        self.why = None
        self.backoff.succeeded()

    async def trouble(self, error: ObjqError) -> None:
        """Remember what keeps callers waiting, and wait a little."""
        self.why = error
        await self.backoff.after_failure()

    async def recheck(self, link: Link) -> None:
        """Wait a little and read the header again; leave the link if it names another broker.

        Returns at once if this is closed meanwhile, of which `link` tells.
        """
        if link is not self._link or not link.is_open:
            return
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._recheck(link), name="objq rechecks")
        checking = self._checking
        try:
            await asyncio.shield(checking)
        except asyncio.CancelledError:
            if not self._was_closed(checking):
                raise

    async def close(self) -> None:
        self._closed = True
        tasks = [task for task in (self._dialing, self._checking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:
            await link.close()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    # --- finding and opening ---------------------------------------------------------------------

    async def _dial(self) -> Link:
        while True:
            await self.backoff.pause()
            try:
                link = await self._open(await self._discovery.find(self._distrusted_at))
            except (ObjqError, LinkLost, ConnectionEnded, TimeoutError) as error:
                self._failed(error)
            else:
                self._succeeded(link)
                return link

    async def _open(self, found: Found) -> Link:
        header = found.header
        if header.broker is None:
            raise NoBroker(
                "The document names no broker at the moment: start manage.py runbroker, unless it "
                "is starting."
            )
        url = header.broker.url
        asked_at = self._clock.monotonic()
        token = self._make_token(header.document, header.broker.id)
        link: Link | None = None
        open_s = self._open_s()
        limit = asyncio.timeout(open_s)
        try:
            async with limit:
                transport = await self._connect(url, {"Authorization": f"Bearer {token}"})
                link = Link(transport, self._clock)
                welcome = await link.hello(
                    msgspec.structs.replace(self._hello, document=header.document)
                )
            if welcome.document != header.document or welcome.epoch < header.epoch:
                raise NotBroker(
                    f"{url} leads epoch {welcome.epoch}; the document is at {header.epoch}."
                )
            if not self._welcomed(welcome, asked_at):
                raise NotBroker(f"{url} is behind what this process has seen.")
            self._discovery.heard(welcome.epoch, welcome.seq)
        except BaseException as error:
            # Also when nobody waits any longer: else impatient callers would for ever come back to
            # an address that does not answer.
            self._distrusted_at = self._clock.monotonic()
            if link is not None:
                self._close_soon(link)
            if isinstance(error, ConnectionRefused):
                elsewhere = ", or not on this machine" if leads_here(url) else ""
                raise NotRunning(
                    f"The broker at {url} refuses connections: it is probably not running"
                    f"{elsewhere}."
                ) from error
            if isinstance(error, TimeoutError) and limit.expired():
                raise Unavailable(f"The broker did not answer within {open_s:g} s.") from None
            raise
        logger.info(
            "Connected to broker %s at %s.", welcome.broker, url, extra={"event": "connected"}
        )
        return link

    def _failed(self, error: Exception) -> None:
        if isinstance(error, NoBroker) and not self._insists:
            self.why = None
            self.backoff.succeeded()
            raise error
        if isinstance(error, LinkLost) and error.error is not None:
            error = error.error
        first = self.why is None
        if isinstance(error, ObjqError):
            self.why = error
        else:
            self.why = Unavailable(f"The broker cannot be reached ({error}).")
        self._distrusted_at = self._clock.monotonic()
        self.backoff.failed()
        level = logging.WARNING if first else logging.DEBUG
        logger.log(level, "No broker yet. %s", self.why.message, extra={"event": "no_broker"})
        if not isinstance(self.why, Rejected) or isinstance(self.why, Overloaded):
            self._refusals = 0
            return
        self._refusals += 1
        if self._refusals >= REFUSALS_BELIEVED:
            raise self.why

    def _succeeded(self, link: Link) -> None:
        self._link = link
        self.why = None
        self._refusals = 0
        # The backoff ends with the first answer, not here: a broker may welcome and then refuse.

    def _was_closed(self, task: asyncio.Task[Any]) -> bool:
        """Tell whether not the caller was cancelled but the task that it waits for, by `close`."""
        return self._closed and task.cancelled()

    # --- leaving ---------------------------------------------------------------------------------

    def _lost(self, link: Link) -> None:
        logger.info("The link to the broker has ended.", extra={"event": "disconnected"})
        self.leave(link)

    async def _recheck(self, link: Link) -> None:
        await self.backoff.after_failure()
        try:
            found = await self._discovery.find(self._clock.monotonic())
        except ObjqError as error:
            self.why = error
            return
        self.why = None
        broker = found.header.broker
        assert link.welcome is not None
        if broker is not None and broker.id != link.welcome.broker:
            self.leave(link)

    def _close_soon(self, link: Link) -> None:
        task = asyncio.create_task(link.close(), name="objq closes a link")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
