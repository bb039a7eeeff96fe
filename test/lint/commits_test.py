#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Histories that break each rule of commits.py."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import commits

LONG = "".join(f"line {i}\n" for i in range(commits.LINES_MAX + 1))


class History(unittest.TestCase):
    """A repository with one commit, `first`."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name, "tree")
        self.root.mkdir()
        self.git("init", "-q")
        self.write({"start": "", "long": LONG, "other": LONG.replace("line", "word")})
        self.first = self.commit("all: the start\n\nThere has to be one.")

    def git(self, *words):
        who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *who, "-C", self.root, *words], check=True, capture_output=True,
                              text=True).stdout.strip()

    def write(self, files):
        for name, text in files.items():
            Path(self.root, name).parent.mkdir(parents=True, exist_ok=True)
            Path(self.root, name).write_text(text, encoding="utf-8")

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class CommitsTest(History):
    def rules(self):
        return [line.split("': ")[1].split(":")[0] for line in commits.lint(self.root, self.first)]

    def test_a_change_with_a_reason_is_fine(self):
        self.write({"a": LONG[:900]})
        self.commit("queue: completions are reaped\n\nThey were left.\n\nFixes: abc")
        self.assertEqual(self.rules(), [])

    def test_a_message_names_a_room_and_says_why(self):
        for message, rule in [("completions are reaped\n\nWhy.", "subject"), ("queue: x", "why"),
                              ("queue: x\n\nSigned-off-by: N <e>", "why"), ("queue: x; plan: y\n\nWhy.", "one thing"),
                              ("fixup! queue: x\n\nWhy.", "subject"), (f"queue: {'x' * 200}\n\nWhy.", "subject")]:
            self.commit(message)
            self.assertEqual(self.rules(), [rule], message)
            self.git("reset", "-q", "--hard", self.first)

    def test_a_large_change_is_found_and_a_mechanical_one_is_not(self):
        self.write({"a": LONG})
        self.commit("queue: x\n\nWhy.")
        self.assertEqual(self.rules(), ["size"])
        self.git("commit", "-q", "--amend", "-m", "queue: x\n\nBy sed -i s/x/y/.\n\nMechanical: yes")
        self.assertEqual(self.rules(), [])

    def test_what_is_moved_or_removed_as_a_whole_or_recorded_has_no_lines(self):
        (self.root / "deep").mkdir()
        os.rename(self.root / "long", self.root / "deep/moved")
        os.remove(self.root / "other")
        self.write({"test/fixtures/machines/a.tree": LONG, "test/vendor/answers.json": LONG})
        self.commit("queue: x\n\nWhy.")
        self.assertEqual(self.rules(), [])

    def test_what_was_moved_and_written_anew_has(self):
        os.rename(self.root / "long", self.root / "moved")
        self.write({"moved": LONG.replace("line", "text")})
        self.commit("queue: x\n\nWhy.")
        self.assertEqual(self.rules(), ["size"])

    def run_on(self, root, since):
        done = subprocess.run([sys.executable, "-B", commits.__file__, root, since], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout

    def test_a_finding_fails_and_a_tree_without_history_is_skipped_with_a_reason(self):
        second = self.commit("x")
        self.assertEqual(self.run_on(self.root, self.first)[0], 1)
        self.assertEqual(self.run_on(self.root, second), (0, "commits: nothing found\n"))
        shallow = self.root.parent / "shallow"
        self.git("clone", "-q", "--depth", "1", f"file://{self.root}", str(shallow))
        exported = self.root / "exported"  # Of an archive, in the folder of somebody's repository.
        exported.mkdir()
        for root in (shallow, exported, self.root.parent):
            status, text = self.run_on(root, self.first)
            self.assertEqual(status, commits.SKIPPED)
            self.assertRegex(text, "^skipped: .*: no commit was looked at\n$")


if __name__ == "__main__":
    unittest.main()
