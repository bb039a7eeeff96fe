#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What is deployed, at a whole control plane without nodes (Kubernetes 1.20): its API server takes it, its controllers
make the pods that are meant, on the nodes that are meant, and its accounts may do nothing.

    core_test.py PENSTOCK SERVERS
"""

import collections
import itertools
import json
import subprocess
import sys
import time
import unittest
from pathlib import Path

import servers
import yaml

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60
TOOL, CORE = "", None
PLURALS = {"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "DaemonSet": "daemonsets", "Pod": "pods",
           "ConfigMap": "configmaps", "StorageClass": "storageclasses", "PersistentVolume": "persistentvolumes",
           "PersistentVolumeClaim": "persistentvolumeclaims", "Job": "jobs"}
OF_CLUSTER = {"Namespace", "StorageClass", "PersistentVolume"}


def path_of(each):
    group = each["apiVersion"]
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    place = "" if each["kind"] in OF_CLUSTER else f"/namespaces/{each['metadata']['namespace']}"
    return f"{root}{place}/{PLURALS[each['kind']]}"


def every_answer():
    for path, storage, place, runtime in itertools.product(
            ("bounce", "p2pdma", "nvidia-fs"), ("xfs", "ext4", "lvm", "luks", "nfs", "nfs-rdma"),
            (["--os", "ubuntu24.04"], ["--os", "ubuntu22.04", "--host-driver"], ["--openshift"]),
            ("containerd-1.7", "containerd-2.1", "")):
        server = ["--nfs-server", "nas:/models"] if storage.startswith("nfs") else []
        yield ["--path", path, "--storage", storage, *place, "--kernel", "6.12.0-nvidia", *server,
               *(["--runtime", runtime] if runtime else [])]


def rendered(answers):
    said = subprocess.run([TOOL, "render", *answers, "--json"], capture_output=True, text=True)
    return [each["object"] for each in json.loads(said.stdout)["objects"]]


def node(name, labels, taints=()):
    labels = {"kubernetes.io/hostname": name, **labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"taints": list(taints)}}


class Core(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(servers.core(CORE))
        taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
        for each in (node("gpu-1", {"nvidia.com/gpu.present": "true"}, [taint]),
                     node("gpu-2", {"nvidia.com/gpu.present": "true"}, [taint]), node("cpu", {})):
            cls.make(each, "/api/v1/nodes")
            name = each["metadata"]["name"]
            has = {"cpu": "8", "memory": "64Gi", "pods": "100", "nvidia.com/gpu": "1" if name != "cpu" else "0"}
            status = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                                 "allocatable": has, "capacity": has}}
            answer = cls.server.ask("PATCH", f"/api/v1/nodes/{name}/status", status)
            assert answer[0] == 200, answer
            # A server without a node-lifecycle controller leaves the taint of a node that has just come.
            cls.server.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": each["spec"]["taints"]}})

    @classmethod
    def make(cls, each, path=None):
        status, answer, _ = cls.server.ask("POST", path or path_of(each), each)
        assert status in (201, 409), (each["kind"], status, answer)

    def wait_for(self, what, condition):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.2)  # Between two questions to the server.
        self.fail(f"{what} did not come in {WAIT_S} s")

    def test_the_manifests_put_one_pod_on_each_gpu_node(self):
        objects = [each for each in yaml.safe_load_all((ROOT / "deploy/manifests/penstock.yaml").read_text()) if each]
        for each in objects:
            self.make(each)

        pods = self.wait_for("the DaemonSet's pods", lambda: self.placed("penstock"))

        self.assertEqual(sorted(pods.values()), ["gpu-1", "gpu-2"])

    def placed(self, namespace):
        items = self.server.ask("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"]
        pods = {each["metadata"]["name"]: each["spec"].get("nodeName") for each in items}
        return pods if len(pods) == 2 and all(pods.values()) else None

    def test_what_it_tells_of_its_nodes_is_judged_as_a_dump(self):
        # Each item with its kind, as kubectl prints lists.
        items = [{"apiVersion": "v1", "kind": kind, **each} for kind in ("Node", "Pod", "ConfigMap")
                 for each in self.server.ask("GET", f"/api/v1/{kind.lower()}s")[1]["items"]]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        said = subprocess.run([TOOL, "verify", "--dump", "-", "--json"], input=text, capture_output=True,
                              text=True)
        storages = {each["node"]: len(each["storages"]) for each in json.loads(said.stdout)["nodes"]}
        self.assertEqual(storages, {"cpu": 0, "gpu-1": 1, "gpu-2": 1}, said.stderr)

    def test_its_account_may_do_nothing(self):
        for verb, resource in (("get", "pods"), ("list", "nodes"), ("get", "secrets"), ("create", "pods")):
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                      "spec": {"user": "system:serviceaccount:penstock:penstock",
                               "groups": ["system:serviceaccounts", "system:authenticated"],
                               "resourceAttributes": {"namespace": "penstock", "verb": verb, "resource": resource}}}
            answer = self.server.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)[1]
            self.assertFalse(answer["status"]["allowed"], (verb, resource))

    def test_what_render_makes_is_taken(self):
        taken, namespaces = collections.Counter(), set()
        for answers in every_answer():
            for each in rendered(answers):
                if each.get("kind") not in PLURALS:
                    continue
                place = each["metadata"]["name"] if each["kind"] == "Namespace" else each["metadata"].get("namespace")
                if place and place not in namespaces:
                    self.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
                    namespaces.add(place)
                with self.subTest(answers=answers, kind=each["kind"]):
                    status, answer, _ = self.server.ask("POST", path_of(each) + "?dryRun=All", each)
                    self.assertIn(status, (201, 409), answer)
                    taken[each["kind"]] += 1
        print(f"rendered objects taken, dry run: {', '.join(f'{count} {kind}' for kind, count in taken.items())}")
        self.assertGreater(taken["Job"], 50)

    def test_what_render_makes_puts_its_job_where_gpu_and_volume_are(self):
        for each in rendered(["--path", "bounce", "--storage", "xfs", "--namespace", "proof"]):
            if each["kind"] == "PersistentVolume":
                terms = each["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
                self.assertEqual(terms[0]["matchExpressions"][0]["values"], ["NODE"])
                terms[0]["matchExpressions"][0]["values"] = ["gpu-2"]
            if each["kind"] != "Pod":  # The workload would take the one GPU that there is.
                self.make(each)

        path = "/api/v1/namespaces/proof/pods"
        pods = self.wait_for("the Job's pod", lambda: [each for each in self.server.ask("GET", path)[1]["items"]
                                                       if each["spec"].get("nodeName")])

        self.assertEqual([each["spec"]["nodeName"] for each in pods], ["gpu-2"])
        claim = self.server.ask("GET", "/api/v1/namespaces/proof/persistentvolumeclaims/penstock-data")[1]
        self.assertEqual(claim["status"]["phase"], "Bound")


if __name__ == "__main__":
    TOOL, CORE = sys.argv[1], Path(sys.argv[2]) / "core"
    del sys.argv[1:3]
    unittest.main()
