"""A document as a newer objq might write it: the next schema, with fields that nobody knows yet."""

from __future__ import annotations

import json

from objq.core.codec import SCHEMA


def newer(data: bytes) -> bytes:
    """Return a document of the next schema, made from an uncompressed one."""
    file = json.loads(data)
    file["objq"] = SCHEMA + 1
    at = list(file).index("jobs")
    head, rest = dict(list(file.items())[:at]), dict(list(file.items())[at:])
    head["shards"] = 4
    for job in rest["jobs"]:
        job["key"] = "customer 7"
        if "claim" in job:
            job["claim"]["lease"] = "long"
    rest["settings"]["max_shards"] = 16
    rest["requests"]["window"] = 1
    rest["news"] = [{"of": "the day"}]
    return (
        json.dumps({**head, **rest}, separators=(",", ":")).replace(',"jobs"', ',\n"jobs"').encode()
    )
