# SPDX-License-Identifier: Apache-2.0

"""The machines of `./dev guest dmabuf`, and what is tried in them: dma-bufs as registered buffers of io_uring.

The same scenario runs on a kernel that has them and, rehearsed, on one that has not, where ring_standin.c answers the
ring's calls. Cases that only a stand-in can set up are added there.
"""

from dataclasses import replace

from cases import proof
from expect import Answers, InBar, Tool, Written
from machine import NEAR, PEER, Drive, Machine
from pattern import MIB
from prepare import file_on

# The GPU is the fake driver of the tests. What it exports are real dma-bufs.
SWITCHES = "PENSTOCK_DMABUF=on PENSTOCK_DMABUF_FILES=on PENSTOCK_PATHS=dmabuf,bounce,host"
DEVICE = f"LD_LIBRARY_PATH=/lib/cuda PENSTOCK_DEVICE=cuda {SWITCHES}"
IN_HOST_MEMORY = f"{DEVICE} PENSTOCK_FAKE_CUDA_MEMORY=udmabuf"
SMALL = 16384  # Of many reads: more than a page, so that the stand-in counts them.


def client(name, target, words, facts, memory=IN_HOST_MEMORY, variables="", strict=True, dma=0, **more):
    """A program that knows cuFile alone; with `strict`, whatever is not direct fails."""
    only = "PENSTOCK_REQUIRE=dmabuf " if strict else ""
    return Tool(name, f"ring {memory} {only}{variables} cufile_client {target} {words}", facts=facts, dma=dma,
                file=target if strict else "", **more)


def reads(name, target, count, **more):
    """All sizes and alignments, a batch, and many small ones."""
    words = f"reads read:0:1M read:1M:2M read:1000:70000 read:0:4M batch:1M:1M many:{count}:{SMALL}"
    return client(name, target, words, {"read.dmabuf.none": 8 * MIB + 70000 + count * SMALL, "read.bounce": None},
                  **more)


def refused(name, reason, target="/drives/raw", words="reads read:0:1M", size=MIB, **more):
    """Every byte right, and none of them by dmabuf."""
    return client(name, target, words, {f"read.bounce.{reason}": size, "read.dmabuf": None}, strict=False, **more)


# As measured on a kernel that the series was ported to, version 7.3.4.
ANSWERS = {
    "no_table": "ENXIO", "empty": "1", "no_descriptors": "EBADF", "unknown_type": "EINVAL",
    "empty_with_descriptors": "EINVAL", "with_size": "EINVAL", "not_zero": "EINVAL", "other_flags": "EINVAL",
    "no_data": "EFAULT", "no_dmabuf": "EINVAL", "dmabuf_path": "EBADF", "buffered_drive": "EINVAL",
    "file": "EOPNOTSUPP", "no_drive": "EOPNOTSUPP", "second_is_bad": "1", "registered": "1",
    "read": "4096 right", "read_at_4": "4096 right", "read_large": "524288 right", "duplicate": "4096 right",
    "other_open": "EBADF", "other_slot": "EFAULT", "no_slot": "EFAULT", "behind_memory": "EFAULT",
    "address": "EFAULT", "nothing": "EFAULT", "odd_place": "EINVAL", "odd_size": "EINVAL", "odd_offset": "EINVAL",
    "over_the_end": "4096", "behind_the_end": "0", "write_behind_the_end": "ENOSPC", "plain_read": "EFAULT",
    "buffered_later": "EOPNOTSUPP", "direct_again": "4096 right", "write": "4096 right", "reader": "1",
    "write_of_reader": "EBADF", "closed_dmabuf": "4096 right", "cleared": "1", "released": "0",
    "after_release": "EFAULT",
}

PARTED = "$(readlink -f /drives/parted)p"
SCRATCH = f"PENSTOCK_SCRATCH={PARTED}1"
HEAD, TAIL = 8192 - 5000, (5000 + 70000) % 4096  # Up to a page's boundary.


