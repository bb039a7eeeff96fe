#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The parts of the machines with a network that need no guest."""

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import initramfs
import run
from network_cases import MACHINES, validate

ROW = {"code": "transport", "subject": "/data", "state": "fail", "sentence": "TCP to nvme3n1"}


def wrong(rows, told, status=1):
    case = validate("v", rows)
    return "; ".join(case.wrong_with({"exit": status, "cached": 0}, json.dumps({"rows": told}), 0))


class Validating(unittest.TestCase):
    def test_a_row_is_held_to_its_state_and_sentence(self):
        self.assertEqual(wrong({"transport /data": ("fail", "TCP to")}, [ROW]), "")
        self.assertIn("is fail", wrong({"transport /data": ("pass", "TCP to")}, [ROW]))
        self.assertIn("says 'TCP", wrong({"transport /data": ("fail", "RDMA")}, [ROW]))

    def test_a_row_that_is_not_there_and_a_report_that_cannot_be_read_are_wrong(self):
        self.assertIn("missing", wrong({"transport /other": ("fail", "TCP")}, [ROW]))
        said = "; ".join(validate("v", {"transport /data": ("fail", "")}).wrong_with({"exit": 1, "cached": 0}, "?", 0))
        self.assertIn("missing", said)

    def test_a_row_without_a_subject_is_named_by_its_code(self):
        self.assertEqual(wrong({"transport": ("fail", "TCP")}, [{**ROW, "subject": ""}]), "")


class Modules(unittest.TestCase):
    def test_what_is_neither_a_file_nor_built_in_is_lacking(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "nvme-rdma.ko.xz").touch()
            (root / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
            self.assertEqual(initramfs.lacking(root, ["nvme_rdma", "ext4", "rdma_rxe"]), ["rdma_rxe"])


class Scenarios(unittest.TestCase):
    def test_no_command_has_an_apostrophe_and_each_case_a_name_of_its_own(self):
        for machine in MACHINES.values():
            names = [case.name for case in machine.cases]
            self.assertEqual(len(names), len(set(names)), machine.name)
            for case in machine.cases:
                self.assertNotIn("'", case.command + case.prepare, case.name)

    def test_the_functions_are_read_before_they_are_used(self):
        for machine in MACHINES.values():
            scenario = run.scenario_of(machine)
            self.assertLess(scenario.index(". /network"), scenario.index("rdma_up"))


# A file system that writes to its drive between any two looks, unless it is frozen.
BUSY = """
fsfreeze() { case $1 in --freeze) : >"$2/frozen" ;; *) rm "$2/frozen" ;; esac; }
dd() { [ -e "$at/frozen" ] || echo more >>"$at/drive"; cat "$at/drive"; }
"""


class Comparing(unittest.TestCase):
    def compare(self, words):
        with tempfile.TemporaryDirectory() as folder:
            script = f". {run.HERE}/network; at={folder}; {BUSY} same one other {words.format(folder)}"
            done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
            self.assertFalse((Path(folder) / "frozen").exists(), "it was left frozen")
        return done

    def test_what_a_mounted_file_system_writes_meanwhile_is_no_difference(self):
        self.assertEqual(self.compare("{}").returncode, 0)
        done = self.compare("")
        self.assertEqual((done.returncode, done.stdout[:9]), (1, "one holds"), done.stderr)

    def test_drives_that_are_compared_are_frozen(self):
        commands = [case.command for machine in MACHINES.values() for case in machine.cases]
        compared = re.findall(r"same /drives/(\S+) /drives/\S+(?: /mnt/(\S+))?", "\n".join(commands))
        self.assertEqual(compared, [("one", "one"), ("two", "two")])


if __name__ == "__main__":
    unittest.main()
