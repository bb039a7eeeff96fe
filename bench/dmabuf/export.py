#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""How the CUDA driver exports its memory as dma-bufs: which memory, in which ranges, in what time, and for how long the
memory lives. Then what this kernel says to a dma-buf as a buffer of io_uring. No path has a part in it, and nothing but
libcuda.so.1 is needed.

    bench/dmabuf/export.py [--device 0] [--folder .] [--descriptors 4096] [--json FILE]

Times are medians of 20 exports behind 3. Takes a GPU that nobody else uses, since who holds memory is told by
cuMemGetInfo, and some seconds of it.
"""

import argparse
import ctypes
import fcntl
import json
import mmap
import os
import platform
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import ring
from driver import (ATTRIBUTES, Driver, HostAllocated, HostRegistered, Managed, Mapped, Plain, Pool, Refused)

SCHEMA = 1
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WARM, TIMES = 3, 20
PCIE = 1
SIZES = {"allocated", "offset", "bytes", "seek", "aligned", "device_memory_taken", "with_export", "freed", "closed",
         "held", "allocated_anew", "at_end", "held_when_closed", "apart", "given_back"}
SYNC, SYNC_WORDS = 0x40086200, {"start of reading": 1, "end of reading": 5, "start of writing": 2, "end of writing": 6}


def size_name(size):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def attempt(work, *arguments):
    """What the work returned, or the name of what stopped it."""
    try:
        return work(*arguments)
    except OSError as error:
        return ring.error_name(error.errno)
    except (Refused, ValueError) as error:
        return str(error)


def outcome(work, *arguments):
    """The word ok, or the name of what stopped the work."""
    result = attempt(lambda: (work(*arguments), "ok"))
    return result if isinstance(result, str) else result[1]


def once(driver, address, size, flags):
    """Microseconds of one export and of one close, and the result."""
    began = time.perf_counter()
    fd = attempt(driver.export, address, size, flags)
    exported = time.perf_counter()
    if isinstance(fd, str):
        return (exported - began) * 1e6, None, fd
    os.close(fd)
    return (exported - began) * 1e6, (time.perf_counter() - exported) * 1e6, "ok"


def ranged(driver, address, offset, size, flags):
    samples = [once(driver, address + offset, size, flags) for _ in range(WARM + TIMES)]
    result = samples[-1][2]
    row = {"offset": offset, "bytes": size, "flags": flags, "result": result, "first_us": samples[0][0],
           "export_us": statistics.median(sample[0] for sample in samples[WARM:]), "close_us": None, "seek": None}
    if result == "ok":
        row["close_us"] = statistics.median(sample[1] for sample in samples[WARM:])
        fd = driver.export(address + offset, size, flags)
        row["seek"] = os.lseek(fd, 0, os.SEEK_END)
        os.close(fd)
    return row


def plans(driver):
    """Kinds of memory, how much of it, and the ranges of it that are exported: (offset, size, flags)."""
    plain, mapped = Plain(driver), Mapped(driver, rdma=True)
    yield plain, 64 * KIB, [(0, 64 * KIB), (0, 4 * KIB), (4 * KIB, 4 * KIB), (4 * KIB, 60 * KIB), (0, 512),
                            (0, 68 * KIB), (0, 2 * MIB)]
    yield plain, 1_000_000, [(0, 1_000_000), (0, 245 * 4 * KIB), (0, MIB), (0, 2 * MIB)]
    yield plain, 2 * MIB, [(0, 2 * MIB), (64 * KIB, 2 * MIB - 64 * KIB), (0, 2 * MIB, PCIE)]
    yield plain, 64 * MIB, [(0, 64 * MIB), (4 * KIB, 4 * KIB), (4 * KIB, 64 * MIB - 4 * KIB),
                            (64 * KIB, 64 * MIB - 64 * KIB), (2 * MIB, 62 * MIB), (0, 4 * KIB), (0, 2 * MIB + 4 * KIB),
                            (512, 4 * KIB), (0, 4 * KIB + 512), (0, 64 * MIB + 4 * KIB), (0, 64 * MIB, PCIE)]
    yield plain, GIB, [(0, GIB), (0, GIB, PCIE)]
    yield plain, 8 * GIB, [(0, 8 * GIB), *((slab * GIB, GIB) for slab in range(8)), (GIB + 64 * KIB, GIB),
                           (0, 8 * GIB, PCIE)]
    for pool in (Pool(driver), Pool(driver, "exportable"), Pool(driver, "keeping")):
        yield pool, 64 * KIB, [(0, 64 * KIB), (0, 4 * KIB), (4 * KIB, 4 * KIB), (0, 68 * KIB), (0, 128 * KIB),
                               (0, 2 * MIB), (0, 32 * MIB)]
        yield pool, 64 * MIB, [(0, 64 * MIB), (0, 4 * KIB), (4 * KIB, 64 * KIB), (64 * KIB, 64 * KIB),
                               (64 * KIB, 68 * KIB), (2 * MIB, 62 * MIB), (31 * MIB, 2 * MIB), (0, 64 * MIB, PCIE)]
    for rdma, exportable in ((False, False), (False, True), (True, False), (True, True)):
        yield Mapped(driver, rdma, exportable), 64 * MIB, [(0, 64 * MIB)]
    yield Mapped(driver), 64 * MIB, [(4 * KIB, 4 * KIB), (64 * KIB, 64 * KIB), (2 * MIB, 62 * MIB)]
    yield mapped, 64 * MIB, [(4 * KIB, 4 * KIB), (64 * KIB, 64 * MIB - 64 * KIB), (0, 64 * MIB, PCIE)]
    yield Mapped(driver, rdma=True, handles=2), 64 * MIB, [
        (0, 32 * MIB), (32 * MIB, 32 * MIB), (0, 64 * MIB), (31 * MIB, 2 * MIB), (32 * MIB - 4 * KIB, 8 * KIB)]
    for other in (Managed(driver), HostAllocated(driver), HostRegistered(driver)):
        yield other, 2 * MIB, [(0, 2 * MIB), (0, 2 * MIB, PCIE)]


def planned(driver, kind, size, ranges):
    """One row for each range of one allocation."""
    about = {"memory": kind.name, "allocated": size}
    address = attempt(kind.allocate, size)
    if isinstance(address, str):
        return [{**about, "offset": 0, "bytes": size, "flags": 0, "result": f"not allocated: {address}"}]
    about["rdma_capable"] = driver.pointer("rdma_capable", address)
    about["aligned"] = address & -address
    rows = [{**about, **ranged(driver, address, *(words if len(words) == 3 else (*words, 0)))} for words in ranges]
    kind.free(address, size)
    return rows


def many(driver, size, most):
    """How many descriptors of one range can be open at a time, and what stopped it."""
    kind, fds, why = Plain(driver), [], f"the {most} that were asked for"
    address = kind.allocate(size)
    before, began = driver.free_bytes(), time.perf_counter()
    while len(fds) < most:
        fd = attempt(driver.export, address, size)
        if isinstance(fd, str):
            why = fd
            break
        fds.append(fd)
    exported = time.perf_counter()
    taken = before - driver.free_bytes()
    for fd in fds:
        os.close(fd)
    closed = time.perf_counter()
    kind.free(address, size)
    count = max(len(fds), 1)
    return {"bytes": size, "open": len(fds), "ended_by": why, "device_memory_taken": taken,
            "export_us": (exported - began) / count * 1e6, "close_us": (closed - exported) / count * 1e6}


class Life:
    """What one allocation holds of the device, from its export to its last descriptor."""

    def __init__(self, driver, kind, size):
        self.driver, self.kind, self.size = driver, kind, size
        kind.free(kind.allocate(size), size)
        self.before = driver.free_bytes()

    def held(self):
        return self.before - self.driver.free_bytes()

    def ids(self, address):
        return [address, *(self.driver.pointer(name, address) for name in ("buffer_id", "block_id"))]

    def row(self, is_exported):
        address = self.kind.allocate(self.size)
        row, first = {"memory": self.kind.name, "bytes": self.size, "exported": is_exported}, self.ids(address)
        row["allocated"] = self.held()
        fd = self.driver.export(address, self.size) if is_exported else None
        row["with_export"] = self.held()
        self.kind.free(address, self.size)
        row["freed"] = self.held()
        if is_exported:
            row["export_of_freed"] = once(self.driver, address, self.size, 0)[2]
            row["sync_of_freed"] = sync(fd)["start of reading"]
        self.allocated_anew(row, first, fd)
        row["at_end"] = self.held()
        return row

    def allocated_anew(self, row, first, fd):
        address = self.kind.allocate(self.size)
        for name, old, new in zip(("address", "buffer_id", "block_id"), first, self.ids(address)):
            row[f"{name}_before"], row[f"{name}_after"] = old, new
        row["allocated_anew"] = self.held()
        if fd is not None:
            row["export_anew"] = once(self.driver, address, self.size, 0)[2]
            os.close(fd)
        row["closed"] = self.held()
        self.kind.free(address, self.size)


def lives(driver):
    kinds = [(Plain(driver), size) for size in (64 * KIB, 2 * MIB, 64 * MIB, GIB)]
    kinds += [(Mapped(driver, rdma=True), 64 * MIB)]
    kinds += [(Pool(driver, what), 64 * MIB) for what in ("default", "exportable", "keeping")]
    for kind, size in kinds:
        for is_exported in (False, True):
            row = attempt(lambda: Life(driver, kind, size).row(is_exported))
            yield {"memory": kind.name, "bytes": size, "stopped": row} if isinstance(row, str) else row


def neighbours(driver, kind, size):
    """Two allocations, one after the other: can one export hold both, and what is in the first one's place when it was
    exported, freed and allocated anew beside the second?"""
    first, second = kind.allocate(size), kind.allocate(size)
    row = {"memory": kind.name, "bytes": size, "apart": second - first,
           "both": once(driver, min(first, second), abs(second - first) + size, 0)[2],
           "second_alone": once(driver, second, size, 0)[2]}
    fd, before = driver.export(first, size), driver.free_bytes()
    row["block_first"], row["block_second"] = (driver.pointer("block_id", address) for address in (first, second))
    row["buffer_first"] = driver.pointer("buffer_id", first)
    kind.free(first, size)
    row["given_back"] = driver.free_bytes() - before
    anew = kind.allocate(size)
    row.update(same_place=anew == first, block_anew=driver.pointer("block_id", anew),
               buffer_anew=driver.pointer("buffer_id", anew))
    os.close(fd)
    for address in (anew, second):
        kind.free(address, size)
    return row


def all_neighbours(driver):
    kinds = [(Plain(driver), size) for size in (64 * KIB, 2 * MIB, 64 * MIB)]
    kinds += [(Pool(driver), size) for size in (64 * KIB, 64 * MIB)]
    for kind, size in kinds:
        row = attempt(neighbours, driver, kind, size)
        yield {"memory": kind.name, "bytes": size, "stopped": row} if isinstance(row, str) else row


def question_us(driver):
    """Microseconds of one question for a pointer's buffer, ctypes and all."""
    kind, times = Plain(driver), []
    address = kind.allocate(2 * MIB)
    for _ in range(1000):
        began = time.perf_counter()
        driver.pointer("buffer_id", address)
        times.append((time.perf_counter() - began) * 1e6)
    kind.free(address, 2 * MIB)
    return {"buffer_id_us": statistics.median(times)}


