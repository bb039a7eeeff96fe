#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The seccomp profile in deploy/seccomp, under podman: io_uring works, and what leads out of a container does not.

    seccomp_test.py PROBE WORK
"""

import errno
import json
import subprocess
import sys
import unittest
from pathlib import Path

from container import command, did_not_run, make_root, must_be_possible, run_tests, work_folder

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "deploy/seccomp/penstock.json"
REFUSED = ("mount", "unshare", "bpf", "keyctl")


class Profile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = work_folder(WORK)
        cls.addClassCleanup(cls.work.cleanup)
        cls.root = make_root(Path(cls.work.name) / "root", PROBE)

    def run_with(self, *options):
        """{system call: errno} of a container that has no right but those of the options."""
        options = ("--network", "none", "--user", "65532", "--cap-drop", "all", *options)
        said = subprocess.run(command(self.work.name, self.root, options, []), capture_output=True, text=True)
        if did_not_run(said.returncode):
            self.skipTest(f"podman runs no container here: {said.stderr.strip()[-300:]}")
        return {name: int(number) for name, number in (line.split() for line in said.stdout.splitlines())}

    def test_io_uring_is_there_and_the_ways_out_are_not(self):
        errors = self.run_with("--security-opt", f"seccomp={PROFILE}")
        self.assertEqual((errors["io_uring_setup"], errors["io_uring_enter"]), (0, 0))
        self.assertNotIn(errors["io_uring_register"], (errno.EPERM, errno.ENOSYS))
        self.assertEqual({name: errors[name] for name in REFUSED}, dict.fromkeys(REFUSED, errno.EPERM))
        self.assertEqual([errors["clone"], errors["clone3"], errors["vsock"], errors["unknown"]], [errno.ENOSYS] * 4)

    def test_podmans_own_profile_forbids_io_uring(self):
        self.assertIn(self.run_with()["io_uring_setup"], (errno.EPERM, errno.ENOSYS))

    def test_it_is_what_make_profile_makes_and_no_call_is_in_it_twice(self):
        rules = json.loads(PROFILE.read_text())["syscalls"]
        made = subprocess.run([sys.executable, "-B", PROFILE.with_name("make_profile")], capture_output=True, text=True,
                              check=True).stdout
        # Newer headers name more.
        self.assertLessEqual(set(rules[0]["names"]) - {"clone"}, set(json.loads(made)["syscalls"][0]["names"]))
        self.assertEqual(rules[1:], json.loads(made)["syscalls"][1:])
        names = rules[0]["names"] + rules[1]["names"]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    PROBE, WORK = sys.argv[1:3]
    del sys.argv[1:3]
    must_be_possible()
    run_tests()
