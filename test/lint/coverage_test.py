#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""How scripts/coverage.py sums up what ran."""

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/coverage.py"
SPEC = importlib.util.spec_from_file_location("line_coverage", SCRIPT)
coverage = importlib.util.module_from_spec(SPEC)
sys.modules["line_coverage"] = coverage
SPEC.loader.exec_module(coverage)


def tree(**files):
    return {name.replace("_", "/") + ".cc": ran for name, ran in files.items()}


class TableTest(unittest.TestCase):
    def test_rooms_are_the_folders_of_src_and_kv(self):
        text, share = coverage.table(tree(src_path_a={1: True, 2: False}, src_path_nvfs_b={7: True}, kv_c={1: False}))
        self.assertEqual([line.split() for line in text.splitlines()[1:]],
                         [["kv", "1", "0", "0.0"], ["src/path", "3", "2", "66.7"], ["all", "4", "2", "50.0"]])
        self.assertEqual(share, 50.0)

    def test_nothing_that_counts_is_nothing_that_ran(self):
        self.assertEqual(coverage.table({})[1], 0.0)


@unittest.skipUnless(shutil.which("gcov") and shutil.which("g++"), "g++ or gcov is not installed")
class ObjectsTest(unittest.TestCase):
    """Programs of a header that is in each object, compiled and run as a build would."""

    SOURCES = {
        "src/base/twice.h": "inline int twice(int x) {\n  if (x < 0)\n    return -1;\n  return 2 * x;\n}\n",
        "src/base/one.cc": '#include "twice.h"\nint main() {\n  return twice(0);\n}\n',
        "src/base/two.cc": '#include "twice.h"\nint main() {\n  return twice(-1) + 1;\n}\n',
        "src/base/never.cc": "int never() {\n  return 1;\n}\n",
        "src/base/one_test.cc": "int also() {\n  return 1;\n}\n"}
    WANTED = {name for name in SOURCES if not name.endswith("_test.cc")}

    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = Path(work.name).resolve()
        patched = mock.patch.object(coverage, "ROOT", self.root)
        patched.start()
        self.addCleanup(patched.stop)
        self.build = self.root / "build"
        self.build.mkdir()
        commands = []
        for name, text in self.SOURCES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
            if name.endswith(".cc"):
                command = f"g++ --coverage -O0 -o {Path(name).stem}.cc.o -c ../{name}"
                subprocess.run(command.split(), cwd=self.build, check=True)
                commands.append({"directory": str(self.build), "command": command})
        (self.build / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")

    def run_program(self, name):
        subprocess.run(["g++", "--coverage", f"{name}.cc.o", "-o", name], cwd=self.build, check=True)
        subprocess.run([self.build / name], check=True)

    def lines(self):
        return coverage.lines_of(self.build, self.WANTED)

    def test_a_line_of_a_header_ran_if_it_ran_in_one_of_the_objects(self):
        self.run_program("one")
        before = self.lines()["src/base/twice.h"]
        self.run_program("two")
        self.assertEqual(before, {1: True, 2: True, 3: False, 4: True})
        self.assertEqual(self.lines()["src/base/twice.h"], {1: True, 2: True, 3: True, 4: True})

    def test_an_object_that_never_ran_counts_and_a_test_does_not(self):
        self.run_program("one")
        lines = self.lines()
        self.assertEqual(lines["src/base/never.cc"], {1: False, 2: False})
        self.assertEqual(lines.keys(), self.WANTED)

    def test_what_did_not_run_is_listed_with_its_text(self):
        self.run_program("one")
        self.assertEqual([line for line in coverage.uncovered(self.lines()) if "twice" in line or " -1;" in line],
                         ["src/base/twice.h: 1 of 4", "     3      return -1;", "     3    return twice(-1) + 1;"])


if __name__ == "__main__":
    unittest.main()
