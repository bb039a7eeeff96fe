#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The Job that `penstock-k8s render` makes as containers: podman runs its commands, one after the other, with exactly
the rights, variables and files that the manifest gives, in a root with the tool alone. Host memory stands in for a GPU.

    job_test.py PENSTOCK WORK
"""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from container import command, did_not_run, make_root, must_be_possible, options_of, run_tests, work_folder

TOOL = WORK = ""
USER = 65532
NOTHING_PROVEN = 77


def rendered(*answers):
    tool = Path(TOOL).with_name("penstock-k8s")
    said = subprocess.run([tool, "render", "--os", "ubuntu24.04", "--kernel", "6.8.0-1051-nvidia", *answers, "--json"],
                          capture_output=True, text=True, check=True)
    return {each["name"]: each["object"] for each in json.loads(said.stdout)["objects"]}


class Job(unittest.TestCase):
    def run_containers(self, answers, data_of=USER):
        """[what each container did], as a kubelet would: the next one begins where the last one succeeded."""
        objects, done = rendered(*answers), []
        pod = objects["job"]["spec"]["template"]["spec"]
        self.assertEqual(pod["securityContext"]["fsGroup"], USER)
        with work_folder(WORK) as work:
            root, data, cufile = make_root(Path(work) / "root", TOOL), Path(work) / "data", Path(work) / "cufile"
            data.mkdir()
            os.chown(data, data_of, data_of)
            cufile.mkdir()
            for name, text in objects["cufile-json"]["data"].items():
                (cufile / name).write_text(text)
            for container in pod["initContainers"] + pod["containers"]:
                options = options_of(pod, container, {"data": data, "cufile": cufile})
                words = [word.replace("4G", "8M").replace("16M", "4M") for word in container["args"]]
                done.append(subprocess.run(
                    command(work, root, ["--network", "none", *options, "-e", "PENSTOCK_DEVICE=host"], words),
                    capture_output=True, text=True))
                if did_not_run(done[-1].returncode):
                    self.skipTest(f"podman runs no container here: {done[-1].stderr.strip()[-300:]}")
                if done[-1].returncode != 0:
                    break
        return done

    def test_the_job_of_bounce_passes_and_tells_the_ratio(self):
        for place in ([], ["--openshift"]):  # By the runtime's seccomp profile, and by Penstock's own.
            with self.subTest(place):
                proof, ratio = self.run_containers(["--path", "bounce", *place])
                told = json.loads(proof.stdout)
                self.assertEqual((told["settings"]["require"], told["settings"]["verify"]), ("bounce", True))
                self.assertEqual(ratio.returncode, 0, ratio.stdout + ratio.stderr)
                self.assertRegex(" ".join(ratio.stdout.split()), "'direct' is [0-9.]+ times as fast as 'buffered'")

    def test_a_job_of_a_direct_path_fails_and_says_that_nothing_is_proven(self):
        for answers, required in ((["--path", "p2pdma"], "p2pdma"), (["--path", "nvidia-fs"], "nvfs"),
                                  (["--path", "nvidia-fs", "--with-libcufile"], "vendor")):
            with self.subTest(required):
                done = self.run_containers(answers)
                self.assertEqual(len(done), 1, "the ratio of what is not proven is not told")
                self.assertEqual(done[0].returncode, NOTHING_PROVEN, done[0].stdout + done[0].stderr)
                self.assertIn(f"--require {required}: nothing can be proven here", json.loads(done[0].stdout)["error"])

    def test_a_volume_that_the_user_may_not_write_is_named(self):
        done = self.run_containers(["--path", "bounce"], data_of=0)
        self.assertEqual((len(done), done[0].returncode), (1, 1))
        said = json.loads(done[0].stdout)["error"]
        self.assertIn("/data/penstock-bench: could not open the file: Permission denied", said)


if __name__ == "__main__":
    TOOL, WORK = sys.argv[1:3]
    del sys.argv[1:3]
    must_be_possible()
    run_tests()
