#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Shows clang, the second compiler, what is compiled of src/, kv/ and python/, and elsewhere each source that names a
mutex, but no tests: for the warnings that GCC does not have, and for its proof that what a mutex guards is touched with
that mutex alone. Of the rest, which takes ten minutes, `./dev clang` has the warnings.

    clang.py BUILD

The flags are the build's own, and no code is made. Several sources that are compiled as one object are looked at as one
file, as long as all of them are looked at; that takes a sixth of the time, most of which is for headers. A source that
the build does not compile is a failure, so that none is left out in silence. Ninja, in BUILD/clang, looks at what has
changed since it passed.
Exits 77 where clang 14 is not installed: other versions warn of other things.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import compiled

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "kv", "python")
FOLDERS_WITH_THREADS = ("tools", "bench", "model")
FLAGS = ["-fsyntax-only", "-Wthread-safety", "-Wthread-safety-beta", "-Werror"]
# Precompiled headers and some warnings are the other compiler's, and what the headers hold each file includes itself.
NOT_OURS = re.compile(r" -Winvalid-pch| -Wno-maybe-uninitialized|(?: -Xclang)? -include(?:-pch)?(?: -Xclang)? \S+"
                      r"| -o \S+ -c \S+$")
RULE = """builddir = {build}
rule look
  command = {clang} $flags -MD -MF $out.d $in && touch $out
  depfile = $out.d
  deps = gcc
  description = clang $in
"""
UNGUARDED = """#include "base/mutex.h"
struct Count {
  penstock::core::Mutex mutex;
  int value GUARDED_BY(mutex) = 0;
};
int look(const Count& count) { return count.value; }
"""


def find_clang():
    for name in ("clang++-14", "clang++"):
        found = shutil.which(name)
        if found and " version 14." in subprocess.run([found, "--version"], capture_output=True, text=True).stdout:
            return found
    return None


def names_a_mutex(source):
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / source, (ROOT / source).with_suffix(".h"))
             if path.exists()]
    return any("mutex" in text.lower() for text in texts)


def is_looked_at(source):
    if source.suffix != ".cc" or source.stem.endswith("_test"):
        return False
    return source.parts[0] in FOLDERS or (source.parts[0] in FOLDERS_WITH_THREADS and names_a_mutex(source))


def commands_of(build):
    """The command by source, in the order of names."""
    ours = {file.relative_to(ROOT): command for file, command in compiled.commands_of(build).items()
            if file.is_relative_to(ROOT)}  # The others are what the Python module is bound by.
    return sorted((source, command) for source, command in ours.items() if is_looked_at(source))


def looks_of(commands):
    """The flags by file that clang is shown: a source, or what joins it to others, all of which are looked at."""
    looks, seen = {}, {ROOT / source for source, _ in commands}
    for source, command in commands:
        joined = Path(command.rpartition(" ")[2])
        is_whole = seen.issuperset(Path(os.path.normpath(each)) for each in compiled.sources_of(joined))
        flags = NOT_OURS.sub("", command.partition(" ")[2])
        if is_whole and joined != ROOT / source:  # To clang, names of one source shadow another's; GCC looks at those.
            looks[joined] = flags + " -Wno-shadow"
        else:
            looks[ROOT / source] = flags
    return looks


def left_out(commands):
    """The sources that should be looked at, and are not; of folders that the build has nothing of, none is expected."""
    seen = {source for source, _ in commands}
    built = {source.parts[0] for source in seen}
    there = {path.relative_to(ROOT) for folder in FOLDERS + FOLDERS_WITH_THREADS
             for path in (ROOT / folder).rglob("*.cc")}
    return sorted(source for source in there - seen if source.parts[0] in built and is_looked_at(source))


def check_that_clang_sees(clang):
    """Where the attributes come to nothing, there are no findings either."""
    seen = subprocess.run([clang, *FLAGS, "-std=c++20", f"-I{ROOT}/src", "-x", "c++", "-"], input=UNGUARDED,
                          capture_output=True, text=True)
    if "requires holding mutex 'count.mutex'" not in seen.stderr:
        sys.exit(f"clang: what nobody guards passes unseen:\n{seen.stderr}")


def main(arguments):
    clang = find_clang()
    if clang is None:
        print("skipped: clang does not look at the sources, clang 14 is not installed (package clang-14)")
        return 77
    check_that_clang_sees(clang)
    commands = commands_of(Path(arguments[1]))
    if not commands:
        sys.exit("clang: the build compiles nothing")
    if missing := left_out(commands):
        sys.exit(f"clang: the build does not compile {', '.join(map(str, missing))}")
    build = Path(arguments[1]).resolve() / "clang"
    build.mkdir(exist_ok=True)
    steps = [RULE.format(build=build, clang=clang)]
    for file, flags in looks_of(commands).items():
        steps.append(f"build {build}{file}.seen: look {file}\n  flags = {flags} {shlex.join(FLAGS)}\n")
    (build / "build.ninja").write_text("".join(steps), encoding="utf-8")
    return subprocess.run(["ninja", "-f", str(build / "build.ninja"), "-k", "0", *arguments[2:]]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv))
