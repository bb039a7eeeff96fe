"""The machines and what is tried in them: a table. README.md says how a line is added."""

from expect import COPIED, DIRECT, HALF_DONE, LOST, Probe, Tool, Unbind, every, refused
from machine import NEAR, PEER, Drive, Machine
from pattern import MIB

FILL = "peer_probe fill {} 4194304"


def file_on(kind, options="", name="data"):
    """Mounts the drive `kind` at /mnt/KIND and writes a file of the pattern."""
    at = f"/mnt/{kind}"
    mount = f"mount -t {kind} {options} /drives/{kind} {at}"
    return f"mkdir -p {at} && {mount} && {FILL.format(f'{at}/{name}')}"


# The queue of the block device does not take device memory.
NO_QUEUE = every(refused("EREMOTEIO"))
# The topology forbids it. Kernel 6.16 said EREMOTEIO.
NO_ROUTE = every(refused("EINVAL", "EREMOTEIO"))

# What our library's self-test moves into and out of the device: a block and a large piece, both ways, where there is
# scratch; else the large piece is read. Where the bytes are wrong it ends with the first block; a read it tries thrice.
TESTED = 2 * (MIB + 512)
TESTED_READS = MIB
FAILED = 2 * 512
FAILED_READS = 3 * MIB
MOVED = MIB


def bench(name, target, rw, dma, reason="none", cached=0, options="", prepare=""):
    """Our library moves and compares MOVED bytes: by p2pdma where no reason is given, by bounce else.

    A write is read again, by the path that reads take. A block device is used from 8 MiB on, where no probe comes.
    """
    by_p2pdma = MOVED if reason == "none" else 0
    words = f"bench {target} --rw {rw} --size {MOVED} --bs 256k --depth 2 --direct --overwrite --verify --json"
    return Tool(name, f"PENSTOCK_DEVICE=p2pmem penstock {words} {options}",
                facts={"bytes_by_path.p2pdma": by_p2pdma, "bytes_by_path.bounce": MOVED - by_p2pdma,
                       "paths.0.reason": reason, "result.cached_bytes": cached, "result.verified_bytes": MOVED},
                dma=dma, file="" if cached else target, prepare=prepare)


def bench_file(name, target, prepare):
    """Both ways on a file, direct or an error."""
    only = "--require p2pdma"
    return (bench(f"{name}-write", target, "write", TESTED + 2 * MOVED, options=only, prepare=prepare),
            bench(f"{name}-read", target, "read", TESTED + MOVED, options=only))


def bench_block(name, target, prepare=""):
    """A block device offers no scratch, so only reads can be tried out first."""
    at = "--offset 8M"
    return (bench(f"{name}-write", target, "write", TESTED_READS + MOVED, "no_scratch", options=at, prepare=prepare),
            bench(f"{name}-read", target, "read", TESTED_READS + MOVED, options=f"{at} --require p2pdma"))


def bench_bounced(name, target, reason, prepare="", cached=0, at="--offset 8M"):
    """Both ways at once, and not a byte to the device by DMA: what can be known is known before the self-test."""
    return bench(name, target, "write", 0, reason, cached, at, prepare)


SWITCH_DRIVES = (PEER, NEAR, Drive("ext4", holds="ext4"), Drive("xfs", holds="xfs"), Drive("left", holds="zeros"),
                 Drive("right", holds="zeros"), Drive("third", holds="zeros"), Drive("far", place="far"),
                 Drive("virtio", kind="virtio-blk"))