def writes(count):
    """Into the second partition of a drive whose first may be overwritten."""
    yield client("write-scratch", f"{PARTED}2", "write:0:1M write:1M:3M read:0:4M write:8388608:65536",
                 {"write.dmabuf.none": 4 * MIB + 65536, "read.dmabuf.none": 4 * MIB, "write.bounce": None},
                 variables=SCRATCH)
    yield client("write-tails", f"{PARTED}2", "write:5000:70000 read:0:1M",
                 {"write.dmabuf.none": 70000 - HEAD - TAIL, "write.bounce.misaligned": HEAD + TAIL,
                  "read.dmabuf.none": MIB}, variables=SCRATCH, strict=False)
    yield client("write-no-scratch", f"{PARTED}2", f"write:4M:1M read:4M:1M many:{count}:{SMALL}",
                 {"write.bounce.no_scratch": MIB, "read.dmabuf.none": MIB + count * SMALL}, strict=False)


def store():
    """A KV store's own file, on a file system whose disk has room for the canary of writes. What was only allocated is
    written by the file system, and on the drive from then on."""
    disk, slab = "$(readlink -f /drives/store)", "/mnt/store/slab"
    made = f"mkfs.ext4 -q -F {disk}p2 && mkdir -p /mnt/store && mount -t ext4 {disk}p2 /mnt/store"
    scratch, new = f"PENSTOCK_SCRATCH={disk}p1", f"rm -f {slab} && fallocate -l 4M {slab}"
    words = {"store": f"{scratch} PENSTOCK_DMABUF_WRITE=on", "store-off": scratch}
    moved = {"store": {"write.bounce.unwritten_extents": MIB, "write.dmabuf.none": MIB, "read.dmabuf.none": 2 * MIB,
                       "read.bounce": None},
             "store-off": {"write.bounce.dmabuf_reads_only": 2 * MIB, "read.bounce.dmabuf_written": 2 * MIB}}
    for name, variables in words.items():
        yield client(name, slab, "store:0:1M", moved[name], variables=variables, strict=False,
                     prepare=f"{made} && {new}" if name == "store" else new)


def tools(memory):
    """What our own programs say, and that nothing stays of a program that is killed."""
    words = f"bench {PARTED}2 --rw write --offset 8M --size 1M --bs 256k --depth 2 --direct --overwrite --verify --json"
    yield Tool("bench", f"ring {memory} {SCRATCH} penstock {words} --require dmabuf",
               facts={"bytes_by_path.dmabuf": MIB, "result.verified_bytes": MIB}, dma=None)
    for name, words in {"gdsio": "-x 0", "gdsio-batch": "-x 6 -w 4"}.items():
        yield Tool(name, f"ring {memory} PENSTOCK_REQUIRE=dmabuf penstock gdsio -f /drives/raw -s 4M -i 64K {words}",
                   says=("Path: dmabuf 100.0% (none",), dma=None)
    yield Tool("explain", f"ring {memory} penstock explain /drives/raw", says=("goes by dmabuf",), dma=None)
    yield Tool("killed", f"killed_reading /drives/raw ring {memory} cufile_client /drives/raw reads forever:0:4M && "
                         "no_dmabufs", dma=None)
    yield client("after-kill", "/drives/raw", "reads read:0:1M", {"read.dmabuf.none": MIB}, memory=memory, dma=None)
    yield Tool("left", "no_dmabufs")


WITH_CLIENTS = ("dmabuf", "dmabuf-bar")  # The machines that run them.
REPORT = "/tmp/report.json"
KVIKIO = "KVIKIO_COMPAT_MODE=OFF KVIKIO_GDS_THRESHOLD=1 CUFILE_ENV_PATH_JSON=/tmp/cufile.json"


def reported(name, command, direct=(), **more):
    """A program that somebody else made, and the library's report of it: `direct` are all ways that bytes went, as
    ("read", BYTES)."""
    facts = {f"ways.{at}.{key}": value for at, (op, size) in enumerate(direct)
             for key, value in {"path": "dmabuf", "reason": "none", "op": op, "bytes": size}.items()}
    more.setdefault("facts", {**facts, f"ways.{len(direct)}": None})
    return Tool(name, f"rm -f {REPORT}; ring PENSTOCK_REPORT={REPORT} {command} && cat {REPORT}", dma=None, **more)


