"""Does a broker lead, can it be reached where it says it is, and does it answer?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import objq
from objq.broker.addresses import is_brokers_own
from objq.broker.election import ProbeResult, Reach
from objq.broker.probe_http import probe_http
from objq.commandline import command
from objq.core.document import Header
from objq.core.ops import BrokerInfo, Statistics
from objq.doctor.findings import Finding, ok, problem, skipped, warning
from objq.errors import ObjqError
from objq.options import Options


def check_broker(
    alias: str, options: Options, header: Header, ask: Callable[[], Statistics]
) -> Iterator[Finding]:
    """`ask` puts a question to the broker through a client, as every worker and site does."""
    broker = header.broker
    if broker is None and options.mode == "direct":
        yield ok("broker", 'None leads, and MODE "direct" needs none.')
        return
    if broker is None:
        yield problem("broker", "No broker leads: nothing is granted.", _start(alias))
        return
    if header.challenge is not None:
        yield warning(
            "broker",
            f"A standby has challenged the leader (challenge {header.challenge.id}).",
            "If the leader is well it answers within BROKER_TTL/4; else a standby takes over.",
        )
    result = asyncio.run(probe_http(broker.url))
    finding = judge(alias, broker, result)
    yield finding
    if finding.level == "problem":
        yield skipped("answers", "Not asked, since it is not reached.")
        return
    if broker.version != objq.__version__:
        yield warning(
            "broker",
            f"It is version {broker.version}; this is {objq.__version__}.",
            "Upgrade all processes; brokers first.",
        )
    try:
        ask()
    except ObjqError as error:
        yield problem("answers", f"It refuses or does not answer: {error.message}")
    else:
        yield ok("answers", "It takes this process's token and answers over the websocket.")


def judge(alias: str, broker: BrokerInfo, result: ProbeResult) -> Finding:
    """Return what the answer of `/readyz` means for the recorded broker."""
    if result.reach is Reach.REFUSED:
        listener = "process" if is_brokers_own(broker.url) else "proxy in front of the broker"
        return problem(
            "broker",
            f"{broker.url} refuses the connection: the {listener} is gone, or listens elsewhere.",
            _start(alias),
        )
    if result.reach is Reach.UNREACHABLE:
        return problem(
            "broker",
            f"{broker.url} cannot be reached from here.",
            "Look at firewalls and proxies, and give runbroker --advertise with an address that "
            "web servers and workers reach; /readyz has to be served there as well.",
        )
    if result.broker != broker.id:
        return problem(
            "broker",
            f"At {broker.url} another answers ({result.broker or 'no broker'}) than the recorded "
            f"{broker.id}.",
            "Two brokers must not advertise one address: use --advertise with each one's own.",
        )
    if not result.leading:
        return problem("broker", f"{broker.url} answers and does not lead.", "Look at its log.")
    if not result.store_ok:
        return problem(
            "broker",
            f"{broker.url} leads, but does not reach the store or must not write the document.",
            "Its log and its /readyz ('problem') say why.",
        )
    return ok("broker", f"{broker.url} leads and reaches the store.")


def _start(alias: str) -> str:
    return f"Start one: {command(alias, 'runbroker')}"
