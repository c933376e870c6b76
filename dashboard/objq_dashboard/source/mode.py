"""Whether a backend has brokers at all."""

from __future__ import annotations

from objq import conf
from objq.errors import ConfigurationError


def is_direct(alias: str) -> bool:
    """Return whether each process of this backend writes by itself, and a broker is no need."""
    try:
        return conf.options_for(alias).mode == "direct"
    except ConfigurationError:
        return False
