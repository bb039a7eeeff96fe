#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What ./dev green says of runs of a tree."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from commits_test import History

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class GreenTest(History):
    def setUp(self):
        super().setUp()
        self.write({".gitignore": "build/\n"})
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPTS / "green", self.root / "scripts/green")
        self.second = self.commit("scripts: green")

    def green(self, *words, **settings):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        return subprocess.run([self.root / "scripts/green", *words], check=True, capture_output=True, text=True,
                              env={**clean, **settings}).stdout

    def row(self, name):
        return next(re.split("  +", line) for line in self.green().splitlines() if re.match(f"{name}  ", line))

    def test_nothing_is_green_that_never_ran(self):
        self.assertEqual(self.row("asan"), ["asan", "never", "-", "-", "-"])

    def test_what_was_tested_is_told_with_how_many_commits_came_since(self):
        self.green("record", "asan", self.green("at").strip())
        for number in range(3):
            self.commit(f"queue: {number}")
        name, when, *rest = self.row("asan")
        self.assertRegex(when, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")
        self.assertEqual(rest, [self.second[:12], "clean", "3"])
        self.assertEqual(self.row("tsan")[1], "never")

    def test_a_tree_that_is_changed_before_or_meanwhile_is_told(self):
        began = self.green("at").strip()
        self.write({"start": "x"})
        self.green("record", "asan", began)
        self.green("record", "tsan", self.green("at").strip())
        self.assertEqual([self.row(name)[3] for name in ("asan", "tsan")], ["changed", "changed"])
        self.commit("queue: x")
        self.green("record", "arm", began)
        self.assertEqual(self.row("arm")[2:], [self.second[:12], "changed", "1"])

    def test_a_run_that_was_asked_for_less_is_a_row_of_its_own(self):
        began = self.green("at").strip()
        self.green("record", "fuzz", began, PENSTOCK_FUZZ_SECONDS="1")
        self.green("record", "package-test noble", began)
        self.assertEqual([self.row(name)[1] for name in ("fuzz", "package-test")], ["never", "never"])
        self.assertEqual(self.row("fuzz PENSTOCK_FUZZ_SECONDS=1")[3], "clean")
        self.assertEqual(self.row("package-test noble")[3], "clean")

    def test_another_branch_has_no_distance(self):
        self.git("checkout", "-q", "-b", "aside")
        self.commit("queue: aside")
        self.green("record", "asan", self.green("at").strip())
        self.git("checkout", "-q", "-B", "on", self.second)
        self.assertEqual(self.row("asan")[4], "not in this branch")

    def test_runs_that_end_at_once_are_all_kept(self):
        began = self.green("at").strip()
        jobs = [subprocess.Popen([self.root / "scripts/green", "record", f"package-test {i}", began])
                for i in range(8)]
        self.assertEqual([job.wait() for job in jobs], [0] * 8)
        self.assertEqual(len(json.loads((self.root / "build/last-green.json").read_text(encoding="utf-8"))), 8)


class DevTest(unittest.TestCase):
    """./dev itself, in a tree of its own where what it would call is replaced."""

    def run_dev(self, ends):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            shutil.copy(SCRIPTS.parent / "dev", root / "dev")
            (root / "scripts").mkdir()
            for script, text in {"scripts/green": 'echo "$@" >>green.log', "cmake": f"exit {ends}"}.items():
                (root / script).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
                (root / script).chmod(0o755)
            for command in ("clang++", "g++", "ninja"):
                (root / command).symlink_to("/bin/true")
            subprocess.run(["bash", root / "dev", "clang"], capture_output=True, check=False, env={
                **os.environ, "PATH": f"{root}:{os.environ['PATH']}", "PENSTOCK_NO_INSTALL": "1"})
            return (root / "green.log").read_text(encoding="utf-8").splitlines()

    def test_a_run_that_fails_is_not_kept(self):
        self.assertEqual(self.run_dev(1), ["at"])

    def test_a_run_that_ends_well_is_kept(self):
        self.assertEqual(self.run_dev(0), ["at", "record clang "])


if __name__ == "__main__":
    unittest.main()
