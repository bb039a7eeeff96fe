#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""penstock bench against fio's io_uring engine on this machine: against_fio.py [--pairs N] [--seconds S] [--file FILE]

Both read the same file with O_DIRECT, the same block size and depth, in turns; the order changes from pair to pair.
Prints medians, spreads and the median of the pairs' ratios. Run it on a quiet machine. penstock's bytes travel on to
device memory, or to host memory standing in for it, which fio's do not.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PENSTOCK = ROOT / "build/release/tools/penstock"
CASES = [  # Name, what fio calls it, what penstock calls it, block, depth, unit.
    ("sequential read, 1 MiB, depth 16", "read", "read", "1M", 16, "GB/s"),
    ("random read, 4 KiB, depth 64", "randread", "randread", "4k", 64, "kIOPS"),
]


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed: {result.stderr.strip() or result.stdout.strip()}")
    return json.loads(result.stdout)


def fio(file, mode, block, depth, seconds):
    job = run("fio", "--name=versus", f"--filename={file}", f"--rw={mode}", f"--bs={block}", f"--iodepth={depth}",
              "--ioengine=io_uring", "--direct=1", "--time_based", f"--runtime={seconds}", "--output-format=json",
              "--readonly", "--invalidate=0", "--norandommap=1", "--randrepeat=0")["jobs"][0]
    read = job["read"]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return read["bw_bytes"] / 1e9, read["iops"] / 1e3, cpu / (read["io_bytes"] / 1e9)


def penstock(file, mode, block, depth, seconds):
    report = run(PENSTOCK, "bench", file, "--rw", mode, "--bs", block, "--depth", depth, "--time", seconds, "--direct",
                 "--require", "bounce", "--json")
    result = report["result"]
    return result["gb_per_s"], result["iops"] / 1e3, result["cpu_seconds_per_gb"]


def spread(values):
    return f"{statistics.median(values):8.2f} [{min(values):.2f} {max(values):.2f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--file", type=Path, default=ROOT / "build/bench/data")
    options = parser.parse_args()
    if not PENSTOCK.exists():
        sys.exit("build the tool first: ./dev build release")
    made = not options.file.exists()
    if made:
        options.file.parent.mkdir(parents=True, exist_ok=True)
        with open(options.file, "wb") as data:  # Real bytes: holes would be read from nowhere.
            block = os.urandom(16 << 20)
            for _ in range(256):
                data.write(block)
            os.fsync(data.fileno())
    print(f"{options.file}: {options.file.stat().st_size >> 20} MiB, {options.pairs} pairs of {options.seconds} s each")
    print(f"{'':34} {'penstock':>24} {'fio':>24}  unit   ratio  cpu s/GB: penstock, fio")
    for name, fio_mode, mode, block, depth, unit in CASES:
        ours, theirs = [], []
        for pair in range(options.pairs):
            turns = [(ours, penstock, mode), (theirs, fio, fio_mode)]
            for results, measure, word in turns if pair % 2 == 0 else reversed(turns):
                results.append(measure(options.file, word, block, depth, options.seconds))
        column = 0 if unit == "GB/s" else 1
        ratio = statistics.median(a[column] / b[column] for a, b in zip(ours, theirs))
        print(f"{name:34} {spread([row[column] for row in ours]):>24} {spread([row[column] for row in theirs]):>24}  "
              f"{unit:6} {ratio:5.2f}  {statistics.median(row[2] for row in ours):.3f}, "
              f"{statistics.median(row[2] for row in theirs):.3f}", flush=True)
    if made:
        options.file.unlink()


main()
