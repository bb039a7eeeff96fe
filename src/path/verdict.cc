// SPDX-License-Identifier: Apache-2.0

#include "path/verdict.h"

#include <iterator>

namespace penstock::core {
namespace {

constexpr const char* kPathNames[] = {"p2pdma", "pagecache", "vendor", "bounce", "host", "null"};
static_assert(std::size(kPathNames) == kPathCount);

struct ReasonText {
  const char* name;
  const char* sentence;
  const char* remedy;
};

constexpr ReasonText kReasons[] = {
    {"none", "nothing stands in the way", ""},
    {"not_listed", "the configuration does not list this path",
     "add it to PENSTOCK_PATHS, or change the compatibility mode in cufile.json"},
    {"not_built", "this version of Penstock does not have this path yet", ""},
    {"host_memory", "the buffer is host memory, so there is no device to reach", ""},
    {"device_memory", "the buffer is device memory, which storage reads and writes of the host cannot reach", ""},
    {"stand_in", "the device is host memory standing in for a GPU",
     "run 'penstock check' to see why no GPU can be used"},
    {"io_uring_forbidden", "the kernel or the container forbids io_uring, so preadv2 and pwritev2 stand in",
     "allow io_uring in the seccomp profile, set kernel.io_uring_disabled to 0, or raise the locked-memory limit"},
    {"io_uring_off", "io_uring is switched off by configuration, so preadv2 and pwritev2 stand in",
     "unset PENSTOCK_IO_URING"},
    {"denied", "the configuration's denylist names this file's mount, file system, device or driver",
     "take it off the denylist section of cufile.json"},
    {"userspace_file", "the file belongs to a file system in user space, whose own calls move the bytes", ""},
    {"on_stream", "a request on a stream goes through pinned memory that the stream reads and writes",
     "use cuFileRead and cuFileWrite, or a batch"},
    {"direct_io_off", "direct I/O is switched off by configuration", "unset PENSTOCK_DIRECT_IO"},
    {"self_test_refused", "the self-test of this device with this storage was refused by the kernel",
     "see docs/direct.md for what the errno means here"},
    {"self_test_wrong", "the self-test of this device with this storage moved wrong bytes and reported success",
     "boot with iommu=pt or intel_iommu=off, and see that no switch between the two redirects (ACS)"},
    {"self_test_copied", "in the self-test the CPU copied the bytes through the page cache",
     "use ext4 with data=ordered, XFS, or the block device"},
    {"self_test_no_room", "there was no device memory for the self-test", "free 64 KiB of the device's memory"},
    {"no_scratch", "writes could not be tried out: no scratch file can be made beside the file",
     "make its folder writable, or name a file or partition of the same storage that may be overwritten in "
     "PENSTOCK_SCRATCH"},
    {"refused_late", "the kernel refused an earlier request of this device with this storage, which was then bounced",
     "see docs/direct.md for what the errno means here"},
    {"vendor_library_missing", "NVIDIA's libcufile.so.0 is not to be found",
     "install libcufile of the CUDA toolkit, or name the file by its absolute path in PENSTOCK_VENDOR_LIBRARY"},
    {"vendor_is_ourselves", "the file that should be NVIDIA's library is Penstock's own",
     "name NVIDIA's libcufile.so.0 by its absolute path in PENSTOCK_VENDOR_LIBRARY"},
    {"vendor_incomplete", "NVIDIA's library could not be loaded, or lacks a call that is needed",
     "install libcufile of CUDA 11.4 or later with what it depends on"},
    {"nvidia_fs_missing", "the module nvidia-fs is not loaded, or no storage driver has registered with it",
     "load it (modprobe nvidia-fs), and use a storage driver made for it: of MLNX_OFED, or Ubuntu's nvidia kernel"},
    {"vendor_refused", "NVIDIA's library refused to open, or refused this file",
     "see docs/direct.md for its numbers, and its own cufile.log for the cause"},
    {"vendor_not_direct", "NVIDIA's library moves the bytes by the CPU here, in its compatibility mode",
     "see its cufile.log for the cause; where nvidia-fs counts nothing, set its parameter rw_stats_enabled to 1"},
    {"vendor_off", "NVIDIA's library is switched off by configuration", "unset PENSTOCK_VENDOR"},
    {"not_kept",
     "these bytes were not registered with the GPU: not in the page cache, not worth it so far, or so few that the CPU "
     "is quicker",
     "PENSTOCK_POLICY=cpu registers sooner; PENSTOCK_KEPT_MIB says how much may be kept"},
    {"pages_went", "the file's pages were taken away or replaced under the transfer", ""},
    {"no_page_registration", "the GPU's driver cannot register a file's pages, or the kernel does not show us ours",
     "use a driver that registers read-only memory, and let /proc/self/pagemap be read"},
    {"file_system_pages", "the file system's pages may change without a trace in a mapping, or it is no regular file",
     "keep the file on ext4, XFS, Btrfs, F2FS or tmpfs; of a container, on a volume"},
    {"opened_direct", "the descriptor has O_DIRECT, so the page cache is not asked", "open the file without O_DIRECT"},
    {"keeping_off", "configuration keeps no pages, or wants everything around the page cache",
     "unset PENSTOCK_KEPT_MIB=0 and PENSTOCK_DIRECT_IO"},
    {"reads_only",
     "the page-cache path writes only to files in memory (tmpfs, hugetlbfs), within their size, that may be read too",
     "give the file its size first (ftruncate), and open it for reading and writing"},
};
constexpr ReasonText kUnknown = {"unknown", "", ""};
static_assert(std::size(kReasons) <= static_cast<unsigned>(Reason::obstacle));

ReasonText text_of(Reason reason) {
  const auto number = static_cast<unsigned>(reason);
  if (number < std::size(kReasons)) return kReasons[number];
  if (reason <= Reason::obstacle || number >= kReasonCount) return kUnknown;
  const ObstacleText& text = obstacle_text(static_cast<Obstacle>(number - static_cast<unsigned>(Reason::obstacle)));
  return text.obstacle == Obstacle::none ? kUnknown : ReasonText{text.code, text.sentence, text.remedy};
}

}  // namespace

const char* path_name(PathId path) { return kPathNames[static_cast<unsigned>(path)]; }
const char* reason_name(Reason reason) { return text_of(reason).name; }
const char* reason_sentence(Reason reason) { return text_of(reason).sentence; }
const char* reason_remedy(Reason reason) { return text_of(reason).remedy; }

}  // namespace penstock::core
