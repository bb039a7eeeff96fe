#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Every line of bench/versus runs and compares its bytes, on small files: smoke_test.py VERSUS LIBRARY FAKES

The library takes turns with itself: with host memory standing in for a GPU, then with the CUDA driver that lies in the
folder FAKES. No time is judged. Line i is skipped where the file system has no direct I/O, and it is said.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LINES = "abcdefghijklmnopq"
PAIRS = 2


def look_at(contest):
    """What is wrong with a contest, or None."""
    why = contest.get("failed", "")
    if contest["lines"] == "i" and "O_DIRECT: Invalid argument" in why:
        print(f"line i skipped, no direct I/O here: {why}")
        return None
    if why:
        return why
    if not contest["entries"] or any(len(entry["samples"]) != PAIRS for entry in contest["entries"]):
        return f"not {PAIRS} samples of each entry"
    if not contest["measures"] or any(len(measure["ratios"]) != PAIRS for measure in contest["measures"]):
        return "a measure without its ratios"
    return None


def run(versus, library, options, environment):
    """What is wrong with one run."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        report = Path(folder, "report.json")
        done = subprocess.run([versus, *options, "--size", "16", "--pairs", str(PAIRS), "--ranks", "2", "--rank-size",
                               "8", "--seconds", "0.01", "--times", "50", "--json", report, Path(folder, "data"),
                               library, library], capture_output=True, text=True, env={**os.environ, **environment})
        left = sorted(path.name for path in Path(folder).iterdir() if path != report)
        found = json.loads(report.read_text())["contests"] if report.exists() else []
    wrong = [f"left behind: {left}"] if left else []
    wrong += [f"{contest['title']}: {why}" for contest in found if (why := look_at(contest))]
    missing = set(LINES) - set("".join(contest["lines"] for contest in found))
    if missing:
        wrong.append(f"no contest for lines {sorted(missing)}: {done.stderr}")
    judged = any("met" in measure for contest in found for measure in contest["measures"])
    if judged == ("--stand-in" in options):
        wrong.append("targets are judged on a GPU, and there alone")
    return wrong


def main(versus, library, fakes):
    wrong = run(versus, library, ["--stand-in"], {}) + run(versus, library, [], {"LD_LIBRARY_PATH": fakes})
    print("\n".join(wrong) if wrong else f"lines {LINES} ran and compared, twice")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
