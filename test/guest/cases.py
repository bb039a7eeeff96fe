# SPDX-License-Identifier: Apache-2.0

"""The machines and what is tried in them: a table. README.md says how a line is added."""

from dataclasses import replace

from expect import COPIED, DIRECT, HALF_DONE, LOST, Answers, Probe, Tool, every, refused, unbind
from machine import NEAR, PEER, Drive, Machine
from pattern import MIB

FILL = "peer_probe fill {} 4194304"


def mounted(drive, options=""):
    """Mounts a drive at /mnt/DRIVE; it is named for what it holds."""
    return f"mkdir -p /mnt/{drive} && mount -t {drive.split('-')[0]} {options} /drives/{drive} /mnt/{drive}"


def file_on(kind, options="", name="data"):
    """Mounts the drive `kind` at /mnt/KIND and writes a file of the pattern."""
    return f"{mounted(kind, options)} && {FILL.format(f'/mnt/{kind}/{name}')}"


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
        Tool("check", "penstock check", says=("PCI P2PDMA      yes",)),
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
        direct_writes("prepared-ext4", "/mnt/ext4/made", "penstock prepare /mnt/ext4/made --size 2M"),
        direct_writes("prepared-xfs", "/mnt/xfs/made", "penstock prepare /mnt/xfs/made --size 2M"),
        direct_writes("written-ext4", "/mnt/ext4/written", "penstock prepare /mnt/ext4/written --size 2M --written"),
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

# The probe of the stand-in for nvidia-fs, with the refusals and codes that nvidia-fs has.
STANDIN_OPERATIONS = ("read", "read_page", "read_large", "read_async", "write", "write_page", "write_large",
                      "write_async")
STANDIN_DIRECT = dict.fromkeys(STANDIN_OPERATIONS, DIRECT)

STANDIN_REFUSALS = {
    "remove": "0", "batch": "ENOTTY", "no_argument": "ENOMEM",
    "mmap_offset": "EIO", "mmap_private": "EINVAL", "mmap_read": "EINVAL", "mmap_exec": "EINVAL",
    "mmap_most": "mapped", "mmap_more": "EINVAL", "mmap_odd": "EINVAL", "mmap_page": "mapped",
    "munmap_part": "ENOMEM", "munmap_whole": "0",
    "map": "0", "map_no_shadow": "EINVAL", "map_odd_shadow": "EINVAL", "map_other_memory": "EINVAL",
    "leaked_before": "0", "map_no_fence": "EINVAL", "map_odd_fence": "EINVAL", "map_wrapping": "EINVAL",
    "map_small_shadow": "EINVAL", "map_host_memory": "EINVAL", "leaked_after": "5",
    "io": "65536", "io_negative": "EINVAL", "io_odd_offset": "EINVAL", "io_odd_size": "EINVAL",
    "io_overflow": "EINVAL", "io_no_file": "EINVAL", "io_write_of_reader": "EBADF", "io_read_of_writer": "EBADF",
    "io_read_allowed": "65536", "io_no_inode": "EINVAL", "io_generation": "ESTALE", "io_other_inode": "ESTALE",
    "io_other_device": "ESTALE", "io_inner_shadow": "EINVAL", "io_buffered": "EINVAL", "io_no_ticket": "EINVAL",
    "io_odd_place": "EINVAL", "io_too_long": "EINVAL", "io_behind": "EINVAL", "io_over_boundary": "EINVAL",
    "io_still_ready": "65536",
}

STANDIN_FAULTS = {
    "unhooked_read": "131072", "unhooked_holes": "1 0+32", "unhooked_gpu": "untouched", "unhooked_shadow": "right",
    "unhooked_write": "0", "unhooked_file": "has the shadow's bytes", "unhooked_async": "EIO",
    "unhooked_at_once": "65536, fence EIO",
    "holes_read": "65536", "holes": "2 7+1 15+1", "holes_between": "right", "holes_many_chunks": "262144",
    "sparse_write": "65536", "sparse_read": "1048576", "sparse_holes": "2 0+16 32+224", "end_read": "64536",
    "behind_end": "0",
    "good": "131072", "eio_write": "EIO", "eio_read": "EIO", "good_write": "131072",
    "short_read": "65536", "short_write": "65536", "short_async": "65536", "empty_write": "EIO", "empty_size": "1",
    "map_fails": "ENOMEM", "map_again": "EINVAL", "map_fits": "0", "map_is_full": "ENOMEM",
    "busy_first": "0", "busy_second": "EBUSY", "busy_ever_after": "EBUSY",
    "long_async": "KILL", "no_blocks": "KILL", "child": "USR1", "assertions": "2",
    "ends": "ended", "ends_alone": "1", "lost_pins": "1", "still_pinned": "yes",
    "unloading_open": "EINVAL", "unloading_call": "EINVAL",
}