def fio(name, target, words, variables="", engine="libcufile --cuda_io=cufile --gpu_dev_ids=0"):
    """Its own checksums are the proof that the bytes are right."""
    return (f"{variables} fio --name={name} --thread --filename={target} --direct=1 --size=2m --bs=64k "
            f"--verify=crc32c --verify_fatal=1 --verify_state_save=0 --ioengine={engine} {words}")


def clients(memory, present, dma_min=0):
    """Programs that were built for NVIDIA's library, of those that are here; `dma_min` for two mebibytes."""
    only, file = f"{memory} PENSTOCK_REQUIRE=dmabuf", "/mnt/ext4/fio"
    if "fio" in present:
        yield reported("fio-raw", fio("raw", f"{PARTED}2", "--rw=randwrite --offset=10m", f"{only} {SCRATCH}"),
                       (("read", 2 * MIB), ("write", 2 * MIB)), dma_min=2 * dma_min)
        yield reported("fio-file", fio("file", file, "--rw=randread", only), (("read", 2 * MIB),), file=file,
                       dma_min=dma_min, prepare=fio("file", file, "--rw=write", engine="psync"))
    if "kvikio" in present:
        # What it writes goes by the file system. A batch that it cancels has moved a part of its bytes. One read is of
        # a file that it has open for writing.
        bounced = {"dmabuf_reads_only": 4296213, "dmabuf_written": 1000001}
        yield reported("kvikio", f"{memory} {KVIKIO} kvikio_smoke /usr/lib/libcufile.so.0 /mnt/ext4/kvikio",
                       facts={**{f"reasons.{at}.{key}": value for at, (reason, size) in enumerate(bounced.items())
                                 for key, value in {"reason": reason, "bytes": size}.items()}, "reasons.2": None},
                       says=("batch read: these bytes and no others", "OK kvikio"), dma_min=dma_min,
                       prepare="echo {} >/tmp/cufile.json")


def hostile(memory, kinds, target="/drives/raw", **more):
    """Exporters that are wrong from their first map: their dma-bufs are real, and reach other memory."""
    for kind in kinds:
        yield refused(f"hostile-{kind}", "dmabuf_untrusted", target, memory=memory,
                      variables=f"PENSTOCK_FAKE_CUDA_EXPORTS={kind}", **more)


def unkind(name, answers, target="/drives/raw"):
    """Answers that only a stand-in can be told to give. The bytes are right in any case."""
    return client(f"unkind-{name}", target, f"reads read:0:4M batch:1M:1M many:200:{SMALL}", {},
                  variables=f"PENSTOCK_RING_ANSWERS={answers}", strict=False, says=("refused_late",),
                  total={"read": 5 * MIB + 200 * SMALL})


UNKIND = {"again": "7:-11", "busy": "5:-16", "no-memory": "3:-12", "interrupted": "4:-4", "io": "9:-5",
          "short": "6:512", "empty": "6:0", "revoked": "20+:-19", "detached": "11:-2", "invalid": "8:-22",
          "not-supported": "8:-95", "always-again": "1+:-11", "always-empty": "1+:0"}


def proving():
    """scripts/prove-direct, whose every penstock has the stand-in: nothing counts what that does."""
    words = ("env LD_LIBRARY_PATH=/lib/cuda PENSTOCK_DEVICE=cuda PENSTOCK_FAKE_CUDA_MEMORY=udmabuf "
             "LD_PRELOAD=/lib/ring/ring_standin.so penstock")
    made = f'echo "#!/bin/sh" >/tmp/ringed && echo "exec {words} \\"\\$@\\"" >>/tmp/ringed && chmod +x /tmp/ringed'
    read = {"verdict": "unwitnessed", "contents": "yes", "page_cache_untouched": "yes"}
    return proof("proof", "--dir /mnt/ext4 --path dmabuf --penstock /tmp/ringed",
                 {"failed": 0, "trials.0.reason": "dmabuf_reads_only", "trials.0.verdict": "unavailable",
                  **{f"trials.{trial}.{key}": value for trial in (1, 2) for key, value in read.items()},
                  "trials.1.bytes_by_path": MIB, "trials.2.bytes_by_path": MIB}, status=77, prepare=made)


