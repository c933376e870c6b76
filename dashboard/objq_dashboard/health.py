"""The plain sentence on health: does the queue move and, if not, why and what to do.

`judge` asks the questions in the order in which they explain each other: whether there is a broker,
whether jobs wait that nobody takes, whether those who hold jobs are silent, how the last minute was
where that is known. The first that is answered badly is the sentence, with what to do about it;
what else is wrong follows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from objq.commandline import command
from objq.errors import ConfigurationError, DocumentError, NoDocument, Overloaded, Rejected
from objq_dashboard.page import Health
from objq_dashboard.source.mode import is_direct
from objq_dashboard.troubles import troubles
from objq_dashboard.wording import age, moment, number

if TYPE_CHECKING:
    from objq.core.ops import Statistics
    from objq.errors import ObjqError
    from objq_dashboard.source.source import Source

CHALLENGED_FOR: Final = 3
"""Times BROKER_TTL. One that was written longer ago is of a standby that has died as well."""


def judge(source: Source, stats: Statistics) -> Health:
    """Return the sentence for a queue whose figures are known."""
    if source.why is not None:
        return _no_broker(source, source.why, stats)
    found, leads = troubles(source, stats), _leads(source, stats)
    if not found:
        return Health(level="good", sentence=leads)
    worst = next((each for each in found if each.level == "bad"), found[0])
    others = [each.sentence for each in found if each is not worst]
    return replace(worst, besides=" ".join([*others, leads]))


def unreadable(alias: str, error: ObjqError) -> Health:
    """Return why nothing is known of a queue."""
    if isinstance(error, NoDocument) and is_direct(alias):
        return Health(
            level="warn",
            sentence=_("There is no queue yet."),
            advice=_("The first push creates it: enqueue a task."),
        )
    if isinstance(error, NoDocument):
        return Health(
            level="bad",
            sentence=_("There is no queue yet."),
            advice=_("The first broker creates it. Start one:"),
            command=command(alias, "runbroker"),
        )
    if isinstance(error, DocumentError):
        return Health(level="bad", sentence=_("The queue is not in order."), advice=error.message)
    if isinstance(error, ConfigurationError):
        return Health(level="bad", sentence=_("The settings cannot work."), advice=error.message)
    if isinstance(error, Overloaded):
        sentence = _("The broker has more to do than it can answer.")
        return Health(level="warn", sentence=sentence, advice=error.message)
    if isinstance(error, Rejected):
        sentence = _("The broker refuses to tell.")
        return Health(level="bad", sentence=sentence, advice=error.message)
    return Health(
        level="bad",
        sentence=_("No broker answers."),
        advice=_("%(error)s If none is running, start one:") % {"error": error.message},
        command=command(alias, "runbroker"),
    )


def challenge(source: Source) -> str:
    """Return that a standby is about to take over from a silent broker, if one is."""
    document = source.reading.document if source.reading is not None else None
    if source.why is None or document is None or document.challenge is None:
        return ""
    ttl_s = document.settings.broker_ttl_s
    if source.now_ms - document.challenge.at > CHALLENGED_FOR * ttl_s * 1000:
        return ""
    return _("A standby has challenged the broker and takes over within %(age)s.") % {
        "age": age(ttl_s)
    }


def address(url: str) -> str:
    try:
        return urlsplit(url).netloc or url
    except ValueError:  # of a standby, which anybody may claim to be
        return url


def _no_broker(source: Source, why: ObjqError, stats: Statistics) -> Health:
    if source.reading is not None and source.reading.is_newer:
        return Health(
            level="bad",
            sentence=_("The queue was written by a newer objq."),
            advice=_(
                "This one reads what it knows of it, and neither leads nor pushes: upgrade it."
            ),
        )
    pushed = source.pushed_since_silent(stats)
    sentence = _("No broker leads.") if stats.broker is None else _("No broker answers.")
    if pushed and stats.broker is None:
        sentence = ngettext(
            "No broker leads; %(count)s push was written directly.",
            "No broker leads; %(count)s pushes were written directly.",
            pushed,
        ) % {"count": number(pushed)}
    elif pushed:
        sentence = ngettext(
            "No broker answers; %(count)s push was written directly.",
            "No broker answers; %(count)s pushes were written directly.",
            pushed,
        ) % {"count": number(pushed)}
    challenged = challenge(source)
    if challenged:
        advice = f"{why.message} {challenged}"
        return Health(level="bad", sentence=sentence, advice=advice)
    advice = _("%(error)s Jobs wait until one does. If none is running, start one:")
    return Health(
        level="bad",
        sentence=sentence,
        advice=advice % {"error": why.message},
        command=command(source.alias, "runbroker"),
    )


def _leads(source: Source, stats: Statistics) -> str:
    ago = age((source.now_ms - stats.at) / 1000)
    if stats.broker is None:
        return _("No broker leads; every process writes by itself, last %(age)s ago.") % {
            "age": ago
        }
    return _("Broker %(address)s leads since %(since)s, last commit %(age)s ago.") % {
        "address": address(stats.broker.url),
        "since": moment(stats.broker.since),
        "age": ago,
    }
