#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Boots emulated machines with a network and runs our programs in them, as run.py does for those without one.

    network_run.py --tool PENSTOCK --probe PEER_PROBE --client CUFILE_CLIENT --helper NFS_HELPER --work DIRECTORY
                   [--capture TREES] [MACHINE...]

Machines and cases are in network_cases.py. With --capture, it makes the files of test/fixtures/machines that are
captured in such machines, into the folder TREES, instead. The kernel is of another flavour, which has RDMA made by
software.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import fetch_kernel
import initramfs
import run
from network_cases import CAPTURED, MACHINES, MODULES


def programs_of(options):
    """{place in the guest: file here}"""
    if not shutil.which("rdma"):
        raise fetch_kernel.Missing("the emulated machine needs rdma (package iproute2).")
    return {"/bin/penstock": options.tool, "/bin/peer_probe": options.probe, "/bin/cufile_client": options.client,
            "/bin/nfs_helper": options.helper, "/bin/rdma": shutil.which("rdma")}


def kernel_with_modules():
    kernel = fetch_kernel.fetch(fetch_kernel.default_cache(), fetch_kernel.GENERIC)
    lacking = initramfs.lacking(kernel.parent, MODULES)
    if lacking:
        raise fetch_kernel.Missing(f"below the directory of {kernel} there is neither a module nor a line of "
                                   f"modules.builtin for {', '.join(lacking)}.")
    return kernel


def capture(kernel, programs, scripts, work, into):
    for machine in CAPTURED:
        if run.run_machine(machine, kernel, programs, work, scripts):
            return 1
        shutil.copyfile(work / machine.name / "outbox", into / f"{machine.name}.tree")
    return 0


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", type=Path, required=True, help="the penstock command")
    parser.add_argument("--probe", type=Path, required=True, help="the program peer_probe")
    parser.add_argument("--client", type=Path, required=True, help="the program cufile_client")
    parser.add_argument("--helper", type=Path, required=True, help="the program nfs_helper")
    parser.add_argument("--work", type=Path, required=True, help="a directory for images and logs")
    parser.add_argument("--capture", type=Path, metavar="TREES", help="make captured machines in this folder")
    parser.add_argument("machine", nargs="*", choices=[[], *MACHINES])
    options = parser.parse_args(arguments)
    chosen = [MACHINES[name] for name in options.machine or MACHINES]
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    try:
        missing = run.what_is_missing(chosen)
        if missing:
            raise fetch_kernel.Missing(missing)
        programs, kernel = programs_of(options), kernel_with_modules()
    except fetch_kernel.Missing as why:
        print(f"skipped: {why}")
        return 77
    scripts = {"/network": (run.HERE / "network").read_text()}
    if options.capture:
        return capture(kernel, programs, scripts, options.work, options.capture)
    failures = sum(run.run_machine(machine, kernel, programs, options.work, scripts) for machine in chosen)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