def most_of_it(driver):
    """Six tenths of what is free, exported and freed: can they be allocated anew before the descriptor is closed?"""
    kind, size = Plain(driver), driver.free_bytes() * 6 // 10 // GIB * GIB
    address = kind.allocate(size)
    fd = attempt(driver.export, address, size)
    kind.free(address, size)

    def anew():
        kind.free(kind.allocate(size), size)

    found = {"bytes": size, "export": fd if isinstance(fd, str) else "ok", "anew_while_open": outcome(anew)}
    if not isinstance(fd, str):
        os.close(fd)
    return {**found, "anew_when_closed": outcome(anew)}


def sender(driver):
    """The process of ended_process: exports 1 GiB, gives the descriptor away and ends without freeing anything."""
    fd = driver.export(Plain(driver).allocate(GIB), GIB)
    with socket.socket(fileno=0) as channel:
        socket.send_fds(channel, [b"x"], [fd])


def ended_process(driver, ordinal):
    """What a process that has ended still holds, while another has its descriptor."""
    before = driver.free_bytes()
    ours, theirs = socket.socketpair()
    child = subprocess.Popen([sys.executable, __file__, "--sender", "--device", str(ordinal)], stdin=theirs)
    theirs.close()
    fds = socket.recv_fds(ours, 1, 1)[1]
    found = {"bytes": GIB, "exit": child.wait(), "received": len(fds), "held": before - driver.free_bytes()}
    for fd in fds:
        os.close(fd)
    return {**found, "held_when_closed": before - driver.free_bytes()}


