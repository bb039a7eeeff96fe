#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The Helm chart, rendered by Helm's own engine: what comes out is what an API server takes, asks for no more rights
than it says, and is what deploy/manifests has.

    chart_test.py PENSTOCK WORK
"""

import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import helm_python
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"skipped: {missing.name} is missing: no chart is rendered")
    sys.exit(77)
from pod_security import level

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/penstock"
VERSIONS = ("1.27", "1.37")
CORE = {"v1", "apps/v1", "networking.k8s.io/v1"}
SWITCHES = {
    "processes": {"processes": {"enabled": True}},
    "nodeFeatures": {"nodeFeatures": {"enabled": True}},
    "podMonitor": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "prometheusRule": {"prometheusRule": {"enabled": True}},
    "dashboard": {"dashboard": {"enabled": True}},
    "networkPolicy": {"networkPolicy": {"enabled": True, "from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}},
    "digest": {"image": {"digest": "sha256:" + "a" * 64, "pullSecrets": [{"name": "secret"}]}},
    "empty": {"nodeSelector": {"nvidia.com/gpu.present": None}, "tolerations": [], "serviceAccount": {"create": False}},
    "annotations": {"metrics": {"annotations": True}, "podAnnotations": {"a": "b"}, "podLabels": {"c": "d"},
                    "priorityClassName": "system-node-critical"},
}
TOOL = ""


def render(values, name="penstock"):
    with helm_python.Chart.load(CHART) as chart:
        rendered = chart.render(values, name=name, namespace="storage")
    objects = [each for path, text in sorted(rendered.items()) if not path.endswith("NOTES.txt")
               for each in yaml.safe_load_all(text) if each]
    return {each["kind"] + ("/test" if "helm.sh/hook" in each["metadata"].get("annotations", {}) else ""): each
            for each in objects}


def every_combination():
    for count in (0, 1, 2, len(SWITCHES)):
        for names in itertools.combinations(SWITCHES, count):
            values = {}
            for name in names:
                values |= SWITCHES[name]
            yield names, values


class Chart(unittest.TestCase):
    def test_what_it_renders_is_what_an_api_server_takes(self):
        seen = set()
        for names, values in every_combination():
            for kind, each in render(values).items():
                seen.add(each["kind"])
                if each["apiVersion"] in CORE:
                    for version in VERSIONS:
                        with self.subTest(names=names, kind=kind, version=version):
                            kubernetes_validate.validate(each, version, strict=True)
        self.assertEqual(seen, {"DaemonSet", "ServiceAccount", "Pod", "ConfigMap", "NetworkPolicy", "PodMonitor",
                                "PrometheusRule"})

    def test_pods_are_selected_by_those_who_mean_them(self):
        for names, values in every_combination():
            with self.subTest(names=names):
                objects = render(values)
                node = objects["DaemonSet"]["spec"]["template"]
                labels = node["metadata"]["labels"].items()
                selector = objects["DaemonSet"]["spec"]["selector"]["matchLabels"].items()
                self.assertLessEqual(selector, labels)
                self.assertFalse(selector <= objects["Pod/test"]["metadata"]["labels"].items(),
                                 "the DaemonSet would adopt the pod of helm test")
                for kind, place in (("PodMonitor", "selector"), ("NetworkPolicy", "podSelector")):
                    if kind in objects:
                        self.assertLessEqual(objects[kind]["spec"][place]["matchLabels"].items(), labels)
                container = node["spec"]["containers"][0]
                self.assertEqual({mount["name"] for mount in container.get("volumeMounts", [])},
                                 {volume["name"] for volume in node["spec"].get("volumes", [])})
                if "ServiceAccount" in objects:
                    self.assertEqual(node["spec"]["serviceAccountName"], objects["ServiceAccount"]["metadata"]["name"])

    def test_it_asks_for_no_more_rights_than_it_says(self):
        for names, values in every_combination():
            with self.subTest(names=names):
                objects = render(values)
                expected = "privileged" if {"processes", "nodeFeatures"} & set(names) else "restricted"
                self.assertEqual(level(objects["DaemonSet"]["spec"]["template"]["spec"])[0], expected)
                self.assertEqual(level(objects["Pod/test"]["spec"]), ("restricted", []))
                for container in objects["DaemonSet"]["spec"]["template"]["spec"]["containers"]:
                    context = container["securityContext"]
                    self.assertTrue(context["readOnlyRootFilesystem"])
                    self.assertFalse(context.get("privileged", False))
                    self.assertIn("memory", container["resources"]["limits"])
        notes = [names for names, values in every_combination()
                 if ("privileged" in self.notes(values)) != bool({"processes", "nodeFeatures"} & set(names))
                 and "processes" in names]
        self.assertEqual(notes, [])

    def notes(self, values):
        with helm_python.Chart.load(CHART) as chart:
            return chart.render(values, name="penstock", namespace="storage")["penstock/templates/NOTES.txt"]

    def test_a_misspelt_value_is_refused(self):
        for values in ({"procesess": {"enabled": True}}, {"processes": {"enable": True}}, {"metrics": {"port": 80}},
                       {"image": {"pullPolicy": "always"}}, {"image": {"digest": "sha256:1"}},
                       {"networkPolicy": {"enabled": True, "from": []}}, {"nodeSelector": {"a b": "c"}},
                       {"podMonitor": {"interval": 15}}, {"nodeFeatures": {"folder": "relative"}}):
            with self.subTest(values=values), self.assertRaises(helm_python.HelmValuesError):
                render(values)

    def test_it_may_be_switched_on_and_off_within_another_chart(self):
        with tempfile.TemporaryDirectory() as folder:
            umbrella = Path(folder) / "umbrella"
            shutil.copytree(CHART, umbrella / "charts/penstock")
            (umbrella / "Chart.yaml").write_text(
                "apiVersion: v2\nname: umbrella\nversion: 0.1.0\n"
                "dependencies: [{name: penstock, version: '*', condition: penstock.enabled}]\n")
            for is_on in (True, False):
                with self.subTest(is_on=is_on), helm_python.Chart.load(umbrella) as chart:
                    rendered = chart.render({"penstock": {"enabled": is_on}}, name="all", namespace="storage")
                    self.assertEqual(any(path.endswith("daemonset.yaml") for path in rendered), is_on)
        with self.assertRaises(helm_python.HelmValuesError):
            render({"enabled": False})

    def test_a_long_name_is_cut_to_what_a_name_may_have(self):
        for kind, each in render(SWITCHES["dashboard"], name="a" * 53).items():
            with self.subTest(kind=kind):
                self.assertLessEqual(len(each["metadata"]["name"]), 63 if kind != "ConfigMap" else 253)

    def test_helm_finds_nothing_to_complain_of(self):
        said = helm_python.lint(str(CHART), {}, strict=True)
        self.assertEqual(said["errors"], [])
        self.assertEqual([each["error"] for each in said["messages"]], ["icon is recommended"])

    def test_its_version_is_the_projects(self):
        version = re.search(r"^project\(penstock VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (version[1], version[1]))

    def test_the_tool_knows_the_options_that_it_gives(self):
        options = set()
        for _, values in every_combination():
            for each in render(values).values():
                pod = each["spec"].get("template", each).get("spec", {}) if "spec" in each else {}
                for container in pod.get("containers", []):
                    options.add((container["args"][0],) + tuple(sorted(word.split("=")[0] for word in
                                                                       container["args"][1:])))
        self.assertTrue(options)
        for command, *words in options:
            said = subprocess.run([TOOL, command, "--help"], capture_output=True, text=True, check=True).stdout
            for word in words:
                self.assertRegex(said, rf"(?m)^\s+{word}\b")

    def test_the_plain_manifests_are_its_twin(self):
        folder = ROOT / "deploy/manifests"
        made = subprocess.run([sys.executable, "-B", folder / "make"], capture_output=True, text=True,
                              check=True).stdout
        self.assertEqual((folder / "penstock.yaml").read_text(), made,
                         "it is older than the chart: deploy/manifests/make >deploy/manifests/penstock.yaml")


if __name__ == "__main__":
    TOOL = sys.argv[1]
    del sys.argv[1:3]
    unittest.main()
