#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Whether the intervals that `penstock bench` gives can be trusted: one command again and again, and how many pairs of
its intervals overlap. 95 % and more is what they promise. Takes some minutes of a machine that does nothing else.

    bench/honest_interval.py FILE [--runs 20] [--tool build/release/tools/penstock] [-- WORDS OF BENCH...]

Without words: the drive, the page cache, random reads, and writes to a new file beside FILE, one after the other.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def commands(file):
    written = f"{file}.written"
    return [
        [file, "--direct"],
        [file, "--warm", "--buffered"],
        [file, "--rw", "randread", "--bs", "4k", "--direct"],
        [written, "--rw", "write", "--create", "--size", "64M"],
    ]


def measure(tool, words):
    done = subprocess.run([tool, "bench", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"penstock bench {' '.join(words)}: {done.stderr.strip()}")
    if "--create" in words:
        Path(words[0]).unlink()
    result = json.loads(done.stdout)["result"]
    return result["with_fsync"] or result["rate"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tool", default=ROOT / "build/release/tools/penstock")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, words = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    chosen = [[options.file, *words]] if words else commands(options.file)
    is_honest = True
    for words in chosen:
        rates = [measure(options.tool, words) for _ in range(options.runs)]
        known = [rate for rate in rates if rate["low"] is not None]
        pairs = list(itertools.combinations(known, 2))
        overlaps = sum(a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in pairs)
        middles = [rate["gb_per_s"] for rate in known]
        width = statistics.median((rate["high"] - rate["low"]) / 2 / rate["gb_per_s"] for rate in known)
        share = overlaps / len(pairs)
        is_honest = is_honest and share >= 0.95
        print(f"{' '.join(words)}: {overlaps} of {len(pairs)} pairs overlap ({share:.1%}); "
              f"{min(middles):.3f} to {max(middles):.3f} GB/s, median {statistics.median(middles):.3f}, "
              f"half an interval {width:.1%}", flush=True)
    return 0 if is_honest else 1


if __name__ == "__main__":
    sys.exit(main())
