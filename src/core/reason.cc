// SPDX-License-Identifier: Apache-2.0

#include "core/reason.h"

namespace penstock::core {
namespace {

constexpr ReasonText kTexts[] = {
    {"none", "nothing stands in the way", ""},
    {"not_listed", "the configuration does not list this path",
     "add it to PENSTOCK_PATHS, or change the compatibility mode in cufile.json"},
    {"host_memory", "the buffer is host memory, so there is no device to reach", ""},
    {"device_memory", "the buffer is device memory, which the host's reads and writes cannot reach", ""},
    {"stand_in", "the device is host memory standing in for a GPU",
     "run 'penstock check' to see why no GPU can be used"},
    {"io_uring_forbidden", "the kernel or the container forbids io_uring, so preadv2 and pwritev2 stand in",
     "allow io_uring in the seccomp profile, set kernel.io_uring_disabled to 0, or raise the locked-memory limit"},
    {"io_uring_off", "io_uring is switched off by configuration, so preadv2 and pwritev2 stand in",
     "unset PENSTOCK_IO_URING"},
    {"denied", "the configuration's denylist names this file's mount, file system, device or driver",
     "take its entry out of the section denylist of cufile.json"},
    {"on_stream", "a request on a stream goes through pinned memory that the stream reads and writes",
     "use cuFileRead and cuFileWrite, or a batch"},
    {"direct_io_off", "direct I/O is switched off by configuration", "unset PENSTOCK_DIRECT_IO"},
    {"userspace_file", "the path serves only files of file systems in user space", ""},
};

}  // namespace

ReasonRange core_reasons() { return {0, kTexts}; }

}  // namespace penstock::core
