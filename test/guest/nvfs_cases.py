# SPDX-License-Identifier: Apache-2.0

"""The machines with the stand-in for nvidia-fs, and what is tried in them; cases.py has the others."""

from dataclasses import replace

from expect import DIRECT, Answers, Probe, Tool
from machine import NEAR, PEER, Drive, Machine
from pattern import MIB
from prepare import FILL, file_on, mounted

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
KEPT_RULES = "none assertions async_alone lost_pins pinned_bytes"
NO_SHADOW = "none shadow_bytes"


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
                       prepare=f"penstock explain --fix /mnt/ext4/{name} --size 4M --written")


def bounced(reason):
    return {f"write.bounce.{reason}": MIB, f"read.bounce.{reason}": MIB}


def nvfs_bounced(name, drive, made, words, facts):
    """Where no write or read may go by nvidia-fs, or only as far as it is right: the program compares every byte in the
    device and, past the page cache, on the drive; then the page cache has its say."""
    target = f"/mnt/{drive}/{name}"
    return nvfs_client(name, target, words, None, facts, strict=False, after=f"{KEPT_RULES} && alike {target}",
                       prepare=f"{{ [ -e /mnt/{drive} ] || {{ {mounted(drive)}; }}; }} && {made.format(target)}")


# One KiB that is a hole in data, and one KiB of data in a hole and in space that was allocated and never written.
HOLE_IN_DATA = "dd if=/drives/near of={0} bs=1k count=5 2>/dev/null && " \
               "dd if=/drives/near of={0} bs=1k skip=6 seek=6 count=4090 2>/dev/null"
DATA_IN_HOLE = "truncate -s 4M {0} && dd if=/drives/near of={0} bs=1k skip=5 seek=5 count=1 conv=notrunc 2>/dev/null"
DATA_IN_SPACE = "penstock explain --fix {0} --size 4M && " \
                "dd if=/drives/near of={0} bs=1k skip=9 seek=9 count=1 conv=notrunc 2>/dev/null"


def nvfs_small_blocks(drive):
    """The module calls a block of 4 KiB direct where any byte of it was: such file systems are refused."""
    read = {"read.bounce.small_blocks": 4 * MIB}
    for name, made in (("hole", HOLE_IN_DATA), ("data", DATA_IN_HOLE), ("space", DATA_IN_SPACE)):
        yield nvfs_bounced(f"{name}-{drive}", drive, made, "read:0:4M", read)
    yield nvfs_bounced(f"write-{drive}", drive, "truncate -s 8M {0}", "write:0:4M read:0:4M",
                       {**read, "write.bounce.small_blocks": 4 * MIB})


def nvfs_killed(name, done, words, prepare="true"):
    """A program that dies while a request is under way: no memory stays pinned, and none was without its file."""
    return Tool(name, f"killed_under_way {done} env {NVFS} cufile_client /mnt/ext4/read {words} && "
                f"{KEPT_RULES}", dma=None, prepare=f"standin && {prepare}")


BOTH_BY_NVFS = {**by_nvfs("write", MIB), **by_nvfs("read", MIB)}
NO_EXTENTS = {"write.bounce.refused_late": 4 * MIB, **by_nvfs("read", 4 * MIB)}
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

UNKIND_MACHINE = Machine(
    name="nvfs-unkind",
    about="our path by nvidia-fs, file systems that it is wrong on, and programs that die under a request",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4"), Drive("ext4-1k", holds="ext4-1k"),
            Drive("ext4-no-extents", holds="ext4-no-extents")),
    standin=True,
    cases=(
        # What ext4 without extents writes into holes goes through its page cache, whatever the call says.
        nvfs_bounced("no-extents", "ext4-no-extents", "truncate -s 8M {0}", "write:0:4M read:0:4M", NO_EXTENTS),
        *nvfs_small_blocks("ext4-1k"),
        nvfs_killed("killed-at-first", 1, "write:0:4M",
                    f"{mounted('ext4')} && penstock explain --fix /mnt/ext4/read --size 16M --written"),
        nvfs_killed("killed", NVFS_TEST_REQUESTS + 2, "forever:0:4M"),
        nvfs_killed("killed-threads", NVFS_TEST_REQUESTS + 8, "beside:0:4M beside:4M:4M beside:8M:4M forever:12M:4M"),
        Tool("left", f"{NVFS} cufile_client /mnt/ext4/read beside:0:4M leave && {KEPT_RULES}", dma=None,
             prepare="standin async_delay_ms=50 sync_delay_ms=50"),
    ))

FAULTS_MACHINE = Machine(
    name="nvfs-faults",
    about="our path by nvidia-fs, and what else can go wrong below it",
    drives=(PEER, NEAR, Drive("ext4", holds="ext4"), Drive("xfs-1k", holds="xfs-1k")),
    modules=("xfs",),
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
        *nvfs_small_blocks("xfs-1k"),
        Tool("not-allowed", "PENSTOCK_DEVICE=p2pmem PENSTOCK_PATHS=nvfs,bounce,host cufile_client "
             "/mnt/ext4/async-inline write:0:1M read:0:1M", facts=bounced("nvfs_stand_in"), prepare="standin"),
    ))
