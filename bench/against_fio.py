#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""penstock bench against fio's io_uring engine on this machine, in every cell of size x depth x {read, write}.

Both move random blocks of one file with O_DIRECT, at the same depth, with registered memory and files, in huge pages;
fio gets these from glibc's malloc, and takes twice as long for a mebibyte without (--small-pages). They take turns, and
the order changes from pair to pair. Printed are medians with the lowest and the highest beside them, and the median of
the pairs' ratios: of the rate, which should be 0.98 at least, and of the CPU time for a GB, at most 1.00. Run it on a
quiet machine; beside other work, under `chrt -r 50`, which puts both before it. With --memory device, penstock's bytes
travel on to a GPU, or to host memory standing in for it, which fio's do not.

With --calls nothing is timed: system calls a request are counted (perf stat), which other work on the machine hardly
changes.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = 1
RATE_LEAST, CPU_MOST = 0.98, 1.00
FILE_MIB = 2048
CALLS = ("io_uring_enter", "pread64", "pwrite64", "preadv2", "pwritev2", "newfstat", "newfstatat")
RAN_SHORT = "it did nothing in its time: give it more --seconds"


def run(command, environment=None):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                            env={**os.environ, **(environment or {})})
    if result.returncode != 0:
        sys.exit(f"against_fio: {command[0]} failed: {result.stderr.strip() or result.stdout.strip()}")
    return json.loads(result.stdout)


