"""The broker that leads, how its writing goes, and who would take over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from django.utils.translation import gettext as _

from objq.commandline import command
from objq.errors import ObjqError
from objq_dashboard.health import address, challenge
from objq_dashboard.page import Cell, Row
from objq_dashboard.pages.parts import Query, answered, fact, no_points
from objq_dashboard.source.mode import is_direct
from objq_dashboard.wording import NOTHING, age, decimal, moment, number, rate, seconds, size, utc

if TYPE_CHECKING:
    from objq.core.ops import HistoryPoint, Leadership, RecentHistory, StandbyView, Statistics
    from objq_dashboard.source.source import Source

    Points = tuple[HistoryPoint, ...]

HEADER_EVERY_MS: Final = 5_000


@answered
def build(source: Source, query: Query, stats: Statistics) -> dict[str, Any]:
    history = source.history()
    points = history.points if history is not None else ()
    return {
        "texts": {
            "header": Cell(text=header(source, stats)),
            "no_commits": no_points(
                history, _("Only a broker that leads knows how its commits go.")
            ),
            **takeovers_said(history),
            **advice(source, stats, history),
        },
        "tables": {
            "broker": broker_rows(source, stats, history),
            "document": document_rows(source, stats, points),
            "commits": commit_rows(points),
            "standbys": tuple(map(standby_row, history.standbys)) if history else (),
            "takeovers": tuple(map(leadership_row, history.leaderships)) if history else (),
        },
    }


def header(source: Source, stats: Statistics) -> str:
    """Return the raw header, or why it cannot be read from here, as a broker perhaps can."""
    # Read from the store anew when there was a commit; else every few seconds, for a challenge.
    version = (stats.document, stats.epoch, stats.seq, source.now_ms // HEADER_EVERY_MS)
    try:
        found = source.derived("header", version, source.header)
    except ObjqError as error:
        return error.message
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def takeovers_said(history: RecentHistory | None) -> dict[str, Cell]:
    said = _("Only a broker that leads knows what it has seen of take-overs.")
    if history is not None:
        said = _(
            "As far as the process of the broker knows: what it has seen since it was started."
        )
    return {"takeovers_said": Cell(text=said)}


def advice(source: Source, stats: Statistics, history: RecentHistory | None) -> dict[str, Cell]:
    """Return what is said where there is no broker, or no standby, and the command if one helps."""
    run = Cell(text=command(source.alias, "runbroker"))
    no_broker = _("No broker leads. Start one:")
    no_standby = _(
        "No standby asks the broker. With one, jobs go on within seconds when it dies. "
        "Start one on another machine, at an address of its own that all clients reach:"
    )
    run_elsewhere = Cell(text=command(source.alias, "runbroker", "--bind", "ADDRESS:PORT"))
    if stats.broker is None and is_direct(source.alias):
        run = run_elsewhere = Cell(text="")
        no_broker = _("None leads, and none is needed: MODE is “direct”, so each process writes.")
        no_standby = _("There is no broker to stand by for.")
    elif history is None:
        # Nobody can tell whether one stands by, but for one that has spoken up.
        run_elsewhere = Cell(text="")
        no_standby = challenge(source) or _("Only a broker that leads knows who stands by for it.")
    return {
        "no_broker": Cell(text=no_broker),
        "start_broker": run,
        "no_standby": Cell(text=no_standby),
        "start_standby": run_elsewhere,
    }


def broker_rows(
    source: Source, stats: Statistics, history: RecentHistory | None
) -> tuple[Row, ...]:
    broker = stats.broker
    if broker is None:
        return ()
    rows = []
    if source.why is not None:
        text = _("does not answer; the document still names it")
        rows.append(fact("state", _("State"), text, mark="bad"))
    rows += [
        fact("url", _("Address"), address(broker.url), broker.url),
        fact("since", _("Leads since"), moment(broker.since), utc(broker.since)),
        fact("epoch", _("Epoch"), number(stats.epoch)),
        fact("version", _("Version"), broker.version),
        fact("id", _("Id"), broker.id),
    ]
    process = history.process if history is not None else None
    if process is not None:
        rows += [
            fact("host", _("Host"), process.host),
            fact("pid", _("Process"), str(process.pid)),
            fact("started", _("Started"), moment(process.started_at), utc(process.started_at)),
        ]
    return tuple(rows)


def document_rows(source: Source, stats: Statistics, points: Points) -> tuple[Row, ...]:
    stored = points[-1].size_bytes if points else None
    if source.why is not None and source.reading is not None:
        stored = source.reading.size_bytes
    rows = [
        fact("document", _("Id"), stats.document),
        fact("commit", _("Commit (seq)"), number(stats.seq)),
        fact(
            "written",
            _("Last commit"),
            _("%(age)s ago") % {"age": age((source.now_ms - stats.at) / 1000)},
            utc(stats.at),
        ),
        fact("jobs", _("Size of its jobs"), size(stats.size_bytes), number(stats.size_bytes)),
    ]
    if stored is not None:
        # Compressed, if it is large: less than what stands in it.
        rows.append(fact("size", _("Size of the object"), size(stored), number(stored)))
    return tuple(rows)


def commit_rows(points: Points) -> tuple[Row, ...]:
    """Return how commits go: in the last seconds, and in the last hour."""
    if not points:
        return ()
    now = points[-1:]
    lines: tuple[tuple[str, str, Callable[[Points], Cell]], ...] = (
        ("rate", _("Commits"), lambda of: Cell(text=rate(_per_second(of)))),
        ("p50", _("Takes, p50"), lambda of: _time(p.commit_p50_s for p in of)),
        ("p99", _("Takes, p99"), lambda of: _time(p.commit_p99_s for p in of)),
        ("batch", _("Requests in each"), lambda of: Cell(text=decimal(_batch(of)))),
        (
            "conflicts",
            _("Met a write of somebody else"),
            lambda of: _count(p.conflicts for p in of),
        ),
        ("throttled", _("Store asked to slow down"), lambda of: _count(p.throttled for p in of)),
    )
    return tuple(
        Row(key=key, cells=(Cell(text=label), cell(now), cell(points)))
        for key, label, cell in lines
    )


def _per_second(points: Points) -> float:
    total_s = sum(point.seconds for point in points)
    return sum(point.commits for point in points) / total_s if total_s else 0.0


def _batch(points: Points) -> float:
    commits = sum(point.commits for point in points)
    return sum(point.batch * point.commits for point in points) / commits if commits else 0.0


def _time(values: Iterable[float | None]) -> Cell:
    """Return the middle of the points' times: none of them alone says how it usually is."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return Cell(text=NOTHING)
    most = _("at most %(time)s") % {"time": seconds(known[-1])}
    return Cell(text=seconds(known[len(known) // 2]), title=most if len(known) > 1 else "")


def _count(values: Iterable[int]) -> Cell:
    total = sum(values)
    return Cell(text=number(total), mark="warn" if total else "")


def standby_row(standby: StandbyView) -> Row:
    return Row(
        key=standby.id,
        cells=(
            Cell(text=standby.id),
            Cell(text=address(standby.url) or NOTHING, title=standby.url),
            Cell(text=standby.host or NOTHING),
            Cell(text=str(standby.pid) if standby.pid else NOTHING),
            Cell(text=standby.version or NOTHING),
            Cell(text=_("%(age)s ago") % {"age": age(standby.asked_ago_s)}),
        ),
    )


def leadership_row(leadership: Leadership) -> Row:
    broker = leadership.broker
    return Row(
        key=str(leadership.epoch),
        cells=(
            Cell(text=number(leadership.epoch)),
            Cell(text=address(broker.url), title=broker.url),
            Cell(text=moment(broker.since), title=utc(broker.since)),
            Cell(text=leadership.why or NOTHING),
            Cell(text=broker.id),
            Cell(text=broker.version),
        ),
    )
