# SPDX-License-Identifier: Apache-2.0

"""An emulated machine as a value, and QEMU's words for it.

Drives hang below one PCIe switch ("switch"), or each on a root port of its own ("far"). The drive `peer` has a
controller memory buffer, which stands for the memory of a GPU. `near` is in every machine: it carries the marks.
"""

import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from pattern import KIB, MIB, pattern

PATTERN_BYTES = 4 * MIB
# The marks are read beyond 32 GiB; images are sparse.
NEAR_BYTES = 33 << 30
SMALLEST = {"pattern": 16 * MIB, "salted": 16 * MIB, "zeros": 16 * MIB, "empty": 320 * MIB, "parted": 32 * MIB,
            "ext4": 64 * MIB, "ext4-1k": 64 * MIB, "ext4-no-extents": 64 * MIB, "xfs": 300 * MIB, "xfs-1k": 300 * MIB,
            "btrfs": 128 * MIB}
# What makes a file system on an image. mkfs.ext4 gives a drive as small as these blocks of 1 KiB by itself.
MAKERS = {"ext4": "mkfs.ext4 -q -F -b 4096", "ext4-1k": "mkfs.ext4 -q -F -b 1024",
          "ext4-no-extents": "mkfs.ext4 -q -F -b 4096 -O ^extent,^64bit",
          "xfs": "mkfs.xfs -q -f -K", "xfs-1k": "mkfs.xfs -q -f -K -b size=1024", "btrfs": "mkfs.btrfs -q -f -K"}
PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs"}
TRACED = ("pci_nvme_map_addr", "pci_nvme_read")


@dataclass(frozen=True)
class Drive:
    name: str
    place: str = "switch"  # Or "far".
    kind: str = "nvme"  # Or "virtio-blk".
    # Or "salted" (other words than the pattern's), "zeros", "empty" (zeros, room for any file system), "parted" (two
    # partitions of zeros), or what MAKERS makes.
    holds: str = "pattern"
    memory_mib: int = 0

    def size(self):
        return NEAR_BYTES if self.name == "near" else SMALLEST[self.holds]


PEER = Drive("peer", memory_mib=64)
NEAR = Drive("near")


@dataclass(frozen=True)
class Machine:
    name: str
    about: str
    cases: tuple
    drives: tuple = (PEER, NEAR)
    cpu: str = "qemu64"
    iommu: str = ""  # Or "translating", "passthrough".
    modules: tuple = ()
    programs: tuple = ()  # Of this system, by name, beside ours and busybox.
    standin: bool = False  # Has the module that stands for nvidia-fs, which a case loads with `standin`.
    bar_mib: int = 0  # Two devices have so much of the same memory of the host behind BAR 2: the file `bar`.
    bar_near: bool = False  # The second is below the switch, else both have root ports of their own.
    kernel_words: str = ""
    outside: tuple = ()  # What is looked at when the machine is off, by expect.py.
    arrays: dict = field(default_factory=dict)  # {"/dev/mdN": its two drives}, which a case prepares with `raid0`.


