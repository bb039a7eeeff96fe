#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Instructions of small, larger, queued and batched reads on the null path, where the library's own cost is all there
is, and of a path's own part of them: its verdict, its channel's work, between a drive and a device that move nothing.

    instructions.py           prints them beside what bench/instructions.json holds
    instructions.py --check   the same; exits 1 if one has grown by more than 5 %
    instructions.py --record  writes bench/instructions.json
    instructions.py --build   only builds, the libraries as well: a release, for test/install/release_test.sh

Counted by valgrind's callgrind in a release build of its own (build/instructions): two runs that differ in their number
of requests, so that everything else cancels. Another compiler makes other code: exits 77 where it is not the one that
the figures were recorded with.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/instructions"
RECORD = ROOT / "bench/instructions.json"
TARGETS = ("penstock_instructions", "penstock_path_instructions")
PATHS = ("null", "p2pdma", "dmabuf", "in-place", "bounce")
READS = {"4 KiB read": ("instructions", "call", 4 << 10), "1 MiB read": ("instructions", "call", 1 << 20),
         "4 KiB queued read": ("instructions", "queue", 4 << 10),
         "4 KiB batch entry": ("instructions", "batch", 4 << 10),
         **{f"{path}: 4 KiB {name}read": ("path_instructions", path, how, 4 << 10)
            for path in PATHS for name, how in (("", "call"), ("queued ", "queue"))}}
REQUESTS = 1920  # Whole rows of a queue, and whole batches.
GROWTH_MAX = 1.05


def run(command, what):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"instructions: {what} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def compiler():
    """Name and major version, and the machine: what the figures depend on."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    path = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)[1]
    version = run([path, "-dumpversion"], "asking the compiler for its version").strip()
    return f"{'clang' if 'clang' in Path(path).name else 'gcc'} {version.split('.')[0]} {os.uname().machine}"


def build(*targets):
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
         "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -DNDEBUG", "-DPENSTOCK_TESTS=OFF", "-DPENSTOCK_TOOLS=OFF",
         *launcher], "configuring build/instructions")
    run(["cmake", "--build", BUILD, "--target", *targets, "-j", os.environ.get("PENSTOCK_JOBS", "2")],
        "building build/instructions")


def instructions(program, *words):
    said = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", BUILD / "bench" / program, *words],
               "callgrind")
    return int(re.search(r"Collected : (\d+)", said)[1])


def count():
    return {name: round((instructions(*read, 2 * REQUESTS) - instructions(*read, REQUESTS)) / REQUESTS)
            for name, read in READS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--build", action="store_true")
    options = parser.parse_args()
    if options.build:
        build(*TARGETS, "penstock_shared", "cufile")
        return 0
    if not shutil.which("valgrind"):
        print("instructions are not counted: valgrind is not installed (package valgrind)")
        return 77
    build(*TARGETS)
    found = {"compiler": compiler(), "instructions": count()}
    if options.record:
        RECORD.write_text(json.dumps(found, indent=2) + "\n")
        print(f"recorded in {RECORD.relative_to(ROOT)}:")
    recorded = json.loads(RECORD.read_text())
    grown = False
    for name, number in found["instructions"].items():
        before = recorded["instructions"][name]
        grown |= number > GROWTH_MAX * before
        print(f"{name}: {number} instructions, recorded {before} ({number / before - 1:+.1%})")
    if recorded["compiler"] != found["compiler"]:
        print(f"the figures were recorded with {recorded['compiler']}, and this is {found['compiler']}: not comparable")
        return 77
    if grown and options.check:
        print("grown by more than 5 %: make it shorter, or record what it is now worth: ./dev bench --record")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