class Fio:
    name = "fio"

    def __init__(self, options):
        self.options = options
        self.environment = {} if options.small_pages else {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

    def command(self, cell):
        block, depth, mode = cell
        return ["fio", "--name=cell", f"--filename={self.options.file}", f"--rw=rand{mode}", f"--bs={block}",
                f"--iodepth={depth}", "--ioengine=io_uring", "--fixedbufs", "--registerfiles", "--direct=1",
                "--time_based", f"--runtime={self.options.seconds}", "--output-format=json", "--invalidate=0",
                "--norandommap=1", "--randrepeat=0", *(["--readonly"] if mode == "read" else [])]

    @staticmethod
    def sample(report, mode):
        job = report["jobs"][0]
        moved = job[mode]
        cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
        if moved["io_bytes"] == 0:
            sys.exit(f"against_fio: fio: {RAN_SHORT}")
        return {"gb_per_s": moved["bw_bytes"] / 1e9, "cpu_s_per_gb": cpu / (moved["io_bytes"] / 1e9),
                "requests": moved["total_ios"]}


class Penstock:
    name = "penstock"
    environment = {}

    def __init__(self, options):
        self.options = options

    def command(self, cell):
        block, depth, mode = cell
        path = {"host": "host", "device": "bounce"}[self.options.memory]
        return [self.options.tool, "bench", self.options.file, "--rw", f"rand{mode}", "--bs", block, "--depth", depth,
                "--time", self.options.seconds, "--ramp", 0, "--direct", "--memory", self.options.memory, "--require",
                path, "--json", *(["--overwrite"] if mode == "write" else []),
                *(["--register"] if self.options.memory == "host" else [])]

    @staticmethod
    def sample(report, _mode):
        result = report["result"]
        if result["bytes"] == 0:
            sys.exit(f"against_fio: penstock: {RAN_SHORT}")
        return {"gb_per_s": result["gb_per_s"], "cpu_s_per_gb": result["cpu_seconds_per_gb"],
                "requests": result["operations"]}


def counted(side, cell):
    """System calls for each request, by name, of one run."""
    with tempfile.NamedTemporaryFile() as csv:
        events = ",".join(f"syscalls:sys_enter_{call}" for call in CALLS)
        sample = side.sample(run(["perf", "stat", "-x", ";", "-o", csv.name, "-e", events, "--", *side.command(cell)],
                                 side.environment), cell[2])
        rows = [line.split(";") for line in Path(csv.name).read_text().splitlines() if ";" in line]
    calls = {row[2].removeprefix("syscalls:sys_enter_"): int(row[0]) / sample["requests"] for row in rows}
    return {name: round(number, 3) for name, number in calls.items() if number >= 0.001}


def spread(values, digits):
    return (f"{statistics.median(values):.{digits}f} "
            f"[{min(values):.{digits}f} {max(values):.{digits}f}]")


def compared(cell, sides, pairs):
    samples = {side.name: [] for side in sides}
    for pair in range(-1, pairs):  # The first of each is not counted.
        for side in sides if pair % 2 == 0 else reversed(sides):
            sample = side.sample(run(side.command(cell), side.environment), cell[2])
            if pair >= 0:
                samples[side.name].append(sample)
    ratios = {figure: [ours[figure] / theirs[figure] for ours, theirs in zip(*samples.values())]
              for figure in ("gb_per_s", "cpu_s_per_gb")}
    return {"samples": samples, "ratios": ratios,
            "met": {"gb_per_s": statistics.median(ratios["gb_per_s"]) >= RATE_LEAST,
                    "cpu_s_per_gb": statistics.median(ratios["cpu_s_per_gb"]) <= CPU_MOST}}


def show_comparison(name, found):
    ours, theirs = found["samples"].values()
    columns = [spread([sample[figure] for sample in side], 3)
               for figure in ("gb_per_s", "cpu_s_per_gb") for side in (ours, theirs)]
    verdicts = ["met" if met else "missed" for met in found["met"].values()]
    rate, cpu = found["ratios"].values()
    print(f"| {name} | {columns[0]} | {columns[1]} | {spread(rate, 2)}: {verdicts[0]} | {columns[2]} | {columns[3]} | "
          f"{spread(cpu, 2)}: {verdicts[1]} |", flush=True)


def make(file, size):
    """A file of real bytes, as holes would be read from nowhere and blocks that were never written be written twice."""
    file.parent.mkdir(parents=True, exist_ok=True)
    block = os.urandom(16 << 20)
    with open(file, "xb") as data:
        for at in range(0, size, len(block)):
            data.write(block[:size - at])
        os.fsync(data.fileno())


def look(options):
    """All cells, each printed as it is done."""
    sides = [Penstock(options), Fio(options)]
    if options.calls:
        print("| cell | penstock, system calls a request | fio |\n|---|---|---|")
    else:
        print("| cell | Penstock, GB/s | fio | ratio | Penstock, CPU s/GB | fio | ratio |")
        print("|---" * 7 + "|")
    cells = []
    for mode in options.rw:
        for block in options.blocks:
            for depth in options.depths:
                cell = (block, depth, mode)
                name = f"{mode} {block}, depth {depth}"
                if options.calls:
                    found = {"calls": {side.name: counted(side, cell) for side in sides}}
                    print(f"| {name} | " + " | ".join(
                        ", ".join(f"{call} {number:g}" for call, number in calls.items())
                        for calls in found["calls"].values()) + " |", flush=True)
                else:
                    found = compared(cell, sides, options.pairs)
                    show_comparison(name, found)
                cells.append({"block": block, "depth": depth, "mode": mode, **found})
    return cells


def words(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="of each turn [2]")
    parser.add_argument("--blocks", type=words(str), default=["4k", "64k", "1M"], help="sizes [4k,64k,1M]")
    parser.add_argument("--depths", type=words(int), default=[1, 16, 128], help="requests in flight [1,16,128]")
    parser.add_argument("--rw", type=words(str), default=["read", "write"], help="[read,write]")
    parser.add_argument("--memory", choices=("host", "device"), default="host", help="of Penstock's side [host]")
    parser.add_argument("--small-pages", action="store_true", help="of fio's memory")
    parser.add_argument("--file", type=Path, default=ROOT / "build/bench/data",
                        help="made where there is none, and then taken away [build/bench/data]")
    parser.add_argument("--overwrite", action="store_true", help="a FILE that is there may be written over")
    parser.add_argument("--tool", type=Path, default=ROOT / "build/release/tools/penstock")
    parser.add_argument("--calls", action="store_true", help="count system calls; time nothing")
    parser.add_argument("--json", type=Path, help="everything, into this file")
    options = parser.parse_args()
    if not options.tool.exists():
        sys.exit("against_fio: build the tool first: ./dev build release")
    made = not options.file.exists()
    if not made and "write" in options.rw and not options.overwrite:
        sys.exit(f"against_fio: {options.file} would be written over: say --rw read, or --overwrite")
    if made:
        make(options.file, FILE_MIB << 20)
    try:
        size = options.file.stat().st_size
        print(f"{options.file}: {size >> 20} MiB, {options.pairs} pairs of {options.seconds} s each, random, O_DIRECT, "
              f"{options.memory} memory; load {os.getloadavg()[0]:.1f}")
        cells = look(options)
        if options.json:
            options.json.write_text(json.dumps(
                {"schema": SCHEMA, "kernel": platform.release(), "cpus": os.cpu_count(), "file_bytes": size,
                 "memory": options.memory, "fio_small_pages": options.small_pages, "pairs": options.pairs,
                 "seconds": options.seconds, "cells": cells}, indent=1) + "\n")
    finally:
        if made:
            options.file.unlink()


if __name__ == "__main__":
    main()