def sync(fd):
    return {name: outcome(fcntl.ioctl, fd, SYNC, struct.pack("Q", word)) for name, word in SYNC_WORDS.items()}


def descriptor(fd, size):
    """What a dma-buf's descriptor can do for the CPU."""
    info = dict(line.split(":", 1) for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines() if ":" in line)
    return {"exporter": info.get("exp_name", "unknown").strip(), "link": os.readlink(f"/proc/self/fd/{fd}"),
            "close_on_exec": bool(fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC),
            "mmap": outcome(mmap.mmap, fd, size),
            "mmap_read_only": outcome(lambda: mmap.mmap(fd, size, prot=mmap.PROT_READ)),
            "read": outcome(os.read, fd, 1), "sync": sync(fd)}


def machine(driver):
    version = Path("/proc/driver/nvidia/version")
    slot = Path("/sys/bus/pci/devices", driver.text("cuDeviceGetPCIBusId").lower())
    group, resource_file = slot / "iommu_group/type", slot / "resource"
    lines = resource_file.read_text().splitlines()[:6] if resource_file.exists() else []
    ends = [[int(word, 16) for word in line.split()[:2]] for line in lines]
    return {"date": f"{datetime.now(timezone.utc):%F}", "gpu": driver.text("cuDeviceGetName"), "cpus": os.cpu_count(),
            "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "linux": platform.release(),
            "module": version.read_text().splitlines()[0] if version.exists() else None,
            "cuda": driver.get(ctypes.c_int, "cuDriverGetVersion"), "free": attempt(driver.free_bytes),
            "bars": [size_name(last - first + 1) for first, last in ends if last],
            "iommu": group.read_text().strip() if group.exists() else "no group",
            "attributes": {name: attempt(driver.attribute, number) for name, number in ATTRIBUTES.items()}}


