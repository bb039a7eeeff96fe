# SPDX-License-Identifier: Apache-2.0

"""Has each allocation and each system call of the jobs fail, and of Python's programs, on all processors.

    every_failure.py FOLDER FAILURES REFUSE_CALLS [PYTHON ARGUMENT...]

Every job is divided among as many processes as there are processors, each of which has every so-many-th call fail.
PENSTOCK_FAILURES_FROM: the job to begin with, by the name that is printed; PENSTOCK_FAILURES_PROCESSES: how many.
Ends with 1 where a fault was found.
"""

import collections
import os
import re
import subprocess
import sys
import threading
import time

TOLD = re.compile(r"(.+): (\d+) runs, (\d+) faults")


def kinds(folder, failures, refuse_calls, python):
    """What fails, by which command, and the names of its jobs."""
    names = listed([failures, "--list"])
    yield "allocations of", [failures], [folder], names
    yield "system calls of", [refuse_calls, failures, "--calls"], [folder], names
    if python:
        yield "system calls of Python's", [refuse_calls, *python], [], listed([*python, "--list"])


def listed(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 77:  # There is no torch, say.
        print(f"left out: {done.stdout}", end="", flush=True)
        return []
    done.check_returncode()
    return done.stdout.splitlines()


class Tally:
    """How far all jobs are."""

    def __init__(self, parts, jobs):
        self.parts, self.jobs, self.done = parts, jobs, 0
        self.told, self.runs, self.faults = collections.Counter(), collections.Counter(), collections.Counter()
        self.broken, self.began, self._lock = [], time.monotonic(), threading.Lock()

    def take(self, kind, line):
        """A line of one process."""
        said = TOLD.fullmatch(line)
        with self._lock:
            if not said:
                print(f"{kind} {line}", flush=True)
                return
            job = f"{kind} {said[1]}"
            self.told[job] += 1
            self.runs[job] += int(said[2])
            self.faults[job] += int(said[3])
            if self.told[job] == self.parts:
                self.done += 1
                print(f"{job}: {self.runs[job]} runs, {self.faults[job]} faults "
                      f"({self.done} of {self.jobs} jobs, {time.monotonic() - self.began:.0f} s)", flush=True)

    def end(self):
        """Returns the exit status."""
        runs, faults = sum(self.runs.values()), sum(self.faults.values())
        for line in self.broken:
            print(line)
        print(f"failures: {self.done} of {self.jobs} jobs, {runs} runs, {faults} faults, {self.parts} processes, "
              f"{time.monotonic() - self.began:.0f} s", flush=True)
        return 0 if faults == 0 and not self.broken and self.done == self.jobs else 1


def run_kind(tally, kind, command, places, names):
    """All its processes, to their end."""

    def follow(process, part):
        for line in process.stdout:
            tally.take(kind, line.rstrip("\n"))
        if process.wait() not in (0, 1):
            tally.broken.append(f"{kind} part {part} ended with {process.returncode}")

    followers = []
    for part in range(tally.parts):
        words = [*command, "--part", f"{part}/{tally.parts}", *places, *names]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        followers.append(threading.Thread(target=follow, args=(process, part)))
        followers[-1].start()
    for each in followers:
        each.join()


def main(folder, failures, refuse_calls, *python):
    os.makedirs(folder, exist_ok=True)
    parts = int(os.environ.get("PENSTOCK_FAILURES_PROCESSES") or len(os.sched_getaffinity(0)))
    first = os.environ.get("PENSTOCK_FAILURES_FROM")
    found = list(kinds(folder, failures, refuse_calls, list(python)))
    jobs = [f"{kind} {name}" for kind, _, _, names in found for name in names]
    if first and first not in jobs:
        sys.exit(f"PENSTOCK_FAILURES_FROM is {first}: expected one of {', '.join(jobs)}")
    left = set(jobs[jobs.index(first):] if first else jobs)
    tally = Tally(parts, len(left))
    for kind, command, places, names in found:
        if wanted := [name for name in names if f"{kind} {name}" in left]:
            run_kind(tally, kind, command, places, wanted)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
