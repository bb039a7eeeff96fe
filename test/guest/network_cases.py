# SPDX-License-Identifier: Apache-2.0

"""Machines with a network, and what is tried in them. README.md says how a line is added.

Each serves itself: drives by NVMe over Fabrics, a folder by NFS, over an RDMA device made by software and over TCP.
Every transfer is made under `over`, which fails where the bytes went by another transport than named.
"""

from dataclasses import dataclass, field

import expect
from cases import FILL
from expect import Tool
from machine import NEAR, PEER, Drive, Machine
from pattern import MIB

MODULES = ("nvme", "ext4", "dummy", "rdma_rxe", "nvmet", "nvmet_rdma", "nvmet_tcp",
           "nvme_rdma", "nvme_tcp", "nfsd", "nfs", "nfsv4", "rpcrdma")

# On a busy host the kernel may find the processor's clock 40 times faster than it is. Networks have timeouts.
STEADY = "clocksource=hpet"


@dataclass(frozen=True)
class Validate(Tool):
    """`penstock validate --layer 2`, in whose report a row {"code subject": (state, part of its sentence)} must be."""
    rows: dict = field(default_factory=dict)

    def wrong_with(self, result, said, dma):
        yield from super().wrong_with(result, said, dma)
        report = expect.parsed(said) or {"rows": []}
        found = {f"{row['code']} {row['subject']}".strip(): row for row in report["rows"]}
        for name, (state, sentence) in self.rows.items():
            row = found.get(name, {"state": "missing", "sentence": ""})
            if row["state"] != state or sentence not in row["sentence"]:
                yield f"row {name!r} is {row['state']} and says {row['sentence']!r} instead of {state}, {sentence!r}"


def validate(name, rows, status=1, prepare=""):
    return Validate(name, "penstock validate --layer 2 --json", status=status, rows=rows, prepare=prepare)


def client(name, target, transport, words, moved, facts, check="", prepare=""):
    """A program that knows cuFile alone moves `moved` bytes of device memory by bounce, over this transport."""
    run = f"over {transport} {moved} cufile_client {target} {words}"
    return Tool(name, f"PENSTOCK_DEVICE=p2pmem {run}{' && ' + check if check else ''}", facts=facts, file=target,
                prepare=prepare)


def moved_by_client(name, target, transport, reason, check="", prepare=""):
    return client(name, target, transport, "write:0:1M read:0:2M batch:1M:1M", 2 * MIB,
                  {f"write.bounce.{reason}": MIB, f"read.bounce.{reason}": 3 * MIB}, check, prepare)


def explain(name, target, reason, prepare=""):
    return Tool(name, f"PENSTOCK_DEVICE=p2pmem penstock explain -v {target}", prepare=prepare,
                says=("would be used: bounce", f"p2pdma     refused [{reason}]"))


def mounted(point, device):
    return f"mkdir -p {point} && mount -t ext4 {device} {point}"


UP = ". /network && rdma_up"
RDMA_DRIVE = f"serve_drive one rdma && connect_drive one rdma && {mounted('/mnt/one', '/drives/one-rdma')} && " \
             f"{FILL.format('/mnt/one/data')}"
TCP_DRIVE = f"serve_drive two tcp && connect_drive two tcp && {mounted('/mnt/two', '/drives/two-tcp')} && " \
            f"{FILL.format('/mnt/two/data')}"
NFS_RDMA = f"{mounted('/mnt/shown', '/drives/shown')} && {FILL.format('/mnt/shown/data')} && " \
           "serve_folder /mnt/shown rdma tcp && mount_folder /mnt/nfs rdma"
NFS_TCP = "umount /mnt/nfs && mount_folder /mnt/nfs tcp"