def stopped(file):
    """Others get a file of a program that is stopped when the kernel has taken its lease away, and no byte that they
    moved meanwhile is delivered."""
    words = f"{IN_HOST_MEMORY} PENSTOCK_RING_STOPS=3 cufile_client {file} reads read:0:1M read:1M:1M"
    return Tool("stopped", f"stopped_reading {file} ring {words}", says=("refused_late",), total={"read": 2 * MIB},
                dma=None)


UDMABUF = Tool("udmabuf", "echo 4096 >/sys/module/udmabuf/parameters/size_limit_mb")


def host_memory_machine(count, rehearsed, present):
    cases = [
        UDMABUF,
        Tool("probe", f"ring {IN_HOST_MEMORY} penstock check --all", says=("io_uring takes dma-bufs as buffers",)),
        refused("off", "dmabuf_off", variables="PENSTOCK_DMABUF=off"),
        reads("raw", "/drives/raw", count),
        reads("ext4", "/mnt/ext4/data", count, prepare=file_on("ext4")),
        reads("xfs", "/mnt/xfs/data", count, prepare=file_on("xfs")),
        Answers("answers", "ring ring_probe answers /drives/raw /mnt/ext4/data", ANSWERS),
        *writes(count),
        refused("written-ext4", "dmabuf_written", "/mnt/ext4/data", "read:0:1M"),
        refused("files-off", "dmabuf_file", "/mnt/ext4/data", variables="PENSTOCK_DMABUF_FILES=off"),
        refused("p2pmem", "dmabuf_not_exported",
                memory=f"PENSTOCK_DEVICE=p2pmem {SWITCHES}"),
        *hostile(IN_HOST_MEMORY, ("other", "shifted", "first")),
        *tools(IN_HOST_MEMORY),
        *clients(IN_HOST_MEMORY, present),
        *store(),
    ]
    if rehearsed:
        cases += [unkind(name, answers) for name, answers in UNKIND.items()]
        # A mapping that turns wrong is noticed by the next canary.
        cases.append(client("unkind-turned", "/drives/raw", f"reads turn:100:{SMALL}", {}, strict=False,
                            variables="PENSTOCK_RING_TURNS=100", says=("reads were wrong", "dmabuf_untrusted")))
        cases += [proving(), stopped("/mnt/ext4/data")]
        cases.append(refused("unkind-stuck", "dmabuf_stuck", variables="PENSTOCK_RING_STUCK=1"))
    return Machine(name="dmabuf", about="dma-bufs of the host's memory, raw drives, files on ext4 and XFS",
                   drives=(PEER, NEAR, Drive("raw"), Drive("parted", holds="parted"), Drive("ext4", holds="ext4"),
                           Drive("xfs", holds="xfs"), Drive("store", holds="parted")),
                   modules=("xfs",), programs=("mkfs.ext4",), cases=tuple(cases),
                   outside=(Written("write-scratch", "parted", 17 * MIB, 3 * MIB, 3),))


VFIO = ("vfio_pci", "vfio_iommu_type1")
AT_PEER = "PENSTOCK_FAKE_CUDA_ADDRESS=${PEER##*/}"
IN_BAR = f"{DEVICE} PENSTOCK_FAKE_CUDA_MEMORY=$BAR {AT_PEER}"


SEEN = Drive("seen", place="far", holds="salted")  # Nothing else reads it.


def bar_machine(count, present):
    """vfio-pci wants an IOMMU, and the route is between root ports."""
    def by_dma(size, **more):
        return {"memory": IN_BAR, "dma": None, "dma_min": size, **more}
    read = 8 * MIB + 70000 + count * SMALL
    return Machine(
        name="dmabuf-bar", about="dma-bufs of memory behind another device's BAR, as vfio-pci exports it",
        cpu="EPYC", iommu="passthrough", bar_mib=256, modules=("xfs", *VFIO),
        drives=(NEAR, Drive("raw", place="far"), SEEN, Drive("parted", place="far", holds="parted"),
                Drive("ext4", place="far", holds="ext4"), Drive("xfs", place="far", holds="xfs")),
        cases=(
            reads("raw", "/drives/raw", count, **by_dma(read)),
            reads("ext4", "/mnt/ext4/data", count, **by_dma(read, prepare=file_on("ext4"))),
            reads("xfs", "/mnt/xfs/data", count, **by_dma(read, prepare=file_on("xfs"))),
            client("write-scratch", f"{PARTED}2", "write:0:1M write:1M:3M read:0:4M",
                   {"write.dmabuf.none": 4 * MIB, "read.dmabuf.none": 4 * MIB}, variables=SCRATCH,
                   **by_dma(8 * MIB)),
            *hostile(IN_BAR, ("other", "shifted"), dma=None),
            *tools(IN_BAR),
            *clients(IN_BAR, present, dma_min=2 * MIB),
            client("seen", "/drives/seen", "reads read:2M:1M", {"read.dmabuf.none": MIB}, **by_dma(MIB)),
        ),
        outside=(Written("write-scratch", "parted", 17 * MIB, 3 * MIB, 3), InBar("seen", "seen", 2 * MIB, MIB)))


