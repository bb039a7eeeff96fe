#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""`penstock-k8s lint` judges custom resources as a real API server does: objects made at random by the operators' own
definitions, then spoiled, go to both.

    differential_test.py PENSTOCK SERVERS CRDS [COUNT] [SEED]

SERVERS is make_servers' folder, CRDS one with a folder for each release (gpu-operator-v26.7.0), whose files must have
the checksums in definitions.sha256. COUNT objects of each kind and release [400]. What `penstock-k8s render` makes for
either operator goes to the server, too.
"""

import collections
import hashlib
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import servers
import yaml

HERE = Path(__file__).resolve().parent
# Rules that speak as a server; all others know more than it.
SERVERS_RULES = {"yaml_syntax", "unknown_kind", "unknown_key", "missing_key", "wrong_type", "wrong_value",
                 "out_of_range", "default_driver_selector", "gpu_cluster_name"}
AT_ONCE = 100
NODE_PARTS = ("ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin", "tolerations")
# A value that fits, for each pattern in the definitions.
FITTING = (("100m", "1Gi", "2"), ("a-b", "x1"), ("a.b/c", "driver"), ("30s", "1h"), ("10Gi",), ("NAME_1",))


def checked(folder):
    """[(release, definition)]; exits with 77 where the files are not those that are known."""
    found = []
    for line in (HERE / "definitions.sha256").read_text().splitlines():
        checksum, name = line.split()
        path = folder / name
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
            print(f"skipped: {path} is not there, or not as it was published")
            sys.exit(77)
        found += [(name.split("/")[0], each) for each in yaml.safe_load_all(path.read_text()) if each]
    found += [(release, node_policy(each)) for release, each in found
              if each["spec"]["names"]["kind"] == "NicClusterPolicy"]
    return found


def node_policy(definition):
    """NicNodePolicy's, whose definition is not at hand: its parts have the Go types of NicClusterPolicy's own
    (OFEDDriverSpec, DevicePluginSpec in the operator's api/v1alpha1), besides three maps of texts."""
    made = json.loads(json.dumps(definition))
    made["metadata"]["name"] = "nicnodepolicies.mellanox.com"
    made["spec"]["names"] = {"kind": "NicNodePolicy", "listKind": "NicNodePolicyList", "plural": "nicnodepolicies",
                             "singular": "nicnodepolicy"}
    for version in made["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        parts = {name: spec["properties"][name] for name in NODE_PARTS}
        texts = {"type": "object", "additionalProperties": {"type": "string"}}
        spec["properties"] = parts | {name: texts for name in ("annotations", "labels", "nodeSelector")}
        spec.pop("required", None)
        spec.pop("x-kubernetes-validations", None)
    return made


class Maker:
    """Values that fit a schema, and such as do not."""

    def __init__(self, random_numbers):
        self.random = random_numbers

    def fitting(self, schema, depth=0):
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self.random.choice([1, "25%"]) if "pattern" not in schema else self.text(schema)
        kind = schema.get("type")
        if kind == "object":
            return self.object(schema, depth)
        if kind == "array":
            return [self.fitting(schema["items"], depth + 1) for _ in range(self.random.randint(0, 2))]
        if kind in ("integer", "number"):
            least = schema.get("minimum", 0)
            return self.random.randint(int(least), int(schema.get("maximum", least + 5)))
        if kind == "boolean":
            return self.random.choice([True, False])
        return self.text(schema)

    def text(self, schema):
        if "pattern" in schema:
            fits = [each for each in itertools.chain(*FITTING) if re.search(schema["pattern"], each)]
            return self.random.choice(fits)
        if schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        return self.random.choice(["a", "some text", "x" * max(1, schema.get("minLength", 1))])

    def object(self, schema, depth):
        properties = schema.get("properties", {})
        if not properties and "additionalProperties" in schema:
            inner = schema["additionalProperties"]
            return {"key": self.fitting(inner, depth + 1)} if isinstance(inner, dict) else {}
        required = schema.get("required", [])
        chosen = [name for name in properties
                  if name in required or (depth < 8 and self.random.random() < 0.8 / (depth + 1))]
        return {name: self.fitting(properties[name], depth + 1) for name in chosen}

    def spoil(self, value):
        """One change at a random place of the object, in place. What it was, in words."""
        holders = []

        def walk(each):
            for key, inner in each.items() if isinstance(each, dict) else enumerate(each):
                holders.append((each, key))
                if isinstance(inner, (dict, list)):
                    walk(inner)
        walk(value)
        if not holders:
            value["surplus"] = 1
            return "a surplus key"
        holder, key = self.random.choice(holders)
        what = self.random.randrange(4)
        if what == 0 and isinstance(holder, dict):
            holder[key + "x"] = holder.pop(key)
            return f"{key} misspelt"
        if what == 1:
            del holder[key]
            return f"{key} removed"
        if what == 2 and isinstance(holder[key], dict):
            holder[key]["surplus"] = "x"
            return f"a surplus key in {key}"
        wrong = self.random.choice([None, True, 1, -1, 2.5, 1 << 40, "", "1", "true", "Other", [], ["a"], {},
                                    {"a": "b"}])
        holder[key] = wrong
        return f"{key} becomes {wrong!r}"


def judged_by_lint(tool, objects, release):
    """For each object the sentences of the rules that speak as a server."""
    told = [[] for _ in objects]
    option = ["--operator-version", release.removeprefix("gpu-operator-")] if release.startswith("gpu") else []
    for start in range(0, len(objects), AT_ONCE):
        with tempfile.TemporaryDirectory() as folder:
            for number, each in enumerate(objects[start:start + AT_ONCE], start):
                Path(folder, f"{number}.json").write_text(json.dumps(each))
            said = subprocess.run([tool, "lint", folder, "--json", *option], capture_output=True, text=True)
            if said.returncode not in (0, 1):
                sys.exit(f"penstock-k8s lint failed: {said.stderr}")
            answer = json.loads(said.stdout)
            if answer["dropped"]:
                sys.exit("penstock-k8s lint dropped findings: AT_ONCE is too large")
            for finding in answer["findings"]:
                if finding["rule"] in SERVERS_RULES and finding["severity"] == "error":
                    told[int(Path(finding["file"]).stem)].append(f"{finding['rule']}: {finding['sentence']}")
    return told


def compare(tool, server, path, release, definition, maker, count):
    """(how many were compared, how many the server refused, the differences)"""
    version = next(each for each in definition["spec"]["versions"] if each["served"])
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    kind, group = definition["spec"]["names"]["kind"], definition["spec"]["group"]
    objects, how = [], []
    for number in range(count):
        name = "gpu-cluster" if kind == "GPUCluster" else "a"
        each = {"apiVersion": f"{group}/{version['name']}", "kind": kind, "metadata": {"name": name},
                "spec": maker.fitting(schema)}
        how.append(maker.spoil(each["spec"]) if number % 4 else "nothing")
        objects.append(each)
    told, differences, refused = judged_by_lint(tool, objects, release), [], 0
    for each, change, sentences in zip(objects, how, told):
        status, answer, _ = server.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", each)
        message = answer.get("message", "") if isinstance(answer, dict) else answer
        refused += status != 201
        if (status != 201) != bool(sentences):
            differences.append(f"{release} {kind}, {change}: server {status} {message[:300]}\n    lint: {sentences}\n"
                               f"    {json.dumps(each)[:1500]}")
    return len(objects), refused, differences


def rendered(tool, release):
    """[(the answers, a custom resource)] of all that `penstock-k8s render` makes for it."""
    operator, version = re.fullmatch(r"(\w+-operator)-(.*)", release).groups()
    words = ["--operator-version", version] if operator == "gpu-operator" else []
    for path, form, place in itertools.product(("nvidia-fs", "p2pdma", "bounce"), ("clusterpolicy", "nvidiadriver"), (
            ["--os", "ubuntu24.04"], ["--os", "ubuntu22.04", "--host-driver"], ["--openshift"])):
        for storage in (["xfs"], ["ext4"], ["nfs-rdma", "--nfs-server", "nas:/models"]):
            answers = ["--path", path, "--as", form, *place, "--kernel", "6.12.0-nvidia", *words, "--storage", *storage]
            said = subprocess.run([tool, "render", *answers, "--json"], capture_output=True, text=True)
            yield from ((answers, each["object"]) for each in json.loads(said.stdout)["objects"])


def refused_of_rendered(tool, server, release, paths):
    """(how many objects of each kind the server was asked about, what it refused)"""
    asked, failures = collections.Counter(), []
    for answers, each in rendered(tool, release):
        kind = each.get("kind")
        if kind not in paths:
            continue
        asked[kind] += 1
        status, answer, _ = server.ask("POST", f"{paths[kind]}?dryRun=All&fieldValidation=Strict", each)
        if status != 201:
            failures.append(f"{release}: {kind} of render {' '.join(answers)} is refused: {answer}")
    print(f"{release}: rendered objects taken, dry run: "
          + (", ".join(f"{count} {kind}" for kind, count in sorted(asked.items())) or "none"), flush=True)
    missing = {"ClusterPolicy", "NVIDIADriver", "NicClusterPolicy"} & set(paths) - set(asked)
    return failures + [f"{release}: no {kind} was rendered" for kind in sorted(missing)]


def main():
    if len(sys.argv) < 4:
        print(__doc__)
        return 2
    tool, binaries, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 400
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 30)
    definitions = checked(folder)
    maker, failures, totals = Maker(random.Random(seed)), [], [0, 0, 0]
    for release in dict.fromkeys(name for name, _ in definitions):
        with servers.custom(binaries / "custom") as server:
            paths = {}
            for definition in (each for name, each in definitions if name == release):
                path = paths[definition["spec"]["names"]["kind"]] = servers.install(server, definition)
                compared, refused, differences = compare(tool, server, path, release, definition, maker, count)
                print(f"{release} {definition['spec']['names']['kind']}: {compared} compared, {refused} refused by the "
                      f"server, {len(differences)} judged otherwise by lint", flush=True)
                totals = [totals[0] + compared, totals[1] + refused, totals[2] + len(differences)]
                failures += differences
            failures += refused_of_rendered(tool, server, release, paths)
    for failure in failures[:20]:
        print(failure)
    print(f"seed {seed}: {totals[0]} objects, {totals[1]} refused by the server, {totals[2]} judged otherwise by lint")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
