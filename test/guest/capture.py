#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Makes the files of test/fixtures/machines whose names begin with guest-: runs scripts/capture-machine in emulated
machines. Only needed where that script or what it should see has changed.

    capture.py --tool PENSTOCK --probe PEER_PROBE --work DIRECTORY [--into TREES]
"""

import argparse
import shutil
import sys
from pathlib import Path

import fetch_kernel
import run
from cases import file_on
from expect import Tool
from machine import NEAR, PEER, Drive, Machine

ROOT = run.HERE.parents[1]
CAPTURE = Tool("capture", "capture-machine /tmp/machine.tree && cat /tmp/machine.tree >/dev/vport0p1")
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
    programs = {"/bin/penstock": options.tool, "/bin/peer_probe": options.probe}
    for machine in CAPTURED:
        if run.run_machine(machine, kernel, programs, options.work):
            return 1
        tree = options.into / f"{machine.name}.tree"
        shutil.copyfile(options.work / machine.name / "outbox", tree)
        print(f"     captured {tree}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
