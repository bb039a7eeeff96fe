# SPDX-License-Identifier: Apache-2.0
"""Asks every program that tells of a machine about each captured machine, with several settings, and compares.

  one_answer.py TOOLS MACHINES [--write] [--machine NAME]... [--show KIND]
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import pathlib
import sys

import asking
from said import Contradiction, contradictions

KNOWN = pathlib.Path(__file__).parent / "known.json"
THREADS = 2

Found = dict[tuple[str, str], list[Contradiction]]  # By machine and setting.


def interview(programs: asking.Programs, setting: asking.Setting, machines: list[asking.Machine]) -> Found:
    with asking.with_cufile(machines, setting) as asked:
        interviews = [asking.Interview(programs, setting, machine) for machine in asked]
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda one: one.hold(), interviews))
        asking.hear_verify(programs, setting, interviews)
        asking.hear_choose(programs, setting, interviews)
    return {(one.machine.name, setting.name): contradictions(one.answers) for one in interviews}


def counts_of(found: Found) -> dict[str, int]:
    """By kind, on how many machines with how many settings it is found."""
    kinds: dict[str, int] = collections.Counter()
    for contradicted in found.values():
        kinds.update({one.kind for one in contradicted})
    return dict(sorted(kinds.items()))


def pairs_of(kinds: set[str]) -> set[tuple[str, str]]:
    """The programs that contradict each other; beside one that contradicts the truth stands the kind of that."""
    pairs = set()
    for kind in kinds:
        aspect, names = kind.split(": ")
        one, other = names.split(", ") if ", " in names else (names, aspect)
        pairs |= {(one, other), (other, one)}
    return pairs


def print_table(found: Found, settings: list[str]) -> None:
    pairs = collections.Counter(pair for contradicted in found.values()
                                for pair in pairs_of({one.kind for one in contradicted}))
    mouths = sorted({one for one, _ in pairs})
    print("Machines with a setting on which two programs contradict each other")
    for number, mouth in enumerate(mouths):
        row = "".join(f"{pairs[mouth, other] or '.':>5}" for other in mouths[:number + 1])
        print(f"{number + 1:>3} {mouth:<24}{row}")
    print(" " * 28 + "".join(f"{number + 1:>5}" for number in range(len(mouths))))
    machines = {machine for machine, _ in found}
    for setting in settings:
        count = sum(bool(found[machine, setting]) for machine in machines)
        print(f"{setting:<28}{count:>5} of {len(machines)} machines")
    for aspect in ("danger", "unread", "state", "bytes", "reason"):
        count = sum(any(one.kind.startswith(aspect) for one in contradicted) for contradicted in found.values())
        print(f"by {aspect:<25}{count:>5} of {len(found)} machines with a setting")
    once = sum(any(found[machine, setting] for setting in settings) for machine in machines)
    print(f"{'any setting':<28}{once:>5} of {len(machines)} machines, "
          f"{sum(map(bool, found.values()))} of {len(found)} machines with a setting")


def rises(counts: dict[str, int], known: dict[str, int]) -> list[str]:
    return [f"{kind}: {count}, and {known.get(kind, 0)} were known" for kind, count in counts.items()
            if count > known.get(kind, 0)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("machines", type=pathlib.Path)
    parser.add_argument("--machine", action="append", default=[], help="this machine alone")
    parser.add_argument("--show", default="", help="print what is found of the kinds that begin so")
    parser.add_argument("--write", action="store_true", help="write known.json")
    asked = parser.parse_args()
    programs = asking.Programs(asked.tools.resolve())
    roots = [root for root in sorted(asked.machines.resolve().iterdir())
             if not asked.machine or root.name in asked.machine]
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        machines = list(pool.map(lambda root: asking.machine_of(programs, root), roots))
    found: Found = {}
    for setting in asking.SETTINGS_ASKED:
        found.update(interview(programs, setting, machines))
    for (machine, setting), contradicted in sorted(found.items()):
        for one in contradicted:
            if asked.show and one.kind.startswith(asked.show):
                print(f"{machine}, {setting}: {one.text}")
    print_table(found, [setting.name for setting in asking.SETTINGS_ASKED])
    counts = counts_of(found)
    if asked.write:
        KNOWN.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
        return 0
    worse = rises(counts, json.loads(KNOWN.read_text(encoding="utf-8")))
    print(*(f"more contradictions than were known: {one}" for one in worse), sep="\n")
    return 1 if worse or not found else 0


if __name__ == "__main__":
    sys.exit(main())
