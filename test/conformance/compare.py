#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Compares what our library does with what NVIDIA's did, case by case.

    compare.py VENDOR.json OURS.json [--differences FILE] [--expected FILE]
    compare.py VENDOR.json --run PROGRAM ARGUMENT...     (runs the program first; --output is added)
    compare.py VENDOR.json NEWER.json --versions         (what two versions of NVIDIA's library answer differently)

For another version of NVIDIA's library than 1.15, --version names it, and --base its 1.15 outcomes: then --expected may
say "as 1.15" of a case, where our outcome is the same whichever version we follow, and --run runs only the others.

Every case must be equal in both, or be a difference that is known: --expected holds our outcome of each, --differences
says why, in groups of name patterns. So neither library's behaviour can change unnoticed, and no reason outlives what
it explains. A case that NVIDIA's library was not asked yet has our outcome alone, and is counted. --update writes
--expected anew from OURS; --markdown prints the differences as a table instead. Exits 0 where all is as it was said, 1
where not, 2 where a file is missing.
"""

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
from pathlib import Path

BASE = "1.15"
AS_BASE = f"as {BASE}"
HERE = Path(__file__).resolve().parent
KINDS = {
    "deliberate": "different on purpose",
    "undetermined": "left to chance in the vendor's library",
    "machine": "told by the machine, not by the library",
}


def is_absent(lines):
    return any(line.startswith("absent") for line in lines)


def skip_of(lines):
    """Why a case could not be run: something that CUDA or our own library lacks."""
    return next((line for line in lines if line.startswith(("skip: ", "absent"))), None)


class Differences:
    """Groups of cases with one reason each; a case belongs to the first group with a pattern for it."""

    def __init__(self, groups, version):
        self.groups = [group for group in groups if group.get("of", version) == version]
        self.must_be_used = [group for group in self.groups if version == BASE or "of" in group]
        self.used = set()  # (group, pattern)

    def group_of(self, case):
        for group in self.groups:
            for pattern in group["cases"]:
                if fnmatch.fnmatchcase(case, pattern):
                    self.used.add((group["why"], pattern))
                    return group
        return None

    def faults(self):
        for group in self.must_be_used:
            if group.get("kind", "deliberate") not in KINDS or not group["why"]:
                yield f"differences: a group needs a reason, and a kind of {', '.join(KINDS)}: {group}"
            for pattern in group["cases"]:
                if (group["why"], pattern) not in self.used:
                    yield f"differences: no case differs that {pattern} names ({group['why']})"


def shown(name, lines):
    return f"  {name}:\n" + "".join(f"    {line}\n" for line in lines)


class Comparison:
    def __init__(self, vendor, ours, expected, differences, version=BASE):
        self.vendor, self.ours, self.expected = vendor, ours, expected
        self.differences = Differences(differences, version)
        self.faults = []
        self.skips = []
        self.counts = dict.fromkeys(["same", *KINDS, "absent", "unasked", "skipped"], 0)
        self.known = {}  # id of a group: (group, its cases)

    def run(self):
        if not self.ours:
            self.faults.append("no case was run")
        for case in sorted(set(self.vendor) | set(self.ours) | set(self.expected)):
            self.look_at(case)
        self.faults.extend(self.differences.faults())

    def look_at(self, case):
        if case not in self.ours:
            self.faults.append(f"{case}: it was not run")
            return
        vendor, ours = self.vendor.get(case), self.ours[case]
        expected = self.expected.get(case, vendor)
        if expected is None:
            self.faults.append(f"{case}: neither the vendor's outcome nor ours is on record")
            return
        if case in self.expected and expected == vendor:
            self.faults.append(f"{case}: is expected to differ, and the expectation does not (--update drops it)")
        if ours != expected and skip_of(ours):
            self.skips.append((case, skip_of(ours)))
            self.counts["skipped"] += 1
        elif ours != expected:
            self.faults.append(f"{case}: not as expected\n{shown('expected', expected)}{shown('ours', ours)}".rstrip())
        self.count(case, vendor, expected, ours)

    def count(self, case, vendor, expected, ours):
        """By what is expected, so that a reason stays in use where a case is skipped."""
        skipped = ours != expected and skip_of(ours)
        if expected == vendor:
            self.counts["same"] += 0 if skipped else 1
            return
        if vendor is None:
            self.counts["unasked"] += 0 if skipped else 1
            return
        if is_absent(vendor):
            self.counts["absent"] += 0 if skipped else 1
            return
        group = self.differences.group_of(case)
        if group is None:
            self.faults.append(f"{case}: differs for no reason that is known\n"
                               f"{shown('vendor', vendor)}{shown('ours', expected)}".rstrip())
            return
        self.known.setdefault(id(group), (group, []))[1].append(case)
        self.counts[group.get("kind", "deliberate")] += 0 if skipped else 1


def short(lines, others, length=110):
    """The lines that the other side lacks; all where none is lacking."""
    own = [line for line in lines if line not in others] or lines or ["(nothing)"]
    text = "; ".join(own)
    return (text if len(text) <= length else text[:length - 3].rstrip() + "...").replace("|", "\\|")


def examples(group, cases):
    """One case a pattern: it shows what the others are like."""
    for pattern in group["cases"]:
        matching = [case for case in cases if fnmatch.fnmatchcase(case, pattern)]
        if matching:
            yield pattern, len(matching), matching[0]


def markdown(comparison, version):
    out = []
    for group in comparison.differences.groups:
        if id(group) not in comparison.known:
            continue
        cases = comparison.known[id(group)][1]
        kind = group.get("kind", "deliberate")
        note = "" if kind == "deliberate" else f" *({KINDS[kind]})*"
        out.append(f"**{group['why']}**{note}\n")
        out.append(f"| cases | NVIDIA {version} | Penstock |\n|---|---|---|")
        for pattern, number, case in examples(group, cases):
            vendor, ours = comparison.vendor[case], comparison.expected[case]
            name = f"`{pattern}`" + (f" ({number})" if number > 1 else "")
            out.append(f"| {name} | {short(vendor, ours)} | {short(ours, vendor)} |")
        out.append("")
    return "\n".join(out)


def versions(old, new):
    """A table of the cases that were asked of both, and differ."""
    names = [f"{each['library']['version'] // 1000}.{each['library']['version'] % 1000 // 10}" for each in (old, new)]
    both = sorted(set(old["cases"]) & set(new["cases"]))
    out = [f"| case | {names[0]} | {names[1]} |\n|---|---|---|"]
    for case in both:
        before, after = old["cases"][case], new["cases"][case]
        if before != after:
            out.append(f"| `{case}` | {short(before, after)} | {short(after, before)} |")
    return "\n".join([*out, f"\n{len(both)} cases were asked of both; {len(out) - 1} differ."])


def write_expected(path, vendor, ours, base):
    kept = {case: AS_BASE if lines == base.get(case) else lines
            for case, lines in ours.items() if lines != vendor.get(case) and not skip_of(lines)}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def read_base(path):
    """Our outcomes by 1.15's answers: NVIDIA's, but for those that are on record as ours."""
    return {**read(path)["cases"], **read(HERE / "expected.json")} if path else {}


def read_expected(path, base):
    return {case: base[case] if lines == AS_BASE else lines for case, lines in read(path).items()}


def run_changed(command, vendor, expected, base):
    """Our outcomes, of which those that are expected to be the same for either version are not asked for again."""
    ours = {**vendor, **expected}
    changed = [case for case in ours if ours[case] != base[case]]
    return {"cases": {**ours, **run_program(command, changed)["cases"]}}


def run_program(command, only=None):
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "ours.json"
        if only is not None:
            names = Path(folder) / "names"
            names.write_text("".join(f"{name}\n" for name in only), encoding="utf-8")
            command = [*command, "--names", str(names)]
        status = subprocess.run([*command, "--output", str(output)], check=False).returncode
        if status != 0:
            raise OSError(f"{command[0]} ended with {status}")
        return read(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vendor")
    parser.add_argument("ours", nargs="?")
    parser.add_argument("--differences", default=HERE / "differences.json")
    parser.add_argument("--expected", type=Path, default=HERE / "expected.json")
    parser.add_argument("--version", default=BASE)
    parser.add_argument("--base", metavar="FILE")
    parser.add_argument("--may-skip", action="append", default=[], metavar="PATTERN",
                        help="cases that need not run; any other that does not is a fault")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--versions", action="store_true")
    parser.add_argument("--run", nargs=argparse.REMAINDER, default=[])
    wishes = parser.parse_args()
    try:
        vendor = read(wishes.vendor)
        base = read_base(wishes.base)
        if wishes.run and wishes.base:
            expected = read_expected(wishes.expected, base)
            ours = run_changed(wishes.run, vendor["cases"], expected, base)
        else:
            ours = run_program(wishes.run) if wishes.run else read(wishes.ours or "")
        if wishes.versions:
            print(versions(vendor, ours))
            return 0
        if wishes.update:
            write_expected(wishes.expected, vendor["cases"], ours["cases"], base)
        comparison = Comparison(vendor["cases"], ours["cases"], read_expected(wishes.expected, base),
                                read(wishes.differences), wishes.version)
    except (OSError, ValueError, KeyError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    comparison.run()
    for case, why in comparison.skips:
        if not any(fnmatch.fnmatchcase(case, pattern) for pattern in wishes.may_skip):
            comparison.faults.append(f"{case}: did not run: {why}")
    for line in [f"SKIPPED {case}: {why}" for case, why in comparison.skips] + comparison.faults:
        print(line, file=sys.stderr if wishes.markdown else sys.stdout)
    counts = comparison.counts
    summary = (f"{len(comparison.ours)} cases: {counts['same']} same, {counts['deliberate']} deliberate, "
               f"{counts['undetermined']} undetermined, {counts['machine']} of the machine, {counts['absent']} absent "
               f"from the vendor's library, {counts['unasked']} not asked of it, {counts['skipped']} skipped; "
               f"{len(comparison.faults)} faults")
    version = vendor["library"].get("version", 0)
    print(markdown(comparison, f"{version // 1000}.{version % 1000 // 10}") if wishes.markdown else summary)
    return 1 if comparison.faults else 0


if __name__ == "__main__":
    sys.exit(main())