# Of a file of 16 blocks of 4 KiB, the second of which has one KiB of data: the rest of it keeps what it had.
STANDIN_SMALL = {"read": "65536", "holes": "2 0+1 2+14", "data": "right", "zeros": "left out"}
# In a hole, in data that this left behind, and behind the end.
STANDIN_CACHED = {"async": "65536, fence EIO", "file": "has the shadow's bytes", "sync": "0", "again": "65536",
                  "behind_end": "65536"}

STANDIN_MACHINE = Machine(
    name="standin",
    about="the stand-in for nvidia-fs, by its calls alone",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4"), Drive("xfs", holds="xfs"), Drive("ext4-1k", holds="ext4-1k"),
            Drive("ext4-no-extents", holds="ext4-no-extents")),
    modules=("xfs",),
    standin=True,
    cases=(
        Probe("raw", "/drives/near", STANDIN_DIRECT, "standin", "nvidia_fs_probe"),
        Probe("ext4", "/mnt/ext4/data", STANDIN_DIRECT, file_on("ext4"), "nvidia_fs_probe"),
        Probe("xfs", "/mnt/xfs/data", STANDIN_DIRECT, file_on("xfs"), "nvidia_fs_probe"),
        Tool("idle", "cd /proc/driver/nvidia-fs && cat version modules stats && ! grep nvme modules",
             says=("version: 0.1", "wekafsio: 1", "NVFS Driver(version: 0.1.0)", "IO stats: Disabled")),
        Tool("open", "cat /proc/driver/nvidia-fs/modules 3</dev/nvidia-fs15", says=("nvme: (null)",)),
        Answers("refuse", "nvidia_fs_probe refuse refuse $PEER /mnt/ext4/data", STANDIN_REFUSALS, "standin"),
        Answers("fault", "nvidia_fs_probe fault fault $PEER /mnt/xfs/data", STANDIN_FAULTS,
                f"standin && {FILL.format('/mnt/xfs/data')}"),
        Answers("small", "nvidia_fs_probe small small $PEER /mnt/ext4-1k/data", STANDIN_SMALL,
                f"standin && {mounted('ext4-1k')}"),
        Answers("cached", "nvidia_fs_probe cached cached $PEER /mnt/ext4-no-extents/data", STANDIN_CACHED,
                f"standin && {mounted('ext4-no-extents')}"),
        Tool("gone", "rmmod nvidia_fs && ls /dev/nvidia-fs0", status=1, says=("No such file",)),
    ))


# Our path nvfs through the stand-in. Its self-test moves a block and a mebibyte each way, in pieces of 64 KiB.
NVFS_BLOCK = 4096
NVFS_TESTED = 2 * (MIB + NVFS_BLOCK)
NVFS_TEST_REQUESTS = 2 * (1 + 16)
NVFS = "PENSTOCK_DEVICE=p2pmem PENSTOCK_NVFS=standin PENSTOCK_PATHS=nvfs,bounce,host"
# That no rule was broken, and nothing is mapped any more.
KEPT_RULES = "[ $(nvidia_fs_probe count assertions) = 0 ] && [ $(nvidia_fs_probe count pinned_bytes) = 0 ]"
NO_SHADOW = "[ $(nvidia_fs_probe count shadow_bytes) = 0 ]"


def nvfs_client(name, target, words, dma, facts, strict=True, standin="", prepare="true", after=KEPT_RULES):
    """A program that knows cuFile alone, on memory that it registered; with `strict`, whatever is not direct fails."""
    only = f"PENSTOCK_REQUIRE=nvfs {NVFS}" if strict else NVFS
    kept = f"{after} && {NO_SHADOW}" if strict else after
    return Tool(name, f"{only} cufile_client {target} {words} && {kept}", facts=facts, dma=dma,
                file=target if strict else "", prepare=f"standin {standin} && {prepare}")


