"""One client of one queue: what a request goes through until its caller has an answer.

A request waits for a link, goes out, and is repeated with the same ids, over other links if need
be, until something conclusive is heard (`ticket` says what is) or its deadline has passed. A push
that no broker answers within half its time is written directly as well (design §1); whichever way
ends first decides, and that both may land is harmless (S7). A get is then answered from the
document itself.

With `MODE = "direct"` this process does everything itself, and pushes and reads always. Where the
document names a broker, the rest goes over a link to that, with the ids and tokens that are held,
and comes back when the broker is gone from the document.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import UNSET, UnsetType

from objq.client.alone import AT_ANY_TIME
from objq.client.backoff import Backoff
from objq.client.deadlines import in_the_way, limit_of
from objq.client.dialer import Dialer, MakeToken, NoBroker
from objq.client.direct import DirectLink
from objq.client.discovery import Discovery
from objq.client.headers import from_broker, from_store
from objq.client.horizon import Horizon, version_of
from objq.client.known import Known
from objq.client.link import ClientClosed, LinkLost
from objq.client.racing import AnyLink, first_to_know
from objq.client.seam import Connect
from objq.client.ticket import Next, Ticket
from objq.client.watching import Watching
from objq.clock import Clock
from objq.core import ops
from objq.errors import DocumentError, ExpiredId, ObjqError, Overloaded, Unavailable
from objq.ids import Ids
from objq.options import Options
from objq.store.base import AsyncStore

logger = logging.getLogger("objq.client")

LEAST_PAUSE_S: Final = 0.05
"""Before a request is repeated to the very same peer."""

SHARED_READ_S: Final = 1.0
"""A header read so recently serves for a new request id."""

FALLS_BACK: Final = (ops.Push, ops.Get)
"""What a process does for itself when no broker answers: a page need not fail for want of one."""


class _BrokerRecorded(Exception):
    """The document names a broker, whose business this request is."""


class Session:
    """Belongs to the event loop that first uses it; `call` may be used by many tasks at once."""

    def __init__(
        self,
        options: Options,
        store: AsyncStore,
        connect: Connect,
        make_token: MakeToken,
        hello: ops.Hello,
        *,
        clock: Clock,
        ids: Ids,
        on_close: Callable[[], None] | None = None,
        seen: set[str] | None = None,
    ) -> None:
        """`seen`: the stores whose document this process has seen; by default one set for all."""
        self._on_close = on_close
        self._horizon = Horizon(options.document_settings(), clock, ids)
        self._options = options
        self._clock = clock
        self._ids = ids
        self._request_ids = self._horizon.request_ids
        url = options.broker_url
        known = Known()
        self._discovery = Discovery(from_broker(url) if url else from_store(store), clock, known)
        self._new_dialer = partial(
            Dialer,
            self._discovery,
            connect,
            hello,
            make_token,
            clock,
            ids,
            welcomed=self._horizon.welcomed,
            open_s=lambda: self.settings.open_s,
        )
        self._watchings: set[Watching] = set()
        self._dialer = self._new_dialer(insists=options.mode == "broker")
        self._alone = options.mode == "direct"
        self._direct: DirectLink | None = None
        self._direct_backoff = Backoff(ids)
        if self._alone:
            self._direct = DirectLink(
                store,
                clock,
                ids,
                creates=self.settings,
                on_seen=self._horizon.saw,
                seen=seen,
                known=known,
            )
        elif options.direct_fallback:
            self._direct = DirectLink(store, clock, ids, on_seen=self._horizon.saw, known=known)
        self._tickets: set[Ticket] = set()
        """Of the calls that are under way."""
        self._unanswered_at = float("-inf")
        """When a broker was last waited for in vain, for half the time (monotonic seconds)."""
        self._closed = False

    @property
    def settings(self) -> ops.DocumentSettings:
        """The document's settings, as last seen or told by the broker; before that, one's own."""
        return self._horizon.settings

    async def call(self, op: ops.Op, timeout_s: float | None | UnsetType = UNSET) -> ops.Answer:
        """Return the answer to `op`; an empty `request` or `claim` id is drawn here.

        An id that was drawn here is drawn again if it has expired and was not sent before; of one
        that the caller gave it is told (ExpiredId), since it may have sent that itself (S7).

        `timeout_s`: seconds, by default `ENQUEUE_TIMEOUT` (for a claim, on top of its `wait`); None
        waits for ever and is for outcome reports only. Raises (S12) Rejected if the request was not
        applied and never will be, Unknown if that is not known, with the ids by which it may be
        repeated, Unavailable or DocumentError if it was never sent.
        """
        window_s = self._request_ids.window_s
        limit_s = limit_of(op, timeout_s, self._options.enqueue_timeout_s, window_s)
        ticket = Ticket(op)
        self._tickets.add(ticket)
        try:
            async with asyncio.timeout(limit_s):
                if self._alone and self._direct is not None:
                    return await self._without_broker(ticket, self._direct)
                if limit_s is not None and self._direct is not None and isinstance(op, FALLS_BACK):
                    return await self._or_directly(ticket, self._direct, limit_s)
                return await self._over_links(ticket)
        except TimeoutError:
            if ticket.answer is not None:
                return ticket.answer
            assert limit_s is not None
            if limit_s >= self._options.enqueue_timeout_s / 2:
                self._dialer.leave_silent(limit_s / 2)
            raise ticket.gave_up(limit_s, self._why(op)) from None  # which tells the reason
        finally:
            self._tickets.discard(ticket)

    def watch(self) -> Watching:
        """Return events for ever, from the next snapshot on; see `objq.client.watching`."""
        watching = Watching(self._new_dialer(), self._clock, self._watchings.discard)
        self._watchings.add(watching)
        return watching

    def claim_id(self) -> str:
        """Return an id for a claim, remembered like a request's if a seq was seen lately (S7)."""
        return self._request_ids.draw() if self._request_ids.is_fresh() else self._ids.token()

    def in_doubt(self, request: str) -> bool:
        """Tell whether a call under way has sent the request of this id, or just sends it."""
        return any(ticket.in_doubt() for ticket in self._tickets if ticket.id == request)

    async def close(self) -> None:
        """Close the connection; who still waits learns that the outcome is unknown."""
        self._closed = True
        for watching in list(self._watchings):
            await watching.aclose()
        await self._dialer.close()
        if self._direct is not None:
            await self._direct.close()
        if self._on_close is not None:
            self._on_close()

    def _why(self, op: ops.Op) -> ObjqError | None:
        # Of the document only what a request met itself: else it may be over since long ago.
        met = self._alone or isinstance(op, FALLS_BACK)
        versions = self._direct.versions if self._direct is not None and met else None
        if versions is not None and versions.trouble is not None:
            return DocumentError(versions.trouble)
        if versions is not None and versions.failure is not None:
            return Unavailable(versions.failure)
        if versions is None or not self._alone or isinstance(op, AT_ANY_TIME):
            return self._dialer.why
        return in_the_way(versions.seen, self._dialer.why)

    # --- the two ways ----------------------------------------------------------------------------

    async def _or_directly(self, ticket: Ticket, direct: DirectLink, limit_s: float) -> ops.Answer:
        enqueue_s = self._options.enqueue_timeout_s
        half_s = min(limit_s, enqueue_s) / 2
        if self._clock.monotonic() - self._unanswered_at > enqueue_s:
            try:
                async with asyncio.timeout(half_s):
                    return await self._over_links(ticket)
            except TimeoutError:
                if ticket.overloaded is not None:  # a broker does answer
                    return await self._over_links(ticket)
            if self._unanswered_at == float("-inf"):
                logger.warning(
                    "No broker answered within %g s: pushes are written directly until one does.",
                    half_s,
                    extra={"event": "writes_directly"},
                )
            # What was waited for once need not be waited for again by everybody after it.
            self._unanswered_at = self._clock.monotonic()
            self._dialer.leave_silent(half_s / 2)
        return await first_to_know(self._over_links(ticket), self._directly(ticket, direct))

    async def _without_broker(self, ticket: Ticket, direct: DirectLink) -> ops.Answer:
        """Let this process do it, or the broker whose business it is while one is recorded."""
        while True:
            if isinstance(ticket.op, AT_ANY_TIME) or not self._dialer.connected:
                with contextlib.suppress(_BrokerRecorded):
                    return await self._directly(ticket, direct)
                self._dialer.distrust()
            with contextlib.suppress(NoBroker):
                return await self._over_links(ticket)
            await self._pause(LEAST_PAUSE_S)

    async def _over_links(self, ticket: Ticket) -> ops.Answer:
        while True:
            try:
                link = await self._dialer.link()
            except NoBroker:
                raise
            except ObjqError as error:
                raise ticket.barred(error) from error
            try:
                await self._identify(ticket, self._direct if self._alone else None)
            except (Unavailable, DocumentError) as error:
                await self._dialer.trouble(error)
                continue
            answer = await self._send(ticket, link)
            if isinstance(answer, ops.Answer):
                self._unanswered_at = float("-inf")
                return answer
            if answer is Next.ELSEWHERE:
                self._dialer.leave(link)
            elif answer is Next.RECHECK:
                await self._dialer.recheck(link)

    async def _directly(self, ticket: Ticket, direct: DirectLink) -> ops.Answer:
        while True:
            try:
                await self._identify(ticket, direct)
            except DocumentError as error:
                raise ticket.barred(error) from error
            except Unavailable as error:
                if self._closed:
                    raise ticket.barred(ClientClosed()) from error
                ticket.told = error
                await self._direct_backoff.after_failure()
                continue
            answer = await self._send(ticket, direct)
            if isinstance(answer, ops.Answer):
                self._direct_backoff.succeeded()
                return answer
            if answer is Next.ELSEWHERE:
                raise _BrokerRecorded
            if answer is Next.RECHECK:
                await self._direct_backoff.after_failure()

    async def _send(self, ticket: Ticket, link: AnyLink) -> ops.Answer | Next:
        """Send a copy and return its answer, or what to do next; raise what is conclusive."""
        if self._closed:
            raise ticket.barred(ClientClosed())
        copy = ticket.issue()
        sent_at = self._clock.monotonic()
        try:
            answer = await link.call(copy.op, copy.mark_sent)
        except LinkLost:
            ticket.lost(copy)
            if link is self._direct:
                await self._pause(LEAST_PAUSE_S)
            return Next.WAIT
        except asyncio.CancelledError:
            ticket.lost(copy)
            raise
        except ObjqError as error:
            if isinstance(error, ExpiredId):
                self._request_ids.abandon(ticket.id)
            return await self._refused(ticket, ticket.refuse(error), error)
        if link is not self._direct:
            self._dialer.answered(version_of(answer))
        if self._horizon.is_behind(ticket.op, answer):
            ticket.lost(copy)
            await self._pause(LEAST_PAUSE_S)
            return Next.RECHECK
        ticket.answer = self._horizon.hand_out(ticket.accept(answer), sent_at)
        return ticket.answer

    async def _refused(self, ticket: Ticket, then: Next, error: ObjqError) -> Next:
        if then is Next.REDRAW:
            ticket.give_id("")
        if then in (Next.WAIT, Next.REDRAW):
            await self._pause(error.retry_after_s or LEAST_PAUSE_S)
        return then

    async def _pause(self, at_least_s: float) -> None:
        await asyncio.sleep(at_least_s + self._ids.jitter(at_least_s))

    # --- ids -------------------------------------------------------------------------------------

    async def _identify(self, ticket: Ticket, direct: DirectLink | None) -> None:
        """Give the request its id, unless it has one: from a seq that is looked up directly, or
        where the broker is looked up. Raises what `Discovery.find` raises.
        """
        while ticket.needs_id():
            if self._request_ids.is_fresh():
                ticket.give_id(self._request_ids.draw())
                return
            if direct is not None:
                # Which tells the horizon the seq. Ids are for what changes something.
                try:
                    await direct.look()
                except (LinkLost, Overloaded) as error:
                    raise Unavailable(str(error)) from error
                continue
            found = await self._discovery.find(self._clock.monotonic() - SHARED_READ_S)
            self._request_ids.saw(found.header.seq, found.read_at)