def section(report, name, work):
    """A part that stops says why in the report, and the others go on."""
    began = time.perf_counter()
    try:
        report[name] = work()
    except Exception as error:
        report[name] = f"stopped: {type(error).__name__} {error}"
    report.setdefault("seconds", {})[name] = round(time.perf_counter() - began, 2)


def measured(driver, options):
    report = {"schema": SCHEMA}
    section(report, "machine", lambda: machine(driver))
    section(report, "ranges", lambda: [row for plan in plans(driver) for row in planned(driver, *plan)])
    section(report, "lives", lambda: list(lives(driver)))
    section(report, "neighbours", lambda: list(all_neighbours(driver)))
    section(report, "question", lambda: question_us(driver))
    section(report, "most_of_it", lambda: most_of_it(driver))
    section(report, "ended_process", lambda: ended_process(driver, options.device))
    section(report, "many", lambda: [many(driver, size, options.descriptors) for size in (2 * MIB, GIB)])
    kind = Plain(driver)
    address = kind.allocate(2 * MIB)
    fd = attempt(driver.export, address, 2 * MIB)
    is_open = not isinstance(fd, str)
    section(report, "descriptor", lambda: descriptor(fd, 2 * MIB) if is_open else fd)
    section(report, "io_uring", lambda: ring.answers(fd if is_open else None, options.folder))
    return report


def cell(key, value):
    if isinstance(value, float):
        return f"{value:.1f}"
    is_size = isinstance(value, int) and not isinstance(value, bool)
    if is_size and key in SIZES:
        return size_name(value)
    return hex(value) if is_size and key.startswith("address") else str(value)


def print_table(title, rows):
    """Rows of one shape below the names of their columns; anything else as it is."""
    print(f"\n{title}")
    if not isinstance(rows, list):
        rows = list(rows.items()) if isinstance(rows, dict) else [(rows,)]
    if rows and isinstance(rows[0], dict):
        names = max((list(row) for row in rows), key=len)
        rows = [names, *([cell(name, row.get(name, "")) for name in names] for row in rows)]
    rows = [[str(word) for word in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--folder", default=".", help="of the disk whose file io_uring is offered")
    parser.add_argument("--descriptors", type=int, default=4096, help="the most that are opened at a time")
    parser.add_argument("--json")
    parser.add_argument("--sender", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    driver = Driver(options.device)
    if options.sender:
        return sender(driver)
    report = measured(driver, options)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    for title, rows in report.items():
        print_table(title, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
