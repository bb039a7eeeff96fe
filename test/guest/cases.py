# SPDX-License-Identifier: Apache-2.0

"""The machines and what is tried in them: a table. README.md says how a line is added."""

from dataclasses import replace

from expect import COPIED, DIRECT, HALF_DONE, LOST, Probe, Tool, every, refused, unbind
from machine import NEAR, PEER, Drive, Machine
from nvfs_cases import FAULTS_MACHINE, NVFS_MACHINE, STANDIN_MACHINE, UNKIND_MACHINE
from pattern import MIB
from prepare import FILL, file_on, mounted

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


def bench(name, target, rw, dma, reason="none", cached=0, options="", prepare="", variables=""):
    """Our library moves and compares MOVED bytes: by p2pdma where no reason is given, by bounce else.

    A write is read again, by the path that reads take. A block device is used from 8 MiB on, where no probe comes.
    """
    by_p2pdma = MOVED if reason == "none" else 0
    words = f"bench {target} --rw {rw} --size {MOVED} --bs 256k --depth 2 --direct --overwrite --verify --json"
    return Tool(name, f"PENSTOCK_DEVICE=p2pmem {variables} penstock {words} {options}",
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
        Tool("explain-ext4", "penstock explain -v /mnt/ext4/data", says=("0000:03:00.0    perhaps",)),
        Probe("xfs", "/mnt/xfs/data", every(DIRECT), prepare=file_on("xfs")),
        Tool("explain-xfs", "penstock explain -v /mnt/xfs/data", says=("0000:03:00.0    perhaps",)),
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
        Tool("explain-journal", "penstock explain -v /mnt/ext4/journal", says=("data_journal",)),
        Tool("check", "penstock check --all", says=("PCI P2PDMA      yes",)),
        unbind("unbound", "/drives/near", {"read": "EFAULT", "touch": "BUS", "offer": "gone"}),
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
        # Before an array takes it: bench writes over no drive that is in use.
        bench_bounced("far", "/drives/far", "root_ports_apart"),
        bench_bounced("raid0-far-leg", "/dev/md1", "root_ports_apart", "raid0 md1 third far"),
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

def client(name, target, words, dma, facts, strict=True, **more):
    """A program that knows cuFile alone, on device memory; with `strict`, whatever is not direct fails."""
    only = "PENSTOCK_REQUIRE=p2pdma " if strict else ""
    return Tool(name, f"PENSTOCK_DEVICE=p2pmem {only}cufile_client {target} {words}", facts=facts, dma=dma,
                file=target if strict else "", **more)


def direct_writes(name, target, prepare):
    """Into a file that was prepared, every byte goes directly."""
    return client(name, target, "write:0:2M read:0:2M", TESTED + 4 * MIB,
                  {"write.p2pdma.none": 2 * MIB, "read.p2pdma.none": 2 * MIB}, prepare=prepare)


def growing_writes(kind):
    """Behind a file's end, one after another, in large pieces, and over a gap: what is aligned is direct."""
    target = f"/mnt/{kind}/grown"
    yield client(f"grow-{kind}", target, "write:0:1M write:1M:8M write:12M:1M read:1M:8M read:12M:1M",
                 TESTED + 19 * MIB, {"size": 13 * MIB, "write.p2pdma.none": 10 * MIB, "read.p2pdma.none": 9 * MIB})
    # In the second write file and memory are never on a block's boundary together.
    yield client(f"grow-tail-{kind}", f"{target}-tail", "write:0:1049000 write:1049000:1M read:0:1049000",
                 TESTED + 256 * 4096 + 2048 * 512,
                 {"size": 1049000 + MIB, "write.p2pdma.none": 256 * 4096, "write.bounce.misaligned": 1049000,
                  "read.p2pdma.none": 2048 * 512, "read.bounce.misaligned": 1049000 - 2048 * 512}, strict=False)


def hole(kind):
    """Zeros that the kernel makes up are bounced; what is written into a hole is direct, also a single sector, and so
    is its reading."""
    target = f"/mnt/{kind}/sparse"
    return client(f"hole-{kind}", target, "read:0:1M write:1M:1M read:1M:1M write:3145728:512 read:2M:1M",
                  TESTED + 2 * MIB + 512,
                  {"size": 4 * MIB, "read.bounce.holes": 2 * MIB, "read.p2pdma.none": MIB,
                   "write.p2pdma.none": MIB + 512},
                  strict=False, prepare=f"truncate -s 4M {target}")


PARTED = "$(readlink -f /drives/parted)p"

FILES_MACHINE = Machine(
    name="files",
    about="a cuFile program, what direct I/O needs from a file, and what lies between a file and its drive",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4"), Drive("xfs", holds="xfs"), Drive("btrfs", holds="btrfs"),
            Drive("parted", holds="parted"), Drive("mapped", holds="zeros")),
    modules=("xfs", "btrfs", "dm_mod"),
    cases=(
        client("cufile-ext4", "/mnt/ext4/data", "write:0:1M read:0:2M batch:1M:1M", TESTED + 4 * MIB,
               {"write.p2pdma.none": MIB, "read.p2pdma.none": 3 * MIB}, prepare=file_on("ext4")),
        client("cufile-xfs", "/mnt/xfs/data", "write:0:1M read:0:2M batch:1M:1M", TESTED + 4 * MIB,
               {"write.p2pdma.none": MIB, "read.p2pdma.none": 3 * MIB}, prepare=file_on("xfs")),
        direct_writes("prepared-ext4", "/mnt/ext4/made", "penstock explain --fix /mnt/ext4/made --size 2M"),
        direct_writes("prepared-xfs", "/mnt/xfs/made", "penstock explain --fix /mnt/xfs/made --size 2M"),
        direct_writes("written-ext4", "/mnt/ext4/written",
                      "penstock explain --fix /mnt/ext4/written --size 2M --written"),
        hole("ext4"),
        hole("xfs"),
        *growing_writes("ext4"),
        *growing_writes("xfs"),
        # A block device offers no scratch; another partition of its disk may be named.
        bench("parted-write", f"{PARTED}2", "write", TESTED + 2 * MOVED, options="--offset 1M --require p2pdma",
              variables=f"PENSTOCK_SCRATCH={PARTED}1"),
        bench("parted-elsewhere", f"{PARTED}2", "write", TESTED_READS + MOVED, "no_scratch", options="--offset 1M",
              variables="PENSTOCK_SCRATCH=/drives/mapped"),
        bench_bounced("linear", "/dev/dm-0", "device_mapper", "peer_probe linear mapped $(readlink -f /drives/mapped)"),
        # Writes with checksums are bounced, and so are the self-test's; reads, here those that verify, are direct.
        bench("btrfs-write", "/mnt/btrfs/data", "write", MIB + 4096 + MOVED, "checksums", prepare=file_on("btrfs")),
        replace(bench("btrfs-read", "/mnt/btrfs/data", "read", MIB + 4096 + MOVED, options="--require p2pdma"),
                file=""),
    ))

