"""The rules of leadership in the document (promises S3, S4; design §3 'Take-over')."""

from __future__ import annotations

import msgspec

from objq.core import ops
from objq.core.document import Document
from objq.core.requests import RequestMemory


def take_over(document: Document, broker: ops.BrokerInfo, settings: ops.DocumentSettings) -> None:
    """Make `broker` the leader: epoch + 1, its settings, no challenge (S3, S4).

    A lower heartbeat timeout waits for `settle`: holders still beat by the one before, and whoever
    takes over next has to know how long to wait for them (S5).
    """
    document.epoch += 1
    document.broker = broker
    longest_s = max(document.settings.heartbeat_timeout_s, settings.heartbeat_timeout_s)
    document.settings = msgspec.structs.replace(settings, heartbeat_timeout_s=longest_s)
    document.challenge = None
    document.dirty = True


def settle(document: Document, settings: ops.DocumentSettings) -> None:
    """Write the leader's own settings, once it has led for the heartbeat timeout before them (S5).

    By then every live claim was heard by this leader, from whose greeting its holder has the lower
    timeout.
    """
    if document.settings != settings:
        document.settings = settings
        document.dirty = True


def step_down(document: Document, broker_id: str) -> bool:
    """Clear the broker if it is still this one; a late step-down cannot clear a successor."""
    if document.broker is None or document.broker.id != broker_id:
        return False
    document.broker = None
    document.dirty = True
    return True


def challenge(document: Document, question: ops.Challenge) -> None:
    """Write a standby's challenge; any commit of the leader removes it."""
    document.challenge = question
    document.dirty = True


def adopt(document: Document, document_id: str) -> None:
    """Make what somebody restored a document of its own: a new id, epoch + 1, no broker (S14).

    By the new id every process that knew the old one goes on refusing it until it is restarted, so
    that no request of the time that was lost can land in the time that is left. What the memory of
    requests holds was drawn in that time, too: all of it is forgotten, so that a copy of an old
    request is refused and nobody's new one is.
    """
    document.id = document_id
    document.epoch += 1
    document.broker = None
    document.challenge = None
    document.requests = RequestMemory(document.seq, {})
    document.dirty = True
