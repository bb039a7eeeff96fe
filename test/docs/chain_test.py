#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""How pages' commands are run, and that the stand-in for a cluster is no kinder than a cluster."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import chain
import markdown

MANIFEST = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: gpu-storage\n"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: bench\n  namespace: gpu-storage\n"


class Fixture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Chain(Fixture):
    def commands(self, text):
        (self.folder / "page.md").write_text(text)
        return list(chain.commands_of(markdown.Page(self.folder, self.folder / "page.md")))

    def run_page(self, text):
        failures, skipped = chain.run_chain(self.commands(text), self.folder, chain.environment(self.folder, []),
                                            {"/opt/penstock": self.folder})
        return failures, [command.line for command in skipped]

    def test_commands_are_given_to_one_shell(self):
        page = ("```sh\nmkdir -p inner && cd inner\nexport WHO=me\n```\nand\n```console\n"
                "$ echo $WHO > /opt/penstock/said\nwhat it says\n$ pwd | \\\n    cat > ../where\n```\n")
        self.assertEqual(self.run_page(page), ([], []))
        self.assertEqual((self.folder / "said").read_text(), "me\n")
        self.assertEqual((self.folder / "where").read_text(), f"{self.folder}/inner\n")

    def test_each_that_fails_is_told_with_its_place_and_the_next_is_run_all_the_same(self):
        failures, skipped = self.run_page(
            "```console\n$ cat nowhere | sort\n$ (exit 77)\n$ touch there\n$ exit 3\n```\n")
        self.assertEqual(skipped, [3])
        self.assertEqual(len(failures), 2, failures)
        self.assertRegex(failures[0], r"^page\.md:2: ends with exit code 1: .*\n(.*\n)*cat: nowhere: No such file")
        self.assertRegex(failures[1], r"^page\.md:5: the shell ended there")
        self.assertTrue((self.folder / "there").exists())

    def test_what_may_fail_does_not_count(self):
        self.assertEqual(self.run_page("```sh\nfalse || true\nif false; then echo no; fi\n```\n"), ([], []))

    def test_a_command_goes_on_in_the_lines_below(self):
        page = "```console\n$ one --json '{\"a\": 1,\n    \"b\": 2}'\n" \
               "$ two &&\n    three\nsaid\n>>> python\n$ sudo four\n```\n"
        found = self.commands(page)
        self.assertEqual([(each.line, each.text.split("\n")[-1].strip()) for each in found],
                         [(2, '"b": 2}\''), (4, "three"), (8, "sudo four")])
        self.assertEqual([each.reason is None for each in found], [True, True, False])


class Cluster(Fixture):
    def ask(self, *words):
        return subprocess.run([chain.STAND_INS / "kubectl", *words], cwd=self.folder, capture_output=True, text=True,
                              env=chain.environment(self.folder, []), check=False)

    def test_a_folder_with_a_file_that_is_no_object_fails_behind_the_others(self):
        (self.folder / "m/helm").mkdir(parents=True)
        (self.folder / "m/helm/values.yaml").write_text("gds:\n  enabled: true\n")
        (self.folder / "m/01-namespace.yaml").write_text("# Why.\n" + MANIFEST)
        self.assertEqual(self.ask("apply", "-f", "m/").returncode, 0, "a folder within is not looked at")
        (self.folder / "m/00-values.yaml").write_text("gds:\n  enabled: true\n")
        done = self.ask("apply", "-f", "m/")
        self.assertEqual(done.returncode, 1)
        self.assertIn("namespace/gpu-storage created", done.stdout)
        self.assertIn("Object 'Kind' is missing", done.stderr)

    def test_a_namespace_has_to_be_there(self):
        (self.folder / "job.yaml").write_text(JOB)
        self.assertIn('namespaces "gpu-storage" not found', self.ask("apply", "-f", "job.yaml").stderr)

    def test_a_job_takes_longer_than_the_wait_that_nobody_said(self):
        (self.folder / "all.yaml").write_text(MANIFEST + "---\n" + JOB)
        wait = ["wait", "-n", "gpu-storage", "--for=condition=complete"]
        self.assertIn("not found", self.ask(*wait, "--timeout=30m", "job/bench").stderr)
        self.assertEqual(self.ask("apply", "-f", "all.yaml").returncode, 0)
        self.assertIn("timed out waiting", self.ask(*wait, "job/bench").stderr)
        self.assertEqual(self.ask(*wait, "--timeout=30m", "job/bench").returncode, 0)


if __name__ == "__main__":
    unittest.main()
