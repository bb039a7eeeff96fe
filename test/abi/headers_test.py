#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Programs and libraries of different versions of one SONAME: headers_test.py CC CXX INCLUDE LIBRARY CLIENT

headers/VERSION/ has the headers as the first version of each SONAME brought them. What they have stays, but for what
they mark as experimental: enumerators with their numbers, functions with their signatures, members at the beginning of
structures. client.c runs on the library compiled with the oldest header, with the library's own, and with one whose
structures are all longer than the library knows.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
CC, CXX, INCLUDE, LIBRARY, CLIENT = sys.argv[1:6]
STRUCT = re.compile(r"typedef struct (\w+) {(.*?)} \w+;", re.S)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


class Face:
    """What the C headers in a folder promise."""

    def __init__(self, folder):
        texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.h"))]
        texts = [text for text in texts if "[experimental] All of this header" not in text]
        self.experimental = set(re.findall(r"(PENSTOCK_\w+) = \d+,?\s*/\* \[experimental\]", "".join(texts)))
        text = "".join(map(without_comments, texts))
        self.enumerators = dict(re.findall(r"(PENSTOCK_\w+) = (\d+)", text))
        self.functions = {}
        for result, name, rest in re.findall(r"^((?!static)[a-z][\w ]*[ *])(penstock_\w+)(\([^{}]*?\));", text, re.M):
            self.functions[name] = one_line(result + name + rest)
        self.structs = {}
        for name, body in STRUCT.findall(text):
            self.structs[name] = [one_line(member) for member in body.split(";") if member.strip()]


def oldest_header():
    """Of the SONAME: headers/0.2 for libpenstock.so.0.2."""
    dynamic = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True).stdout
    version = re.search(r"SONAME.*\[libpenstock\.so\.([\d.]+)\]", dynamic)[1]
    return HERE / "headers" / version


def widened(text):
    """The header of a later version: every structure has more at its end."""
    return STRUCT.sub(
        lambda found: found[0]
        if "struct_size" not in found[2]
        else f"typedef struct {found[1]} {{{found[2]}  uint64_t later[3];\n}} {found[1]};",
        text,
    )


class Headers(unittest.TestCase):
    old = Face(oldest_header() / "penstock")
    new = Face(Path(INCLUDE) / "penstock")

    def test_there_is_something_to_compare(self):
        self.assertGreater(len(self.old.enumerators), 60)
        self.assertGreater(len(self.old.functions), 40)
        self.assertGreater(len(self.old.structs), 10)

    def test_enumerators_keep_their_numbers(self):
        promised = {name: number for name, number in self.old.enumerators.items() if name not in self.old.experimental}
        self.assertEqual({name: self.new.enumerators.get(name) for name in promised}, promised)

    def test_what_is_experimental_is_no_promise_and_no_secret(self):
        self.assertIn("PENSTOCK_PATH_NVFS", self.new.experimental)
        self.assertNotIn("penstock_stripe_open", self.new.functions)
        self.assertLess(len(self.new.experimental), 20)
        withdrawn = (self.new.experimental - self.old.experimental) & set(self.old.enumerators)
        self.assertFalse(withdrawn, "a promise is not taken back in one SONAME")

    def test_functions_keep_their_signatures(self):
        self.assertEqual({name: self.new.functions.get(name) for name in self.old.functions}, self.old.functions)

    def test_structures_grow_at_their_ends(self):
        for name, members in self.old.structs.items():
            self.assertEqual(self.new.structs.get(name, [])[: len(members)], members, name)

    def test_every_structure_but_the_status_begins_with_its_size(self):
        beginnings = {name: members[0] for name, members in self.new.structs.items() if name != "penstock_status"}
        self.assertEqual(set(beginnings.values()), {"uint32_t struct_size"}, beginnings)

    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)

    def run_client(self, include):
        program = os.path.join(self.work.name, "client")
        flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{include}"]
        library = ["-o", program, LIBRARY, f"-Wl,-rpath,{os.path.dirname(LIBRARY)}"]
        subprocess.run([CC, *flags, "-Wno-missing-field-initializers", CLIENT, *library], check=True)
        done = subprocess.run([program, program + ".data"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_program_of_the_oldest_header_runs(self):
        self.run_client(oldest_header())

    def test_a_program_of_the_same_header_runs(self):
        self.run_client(INCLUDE)

    def test_a_program_of_a_later_header_runs(self):
        folder = Path(self.work.name) / "penstock"
        folder.mkdir()
        later = {path.name: widened(path.read_text(encoding="utf-8")) for path in Path(INCLUDE).glob("penstock/*.h")}
        self.assertGreater(sum(text.count("later[3]") for text in later.values()), 10)
        for name, text in later.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.run_client(folder.parent)

    def test_headers_compile_by_themselves_as_old_as_they_say(self):
        plain = [path.name for path in sorted(Path(INCLUDE).glob("penstock/*.h"))]
        for compiler, standard, language, header in (
            *((CC, "c11", "c", name) for name in plain),
            *((CXX, "c++98", "c++", name) for name in plain),
            (CXX, "c++17", "c++", "penstock.hpp"),
            (CXX, "c++20", "c++", "penstock.hpp"),
            (CXX, "c++17", "c++", "futures.hpp"),
            (CXX, "c++20", "c++", "futures.hpp"),
        ):
            source = f"#include <penstock/{header}>\n"
            flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-fsyntax-only"]
            done = subprocess.run([compiler, *flags, "-x", language, "-"], input=source, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{header} as {standard}")


if __name__ == "__main__":
    del sys.argv[1:]
    sys.exit(unittest.main())
