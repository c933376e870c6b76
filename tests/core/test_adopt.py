"""Adopting a restored document makes it one that nobody has seen before (S14)."""

from __future__ import annotations

import pytest

from objq.core import codec, leading, ops
from objq.errors import ForeignDocument
from tests.core.world import World


def test_an_adopted_document_has_a_new_id_the_next_epoch_and_no_broker() -> None:
    world = World()
    document = world.document
    leader = ops.BrokerInfo(id="b", url="ws://h:1/", since=1, version="0")
    leading.take_over(document, leader, document.settings)
    leading.challenge(document, ops.Challenge(id="c", by="s", at=1))
    world.push("j")
    token = world.take()
    world.reload()
    before = world.document.header()
    leading.adopt(world.document, "new")
    assert world.document.dirty
    world.reload()
    after = world.document.header()
    assert (after.document, after.epoch, after.seq) == ("new", before.epoch + 1, before.seq + 1)
    assert after.broker is None
    assert after.challenge is None
    # Who knew the old one refuses it; who holds a claim of it keeps that.
    with pytest.raises(ForeignDocument):
        codec.check_successor(before, after)
    assert world.complete(token).state == "succeeded"
