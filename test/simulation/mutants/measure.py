#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Puts faults back into the library, one at a time, and says how soon the simulation finds each.

    measure.py BUILD [--minutes N] [NAME...]

BUILD is a build folder of this tree, which it uses. Each patch beside this file is applied, built, looked for by three
first seeds within N minutes of CPU time for each (one by default), and taken back. It ends with 1 where one was not
found by all three.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FIRST_SEEDS = (1, 1_000_001, 2_000_001)
TOOK = re.compile(r"([\d.]+) CPU seconds")


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, text=True, stdout=subprocess.PIPE).stdout


def seconds_until_found(program, seed, minutes):
    """Of CPU time, or None."""
    done = subprocess.run([program, "--seed", str(seed), "--minutes", str(minutes)], text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return float(TOOK.findall(done.stdout)[-1]) if done.returncode != 0 else None


def measure(patch, build, minutes):
    git("apply", str(patch))
    try:
        subprocess.run(["cmake", "--build", str(build), "--target", "penstock_simulation"], check=True,
                       stdout=subprocess.DEVNULL)
        program = build / "test/simulation/penstock_simulation"
        return [seconds_until_found(program, seed, minutes) for seed in FIRST_SEEDS]
    finally:
        git("apply", "-R", str(patch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("names", nargs="*")
    words = parser.parse_args()
    if git("status", "--porcelain", "--", "src", "kv").strip():
        sys.exit("measure: src/ or kv/ has changes of its own")
    found_all = True
    for patch in sorted(HERE.glob("*.patch")):
        if words.names and patch.stem not in words.names:
            continue
        took = measure(patch, words.build.resolve(), words.minutes)
        found_all = found_all and None not in took
        told = ["not found" if each is None else f"{each:.1f} s" for each in took]
        print(f"{patch.stem}: {', '.join(told)}", flush=True)
    sys.exit(0 if found_all else 1)


if __name__ == "__main__":
    main()
