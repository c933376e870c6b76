"""What a socket looks at: a page, its query, and the language and time zone of whoever looks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from django.utils import timezone, translation

from objq import conf
from objq_dashboard.live.patches import diff
from objq_dashboard.page import as_json
from objq_dashboard.pages import PAGES
from objq_dashboard.source.source import Source
from objq_dashboard.zones import zone

if TYPE_CHECKING:
    from datetime import tzinfo

    from objq_dashboard.page import Page

MAX_QUERY_BYTES: Final = 8192
MAX_FIELDS: Final = 30

OFFSET = re.compile(r"([+-])(\d\d)(\d\d)")
"""How Django names a time zone that is only an offset."""


class UnknownPage(Exception):
    """The message says what there is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    page: str
    backend: str
    query: Mapping[str, str]
    language: str
    zone: tzinfo

    def page_now(self) -> Page:
        """Build the page, in the language and time zone of whoever looks; asks the queue."""
        with translation.override(self.language), timezone.override(self.zone):
            return PAGES[self.page].build(Source(self.backend), self.query)


def parse(query_string: bytes) -> Look:
    """Return what is asked for; raises UnknownPage."""
    fields = _fields(query_string)
    page = fields.pop("page", "")
    if page not in PAGES:
        raise UnknownPage(f"There is no page {page[:50]!r}.")
    aliases = conf.backend_aliases()
    backend = fields.setdefault("backend", aliases[0] if aliases else "")
    if backend not in aliases:
        raise UnknownPage(f"No backend of objq is called {backend[:50]!r}.")
    return Look(
        page=page,
        backend=backend,
        language=_language(fields.pop("language", "")),
        zone=_zone(fields.pop("zone", "")),
        query=fields,
    )


def message(sent: Page | None, page: Page) -> str | None:
    """Return what to send to whom `sent` was sent last: all, what has changed, or nothing."""
    if sent is None:
        return encode({"snapshot": as_json(page)})
    patch = diff(sent, page)
    return None if patch is None else encode({"delta": patch})


def encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _fields(query_string: bytes) -> dict[str, str]:
    if len(query_string) > MAX_QUERY_BYTES:
        raise UnknownPage("The query is too long.")
    try:
        text = query_string.decode("ascii")
        return dict(parse_qsl(text, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise UnknownPage("The query cannot be read.") from None


def _language(code: str) -> str:
    if not code:
        return translation.get_language() or ""
    try:
        return translation.get_supported_language_variant(code)
    except LookupError:
        raise UnknownPage(f"This site does not speak {code[:50]!r}.") from None


def _zone(name: str) -> tzinfo:
    if not name:
        return timezone.get_default_timezone()
    known = zone(name)
    if known is not None:
        return known
    offset = OFFSET.fullmatch(name)
    if offset is None:
        raise UnknownPage(f"There is no time zone {name[:50]!r}.")
    minutes = int(offset[2]) * 60 + int(offset[3])
    if minutes >= 24 * 60:
        raise UnknownPage(f"There is no time zone {name!r}.")
    return timezone.get_fixed_timezone(minutes if offset[1] == "+" else -minutes)
