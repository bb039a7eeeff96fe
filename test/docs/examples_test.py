#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The programs of examples/ do what they say, also where they fail: examples_test.py FOLDER_OF_THE_BUILT_PROGRAMS"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
LINES_MAX = 80
SIZE = 3 * 1024 * 1024 + 17


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "data").write_bytes(os.urandom(SIZE))

    def run_example(self, name, *arguments):
        return subprocess.run([PROGRAMS / name, *arguments], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PENSTOCK_DEVICE": "host"})

    def succeed(self, name, *arguments):
        done = self.run_example(name, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_a_file_is_read_into_device_memory_whole(self):
        text = self.succeed("read_to_gpu", "data")
        self.assertIn("device memory is of kind: host\n", text)
        self.assertIn(f"{SIZE} bytes by path bounce (", text)

    def test_an_empty_file_is_read_too(self):
        (self.folder / "empty").touch()
        self.assertIn("0 bytes by path", self.succeed("read_to_gpu", "empty"))

    def test_each_path_that_is_better_than_the_one_taken_says_why_it_is_not(self):
        text = self.succeed("why_not_direct", "data")
        self.assertRegex(text, r"(?m)^p2pdma +refused +\w+")
        self.assertRegex(text, r"(?m)^bounce +usable +\w+")

    def test_a_checkpoint_appears_whole_under_its_name_alone(self):
        self.assertIn(f"{2 << 20} bytes by path bounce", self.succeed("write_checkpoint", "checkpoint", "2"))
        self.assertEqual((self.folder / "checkpoint").read_bytes(), bytes([42]) * (2 << 20))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["checkpoint", "data"])

    def test_checksums_are_written_beside_the_bytes_or_apart_and_compared(self):
        self.assertEqual(self.succeed("checksums", "beside", "33"), "3 checksums are right\n")
        self.assertEqual((self.folder / "beside").stat().st_size, (33 << 20) + 12)
        self.assertEqual(self.succeed("checksums", "apart", "33", "apart"), "3 checksums are right\n")
        sums = (self.folder / "apart.crc32c").read_bytes()
        self.assertEqual((self.folder / "beside").read_bytes()[33 << 20:], sums)
        self.assertEqual(sums[:4], sums[4:8])  # Of equal bytes.
        self.assertNotEqual(sums[:4], sums[8:])

    def test_a_queue_reads_every_byte_once(self):
        self.assertEqual(self.succeed("read_queue", "data"), f"{SIZE} bytes, up to 16 reads in flight\n")

    def test_coroutines_read_every_byte_once(self):
        self.assertEqual(self.succeed("read_coroutines", "data"), f"{SIZE} bytes by 4 coroutines\n")
        (self.folder / "empty").touch()
        self.assertEqual(self.succeed("read_coroutines", "empty"), "0 bytes by 4 coroutines\n")

    def test_a_copy_is_equal_and_no_file_is_replaced(self):
        self.assertEqual(self.succeed("copy", "data", "same"), f"{SIZE} bytes, read by path bounce\n")
        self.assertEqual((self.folder / "same").read_bytes(), (self.folder / "data").read_bytes())
        (self.folder / "empty").touch()
        self.assertEqual(self.run_example("copy", "empty", "same").returncode, 1)
        self.assertEqual((self.folder / "same").stat().st_size, SIZE)
        self.succeed("copy", "empty", "none")
        self.assertEqual((self.folder / "none").read_bytes(), b"")

    def test_a_cufile_program_runs_on_this_library(self):
        self.assertEqual(self.succeed("cufile_read", "data"), f"{1 << 20} bytes by cuFileRead\n")

    def test_a_mistake_is_a_sentence_and_exit_code_1(self):
        for name in ("read_to_gpu", "why_not_direct", "read_queue", "read_coroutines", "cufile_read"):
            done = self.run_example(name, "no-such-file")
            self.assertEqual(done.returncode, 1, name)
            self.assertIn("no-such-file: No such file or directory", done.stderr)
        done = self.run_example("write_checkpoint", "no-such-folder/checkpoint", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file or directory", done.stderr)

    def test_what_the_library_refuses_is_told_in_its_own_sentence(self):
        (self.folder / "folder").mkdir()
        for name in ("read_to_gpu", "why_not_direct", "read_queue", "read_coroutines"):
            done = self.run_example(name, "folder")
            self.assertEqual(done.returncode, 1, name)
            self.assertRegex(done.stderr, rf"^{name}: .*\w{{3,}} \w")

    def test_an_example_is_short(self):
        for path in (ROOT / "examples").glob("*.c*"):
            self.assertLess(len(path.read_text().splitlines()), LINES_MAX, path.name)


if __name__ == "__main__":
    sys.exit(unittest.main())
