#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Our programs on a kernel whose io_uring takes dma-bufs, or a rehearsal of that on one that does not.

    dmabuf_run.py --build DIRECTORY [--rehearse [--lie N]] [--requests N] [MACHINE...]

PENSTOCK_GUEST_KERNEL=FILE names the kernel image, with its modules below the same directory. Without it the run is
skipped, with 77. --rehearse takes the kernel that the other tests take, and ring_standin.c answers the ring's calls
about dma-bufs. --lie has it report one request as whole that was not: the run has to fail.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import dmabuf_cases
import fetch_kernel
import run

FEW, BOOT_SECONDS = 300, 600
RING = "/lib/ring"  # In the machine. Empty, it does not rehearse.
# Programs that were built for NVIDIA's library: {place in the machine: (name, variable that names one)}.
CLIENTS = {"/bin/fio": ("fio", "FIO"), "/bin/kvikio_smoke": ("kvikio", "PENSTOCK_KVIKIO_SMOKE")}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True, help="the directory that all was built in")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--lie", type=int, default=0, help="which request is a lie, counted in each program")
    parser.add_argument("--requests", type=int, default=FEW, help="small reads of each case that makes many")
    parser.add_argument("machine", nargs="*")
    return parser.parse_args(arguments)


def kernel_of(options):
    if options.rehearse:
        os.environ.pop("PENSTOCK_GUEST_KERNEL", None)
    elif not os.environ.get("PENSTOCK_GUEST_KERNEL"):
        raise fetch_kernel.Missing("PENSTOCK_GUEST_KERNEL names no kernel whose io_uring takes dma-bufs, and none was "
                                   "released; --rehearse runs the same on the kernel that the other tests use.")
    return fetch_kernel.fetch(fetch_kernel.default_cache())


def clients_here():
    """{place: program}, of those that were built."""
    return {place: os.environ[variable] for place, (_, variable) in CLIENTS.items() if os.environ.get(variable)}


def tell_missing(here):
    for place, (name, variable) in CLIENTS.items():
        if place not in here:
            print(f"skipped: {name} on the path dmabuf: {variable} names none; integrations/{name}/README.md tells how "
                  "to build one.")


def programs_of(options, kernel):
    guest = options.build / "test/guest"
    programs = {"/bin/penstock": options.build / "tools/penstock", "/bin/peer_probe": guest / "peer_probe",
                "/bin/cufile_client": guest / "cufile_client", "/bin/ring_probe": guest / "ring_probe",
                "/lib/cuda/libcuda.so.1": options.build / "test/fakes/libcuda.so.1"}
    # Clients come with CUDA and our library as we have built them.
    places = [str(options.build.resolve() / folder) for folder in ("test/fakes", "lib")]
    os.environ["LD_LIBRARY_PATH"] = ":".join([*places, os.environ.get("LD_LIBRARY_PATH", "")])
    programs |= clients_here()
    if options.rehearse:
        programs |= {f"{RING}/ring_standin.so": guest / "ring_standin.so", f"{RING}/peer_memory.ko": run.build_module(
            kernel, "peer_memory", guest / "peer_memory")}
    return programs


def lying(machine, nth):
    """Every program is lied to."""
    return replace(machine, cases=tuple(
        replace(case, command=case.command.replace("ring ", f"ring PENSTOCK_RING_LIE={nth} ", 1))
        for case in machine.cases))


def main(arguments):
    options = parse(arguments)
    here = clients_here()
    known = dmabuf_cases.machines(options.requests, options.rehearse, [CLIENTS[place][0] for place in here])
    unknown = set(options.machine or ()) - {one.name for one in known}
    if unknown:
        print(f"there is no machine {', '.join(sorted(unknown))}: expected of {[one.name for one in known]}")
        return 2
    chosen = [one for one in known if one.name in (options.machine or (one.name,))]
    if options.lie:
        chosen = [lying(machine, options.lie) for machine in chosen]
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # mkfs, for those who are not root.
    try:
        missing = run.what_is_missing(chosen)
        if missing:
            raise fetch_kernel.Missing(missing)
        kernel = kernel_of(options)
        programs = programs_of(options, kernel)
    except fetch_kernel.Missing as why:
        print(f"skipped: {why}")
        return 77
    if any(one.name in dmabuf_cases.WITH_CLIENTS for one in chosen):
        tell_missing(here)
    print(f"     {'rehearsed on' if options.rehearse else 'on'} {kernel}")
    seconds = BOOT_SECONDS + options.requests // 10
    work = options.build / "test/guest/machines"
    return 1 if sum(run.run_machine(machine, kernel, programs, work, seconds=seconds) for machine in chosen) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
