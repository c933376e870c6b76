"""What the shop of the tests and the screenshots has done in the background."""

from __future__ import annotations

import os
import time
from pathlib import Path

from objq import task


class CardDeclined(Exception):
    pass


@task
def send_receipt(order: int) -> str:
    return f"receipt {order} sent"


@task
def resize_photo(name: str, width: int = 800) -> dict[str, object]:
    time.sleep(0.6)
    return {"name": name, "width": width}


@task(max_attempts=1)
def charge_card(order: int, api_key: str = "") -> None:
    """Fail, several calls deep."""
    _ask_the_bank(order, 4_200 + order)


def _ask_the_bank(order: int, cents: int) -> None:
    raise CardDeclined(f"The bank declined {cents / 100:.2f} € for order {order}.")


@task(max_attempts=1)
def fetch_rates(day: str) -> None:
    raise ConnectionError(f"rates.example.com does not answer for {day}.")


@task
def export_orders(gate: str) -> str:
    """Run until there is a file of this name in the folder of the tests."""
    path = Path(os.environ["OBJQ_TEST_FOLDER"]) / gate
    while not path.exists():
        time.sleep(0.05)
    return gate
