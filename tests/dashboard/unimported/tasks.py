"""A task module that nothing imports: beside the settings, and named by a job only."""

from __future__ import annotations

from objq import task


@task
def pay(order: int, api_key: str) -> None: ...
