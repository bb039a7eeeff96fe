#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Boots emulated machines with a real kernel and runs our programs in them.

    run.py --tool PENSTOCK --probe PEER_PROBE --client CUFILE_CLIENT --work DIRECTORY [MACHINE...]

Machines and cases are in cases.py; without a name all run. Prints a line for each operation and exits 0 if all came
out as the table says, 1 if not, 77 with a sentence where something that is needed cannot be had.
"""

import argparse
import fcntl
import os
import shutil
import sys
import time
from pathlib import Path

import expect
import fetch_kernel
import initramfs
import kernel_module
import machine as machines
import witness
from cases import MACHINES
from pattern import pattern

HERE = Path(__file__).resolve().parent
BOOT_SECONDS = 240
# What a person runs on a machine of his own.
SCRIPTS = {f"/bin/{name}": (HERE.parents[1] / "scripts" / name).read_text()
           for name in ("capture-machine", "prove-direct")}


def scenario_of(machine):
    find = f"find_bar {'near' if machine.bar_near else ''}".rstrip() if machine.bar_mib else "find_peer"
    lines = [f"name_drives {len(machine.drives)}", find, "count_mappings"]
    for number, case in enumerate(machine.cases):
        if case.prepare:
            lines.append(f"prepare {case.name} '{case.prepare}'")
        lines.append(case.script(number * expect.MARKS_PER_CASE))
    return "\n".join(lines) + "\n"


def pack_machine(machine, kernel, programs, scripts, folder):
    tree, archive = folder / "tree", folder / "initramfs"
    here = {f"/bin/{name}": shutil.which(name) for name in ("busybox", *machine.programs)}
    initramfs.pack(archive, tree, {**here, **programs},
                   initramfs.modules_in_order(kernel.parent, machine.modules),
                   {"/init": (HERE / "init").read_text(), "/scenario": scenario_of(machine), **SCRIPTS, **scripts})
    shutil.rmtree(tree)
    return archive


class Judge:
    """Compares what was seen with the table, and prints a line for each thing it looked at."""

    def __init__(self, machine, folder, console):
        self.machine = machine
        self.folder = folder
        self.console = console
        self.results = list(witness.results_of(console))
        self.failures = 0
        self.marks = {}

    def say(self, case, what, wrong, right):
        self.failures += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {self.machine.name:12} {case:16} {what:14} {'; '.join(wrong) or right}")

    def result(self, case, operation):
        found = [row for row in self.results if row["case"] == case and row["op"] == operation]
        return found[0] if len(found) == 1 else None

    def judge(self):
        boot = self.result("machine", "boot")
        if boot is None:
            complaint = (self.folder / "emulator").read_text(errors="replace").strip()
            self.say("machine", "boot", [f"it never started the scenario; {complaint or 'QEMU said nothing'}"], "")
            return
        with open(self.folder / "trace", encoding="utf-8", errors="replace") as log:
            self.marks, total = witness.bytes_by_mark(log, int(boot["first"], 16), int(boot["last"], 16))
        known = {"prepare", "probe"} | {row["op"] for row in self.results if row["case"] == "machine"} - {"boot", "end"}
        for row in self.results:
            if row["op"] in known:
                self.say(row["case"], row["op"], [f"failed: {row}"], "")
        for case in self.machine.cases:
            self.judge_case(case)
        for look in self.machine.outside:
            self.say(look.name, "outside", list(look.wrong_with(self.folder)), "right")
        self.say("machine", "all DMA", [] if total == sum(self.marks.values()) else
                 [f"{total} bytes to the device, {sum(self.marks.values())} of them inside the marks"],
                 f"{total} bytes to the device, each inside a case")
        end = self.result("machine", "end")
        self.say("machine", "end", [] if end else ["it did not come to its end"],
                 f"kernel {boot['kernel']}, up after {boot['seconds']} s, done after {end and end['seconds']} s")

    def judge_case(self, case):
        if isinstance(case, expect.Tool):
            self.judge_tool(case)
        elif isinstance(case, expect.Answers):
            for operation, error in case.expect.items():
                row = self.result(case.name, operation) or {"error": "no result"}
                self.say(case.name, operation, [] if row["error"] == error else
                         [f"gave {row['error'] or 'success'} instead of {error}"], error)
        else:
            self.judge_probe(case)

    def judge_tool(self, case):
        row = self.result(case.name, "exit")
        if row is None:
            self.say(case.name, "exit", ["no result"], "")
            return
        said = witness.said_of(self.console, case.name)
        dma = self.marks.get(row["mark"], 0)
        wrong = list(case.wrong_with(row, said, dma))
        self.say(case.name, "tool", wrong,
                 f"ended with {row['exit']}, {dma} bytes of DMA, {row['cached']} pages cached")
        if wrong:
            print(said)

    def judge_probe(self, case):
        content = machines.file_of(self.machine, self.folder, case.target)
        for operation, outcome in case.expect.items():
            row = self.result(case.name, operation)
            if row is None:
                self.say(case.name, operation, ["no result"], "")
                continue
            dma = self.marks.get(row["mark"], 0)
            wrong = list(expect.wrong_with(row, outcome, dma))
            if row["writes"] and content is not None:
                wrong += expect.wrong_outside(row, outcome, content, pattern)
            self.say(case.name, operation, wrong,
                     f"{outcome.name}{': ' + row['error'] if row['error'] else ''}, {dma} bytes of DMA, "
                     f"{row['mappings']} mappings, {row['cached']} pages cached")


def run_machine(machine, kernel, programs, work, scripts=None, seconds=BOOT_SECONDS):
    """The number of failures. Programs and scripts: {place in the guest: file here, or text}, beside SCRIPTS."""
    started = time.monotonic()
    folder = work / machine.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for drive in machine.drives:
        machines.make_image(drive, folder)
    archive = pack_machine(machine, kernel, programs, scripts or {}, folder)
    booting = time.monotonic()
    console = machines.boot(machine, kernel, archive, folder, seconds)
    done = time.monotonic()
    if console is None:
        print(f"FAIL {machine.name}: not powered off after {seconds} s; {folder / 'console'} has what it said")
        return 1
    judge = Judge(machine, folder, console)
    judge.judge()
    print(f"     {machine.name}: {machine.about}: {judge.failures} failures; {booting - started:.1f} s to make, "
          f"{done - booting:.1f} s to run")
    if not judge.failures:
        for image in (*folder.glob("*.img"), *folder.glob("bar")):
            image.unlink()
    else:
        print(f"     {folder} has the console, the emulator's trace and its complaints in `emulator`")
    return judge.failures


def build_module(kernel, source, folder):
    """One run compiles it at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return kernel_module.build(kernel, HERE / source, folder, fetch_kernel.default_cache())