# The rule about NVIDIA's exporter knows a GPU by its address; without one it stays silent.
UNKNOWN_BAR = f"{DEVICE} PENSTOCK_FAKE_CUDA_MEMORY=$BAR"


def translating_machine(count):
    """What NVIDIA's driver would export is not even tried. vfio-pci's export is right; its pointers are the IOMMU's, so
    the emulator's log has none in the BAR."""
    return Machine(
        name="dmabuf-iommu", about="an IOMMU translates, for which NVIDIA's exporter is known to be wrong",
        cpu="EPYC", iommu="translating", bar_mib=256, modules=VFIO, drives=(NEAR, Drive("raw", place="far"), SEEN),
        cases=(UDMABUF, refused("translating", "iommu_translating", variables=AT_PEER),
               reads("right", "/drives/raw", count, memory=UNKNOWN_BAR),
               client("seen", "/drives/seen", "reads read:2M:1M", {"read.dmabuf.none": MIB}, memory=UNKNOWN_BAR)),
        outside=(InBar("seen", "seen", 2 * MIB, MIB),))


def losing_machine():
    """Only rehearsed: vfio-pci takes no device whose neighbours below a switch have drivers. The drive reports success,
    and the IOMMU drops what it sends past it to the other device: not the stand-in loses the bytes."""
    return Machine(
        name="dmabuf-lost", about="an IOMMU drops what a drive sends to its neighbour, and nobody reports it",
        cpu="EPYC", iommu="translating", bar_mib=256, bar_near=True, modules=VFIO, drives=(NEAR, Drive("raw")),
        cases=(refused("lost", "dmabuf_untrusted", memory=UNKNOWN_BAR, dma=None),
               client("lost-write", "/drives/raw", "write:1M:1M read:1M:1M", {"write.dmabuf": None}, dma=None,
                      memory=UNKNOWN_BAR, variables="PENSTOCK_SCRATCH=/drives/near", strict=False)),
        outside=(Written("lost-write", "raw", MIB, MIB, 2),))


def lie(name, target, words, says="wrong byte at", **more):
    """The stand-in reports the first large request of a program as whole, and it was not."""
    honest = client(name, target, words, {}, variables="PENSTOCK_RING_LIE=1", status=1, says=(says,), **more)
    return replace(honest, dma=None, file="")


def lying_machine():
    """Only rehearsed. That the cases of the other machines can fail."""
    return Machine(
        name="dmabuf-lie", about="a ring that lies: each case has to notice", modules=("xfs",),
        drives=(PEER, NEAR, Drive("raw"), Drive("parted", holds="parted"), Drive("xfs", holds="xfs")),
        cases=(UDMABUF, reads("honest", "/drives/raw", 10), lie("lie-read", "/drives/raw", "reads read:0:1M"),
               lie("lie-many", "/drives/raw", f"reads many:10:{SMALL}"),
               lie("lie-batch", "/drives/raw", "reads batch:1M:1M"),
               lie("lie-file", "/mnt/xfs/data", "reads read:0:1M", prepare=file_on("xfs")),
               lie("lie-write", f"{PARTED}2", "write:0:1M", "bytes are wrong",
                   memory=f"{IN_HOST_MEMORY} {SCRATCH}")))


def machines(count, rehearsed, present=()):
    """`present` names those clients that were built: "fio", "kvikio"."""
    real = (host_memory_machine(count, rehearsed, present), bar_machine(count, present), translating_machine(count))
    return (*real, losing_machine(), lying_machine()) if rehearsed else real
