#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Programs that are linked wrongly are named by check_elf.py: check_elf_test.py COMPILER"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = '#include <stdio.h>\nint main(void) { char name[64]; return scanf("%63s", name) + name[0]; }\n'
GOOD = ["-O1", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro",
        "-Wl,-z,now", "-Wl,-rpath,$ORIGIN/../lib:/opt/lib"]
COMPILER = "cc"


class CheckElf(unittest.TestCase):
    def check(self, *flags, source=SOURCE):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "x.c").write_text(source)
            subprocess.run([COMPILER, *GOOD, *flags, "-o", f"{folder}/x", f"{folder}/x.c"], check=True)
            done = subprocess.run([sys.executable, "-B", HERE / "check_elf.py", "--built-here", "--optimised", folder],
                                  capture_output=True, text=True)
        return done.returncode, done.stdout

    def assert_fault(self, fault, *flags):
        status, text = self.check(*flags)
        self.assertEqual(status, 1, text)
        self.assertIn(fault, text)

    def test_a_program_that_is_built_well_has_no_fault(self):
        # Its copy is one that _FORTIFY_SOURCE guards.
        copy = SOURCE.replace("scanf(", "(int)fread(name, 1, (size_t)getchar(), stdin) + scanf(")
        status, text = self.check(source=copy)
        self.assertEqual(status, 0, text)
        self.assertIn("1 programs and libraries, 0 faults", text)

    def test_an_empty_part_of_a_search_path_is_named(self):
        self.assert_fault("searches for libraries in ''", "-Wl,-rpath,/opt/a::/opt/b")

    def test_padding_of_a_search_path_is_named(self):
        self.assert_fault("searches for libraries in ''", "-Wl,-rpath,:::::")

    def test_a_relative_search_path_is_named(self):
        self.assert_fault("searches for libraries in 'lib'", "-Wl,-rpath,lib")
        self.assert_fault("searches for libraries in '$ORIGINAL/lib'", "-Wl,-rpath,$ORIGINAL/lib")
        self.assert_fault("searches for libraries in 'lib'", "-Wl,-rpath,lib", "-Wl,--disable-new-dtags")

    def test_what_is_missing_is_named(self):
        self.assert_fault("without -z now", "-Wl,-z,lazy")
        self.assert_fault("without -z relro", "-Wl,-z,norelro")
        self.assert_fault("no position-independent executable", "-no-pie")
        self.assert_fault("written and executed", "-Wl,-z,execstack")
        self.assert_fault("without a stack protector", "-fno-stack-protector")
        self.assert_fault("without _FORTIFY_SOURCE", "-U_FORTIFY_SOURCE")

    def test_a_folder_without_programs_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", HERE / "check_elf.py", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        COMPILER = sys.argv.pop(1)
    unittest.main()
