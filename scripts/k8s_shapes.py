#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The key tables of `penstock-k8s lint`, made of or compared with the operators' definitions of their resources.

    k8s_shapes.py FOLDER           rewrite k8s/shapes/*.shapes
    k8s_shapes.py FOLDER --check   say whether they would change: exit code 1

FOLDER holds a folder for each release, gpu-operator-vVERSION or network-operator-vVERSION, with its
CustomResourceDefinitions as published. Of these only names, types and bounds are taken, no prose. Needs PyYAML.
k8s/shapes/README.md tells the form of the tables.
"""

import argparse
import collections
import difflib
import re
import sys
from pathlib import Path

import yaml

SHAPES = Path(__file__).resolve().parents[1] / "k8s" / "shapes"
OPERATORS = ("gpu-operator", "network-operator")
PART_LINES_MIN = 2
DECIMAL = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
# Patterns by the words that k8s/patterns.cc knows them by.
PATTERNS = {
    rf"^(\+|-)?{DECIMAL}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{DECIMAL}))?$": "quantity",
    r"[a-zA-Z0-9\-]+": "some-letter",
    r"[a-zA-Z0-9\.\-\/]+": "some-letter-of-path",
    r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$": "duration",
    r"^[a-zA-Z0-9\-]+$": "letters",
    r"^[a-zA-Z_][a-zA-Z0-9_]*$": "variable",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "label",
    r"^(\d+)(Ei|Pi|Ti|Gi|Mi|Ki)$": "binary-size",
}
SCALARS = {("string", ""): "text", ("boolean", ""): "bool", ("integer", ""): "int64", ("integer", "int32"): "int32",
           ("integer", "int64"): "int64", ("number", ""): "number"}


def word(value):
    """A default as one word."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str)) and re.fullmatch(r"[^\s\[\]{}\"]+", str(value)):
        return str(value)
    if value in ({}, [], ""):
        return {"{}": "{}", "[]": "[]", "''": '""'}[repr(value)]
    raise SystemExit(f"k8s_shapes: no word for the default {value!r}")


def kind_of(schema):
    """The type as the tables name it, and the schema of what is in it."""
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-text", {}
    if schema["type"] == "array":
        kind, inner = kind_of(schema["items"])
        return f"{kind}[]", inner
    if schema["type"] == "object":
        if isinstance(schema.get("additionalProperties"), dict):
            kind, inner = kind_of(schema["additionalProperties"])
            return f"{kind}{{}}", inner
        return "object", schema
    return SCALARS[schema["type"], schema.get("format", "")], schema


def innermost(schema):
    while True:
        if schema.get("type") == "array":
            schema = schema["items"]
        elif isinstance(schema.get("additionalProperties"), dict):
            schema = schema["additionalProperties"]
        else:
            return schema


def attributes(schema):
    """All that a line says behind the key's name."""
    kind, _ = kind_of(schema)
    leaf = innermost(schema)
    words = [kind]
    for outer in ({id(leaf): leaf, id(schema): schema}).values():
        for key in ("x-kubernetes-preserve-unknown-fields", "nullable", "exclusiveMinimum", "exclusiveMaximum", "not",
                    "oneOf", "allOf", "multipleOf", "minProperties", "maxProperties", "uniqueItems", "maxItems"):
            if outer.get(key):
                raise SystemExit(f"k8s_shapes: the tables have no word for {key}")
    if "enum" in leaf:
        words.append("enum=" + ",".join(sorted(leaf["enum"])))
    if "pattern" in leaf:
        words.append("pattern=" + PATTERNS[leaf["pattern"]])
    for key, short in (("minimum", "min"), ("maximum", "max"), ("minLength", "shortest"), ("maxLength", "longest")):
        if key in leaf:
            words.append(f"{short}={leaf[key]}")
    if "minItems" in schema:
        words.append(f"items-min={schema['minItems']}")
    if "default" in schema:
        words.append(f"default={word(schema['default'])}")
    return " ".join(words)


def merge(schemas, versions):
    """The lines for what objects of several versions have in them: [name, words, lines below]."""
    properties = {version: kind_of(schema)[1].get("properties", {}) for version, schema in schemas.items()}
    required = {version: kind_of(schema)[1].get("required", []) for version, schema in schemas.items()}
    rows = []
    for name in sorted({name for one in properties.values() for name in one}):
        groups = collections.OrderedDict()
        for version in properties:
            if name in properties[version]:
                mark = "!" if name in required[version] else ""
                groups.setdefault((mark, attributes(properties[version][name])), []).append(version)
        for (mark, words), members in groups.items():
            below = merge({version: properties[version][name] for version in members}, versions)
            rows.append((name + mark, words + ages(members, list(properties), versions), below))
    return rows


def ages(members, among, versions):
    """From which release on a line holds, and up to which: " since=26.3 until=26.3"."""
    if members == among:
        return ""
    first, last = versions.index(members[0]), versions.index(members[-1])
    if members != versions[first:last + 1]:
        raise SystemExit(f"k8s_shapes: a key of {members} alone")
    since = f" since={line_of(members[0])}" if members[0] != among[0] else ""
    return since + (f" until={line_of(members[-1])}" if members[-1] != among[-1] else "")


def line_of(version):
    return ".".join(version.removeprefix("v").split(".")[:2])


def frozen(rows):
    return tuple((name, words, frozen(below)) for name, words, below in rows)


def size(rows):
    return sum(1 + size(below) for _, _, below in rows)


class Parts:
    """What stands below several keys alike, by a name of its own."""

    def __init__(self, kinds):
        self.names, self.seen = {}, collections.defaultdict(list)
        for rows in kinds:
            self.count(rows)
        taken = set()
        found = [key for key, uses in self.seen.items() if len(uses) > 1 and size(key) >= PART_LINES_MIN]
        for key in sorted(found, key=lambda key: (-size(key), self.seen[key][0], key)):
            name = collections.Counter(self.seen[key]).most_common(1)[0][0]
            number = 1
            while (whole := name if number == 1 else f"{name}-{number}") in taken:
                number += 1
            taken.add(whole)
            self.names[key] = whole

    def count(self, rows):
        for name, _, below in rows:
            if below:
                self.seen[frozen(below)].append(name.rstrip("!"))
                if len(self.seen[frozen(below)]) == 1:
                    self.count(below)

    def text(self, rows, indent):
        lines = []
        for name, words, below in rows:
            part = self.names.get(frozen(below)) if below else None
            if part:
                words = words.replace("object", f"&{part}", 1)
            lines.append(f"{'  ' * indent}{name} {words}")
            if below and not part:
                lines += self.text(below, indent + 1)
        return lines


def read_releases(folder, operator):
    """By version, its kinds with their schemas."""
    releases = {}
    for release in folder.glob(f"{operator}-v*"):
        kinds = {}
        for path in sorted(release.glob("*.yaml")):
            crd = yaml.safe_load(path.read_text(encoding="utf-8"))
            for version in crd["spec"]["versions"]:
                name = f"{crd['spec']['names']['kind']} {crd['spec']['group']}/{version['name']}"
                schema = version["schema"]["openAPIV3Schema"]
                # Left to all kinds alike; and a status that a manifest has is thrown away.
                for known in ("apiVersion", "kind", "metadata", "status"):
                    schema["properties"].pop(known, None)
                kinds[name] = schema
        releases[release.name.removeprefix(f"{operator}-")] = kinds
    return dict(sorted(releases.items(), key=lambda item: [int(part) for part in re.findall(r"\d+", item[0])]))


def table(folder, operator):
    releases = read_releases(folder, operator)
    if not releases:
        raise SystemExit(f"k8s_shapes: {folder} has no release of {operator}")
    versions = list(releases)
    kinds = {}
    for name in sorted({name for kinds in releases.values() for name in kinds}):
        with_it = {version: kinds[name] for version, kinds in releases.items() if name in kinds}
        kinds[name] = (ages(list(with_it), versions, versions), merge(with_it, versions))
    parts = Parts([rows for _, rows in kinds.values()])
    lines = [f"# The custom resources of {operator}; README.md tells the form. scripts/k8s_shapes.py writes it anew.",
             "", "versions " + " ".join(versions)]
    for key, name in sorted(parts.names.items(), key=lambda item: item[1]):
        lines += ["", f"part {name}", *parts.text(key, 1)]
    for name, (age, rows) in kinds.items():
        lines += ["", f"kind {name}{age}", *parts.text(rows, 1)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    stale = 0
    for operator in OPERATORS:
        path, new = SHAPES / f"{operator}.shapes", table(arguments.folder, operator)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if new == old:
            continue
        stale += 1
        if arguments.check:
            print("".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "as it is", "as defined")))
        else:
            path.write_text(new, encoding="utf-8")
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