def nvfs_files(kind):
    """Both ways and in a batch; head, tail and holes."""
    at = f"/mnt/{kind}"
    yield nvfs_client(f"whole-{kind}", f"{at}/data", "write:0:1M read:0:2M batch:1M:1M", NVFS_TESTED + 4 * MIB,
                      {**by_nvfs("write", MIB), **by_nvfs("read", 3 * MIB)}, prepare=file_on(kind))
    # Reads of any alignment are direct, by memory of our own; of writes all but what shares a block with other bytes.
    yield nvfs_client(f"tails-{kind}", f"{at}/tails", "write:0:1049000 write:1049000:1M read:0:1049000 read:1000:70000",
                      None, {"size": 1049000 + MIB, **by_nvfs("write", 1049000 + MIB - 4520),
                             "write.bounce.misaligned": 4520, **by_nvfs("read", 1049000 + 70000)}, strict=False,
                      after=f"{KEPT_RULES} && {NO_SHADOW}")
    yield nvfs_client(f"holes-{kind}", f"{at}/sparse", "read:0:1M write:1M:1M read:1M:1M read:2M:1M", None,
                      {"size": 4 * MIB, **by_nvfs("read", MIB), "read.bounce.holes": 2 * MIB, **by_nvfs("write", MIB)},
                      strict=False, prepare=f"truncate -s 4M {at}/sparse")


def by_nvfs(way, size):
    """Counted as simulated, since the module is a stand-in."""
    return {f"{way}.nvfs.nvfs_simulated": size}


def nvfs_fault(name, standin, facts, words="write:0:1M read:0:1M"):
    """What the stand-in does wrong, before the self-test or after it; the bytes are right in any case."""
    return nvfs_client(name, f"/mnt/ext4/{name}", words, None, facts, strict=False, standin=standin,
                       prepare=f"penstock prepare /mnt/ext4/{name} --size 4M --written")


def bounced(reason):
    return {f"write.bounce.{reason}": MIB, f"read.bounce.{reason}": MIB}


BOTH_BY_NVFS = {**by_nvfs("write", MIB), **by_nvfs("read", MIB)}
LATER = f"fault_after={NVFS_TEST_REQUESTS}"

NVFS_MACHINE = Machine(
    name="nvfs",
    about="our path by nvidia-fs, through the stand-in",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4"), Drive("xfs", holds="xfs")),
    modules=("xfs",),
    standin=True,
    cases=(
        *nvfs_files("ext4"),
        *nvfs_files("xfs"),
        Tool("unregistered", f"{NVFS} penstock bench /mnt/xfs/data --rw write --size 1M --bs 256k --depth 2 --direct "
             f"--overwrite --verify --json --require nvfs --repeat 1 && {KEPT_RULES} && {NO_SHADOW}",
             facts={"bytes_by_path.nvfs": MIB, "result.verified_bytes": MIB}, dma=None, file="/mnt/xfs/data",
             prepare="standin"),
        nvfs_fault("no-bar1", "fault_map=12", bounced("nvfs_map_refused")),
        nvfs_fault("short", f"fault_short=65536 fault_times=4 {LATER}", BOTH_BY_NVFS),
        nvfs_fault("eio-late", f"fault_io=5 {LATER}", bounced("refused_late")),
        Tool("unloaded", f"{NVFS} cufile_client /mnt/ext4/data write:0:1M read:0:1M", facts=bounced("nvfs_missing"),
             prepare="rmmod nvidia_fs"),
    ))

