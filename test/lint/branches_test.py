#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""How scripts/branches.py sums up what ran."""

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


branches = loaded("branches")


def file_of(segments=(), count=0, covered=0):
    return {"segments": segments, "branches": [],
            "summary": {"branches": {"count": count, "covered": covered, "notcovered": count - covered}}}


class TableTest(unittest.TestCase):
    """One line of code a file, of which `covered` of 200 branches were taken."""

    def rows_of(self, **covered):
        files = {name.replace("_", "/") + ".cc": file_of([[1, 1, taken, True, True, False]], 200, taken)
                 for name, taken in covered.items()}
        text, has_reached = branches.table(branches.rooms_of(files))
        return [line.split() for line in text.splitlines()[1:]], has_reached

    def test_rooms_are_the_folders_of_src_and_kv(self):
        rows, has_reached = self.rows_of(src_path_a=190, src_path_nvfs_b=190, kv_c=200)
        self.assertEqual(rows, [["kv", "1", "1", "100.0", "200", "200", "100.0"],
                                ["src/path", "2", "2", "100.0", "400", "380", "95.0"],
                                ["all", "3", "3", "100.0", "600", "580", "96.7"]])
        self.assertTrue(has_reached)

    def test_a_room_below_its_goal_is_marked_and_others_have_none(self):
        rows, has_reached = self.rows_of(kv_c=189, src_base_a=1, src_plan_p=190)
        self.assertEqual([row[-1] for row in rows], ["missed", "0.5", "95.0", "63.3"])
        self.assertFalse(has_reached)

    def test_too_few_lines_in_all_are_marked(self):
        rows, has_reached = self.rows_of(src_base_a=1, src_base_b=0)
        self.assertEqual(rows[-1], ["all", "2", "1", "50.0", "400", "1", "0.2", "missed"])
        self.assertFalse(has_reached)

    def test_nothing_that_counts_is_no_division_by_nothing(self):
        self.assertEqual(branches.table({})[1], True)


class OfATree(unittest.TestCase):
    """The script looks at a tree of the test's own, with an empty build folder."""

    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = Path(work.name).resolve()
        patched = mock.patch.object(branches, "ROOT", self.root)
        patched.start()
        self.addCleanup(patched.stop)
        self.build = self.root / "build"
        self.build.mkdir()


@unittest.skipUnless(all(map(shutil.which, ("clang++-14", "llvm-cov-14", "llvm-profdata-14", "llvm-readelf-14"))),
                     "clang 14 or its tools are not installed")
class ProgramTest(OfATree):
    """Programs of a header that is in each, one of which has a child that is killed, compiled by the preset's flags."""

    SOURCES = {
        "src/base/twice.h": "inline int twice(int x) {\n  if (x < 0)\n    return -1;\n  return 2 * x;\n}\n",
        "src/base/never.cc": "int never() {\n  return 1;\n}\n",
        "src/base/one_test.cc": "int also() {\n  return 1;\n}\n",
        "src/base/one.cc": '#include "twice.h"\nint main() { return twice(0); }\n',
        "src/base/two.cc": '#include "twice.h"\nint main() { return twice(-1) + 1; }\n',
        "src/base/dies.cc": """#include <cstdlib>
#include <unistd.h>
#include <sys/wait.h>
int main(int count, char**) {
  if (fork() == 0) {
    if (count > 1) return 0;
    abort();
  }
  return wait(nullptr) < 0;
}
"""}
    WANTED = {name for name in SOURCES if not name.endswith("_test.cc")} | {"src/base/other.cc"}

    def setUp(self):
        super().setUp()
        for name, text in self.SOURCES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        presets = json.loads((SCRIPTS.parent / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
        flags, = (each["cacheVariables"]["CMAKE_CXX_FLAGS"] for each in presets if each["name"] == "branches")
        self.compile = ["clang++-14", *flags.split(), "-I", self.root / "src/base"]

    def run_program(self, name, *words):
        sources = [self.root / f"src/base/{each}.cc" for each in (name, "never", "one_test")]
        subprocess.run([*self.compile, *sources, "-o", self.build / name], check=True, stderr=subprocess.DEVNULL)
        profile = {"LLVM_PROFILE_FILE": str(self.build / "counts/%c%m.profraw")}
        subprocess.run([self.build / name, *words], check=True, env=os.environ | profile)

    def untaken(self):
        return list(branches.untaken(branches.files_of(self.build, self.WANTED)))

    def lines(self):
        return {name: branches.lines_of(file) for name, file in branches.files_of(self.build, self.WANTED).items()}

    def test_a_process_that_is_killed_counts_and_runs_add_up(self):
        self.run_program("dies")
        self.assertIn("     6:9   true     if (count > 1) return 0;", self.untaken())
        self.run_program("dies", "more")
        self.assertNotIn("count > 1", "".join(self.untaken()))

    def test_a_line_of_a_header_ran_if_it_ran_in_one_of_the_programs(self):
        self.run_program("one")
        self.assertEqual(self.lines()["src/base/twice.h"], {1: True, 2: True, 3: False, 4: True, 5: True})
        self.assertIn("     3:0   line     return -1;", self.untaken())
        self.run_program("two")
        self.assertEqual(set(self.lines()["src/base/twice.h"].values()), {True})

    def test_what_never_ran_counts_and_a_test_does_not(self):
        self.run_program("one")
        lines = self.lines()
        self.assertEqual(lines["src/base/never.cc"], {1: False, 2: False, 3: False})
        self.assertEqual(lines.keys(), {"src/base/twice.h", "src/base/never.cc", "src/base/one.cc"})

    def test_lines_are_those_that_llvm_cov_counts(self):
        self.run_program("dies")
        for name, file in branches.files_of(self.build, self.WANTED).items():
            lines, counted = branches.lines_of(file), file["summary"]["lines"]
            self.assertEqual((len(lines), sum(lines.values())), (counted["count"], counted["covered"]), name)


if __name__ == "__main__":
    unittest.main()
