# SPDX-License-Identifier: Apache-2.0

"""A store's metrics in Prometheus's text format (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["exposition"]

Sample = tuple[dict[str, str], float]

# Name, type, description.
_FAMILIES = (
    ("penstock_kv_requests_total", "counter", "Keys that were put or got, by what became of them."),
    ("penstock_kv_request_bytes_total", "counter", "Bytes of chunks that were put or got."),
    ("penstock_kv_path_bytes_total", "counter", "Bytes between drive and memory, by Penstock's path."),
    ("penstock_kv_evicted_total", "counter", "Chunks that made room for others."),
    ("penstock_kv_commits_total", "counter", "Commits, which make earlier puts durable."),
    ("penstock_kv_written_today_bytes", "gauge", "Bytes that were put on the drive in this day (UTC)."),
    ("penstock_kv_drive_slow", "gauge", "1 while nothing is put on the drive since it has become slow."),
    ("penstock_kv_chunks", "gauge", "Chunks that are there, by tier."),
    ("penstock_kv_used_bytes", "gauge", "Bytes of slots in use, by tier."),
    ("penstock_kv_capacity_bytes", "gauge", "Bytes that there may be, by tier."),
    ("penstock_kv_waiting_chunks", "gauge", "Chunks in host memory that are not on the drive yet."),
    ("penstock_kv_got_chunks_total", "counter", "Chunks that were got, by the tier that they came from."),
    ("penstock_kv_not_written_total", "counter", "Chunks of host memory that the drive did not get, and why."),
)


def _by(label: str, counts: dict[str, int], **labels: str) -> Iterator[Sample]:
    for name, count in counts.items():
        yield {**labels, label: name}, count


def _samples(family: str, sub_store: dict[str, Any]) -> Iterator[Sample]:
    """Samples of one sub-store. The process that writes it exports its contents; readers only export their gets."""
    own, host = bool(sub_store["own"]), sub_store.get("host")
    match family.removeprefix("penstock_kv_"):
        case "requests_total":
            yield from _by("outcome", sub_store["gets"], call="get")
            if own:
                yield from _by("outcome", sub_store["puts"], call="put")
        case "request_bytes_total":
            yield {"call": "get"}, sub_store["got_bytes"]
            if own:
                yield {"call": "put"}, sub_store["put_bytes"]
        case "path_bytes_total":
            yield from _by("path", sub_store["bytes_by_path"])
        case "evicted_total" | "commits_total" if own:
            yield {}, sub_store[family.removeprefix("penstock_kv_").removesuffix("_total")]
        case "written_today_bytes" if own:
            yield {}, sub_store["written_today_bytes"]
        case "drive_slow" if own:
            yield {}, int(sub_store["slow"] is not None)
        case "chunks" | "used_bytes" | "capacity_bytes" as name if own:
            yield {"tier": "drive"}, sub_store[name]
            if host is not None:
                yield {"tier": "host"}, host[name]
        case "waiting_chunks" if host is not None:
            yield {}, host["waiting"]
        case "got_chunks_total" if host is not None:
            yield {"tier": "host"}, host["got_from_host"]
            yield {"tier": "drive"}, host["got_from_drive"]
        case "not_written_total" if host is not None:
            yield from _by("reason", host["not_written"])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def exposition(drives: list[dict[str, Any]], missed: int) -> str:
    """The text for `Store.state()["drives"]`; equal metrics of a folder's sub-stores are summed.

    missed: requested keys that are in no folder.
    """
    lines: list[str] = []
    for family, kind, help_text in _FAMILIES:
        sums: dict[tuple[tuple[str, str], ...], float] = {}
        for sub_store in drives:
            for labels, value in _samples(family, sub_store):
                key = tuple({"folder": sub_store["folder"], **labels}.items())
                sums[key] = sums.get(key, 0) + value
        if family == "penstock_kv_requests_total":
            sums[("folder", ""), ("call", "get"), ("outcome", "miss")] = missed
        if sums:
            lines += [f"# HELP {family} {help_text}", f"# TYPE {family} {kind}"]
        for key, total in sums.items():
            labels_text = ",".join(f'{name}="{_escaped(value)}"' for name, value in key)
            lines.append(f"{family}{{{labels_text}}} {total}")
    return "".join(line + "\n" for line in lines)
