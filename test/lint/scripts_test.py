#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The scripts that other tests lean on: what counts as passed, where file systems and machines come from."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def case(name, status, output="", skip=None):
    skipped = f'<skipped message="{skip}"/>' if skip else ""
    return f'<testcase name="{name}" status="{status}">{skipped}<system-out>{output}</system-out></testcase>'


PASSES = case("T.Passes", "run")


class TestSummaryTest(unittest.TestCase):
    def summary(self, *cases):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<testsuite>" + "".join(cases) + "</testsuite>")
            file.flush()
            run = subprocess.run([SCRIPTS / "test_summary", file.name], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout

    def test_a_pass_is_a_pass(self):
        self.assertEqual(self.summary(PASSES), (0, "1 passed, 0 failed, 0 skipped\n"))

    def test_no_test_at_all_fails(self):
        self.assertEqual(self.summary()[0], 1)
        self.assertEqual(self.summary(case("T.Off", "disabled"))[0], 1)

    def test_a_lost_or_broken_result_fails(self):
        self.assertEqual(self.summary("<testcase>")[0], 1)
        run = subprocess.run([SCRIPTS / "test_summary", "/nonexistent"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertTrue(run.stdout.endswith("\n0 passed, 0 failed, 0 skipped\n"))

    def test_failures_are_named(self):
        status, text = self.summary(PASSES, case("T.Fails", "fail"))
        self.assertEqual(status, 1)
        self.assertEqual(text, "FAILED T.Fails\n1 passed, 1 failed, 0 skipped\n")

    def test_a_test_that_cannot_start_failed(self):
        status, text = self.summary(PASSES, case("T.Lost", "notrun", skip="Unable to find executable"))
        self.assertEqual(status, 1)
        self.assertIn("FAILED T.Lost: Unable to find executable\n", text)

    def test_what_pytest_skipped_within_a_file_is_counted(self):
        output = "..ss.\nSKIPPED [2] python/tests/test_torch.py:81: no GPU for torch\n3 passed, 2 skipped in 0.1s\n"
        status, text = self.summary(case("python_torch", "run", output))
        self.assertEqual(status, 0)
        self.assertEqual(text, "skipped, no GPU for torch:\n    python_torch\n    python_torch\n"
                               "1 passed, 0 failed, 2 skipped\n")

    def test_skips_of_googletest_give_their_reason(self):
        output = "[==========]\n/a/b_test.cc:7: Skipped\nno btrfs:\nno tools\n[  SKIPPED ] T.Skips (0 ms)\n"
        status, text = self.summary(PASSES, case("T.Skips", "notrun", output, "SKIP_REGULAR_EXPRESSION_MATCHED"))
        self.assertEqual(status, 0)
        self.assertEqual(text, "skipped, no btrfs: no tools:\n    T.Skips\n1 passed, 0 failed, 1 skipped\n")

    def test_skips_by_exit_status_give_their_last_line(self):
        status, text = self.summary(PASSES, case("T.S", "notrun", "x\nskipped: no qemu\n\n", "SKIP_RETURN_CODE=77"))
        self.assertEqual(status, 0)
        self.assertIn("skipped, no qemu:\n    T.S\n", text)

    def test_a_skip_without_a_reason_fails(self):
        self.assertEqual(self.summary(PASSES, case("T.S", "notrun", "", "SKIP_RETURN_CODE=77"))[0], 1)

    def test_a_failure_beside_a_skip_fails(self):
        for output in ["/a.cc:1: Skipped\nx\n[  SKIPPED ] T.S\n[  FAILED  ] T.T\n",
                       "/a.cc:1: Skipped\nx\n[  SKIPPED ] T.S\n==1==ERROR: LeakSanitizer: detected memory leaks\n"]:
            self.assertEqual(self.summary(PASSES, case("T.S", "notrun", output, "SKIP_REGULAR_EXPRESSION"))[0], 1)


class WithFilesystemsTest(unittest.TestCase):
    NAMES = {"ext4", "ext4-journal", "ext4-4k", "xfs", "btrfs", "tmpfs", "overlay"}

    def run_with(self, work, script, *options):
        return subprocess.run([SCRIPTS / "with_filesystems", *options, "sh", "-c", script], capture_output=True,
                              text=True, check=False, env={**os.environ, "TMPDIR": work}, timeout=60)

    def test_every_file_system_is_there_or_skipped_with_a_reason(self):
        with tempfile.TemporaryDirectory() as work:
            run = self.run_with(work, 'echo "$PENSTOCK_TEST_DIRS"; echo "$PENSTOCK_TEST_SKIPPED_DIRS"')
            offered, skipped = run.stdout.splitlines()
        there = dict(entry.split("=") for entry in offered.split(":") if entry)
        missing = dict(entry.split("=", 1) for entry in skipped.split(";") if entry)
        self.assertTrue(there)
        self.assertEqual((set(there) | set(missing)) - {"local"}, self.NAMES)
        self.assertFalse(set(there) & set(missing))
        self.assertEqual("local" in there, set(missing) == self.NAMES)
        for name, reason in missing.items():
            self.assertTrue(reason)
            self.assertIn(f"no {name}: {reason}", run.stderr)

    def test_they_can_be_written_and_leave_nothing_behind(self):
        with tempfile.TemporaryDirectory() as work:
            run = self.run_with(work, 'IFS=:; for d in $PENSTOCK_TEST_DIRS; do echo x >"${d#*=}/x" || exit 9; done')
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(os.listdir(work), [])
            self.assertNotIn(work, Path("/proc/self/mounts").read_text(encoding="utf-8"))
            for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
                self.assertNotIn(work, backing.read_text(encoding="utf-8"))

    def test_the_status_of_the_command_comes_through(self):
        with tempfile.TemporaryDirectory() as work:
            self.assertEqual(self.run_with(work, "exit 42").returncode, 42)

    def test_no_command_is_a_usage_error(self):
        run = subprocess.run([SCRIPTS / "with_filesystems"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("usage:", run.stderr)


class MachineTreeTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)

    def machine_tree(self, *arguments):
        return subprocess.run([SCRIPTS / "machine-tree", *arguments], capture_output=True, text=True, check=False)

    def unpack(self, text):
        (self.work / "one.tree").write_bytes(text)
        run = self.machine_tree("unpack", self.work / "one.tree", self.work / "out")
        return run, self.work / "out/one"

    def assert_packs_again(self, trees):
        self.assertEqual(self.machine_tree("unpack", *trees, self.work / "folders").stderr, "")
        self.assertEqual(self.machine_tree("pack", *self.work.glob("folders/*"), self.work / "again").stderr, "")
        for tree in trees:
            self.assertEqual((self.work / "again" / tree.name).read_bytes(), tree.read_bytes(), tree.name)

    def test_every_captured_machine_packs_again_to_what_it_was_unpacked_from(self):
        trees = list((SCRIPTS.parent / "test/fixtures/machines").glob("*.tree"))
        whole = [tree for tree in trees if not tree.read_bytes().startswith(b"= ")]
        self.assertGreater(len(whole), 20)
        self.assert_packs_again(whole)
        others = [tree for tree in trees if tree not in whole]
        self.assertGreater(len(others), 10)
        self.assertEqual(self.machine_tree("unpack", *others, self.work / "others").stderr, "")

    def test_a_tree_that_begins_with_another_has_what_that_has_but_for_what_it_changes(self):
        (self.work / "whole.tree").write_bytes(b"f a/one\n|1\nf a/two\n|2\nf b/three\n|3\nl to -> a\n")
        run, folder = self.unpack(b"= whole\n# A remark.\n- b\nf a/one\n|other\nf c\n|new\nl to -> c\n")
        self.assertEqual(run.stderr, "")
        self.assertEqual((folder / "a/one").read_bytes(), b"other\n")
        self.assertEqual((folder / "a/two").read_bytes(), b"2\n")
        self.assertEqual((folder / "to").read_bytes(), b"new\n")
        self.assertFalse((folder / "b").exists())

    def test_a_tree_that_begins_with_what_cannot_be_is_refused(self):
        for text, wrong in ((b"= one\n", "deep"), (b"= ../one\n", "no name of a tree"), (b"= none\n", "none.tree"),
                            (b"f a\n- a\n", "begins with"), (b"= whole\n- nothing\n", "not there"),
                            (b"= whole\nf to/lies-outside\n|x\n", "behind a link")):
            (self.work / "whole.tree").write_bytes(b"f a\n|1\nl to -> ..\n")
            run, _ = self.unpack(text)
            self.assertEqual(run.returncode, 1, text)
            self.assertIn(wrong, run.stderr)
            self.assertEqual(list(self.work.rglob("lies-outside")), [])
            shutil.rmtree(self.work / "out", ignore_errors=True)

    def test_what_is_captured_here_is_such_a_tree(self):
        captured = self.work / "here.tree"
        subprocess.run([SCRIPTS / "capture-machine", captured], capture_output=True, check=True)
        self.assertIn(b"\nf proc/sys/kernel/osrelease\n|", captured.read_bytes())
        self.assert_packs_again([captured])

    def test_whatever_a_folder_holds_is_there_again(self):
        text = (b"f bytes\nx00ff\nd empty\nf in/a folder\n|# no remark\n|\n\\no newline\nf nothing\n"
                b"l to -> in/a folder\n")

        run, folder = self.unpack(b"# A remark.\n" + text)

        self.assertEqual(run.stderr, "")
        self.assertEqual((folder / "bytes").read_bytes(), b"\x00\xff")
        self.assertEqual((folder / "to").read_bytes(), b"# no remark\n\nno newline")
        self.assertEqual((folder / "nothing").read_bytes(), b"")
        self.assertTrue((folder / "empty").is_dir())
        self.machine_tree("pack", folder, self.work / "again")
        self.assertEqual((self.work / "again/one.tree").read_bytes(), text)

    def test_nothing_is_written_outside_of_the_folder(self):
        for text in (b"f ../lies-outside\n|x\n", b"l a -> ..\nf a/lies-outside\n|x\n", b"f /lies-outside\n|x\n"):
            run, _ = self.unpack(text)
            self.assertEqual(run.returncode, 1)
            self.assertIn("one.tree: line ", run.stderr)
            self.assertEqual(list(self.work.rglob("lies-outside")), [])
            shutil.rmtree(self.work / "out")

    def test_a_folder_that_is_there_is_left_alone(self):
        self.unpack(b"f a\n|x\n")
        run, folder = self.unpack(b"f a\n|y\n")
        self.assertEqual(run.returncode, 1)
        self.assertEqual((folder / "a").read_bytes(), b"x\n")


if __name__ == "__main__":
    unittest.main()
