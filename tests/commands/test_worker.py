"""What `objq_worker` says of a command line that cannot be meant."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from tests.commands.conftest import run


def test_several_queues_in_one_word_are_told_apart() -> None:
    said = r"has no 'mail,default'\. Give --queue once for each queue\."
    with pytest.raises(CommandError, match=said):
        run("objq_worker", "--queue", "mail,default")
