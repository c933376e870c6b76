"""The leader is killed and replies are lost, while a thousand jobs go through."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.e2e.stack import a_stack, free_port
from tests.proxy import CutReply, Proxy, every_nth_write

JOBS = 1000
KILL_AT = 300
"""The leader is killed when so many jobs have run: in the midst of pushes and outcomes alike."""


def test_the_leader_is_killed_and_every_tenth_reply_is_lost_and_no_job_notices(
    seaweedfs_storage: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    endpoint = seaweedfs_storage["OPTIONS"]["endpoint_url"]
    with Proxy(endpoint, every_nth_write(10, CutReply())) as proxy:
        options = {**seaweedfs_storage["OPTIONS"], "endpoint_url": proxy.url}
        storage = {**seaweedfs_storage, "OPTIONS": options}
        with a_stack(tmp_path, storage) as stack:
            leader, standby = free_port(), free_port()
            stack.leader("leader", leader)
            stack.broker("standby", standby)
            assert stack.readyz(standby)["state"] == "standby"
            stack.worker("worker-1")
            stack.worker("worker-2")
            reports: list[dict[str, Any]] = []
            pusher = threading.Thread(target=lambda: reports.append(stack.push(JOBS)))
            pusher.start()
            while pusher.is_alive() and sum(stack.runs().values()) < KILL_AT:
                pusher.join(0.02)
            assert pusher.is_alive(), stack.logs()
            stack.kill("leader")
            pusher.join()
            (report,) = reports
            assert report["errors"] == [], stack.logs()
            assert report["values"] == [number * 2 for number in range(JOBS)], stack.logs()
            assert stack.runs() == dict.fromkeys(range(JOBS), 1), stack.logs()
            assert stack.readyz(standby)["state"] == "leading"
    with capsys.disabled():
        print(f"\nleader killed: the longest push took {report['slowest_s']} s")
