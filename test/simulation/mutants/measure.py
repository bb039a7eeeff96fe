#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Puts faults back into the library, one at a time, and says how soon the simulation finds each.

    measure.py BUILD [--minutes N] [--jobs N] [NAME...]

BUILD is a build folder of this tree, which it uses. Each patch beside this file is applied, built and taken back, which
compiles what it touches. Three first seeds look for each fault, within N minutes of CPU time for each (one by default),
in a copy of the program, while the next is built; N of them at once (one by default). It ends with 1 where one was not
found by all three.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
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


def build_with(patch, build, folder):
    """Returns the program that has this fault."""
    git("apply", str(patch))
    try:
        subprocess.run(["cmake", "--build", str(build), "--target", "penstock_simulation", "-j2"], check=True,
                       stdout=subprocess.DEVNULL)
        return shutil.copy(build / "test/simulation/penstock_simulation", folder / patch.stem)
    finally:
        git("apply", "-R", str(patch))


def tell(name, program, searches):
    took = [search.result() for search in searches]
    Path(program).unlink()
    print(f"{name}: {', '.join('not found' if each is None else f'{each:.1f} s' for each in took)}", flush=True)
    return None not in took


def measure(patches, build, minutes, jobs):
    """True if all were found."""
    with tempfile.TemporaryDirectory(dir=build) as folder, ThreadPoolExecutor(jobs) as searchers, \
            ThreadPoolExecutor(1) as teller:
        told = []
        for patch in patches:
            program = build_with(patch, build, Path(folder))
            searches = [searchers.submit(seconds_until_found, program, seed, minutes) for seed in FIRST_SEEDS]
            told.append(teller.submit(tell, patch.stem, program, searches))
        return all([each.result() for each in told])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*")
    words = parser.parse_intermixed_args()
    if git("status", "--porcelain", "--", "src", "kv").strip():
        sys.exit("measure: src/ or kv/ has changes of its own")
    patches = [each for each in sorted(HERE.glob("*.patch")) if not words.names or each.stem in words.names]
    sys.exit(0 if measure(patches, words.build.resolve(), words.minutes, words.jobs) else 1)


if __name__ == "__main__":
    main()