def what_is_missing(chosen):
    missing = sorted({tool for machine in chosen for tool in machines.missing_tools(machine)})
    return f"the emulated machine needs {', '.join(missing)}." if missing else ""


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", type=Path, required=True, help="the penstock command")
    parser.add_argument("--probe", type=Path, required=True, help="the program peer_probe")
    parser.add_argument("--client", type=Path, required=True, help="the program cufile_client")
    parser.add_argument("--standin-probe", type=Path, required=True, help="the program nvidia_fs_probe")
    parser.add_argument("--work", type=Path, required=True, help="a directory for images and logs")
    parser.add_argument("machine", nargs="*", choices=[[], *MACHINES])
    options = parser.parse_args(arguments)
    chosen = [MACHINES[name] for name in options.machine or MACHINES]
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # mkfs, for those who are not root.
    try:
        missing = what_is_missing(chosen)
        if missing:
            raise fetch_kernel.Missing(missing)
        kernel = fetch_kernel.fetch(fetch_kernel.default_cache())
        programs = {"/bin/penstock": options.tool, "/bin/peer_probe": options.probe,
                    "/bin/cufile_client": options.client, "/bin/nvidia_fs_probe": options.standin_probe}
        if any(machine.standin for machine in chosen):
            programs["/lib/standin/nvidia_fs.ko"] = build_module(kernel, "standin", options.work / "compiled")
    except fetch_kernel.Missing as why:
        print(f"skipped: {why}")
        return 77
    failures = sum(run_machine(machine, kernel, programs, options.work) for machine in chosen)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