NETWORK_MACHINE = Machine(
    name="network",
    about="storage over RDMA made by software and over TCP, served by the machine itself",
    modules=MODULES,
    kernel_words=STEADY,
    drives=(PEER, NEAR, Drive("one", holds="ext4"), Drive("two", holds="ext4"), Drive("shown", holds="ext4")),
    cases=(
        validate("nothing-remote", {"rdma_port rxe0 port 1": ("pass", "made by software"),
                                    "roce_v2_gid rxe0 port 1": ("pass", "2 GIDs of RoCE v2, 1 of an IP address"),
                                    "rdma_mtu rxe0 port 1": ("pass", "4096 bytes on dummy0"),
                                    "transport": ("not_applicable", "no remote storage")}, status=0, prepare=UP),
        # NVMe over RDMA.
        explain("explain-nvme-rdma", "/mnt/one/data", "nvme_rdma", prepare=RDMA_DRIVE),
        moved_by_client("nvme-rdma", "/mnt/one/data", "rdma", "nvme_rdma",
                        "same /drives/one /drives/one-rdma /mnt/one"),
        # NFS over RDMA.
        explain("explain-nfs-rdma", "/mnt/nfs/data", "nfs_rdma", prepare=NFS_RDMA),
        moved_by_client("nfs-rdma", "/mnt/nfs/data", "rdma", "nfs_rdma", "same /mnt/nfs/data /mnt/shown/data"),
        validate("all-by-rdma", {"transport /mnt/one": ("pass", "RDMA to nvme"),
                                 "transport /mnt/nfs": ("pass", "RDMA (nfs4 of 10.9.0.1:/)")}, status=0),
        Tool("transfer", "PENSTOCK_DEVICE=p2pmem over rdma 16777216 penstock validate --layer 3 /mnt/one", status=1,
             says=("8 MiB written and read back, every byte right", "(nvme_rdma)")),
        # NFS over TCP.
        explain("explain-nfs-tcp", "/mnt/nfs/data", "nfs_tcp", prepare=NFS_TCP),
        moved_by_client("nfs-tcp", "/mnt/nfs/data", "tcp", "nfs_tcp", "same /mnt/nfs/data /mnt/shown/data"),
        validate("nfs-by-tcp", {"transport /mnt/one": ("pass", "RDMA to nvme"),
                                "transport /mnt/nfs": ("fail", "TCP (nfs4 of 10.9.0.1:/)")}),
        # Mounts of one server share a connection: the second goes over TCP, whatever it was asked for.
        explain("explain-shared", "/mnt/again/data", "nfs_tcp", prepare="mount_folder /mnt/again rdma"),
        validate("nfs-shared", {"transport /mnt/again": ("fail", "TCP (nfs4 of 10.9.0.1:/)")},
                 prepare="umount /mnt/nfs"),
        # NVMe over TCP.
        explain("explain-nvme-tcp", "/mnt/two/data", "nvme_tcp", prepare=TCP_DRIVE),
        moved_by_client("nvme-tcp", "/mnt/two/data", "tcp", "nvme_tcp", "same /drives/two /drives/two-tcp /mnt/two"),
        Tool("check", "penstock check --all", says=("nvme_tcp", "nfs_tcp")),
    ))

BY_RDMA = ("pass", "RDMA to traddr=10.9.0.1,trsvcid=4421 (nqn.2026-01.test.penstock.one), made by software")

FAULTS_MACHINE = Machine(
    name="faults",
    about="what is wrong with a network, one after another",
    modules=MODULES,
    kernel_words=STEADY,
    drives=(PEER, NEAR, Drive("one"), Drive("two"), Drive("shown", holds="ext4")),
    cases=(
        validate("right", {"transport nvme5": BY_RDMA}, status=0,
                 prepare=f"{UP} && serve_drive one rdma && connect_drive one rdma"),
        validate("small-mtu", {"rdma_mtu rxe0 port 1": ("fail", "1024 bytes and could carry 4096: dummy0 has"),
                               "transport nvme5": BY_RDMA}, prepare="ip link set dummy0 mtu 1500"),
        validate("no-address", {"roce_v2_gid rxe0 port 1": ("fail", "are link-local"),
                                "rdma_mtu rxe0 port 1": ("pass", "4096 bytes")},
                 prepare="ip link set dummy0 mtu 9000 && ip addr flush dev dummy0"),
        # What is shown over TCP alone cannot be had by RDMA, and what is had by TCP is said.
        validate("tcp-drive", {"transport nvme5": BY_RDMA,
                               "transport nvme6": ("fail", "TCP to traddr=10.9.0.1,trsvcid=4420")},
                 prepare="ip addr add $here/24 dev dummy0 && serve_drive two tcp && "
                         "! connect_drive two rdma && connect_drive two tcp"),
        validate("tcp-folder", {"transport /mnt/nfs": ("fail", "TCP (nfs4 of 10.9.0.1:/)")},
                 prepare=f"{mounted('/mnt/shown', '/drives/shown')} && serve_folder /mnt/shown tcp && "
                         "! mount_folder /mnt/nfs rdma && mount_folder /mnt/nfs tcp"),
        # The last, since it takes a while until the target answers again; what is mounted would wait for that.
        validate("port-down", {"rdma_port rxe0 port 1": ("fail", "not active but DOWN"),
                               "nvme_target nvme5": ("fail", "not live but connecting to traddr=10.9.0.1")},
                 prepare="umount /mnt/nfs && ip link set dummy0 down && wait_for_state one connecting"),
    ))

ALL = (NETWORK_MACHINE, FAULTS_MACHINE)
MACHINES = {machine.name: machine for machine in ALL}

CAPTURE = Tool("capture", "capture-machine /tmp/machine.tree && cat /tmp/machine.tree >/dev/vport0p1")


def captured(name, drive, *prepare):
    """A machine of test/fixtures/machines, in the state that these commands bring about."""
    steps = (Tool(f"prepare{at}", "true", prepare=step) for at, step in enumerate((UP, *prepare)))
    return Machine(name, "", (*steps, CAPTURE), modules=MODULES, kernel_words=STEADY,
                   drives=(PEER, NEAR, Drive(drive, holds="ext4"), Drive("shown", holds="ext4")))


CAPTURED = (captured("guest-rdma", "one", RDMA_DRIVE, NFS_RDMA),
            captured("guest-tcp", "two", TCP_DRIVE, NFS_RDMA, NFS_TCP))
