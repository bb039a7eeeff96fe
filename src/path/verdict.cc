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
};
static_assert(std::size(kReasons) == kReasonCount);

}  // namespace

const char* path_name(PathId path) { return kPathNames[static_cast<unsigned>(path)]; }
const char* reason_name(Reason reason) { return kReasons[static_cast<unsigned>(reason)].name; }
const char* reason_sentence(Reason reason) { return kReasons[static_cast<unsigned>(reason)].sentence; }
const char* reason_remedy(Reason reason) { return kReasons[static_cast<unsigned>(reason)].remedy; }

}  // namespace penstock::core
