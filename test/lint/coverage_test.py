#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""How scripts/coverage.py and scripts/branches.py sum up what ran."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


coverage = loaded("coverage")
branches = loaded("branches")


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


class OfATree(unittest.TestCase):
    """The scripts look at a tree of the test's own, with an empty build folder."""

    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = Path(work.name).resolve()
        patched = mock.patch.object(coverage, "ROOT", self.root)
        patched.start()
        self.addCleanup(patched.stop)
        self.build = self.root / "build"
        self.build.mkdir()


@unittest.skipUnless(shutil.which("gcov") and shutil.which("g++"), "g++ or gcov is not installed")
class ObjectsTest(OfATree):
    """Programs of a header that is in each object, compiled and run as a build would."""

    SOURCES = {
        "src/base/twice.h": "inline int twice(int x) {\n  if (x < 0)\n    return -1;\n  return 2 * x;\n}\n",
        "src/base/one.cc": '#include "twice.h"\nint main() {\n  return twice(0);\n}\n',
        "src/base/two.cc": '#include "twice.h"\nint main() {\n  return twice(-1) + 1;\n}\n',
        "src/base/never.cc": "int never() {\n  return 1;\n}\n",
        "src/base/one_test.cc": "int also() {\n  return 1;\n}\n"}
    WANTED = {name for name in SOURCES if not name.endswith("_test.cc")}

    def setUp(self):
        super().setUp()
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


@unittest.skipUnless(all(map(shutil.which, ("clang++-14", "llvm-cov-14", "llvm-profdata-14", "llvm-readelf-14"))),
                     "clang 14 or its tools are not installed")
class BranchesTest(OfATree):
    """A program whose child is killed after it took a branch, compiled by the flags of the preset."""

    SOURCE = """#include <cstdlib>
#include <unistd.h>
#include <sys/wait.h>
int main(int count, char**) {
  if (fork() == 0) {
    if (count > 1) return 0;
    abort();
  }
  return wait(nullptr) < 0;
}
"""

    def setUp(self):
        super().setUp()
        source = self.root / "src/base/dies.cc"
        source.parent.mkdir(parents=True)
        source.write_text(self.SOURCE, encoding="utf-8")
        presets = json.loads((SCRIPTS.parent / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
        flags, = (each["cacheVariables"]["CMAKE_CXX_FLAGS"] for each in presets if each["name"] == "branches")
        subprocess.run(["clang++-14", *flags.split(), source, "-o", self.build / "dies"], check=True,
                       stderr=subprocess.DEVNULL)

    def run_program(self, *words):
        profile = {"LLVM_PROFILE_FILE": str(self.build / "counts/%c%m.profraw")}
        subprocess.run([self.build / "dies", *words], check=True, env=os.environ | profile)

    def test_a_process_that_is_killed_counts_and_runs_add_up(self):
        self.run_program()
        files = branches.files_of(self.build, {"src/base/dies.cc", "src/base/other.cc"})
        self.assertIn("     6:9   true     if (count > 1) return 0;", list(branches.untaken(files)))
        self.run_program("more")
        files = branches.files_of(self.build, {"src/base/dies.cc"})
        self.assertNotIn("count > 1", "".join(branches.untaken(files)))

    def test_a_room_below_the_goal_is_marked(self):
        text, is_reached = branches.table({"kv": (200, 189), "src/base": (2, 1), "src/plan": (20, 19)})
        self.assertEqual([line.split() for line in text.splitlines()[1:]],
                         [["kv", "200", "189", "94.5", "missed"], ["src/base", "2", "1", "50.0"],
                          ["src/plan", "20", "19", "95.0"]])
        self.assertFalse(is_reached)


if __name__ == "__main__":
    unittest.main()