def partition_table(drive):
    """A master boot record with two halves."""
    sectors = drive.size() // 512
    table = b"".join(struct.pack("<B3xB3xII", 0, 0x83, first, sectors // 2 - 2048)
                     for first in (2048, sectors // 2))
    return bytes(446) + table + bytes(32) + b"\x55\xaa"


def make_image(drive, folder):
    path = folder / f"{drive.name}.img"
    path.unlink(missing_ok=True)
    with open(path, "wb") as image:
        if drive.holds in ("pattern", "salted"):
            image.write(pattern(PATTERN_BYTES, salt=int(drive.holds == "salted")))
        if drive.holds == "parted":
            image.write(partition_table(drive))
        image.truncate(drive.size())
    if drive.holds in MAKERS:
        subprocess.run([*MAKERS[drive.holds].split(), str(path)], check=True)
    return path


def drive_words(drive, folder, bus):
    words = ["-drive", f"file={folder / drive.name}.img,if=none,id=drive_{drive.name},format=raw,cache=unsafe"]
    if drive.kind == "virtio-blk":
        device = f"virtio-blk-pci,drive=drive_{drive.name},serial={drive.name}"
    else:
        memory = f",cmb_size_mb={drive.memory_mib}" if drive.memory_mib else ""
        device = f"nvme,drive=drive_{drive.name},serial={drive.name}{memory}"
    return [*words, "-device", device + (f",bus={bus}" if bus else "")]


def topology_words(drives, folder):
    words = ["-device", "pcie-root-port,id=root0,chassis=1,slot=0", "-device", "x3130-upstream,id=up,bus=root0"]
    slot = 0
    for drive in drives:
        bus = ""
        if drive.kind == "nvme" and drive.place == "switch":
            bus = f"down{slot}"
            words += ["-device", f"xio3130-downstream,id={bus},bus=up,chassis=2,slot={slot}"]
        elif drive.kind == "nvme":
            bus = f"root{slot + 1}"
            words += ["-device", f"pcie-root-port,id={bus},chassis={slot + 3},slot={slot + 1}"]
        words += drive_words(drive, folder, bus)
        slot += 1
    return words


def bar_words(machine, folder):
    words, first = [], len(machine.drives) + 1
    for number in range(first, first + 2):
        port = f"pcie-root-port,id=port{number},chassis={number + 2},slot={number}"
        if machine.bar_near and number > first:
            port = f"xio3130-downstream,id=port{number},bus=up,chassis=2,slot={number}"
        memory = f"memory-backend-file,id=bar{number},mem-path={folder / 'bar'},size={machine.bar_mib}M,share=on"
        words += ["-device", port, "-object", memory, "-device", f"ivshmem-plain,memdev=bar{number},bus=port{number}"]
    return words


def qemu_words(machine, kernel, archive, folder):
    """One CPU: with two, emulated kernels of this kind die now and then while they patch themselves. No check of the
    timer: where this machine is busy it fails, and the kernel with it."""
    board = "q35,kernel-irqchip=split" if machine.iommu else "q35"
    kernel_words = f"console=ttyS0 panic=-1 no_timer_check quiet loglevel=3 {machine.kernel_words}".rstrip()
    if machine.iommu:
        kernel_words += " intel_iommu=on" + (" iommu=pt" if machine.iommu == "passthrough" else "")
    words = ["qemu-system-x86_64", "-M", board, "-accel", "tcg", "-cpu", machine.cpu, "-smp", "1", "-m", "1024",
             "-display", "none", "-no-reboot", "-nodefaults", "-monitor", "none", "-serial", "stdio",
             "-kernel", str(kernel), "-initrd", str(archive), "-append", kernel_words]
    if machine.iommu:
        words += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
    words += topology_words(machine.drives, folder)
    if machine.bar_mib:
        words += bar_words(machine, folder)
    # What the guest writes to /dev/vport0p1 is a file here.
    words += ["-device", "virtio-serial-pci", "-chardev", f"file,id=outbox,path={folder / 'outbox'}",
              "-device", "virtserialport,chardev=outbox,name=outbox"]
    return [*words, "-D", str(folder / "trace"), *(word for event in TRACED for word in ("-trace", event))]


def boot(machine, kernel, archive, folder, seconds):
    """Runs the machine until it powers off; returns what it said on its console, or None if it took too long."""
    with open(folder / "console", "wb") as console, open(folder / "emulator", "wb") as complaints:
        try:
            subprocess.run(qemu_words(machine, kernel, archive, folder), stdin=subprocess.DEVNULL, stdout=console,
                           stderr=complaints, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return None
    return (folder / "console").read_text(errors="replace")


def missing_tools(machine):
    """The programs that making and running the machine needs and that are not here, with their packages."""
    needed = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio",
              "mkfs.ext4": "e2fsprogs", "debugfs": "e2fsprogs"}
    makers = (MAKERS[drive.holds].split()[0] for drive in machine.drives if drive.holds in MAKERS)
    needed.update({maker: PACKAGES[maker] for maker in makers})
    needed.update({program: "that it is in" for program in machine.programs})
    return [f"{tool} (package {package})" for tool, package in needed.items() if not shutil.which(tool)]


def file_of(machine, folder, target):
    """What a raw drive, or a file on an ext4 image, holds now; None where only the guest can tell."""
    parts = Path(target).parts
    if parts[1] == "drives":
        return read_image(folder / f"{parts[2]}.img")
    if parts[1:3] == ("mnt", "ext4"):
        out = folder / "dumped"
        inside = "/" + "/".join(parts[3:])
        subprocess.run(["debugfs", "-R", f"dump {inside} {out}", str(folder / "ext4.img")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return out.read_bytes()
    legs = machine.arrays.get(target)
    return interleave([read_image(folder / f"{leg}.img") for leg in legs], 64 * KIB) if legs else None


def read_image(path):
    with open(path, "rb") as image:
        return image.read(PATTERN_BYTES)


def interleave(legs, chunk):
    """What a raid0 of these legs shows."""
    stripes = range(0, len(legs[0]), chunk)
    return b"".join(leg[at:at + chunk] for at in stripes for leg in legs)