SWITCH_MACHINE = Machine(
    name="switch",
    about="device memory and drives below one PCIe switch, and what stands beside them",
    drives=SWITCH_DRIVES,
    modules=("virtio_blk", "loop", "raid0", "xfs"),
    arrays={"/dev/md0": ("left", "right"), "/dev/md1": ("third", "far")},
    cases=(
        Probe("near", "/drives/near", every(DIRECT)),
        Probe("own", "/drives/peer", every(DIRECT)),
        Probe("ext4", "/mnt/ext4/data", every(DIRECT), prepare=file_on("ext4")),
        Tool("explain-ext4", "penstock explain /mnt/ext4/data", says=("0000:03:00.0    perhaps",)),
        Probe("xfs", "/mnt/xfs/data", every(DIRECT), prepare=file_on("xfs")),
        Tool("explain-xfs", "penstock explain /mnt/xfs/data", says=("0000:03:00.0    perhaps",)),
        Probe("raid0", "/dev/md0", every(DIRECT),
              prepare=f"raid0 md0 left right && {FILL.format('/dev/md0')}"),
        Probe("far", "/drives/far", NO_ROUTE),
        # Every second chunk of 64 KiB lies on the far leg.
        Probe("raid0-far-leg", "/dev/md1",
              every(DIRECT, read=NO_ROUTE["read"], read_large=HALF_DONE, write_large=HALF_DONE),
              prepare=f"raid0 md1 third far && {FILL.format('/dev/md1')}"),
        Probe("virtio", "/drives/virtio", NO_QUEUE),
        Probe("loop", "/dev/loop0", NO_QUEUE,
              prepare=f"{FILL.format('/mnt/ext4/loop')} && losetup /dev/loop0 /mnt/ext4/loop"),
        Probe("tmpfs", "/tmp/data", every(COPIED), prepare=FILL.format("/tmp/data")),
        Probe("journal", "/mnt/ext4/journal", every(COPIED),
              prepare="losetup -d /dev/loop0 && umount /mnt/ext4 && " + file_on("ext4", "-o data=journal", "journal")),
        Tool("explain-journal", "penstock explain /mnt/ext4/journal", says=("data_journal",)),
        Tool("check", "penstock check", says=("PCI P2PDMA      yes",)),
        Unbind("unbound", "/drives/near", {"read": "EFAULT", "touch": "BUS", "offer": "gone"}),
    ))

LIBRARY_MACHINE = Machine(
    name="library",
    about="our library on what the machine `switch` has",
    drives=SWITCH_DRIVES,
    modules=("virtio_blk", "loop", "raid0", "xfs"),
    cases=(
        *bench_block("near", "/drives/near"),
        *bench_file("ext4", "/mnt/ext4/data", file_on("ext4")),
        *bench_file("xfs", "/mnt/xfs/data", file_on("xfs")),
        *bench_block("raid0", "/dev/md0", "raid0 md0 left right"),
        bench_bounced("raid0-far-leg", "/dev/md1", "root_ports_apart", "raid0 md1 third far"),
        bench_bounced("far", "/drives/far", "root_ports_apart"),
        bench_bounced("virtio", "/drives/virtio", "virtio"),
        bench_bounced("loop", "/dev/loop0", "loop",
                      "truncate -s 16M /mnt/ext4/loop && losetup /dev/loop0 /mnt/ext4/loop"),
        bench_bounced("tmpfs", "/tmp/data", "no_direct_io", FILL.format("/tmp/data"), cached=MOVED, at=""),
        bench_bounced("journal", "/mnt/ext4/journal", "no_direct_io", cached=MOVED, at="",
                      prepare="losetup -d /dev/loop0 && umount /mnt/ext4 && "
                              + file_on("ext4", "-o data=journal", "journal")),
        Tool("unbound", "(sleep 3; basename $PEER >$PEER/driver/unbind) & PENSTOCK_DEVICE=p2pmem penstock bench "
             "/mnt/xfs/data --rw read --size 2M --bs 256k --depth 2 --time 60 --json", status=1, dma=None),
    ))

DROPPING_MACHINE = Machine(
    name="dropping",
    about="an IOMMU translates, drops what a drive sends to the other device, and nobody reports it",
    iommu="translating",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4")),
    cases=(
        Probe("near", "/drives/near", every(LOST)),
        Tool("explain-ext4", "penstock explain /mnt/ext4/data", says=("iommu_translating?",),
             prepare=file_on("ext4")),
        bench("ext4-write", "/mnt/ext4/data", "write", FAILED, "self_test_wrong"),
        bench("ext4-read", "/mnt/ext4/data", "read", FAILED, "self_test_wrong"),
        bench("near-write", "/drives/near", "write", FAILED_READS, "no_scratch", options="--offset 8M"),
        bench("near-read", "/drives/near", "read", FAILED_READS, "self_test_wrong", options="--offset 8M"),
        Tool("check", "penstock check", says=("IOMMU           translating", "iommu_translating?")),
    ))

HOST_BRIDGE_MACHINE = Machine(
    name="host-bridge",
    about="a CPU whose host bridge routes between root ports",
    cpu="EPYC",
    drives=(PEER, NEAR, Drive("far", place="far")),
    cases=(
        Probe("far", "/drives/far", every(DIRECT)),
        *bench_block("bench-far", "/drives/far"),
    ))

ALL = (SWITCH_MACHINE, LIBRARY_MACHINE, DROPPING_MACHINE, HOST_BRIDGE_MACHINE)
MACHINES = {machine.name: machine for machine in ALL}