DROPPING_MACHINE = Machine(
    name="dropping",
    about="an IOMMU translates, drops what a drive sends to the other device, and nobody reports it",
    iommu="translating",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4")),
    cases=(
        Probe("near", "/drives/near", every(LOST)),
        Tool("explain-ext4", "penstock explain -v /mnt/ext4/data", says=("iommu_translating?",),
             prepare=file_on("ext4")),
        bench("ext4-write", "/mnt/ext4/data", "write", FAILED, "self_test_wrong"),
        bench("ext4-read", "/mnt/ext4/data", "read", FAILED, "self_test_wrong"),
        bench("near-write", "/drives/near", "write", FAILED_READS, "no_scratch", options="--offset 8M"),
        bench("near-read", "/drives/near", "read", FAILED_READS, "self_test_wrong", options="--offset 8M"),
        Tool("check", "penstock check --all", says=("IOMMU           translating", "iommu_translating?")),
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

def proof(name, where, facts, status=0, **more):
    """What scripts/prove-direct finds, as it is in its archive."""
    words = f"prove-direct {where} --size 1 --yes --out /tmp/{name}.tar.gz"
    undone = "! grep penstock_proof /sys/kernel/tracing/kprobe_events && ! ls -d /mnt/*/penstock-proof.* 2>/dev/null"
    return Tool(name, f"{words}; ended=$?; {undone} && tar -xzOf /tmp/{name}.tar.gz penstock-proof/results.json && "
                      "(exit $ended)",
                status=status, facts=facts, dma=None, **more)


PROOF_MACHINE = Machine(
    name="proof",
    about="scripts/prove-direct",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4"), Drive("ext4-1k", holds="ext4-1k")),
    programs=("lsattr",),
    standin=True,
    cases=(
        proof("proof", "--dir /mnt/ext4 --path p2pdma --path nvfs",
              {"verdict": "proven", "proven": 3, "failed": 0, "simulated": 3, "nvidia_fs": "0.1.0",
               "trials.0.path": "p2pdma", "trials.0.verdict": "proven", "trials.0.counters": "yes",
               "trials.2.what": "copy", "trials.2.contents": "yes", "trials.3.path": "nvfs",
               "trials.3.verdict": "simulated", "trials.3.counters": "yes", "trials.5.contents": "yes",
               "trials.0.file_system": "ext4", "trials.0.block_bytes": 4096, "trials.0.extents": "yes",
               "trials.6.path": "bounce", "trials.6.verdict": "control", "trials.6.mappings": 0,
               "trials.6.module_reads": 0},
              prepare=f"standin && {file_on('ext4')}"),
        proof("other-ext4", "--dir /mnt/ext4-1k --path p2pdma",
              {"failed": 0, "trials.0.file_system": "ext4", "trials.0.block_bytes": 1024, "trials.0.extents": "yes"},
              prepare=mounted("ext4-1k")),
    ))

FORMAT_MACHINE = Machine(
    name="proof-format",
    about="scripts/prove-direct on an empty drive, which has no file system afterwards",
    drives=(PEER, NEAR, Drive("empty", holds="empty"), Drive("ext4", holds="ext4")),
    modules=("xfs",),
    programs=("mkfs.ext4", "mkfs.xfs", "wipefs", "fincore", "lsattr"),
    cases=(
        Tool("refused", "prove-direct --format /drives/ext4 --yes", status=2, says=("wipefs finds data",)),
        proof("format", "--format $(readlink -f /drives/empty) --path p2pdma",
              {"verdict": "proven", "proven": 6, "failed": 0, "trials.0.where": "ext4", "trials.0.file_system": "ext4",
               "trials.0.block_bytes": 4096, "trials.0.extents": "yes", "trials.6.where": "xfs",
               "trials.6.file_system": "xfs", "trials.6.block_bytes": 4096, "trials.6.extents": None}),
        Tool("emptied", "! grep empty /proc/mounts && [ -z \"$(wipefs -n /drives/empty)\" ]"),
    ))

MEMBERS = tuple(f"s{i}" for i in range(4))
STRIPE = ",".join(f"/mnt/{name}" for name in MEMBERS)
# What each of the four drives has read, in sectors of 512 bytes.
SECTORS = ('for d in s0 s1 s2 s3; do at=$(awk "\\$5 == \\"/mnt/$d\\" { print \\$3 }" /proc/self/mountinfo); '
           'awk "{ print \\$3 }" /sys/dev/block/$at/stat; done')

STRIPED_MACHINE = Machine(
    name="striped",
    about="one object on four drives, each of which has its quarter read",
    drives=(PEER, NEAR, *(Drive(name, kind="virtio-blk", holds="ext4") for name in MEMBERS)),
    modules=("virtio_blk",),
    cases=(
        Tool("write", f"export PENSTOCK_DEVICE=host; penstock cp /tmp/source /tmp/object --stripe {STRIPE} "
                      "--stripe-size 1M && sync",
             prepare="for d in s0 s1 s2 s3; do mkdir -p /mnt/$d && mount -t ext4 /drives/$d /mnt/$d || exit; done; "
                     "peer_probe fill /tmp/source 16777216"),
        # Each drive has a quarter of 16 MiB. How long that takes is no test's: the emulator is as busy as its machine.
        Tool("read", f"(before=$({SECTORS}) && PENSTOCK_DEVICE=host penstock bench /tmp/object --memory host --bs 1M "
                     f"--depth 16 --direct --repeat 1 --ramp 0 && after=$({SECTORS}) && "
                     'printf "%s\\n" $before $after | awk "{ n[NR] = \\$1 } END { for (i = 1; i <= 4; i++) { '
                     'd = n[i + 4] - n[i]; print \\"read of s\\" i - 1 \\": \\" d \\" sectors\\"; '
                     'if (d < 8192) exit 1 } }")',
             says=("read of s0: ", "read of s3: ")),
        Tool("same", "PENSTOCK_DEVICE=host penstock cp /tmp/object /tmp/back && cmp /tmp/source /tmp/back"),
    ))

ALL = (STRIPED_MACHINE, SWITCH_MACHINE, LIBRARY_MACHINE, FILES_MACHINE, STANDIN_MACHINE, NVFS_MACHINE, UNKIND_MACHINE,
       FAULTS_MACHINE, PROOF_MACHINE, FORMAT_MACHINE, DROPPING_MACHINE, HOST_BRIDGE_MACHINE)
MACHINES = {machine.name: machine for machine in ALL}
