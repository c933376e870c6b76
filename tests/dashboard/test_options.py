"""OBJQ_DASHBOARD: what may stand in it, and what is done where it cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core import checks

from objq_dashboard.masking import MASKED, mask_for
from objq_dashboard.options import DashboardOptions, check_setting, options

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings


def test_without_the_setting_all_is_as_documented(settings: Settings) -> None:
    if hasattr(settings, "OBJQ_DASHBOARD"):
        del settings.OBJQ_DASHBOARD
    assert options() == DashboardOptions(read_only=False, mask=(), mask_tasks={})
    assert check_setting() == []


def test_what_is_set_is_read(settings: Settings) -> None:
    settings.OBJQ_DASHBOARD = {
        "READ_ONLY": True,
        "SOCKETS": False,
        "MASK": ["iban"],
        "MASK_TASKS": {"shop.tasks.pay": ["account", "*"]},
    }
    assert check_setting() == []
    assert options() == DashboardOptions(
        read_only=True,
        sockets=False,
        mask=("iban",),
        mask_tasks={"shop.tasks.pay": ("account", "*")},
    )


@pytest.mark.parametrize(
    ("value", "number", "says"),
    [
        (["READ_ONLY"], "E001", "not a dictionary"),
        ({"READONLY": True}, "E002", "Did you mean 'READ_ONLY'?"),
        ({"COLOUR": "red"}, "E002", "There are READ_ONLY, SOCKETS, MASK, MASK_TASKS."),
        ({"READ_ONLY": "yes"}, "E003", "True or False"),
        ({"READ_ONLY": 1}, "E003", "True or False"),
        ({"SOCKETS": "no"}, "E003", "True or False"),
        ({"SOCKETS": None}, "E003", "True or False"),
        ({"MASK": "iban"}, "E003", "a list of names"),
        ({"MASK": [1]}, "E003", "a list of names"),
        ({"MASK": [""]}, "E003", "a list of names"),
        ({"MASK_TASKS": ["a"]}, "E003", "by task"),
        ({"MASK_TASKS": {"shop.tasks.pay": "account"}}, "E003", "by task"),
    ],
)
def test_what_is_wrong_is_said(settings: Settings, value: Any, number: str, says: str) -> None:
    settings.OBJQ_DASHBOARD = value
    (found,) = [
        each for each in checks.run_checks() if (each.id or "").startswith("objq_dashboard.")
    ]
    assert found.id == f"objq_dashboard.{number}"
    assert says in f"{found.msg} {found.hint}"


@pytest.mark.parametrize("value", [None, [], "READ_ONLY", {"READ_ONLY": "no"}, {"READ_ONLY": None}])
def test_what_cannot_be_read_permits_nothing(settings: Settings, value: Any) -> None:
    settings.OBJQ_DASHBOARD = value
    assert options().read_only


def test_names_that_cannot_be_read_mask_everything_of_their_task(settings: Settings) -> None:
    settings.OBJQ_DASHBOARD = {"MASK_TASKS": {"shop.tasks.pay": "account"}}
    assert options().mask_tasks == {"shop.tasks.pay": ("*",)}


@pytest.mark.parametrize(
    "value",
    [
        None,
        ["MASK"],
        *({"MASK": names} for names in (["a", 1], [""], "", None, 7, {"a": "b"}, "*", ["a", "*"])),
        {"MASK_TASKS": ["account"]},
    ],
)
def test_names_that_cannot_be_read_mask_everything(settings: Settings, value: Any) -> None:
    settings.OBJQ_DASHBOARD = value
    assert mask_for("shop.tasks.pay").everything


def test_a_name_that_is_no_list_is_one_name(settings: Settings) -> None:
    settings.OBJQ_DASHBOARD = {"MASK": "shoe size"}
    mask = mask_for("shop.tasks.pay")
    assert not mask.everything
    assert mask.kwargs(b'{"shoe_size":1,"to":2}').text == f'{{"shoe_size": "{MASKED}", "to": 2}}'
