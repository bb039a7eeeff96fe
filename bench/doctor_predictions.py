#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What `penstock explain --measure` foretells, and what is measured once the change is made.

    doctor_predictions.py PENSTOCK FOLDER [--size MIB] [--rounds N]

Makes four files in FOLDER, of which nothing is cached, and asks doctor. Then it makes each change, and has `penstock
bench` measure: whole files by requests of 64 MiB, one after another, or four at a time. Prints a line for each change
and round, predicted over measured; removes its files.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = 4
MIB = 1 << 20
CACHED = "have all of it in the page cache before it is loaded"
THREADS = "have four requests under way at a time"
POLICY = "spend more CPU time on it"


def run(words, **variables):
    words = [str(word) for word in words]
    done = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words[1]}: {done.stderr}")
    return json.loads(done.stdout)


def make(folder, mib):
    paths = [folder / f"part-{i}" for i in range(FILES)]
    for path in paths:
        with open(path, "wb") as file:
            for _ in range(mib // FILES):
                file.write(os.urandom(MIB))
            os.fsync(file.fileno())
    return paths


def evict(paths):
    for path in paths:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_of(tool, folder, size, *more, **variables):
    """Of one load of all files by a new process, the middle one of three."""
    words = [tool, "bench", folder, "--bs", "64M", "--depth", "1", "--repeat", "1", "--ramp", "0", "--json", *more]
    return statistics.median(size / (run(words, **variables)["result"]["gb_per_s"] * 1e9) for _ in range(3))


def one_round(tool, folder, paths):
    """{change: (predicted, measured)} in seconds."""
    evict(paths)
    report = run([tool, "explain", "--measure", folder, "--json"])
    size = report["bytes"]
    # What doctor leaves out gains nothing: then it has foretold the time that it takes now.
    predicted = {"now": report["forecast"]["seconds"], CACHED: None, THREADS: None, POLICY: None}
    predicted |= {change["what"]: change["seconds"] for change in report["changes"] if change["what"] in predicted}
    measured = {"now": seconds_of(tool, folder, size, "--drop-cache"),
                THREADS: seconds_of(tool, folder, size, "--drop-cache", "--threads", "4"),
                POLICY: seconds_of(tool, folder, size, "--drop-cache", PENSTOCK_POLICY="throughput"),
                CACHED: seconds_of(tool, folder, size, "--warm")}
    return {what: (predicted[what] or predicted["now"], measured[what]) for what in predicted}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=2048, help="MiB of all files")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ratios = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        paths = make(folder, options.size)
        for number in range(options.rounds):
            for what, (predicted, measured) in one_round(options.tool, folder, paths).items():
                ratios.setdefault(what, []).append(predicted / measured)
                print(f"{number}  {what}: predicted {predicted:.2f} s, measured {measured:.2f} s, "
                      f"ratio {predicted / measured:.2f}", flush=True)
    for what, found in ratios.items():
        near = sum(0.8 <= ratio <= 1.25 for ratio in found)
        print(f"{what}: median {statistics.median(found):.2f}, {min(found):.2f} to {max(found):.2f}; "
              f"within 20 %: {near} of {len(found)}")


if __name__ == "__main__":
    main()
