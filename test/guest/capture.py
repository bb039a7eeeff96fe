#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Makes the trees of test/fixtures/machines whose names begin with guest-: runs scripts/capture-machine in emulated
machines. Only needed where that script or what it should see has changed.

    capture.py --tool PENSTOCK --probe PEER_PROBE --work DIRECTORY [--into TREES]
"""

import argparse
import shutil
import sys
import tarfile
from pathlib import Path

import fetch_kernel
import run
from cases import file_on
from expect import Tool
from machine import NEAR, PEER, Drive, Machine

ROOT = run.HERE.parents[1]
CAPTURE = Tool("capture", "capture-machine /tmp/machine.tar && cat /tmp/machine.tar >/dev/vport0p1")
# The script asks for GNU's; busybox's shell takes its own before any program, but not before a function.
GNU = ("tar", "find")
FUNCTIONS = "; ".join(f'{name}() {{ /gnu/{name} "$@"; }}' for name in GNU)
EXT4 = Drive("ext4", holds="ext4")
ON_ARRAY = "raid0 md0 left right && mke2fs /dev/md0 >/dev/null && mkdir -p /mnt/array && " \
           "mount -t ext4 /dev/md0 /mnt/array"


def capturing(prepare):
    return (Tool("prepare", "true", prepare=prepare), CAPTURE)


CAPTURED = (
    Machine("guest-near", "", capturing(file_on("ext4")), drives=(PEER, NEAR, EXT4)),
    Machine("guest-iommu", "", capturing(file_on("ext4")), drives=(PEER, NEAR, EXT4), iommu="translating"),
    Machine("guest-md-raid0", "", capturing(ON_ARRAY), modules=("raid0",),
            drives=(PEER, NEAR, Drive("left", holds="zeros"), Drive("right", holds="zeros"))),
)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--probe", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--into", type=Path, default=ROOT / "test/fixtures/machines")
    options = parser.parse_args(arguments)
    missing = run.what_is_missing(CAPTURED)
    if missing:
        print(f"skipped: {missing}")
        return 77
    kernel = fetch_kernel.fetch(fetch_kernel.default_cache())
    programs = {"/bin/penstock": options.tool, "/bin/peer_probe": options.probe,
                **{f"/gnu/{name}": shutil.which(name) for name in GNU}}
    script = (ROOT / "scripts/capture-machine").read_text()
    scripts = {"/bin/capture-machine": script.replace("\n", f"\n{FUNCTIONS}\n", 1)}
    for machine in CAPTURED:
        if run.run_machine(machine, kernel, programs, options.work, scripts):
            return 1
        tree = options.into / machine.name
        shutil.rmtree(tree, ignore_errors=True)
        with tarfile.open(options.work / machine.name / "outbox") as captured:
            captured.extractall(tree)
        print(f"     captured {tree}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
