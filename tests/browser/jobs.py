"""Jobs of the package `shop`, to push."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from msgspec import Raw

from objq.core import ops
from objq.ids import Ids

IDS: Final = Ids()


def job(task: str, *args: object, queue: str = "default", **fields: Any) -> ops.NewJob:
    """Return a job of `shop.tasks`; `kwargs` and `id` may be among the fields."""
    return ops.NewJob(
        id=fields.pop("id", None) or IDS.job_id(time.time_ns() // 1_000_000),
        task=f"shop.tasks.{task}",
        queue=queue,
        args=Raw(json.dumps(args).encode()),
        kwargs=Raw(json.dumps(fields.pop("kwargs", {})).encode()),
        **fields,
    )