FAULTS_MACHINE = Machine(
    name="nvfs-faults",
    about="our path by nvidia-fs, and what else can go wrong below it",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4")),
    standin=True,
    cases=(
        replace(nvfs_fault("async-inline", "async_inline=1", BOTH_BY_NVFS),
                prepare=f"{file_on('ext4', name='async-inline')} && standin async_inline=1"),
        nvfs_fault("async-late", "async_delay_ms=10", BOTH_BY_NVFS),
        nvfs_fault("little-bar1", "bar1_kib=4096", BOTH_BY_NVFS),
        nvfs_fault("eio", "fault_io=5", bounced("nvfs_refused")),
        nvfs_fault("ever-short", f"fault_short=65536 {LATER}", bounced("refused_late")),
        nvfs_fault("interrupted", f"fault_io=512 fault_times=1 {LATER}", by_nvfs("read", MIB)),
        nvfs_fault("unhooked", "hooked=0", bounced("nvfs_no_driver")),
        nvfs_fault("half-hooked", "hole_every=2", bounced("nvfs_not_direct")),
        nvfs_fault("unhooked-late", f"unhook_after={NVFS_TEST_REQUESTS}",
                   {"write.bounce.refused_late": MIB, "read.bounce.nvfs_not_direct": MIB}),
        nvfs_fault("unloading", "unloading=1", bounced("nvfs_node")),
        Tool("not-allowed", "PENSTOCK_DEVICE=p2pmem PENSTOCK_PATHS=nvfs,bounce,host cufile_client "
             "/mnt/ext4/async-inline write:0:1M read:0:1M", facts=bounced("nvfs_stand_in"), prepare="standin"),
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
    drives=(PEER, NEAR, Drive("ext4", holds="ext4")),
    standin=True,
    cases=(
        proof("proof", "--dir /mnt/ext4 --path p2pdma --path nvfs",
              {"verdict": "proven", "proven": 3, "failed": 0, "simulated": 3, "nvidia_fs": "0.1.0",
               "trials.0.path": "p2pdma", "trials.0.verdict": "proven", "trials.0.counters": "yes",
               "trials.2.what": "copy", "trials.2.contents": "yes", "trials.3.path": "nvfs",
               "trials.3.verdict": "simulated", "trials.3.counters": "yes", "trials.5.contents": "yes",
               "trials.6.path": "bounce", "trials.6.verdict": "control", "trials.6.mappings": 0,
               "trials.6.module_reads": 0},
              prepare=f"standin && {file_on('ext4')}"),
    ))

FORMAT_MACHINE = Machine(
    name="proof-format",
    about="scripts/prove-direct on an empty drive, which has no file system afterwards",
    drives=(PEER, NEAR, Drive("empty", holds="empty"), Drive("ext4", holds="ext4")),
    modules=("xfs",),
    programs=("mkfs.ext4", "mkfs.xfs", "wipefs", "fincore"),
    cases=(
        Tool("refused", "prove-direct --format /drives/ext4 --yes", status=2, says=("wipefs finds data",)),
        proof("format", "--format $(readlink -f /drives/empty) --path p2pdma",
              {"verdict": "proven", "proven": 6, "failed": 0, "trials.0.where": "ext4", "trials.6.where": "xfs"}),
        Tool("emptied", "! grep empty /proc/mounts && [ -z \"$(wipefs -n /drives/empty)\" ]"),
    ))

SLOW = 2_000_000
MEMBERS = tuple(f"s{i}" for i in range(4))
STRIPE = ",".join(f"/mnt/{name}" for name in MEMBERS)
# Seconds of a read of 16 MiB into the host's memory, past the page cache, as bench counts them.
SECONDS = ('PENSTOCK_DEVICE=host penstock bench {} --memory host --bs 1M --depth 16 --direct --repeat 1 --ramp 0 '
           '--json | sed -n "s/^    \\"seconds\\": \\(.*\\),/\\1/p"')

STRIPED_MACHINE = Machine(
    name="striped",
    about="one object on four drives, which the emulator holds to 2 MB/s each",
    drives=(PEER, NEAR, *(Drive(name, kind="virtio-blk", holds="ext4", bytes_per_s=SLOW) for name in MEMBERS)),
    modules=("virtio_blk",),
    cases=(
        Tool("write", f"export PENSTOCK_DEVICE=host; penstock cp /tmp/source /tmp/object --stripe {STRIPE} "
                      "--stripe-size 1M && penstock cp /tmp/source /mnt/s0/whole && sync",
             prepare="for d in s0 s1 s2 s3; do mkdir -p /mnt/$d && mount -t ext4 /drives/$d /mnt/$d || exit; done; "
                     "peer_probe fill /tmp/source 16777216"),
        # The throttles allow four times as much: 1.6 s against 6.4. The emulator may be 0.9 s slower before it fails.
        Tool("read", f"one=$({SECONDS.format('/mnt/s0/whole')}) && four=$({SECONDS.format('/tmp/object')}) && "
                     'echo "seconds of one drive: $one, of four: $four" && '
                     'awk "BEGIN { exit !($four > 0 && $one > 2.5 * $four) }"',
             says=("seconds of one drive: ",)),
        Tool("same", "PENSTOCK_DEVICE=host penstock cp /tmp/object /tmp/back && cmp /tmp/source /tmp/back"),
    ))

ALL = (STRIPED_MACHINE, SWITCH_MACHINE, LIBRARY_MACHINE, FILES_MACHINE, STANDIN_MACHINE, NVFS_MACHINE, FAULTS_MACHINE,
       PROOF_MACHINE, FORMAT_MACHINE, DROPPING_MACHINE, HOST_BRIDGE_MACHINE)
MACHINES = {machine.name: machine for machine in ALL}
