#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What the loader is told by every program and library in folders: check_elf.py [--built-here] [--optimised] PLACE...

A RUNPATH that is empty or relative in one of its parts sends the loader to the current directory, where anybody may
have put a library. --built-here: nothing is left writable that need not be, programs can be loaded anywhere, and stacks
are guarded; --optimised: so are the C library's copies. Reads the files itself, since readelf may not be there.
"""

import argparse
import mmap
import os
import struct
import sys
from pathlib import Path

EXECUTABLE, SHARED = 2, 3  # e_type
LOAD, DYNAMIC, INTERPRETER, STACK, RELRO = 1, 2, 3, 0x6474E551, 0x6474E552  # p_type
WRITE, EXECUTE = 2, 1  # p_flags
STRINGS, RPATH, RUNPATH, FLAGS, FLAGS_1 = 5, 15, 29, 30, 0x6FFFFFFB  # d_tag
BIND_NOW, NOW_1 = 8, 1
DYNAMIC_SYMBOLS = 11  # sh_type
FOREIGN = {"CMakeFiles", "machines"}  # CMake's own trials, and what emulated machines are made of.


class Elf:
    """One 64-bit little-endian file: type, segments, dynamic entries and the names of dynamic symbols."""

    def __init__(self, data):
        self.data = data
        self.kind, = struct.unpack_from("<H", data, 16)
        at, self.sections_at = struct.unpack_from("<QQ", data, 32)
        size, count, self.section_size, self.section_count = struct.unpack_from("<HHHH", data, 54)
        # type, flags, offset, address, physical address, bytes in the file
        self.segments = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(count)]
        self.dynamic = list(self.read_dynamic())

    def read_dynamic(self):
        for kind, _, offset, _, _, size in self.segments:
            if kind == DYNAMIC:
                yield from struct.iter_unpack("<qQ", self.data[offset:offset + size])

    def has_segment(self, kind):
        return any(segment[0] == kind for segment in self.segments)

    def value(self, tag):
        return next((value for found, value in self.dynamic if found == tag), 0)

    def text(self, at):
        address = self.value(STRINGS) + at
        offset = next(in_file + address - start for kind, _, in_file, start, _, size in self.segments
                      if kind == LOAD and start <= address < start + size)
        return self.data[offset:self.data.find(b"\0", offset)].decode()

    def search_paths(self):
        return [self.text(value) for tag, value in self.dynamic if tag in (RPATH, RUNPATH)]

    def symbols(self):
        for i in range(self.section_count):
            section = struct.unpack_from("<IIQQQQ", self.data, self.sections_at + i * self.section_size)
            if section[1] == DYNAMIC_SYMBOLS:
                table = self.data[section[4]:section[4] + section[5]]
                return {self.text(name) for name, *_ in struct.iter_unpack("<IBBHQQ", table)}
        return set()


def is_safe(part):
    return part.startswith(("/", "$ORIGIN/", "${ORIGIN}/")) or part in ("$ORIGIN", "${ORIGIN}")


def paths_faults(elf):
    unsafe = {part for path in elf.search_paths() for part in path.split(":") if not is_safe(part)}
    return [f"searches for libraries in '{part}', which depends on the current directory" for part in sorted(unsafe)]


def build_faults(elf, optimised):
    if elf.kind == EXECUTABLE:
        yield "is no position-independent executable"
    if not elf.has_segment(RELRO):
        yield "is linked without -z relro"
    if not (elf.value(FLAGS) & BIND_NOW or elf.value(FLAGS_1) & NOW_1):
        yield "is linked without -z now"
    for kind, flags, *_ in elf.segments:
        if kind in (LOAD, STACK) and flags & EXECUTE and flags & WRITE:
            yield "has memory that can be written and executed"
    names = elf.symbols()
    if "__stack_chk_fail" not in names:
        yield "is compiled without a stack protector"
    if optimised and not any(name.endswith("_chk") for name in names):
        yield "is compiled without _FORTIFY_SOURCE"


def faults(path, options):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        elf = Elf(data)
        if elf.kind not in (EXECUTABLE, SHARED) or not elf.dynamic:
            return None
        return paths_faults(elf) + (list(build_faults(elf, options.optimised)) if options.built_here else [])


def elf_files(place):
    if place.is_file():
        yield place
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(set(folders) - FOREIGN)
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_symlink() or not path.is_file():
                continue
            with open(path, "rb") as file:
                if file.read(6) == b"\x7fELF\x02\x01":
                    yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built-here", action="store_true")
    parser.add_argument("--optimised", action="store_true")
    parser.add_argument("place", nargs="+", type=Path)
    options = parser.parse_args()
    checked, bad = 0, 0
    for path in (file for place in options.place for file in elf_files(place)):
        found = faults(path, options)
        checked += found is not None
        for fault in found or []:
            bad += 1
            print(f"{path} {fault}")
    print(f"check_elf: {checked} programs and libraries, {bad} faults")
    if bad:
        print("a file that is not built any more stays in a build folder until somebody removes it")
    return 0 if checked > 0 and bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
