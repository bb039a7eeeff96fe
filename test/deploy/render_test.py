#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""All that `penstock-k8s render` makes: an API server takes it, `penstock-k8s lint` finds nothing, and no workload
needs a right.

    render_test.py PENSTOCK_K8S WORK
"""

import itertools
import json
import subprocess
import sys
import unittest
from pathlib import Path

try:
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"skipped: {missing.name} is missing: what is rendered is not validated")
    sys.exit(77)
from pod_security import level

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("1.27", "1.37")
CORE = {"v1", "apps/v1", "batch/v1", "storage.k8s.io/v1"}
PLACES = (["--os", "ubuntu24.04", "--kernel", "6.8.0-1051-nvidia"], ["--openshift", "--kernel", "6.12.0-nvidia"])
TOOL = ""


def run(*words, text=None):
    return subprocess.run([TOOL, *words], input=text, capture_output=True, text=True)


def every_answer():
    for path, storage, place, release, form in itertools.product(
            ("nvidia-fs", "p2pdma", "bounce"), ("xfs", "ext4", "nfs", "nfs-rdma"), PLACES,
            ("v25.10.1", "v26.3.3", "v26.7.0"), ("helm", "clusterpolicy", "nvidiadriver")):
        if path == "bounce" and (release, form) != ("v26.7.0", "helm"):
            continue  # They name no operator.
        server = ["--nfs-server", "nas:/models"] if storage.startswith("nfs") else []
        yield ["--path", path, "--storage", storage, *place, "--operator-version", release, "--as", form, *server]


class Rendered(unittest.TestCase):
    def test_what_is_not_refused_is_taken_and_right(self):
        taken = 0
        for answers in every_answer():
            with self.subTest(answers=answers):
                told = json.loads(run("render", *answers, "--json").stdout)
                if told["refusals"]:
                    self.assertEqual(told["objects"], [])
                    continue
                taken += 1
                objects = [each["object"] for each in told["objects"]]
                release = answers[answers.index("--operator-version") + 1]
                for each in objects:
                    # It is the same for every release of the operator.
                    if each.get("apiVersion") in CORE and release == "v26.7.0" and "helm" in answers:
                        for version in VERSIONS:
                            kubernetes_validate.validate(each, version, strict=True)
                for each in objects:
                    if each.get("kind") in ("Pod", "Job", "DaemonSet"):
                        pod = each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]
                        self.assertEqual(level(pod), ("restricted", []))
                text = yaml.safe_dump_all(objects)
                found = run("lint", "-", "--operator-version", release, "--strict", "--ignore", "placeholder",
                            text=text)
                self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertGreater(taken, 50)

    def test_the_process_of_each_node_is_the_manifests(self):
        manifest = list(yaml.safe_load_all((ROOT / "deploy/manifests/penstock.yaml").read_text()))
        image = next(each for each in manifest if each["kind"] == "DaemonSet")["spec"]["template"]["spec"][
            "containers"][0]["image"]
        told = json.loads(run("render", "--path", "bounce", "--image", image, "--json").stdout)["objects"]
        self.assertEqual([each["object"] for each in told if each["name"].startswith("node-")], manifest)

    def test_its_yaml_says_what_its_json_says(self):
        answers = ["--path", "p2pdma", "--os", "ubuntu24.04", "--storage", "ext4", "--as", "clusterpolicy"]
        objects = [each["object"] for each in json.loads(run("render", *answers, "--json").stdout)["objects"]]
        self.assertEqual(list(yaml.safe_load_all(run("render", *answers).stdout)), objects)

    def test_helms_values_are_kept_from_kubectl(self):
        answers = ["--path", "p2pdma", "--os", "ubuntu24.04"]
        self.assertTrue(all("kind" in each for each in yaml.safe_load_all(run("render", *answers).stdout)))
        values = yaml.safe_load(run("render", *answers, "--only", "gpu-operator-values").stdout)
        self.assertEqual(values["driver"]["kernelModuleType"], "open")
        unknown = run("render", *answers, "--only", "nothing")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("there are gpu-operator-values, driver-parameters", unknown.stderr)

    def test_a_refusal_names_its_rule_and_exits_with_1(self):
        said = run("render", "--path", "nvidia-fs", "--os", "rhel9", "--kernel", "5.14-nvidia")
        self.assertEqual((said.returncode, said.stdout), (1, ""))
        self.assertIn("refused, gds_os: ", said.stderr)


if __name__ == "__main__":
    TOOL = sys.argv[1]
    del sys.argv[1:3]
    unittest.main()
