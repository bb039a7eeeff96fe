// The proof of one device with one storage, before the first direct byte: a block and a large piece, written from the
// device's memory and read into it, on scratch of our own, and compared with what the host sees. A transfer that
// succeeds proves nothing by itself: the CPU may have copied, or the fabric may have dropped the bytes.
#pragma once

#include "device/device.h"
#include "path/verdict.h"
#include "storage/file.h"

namespace penstock::core {

struct Proof {
  Reason reason = Reason::none;  // None: proven.
  int error = 0;                 // The errno of a refusal.
};

struct SelfTest {
  Proof read;
  Proof write;
};

// Some milliseconds, and up to 1 MiB of the device's memory and of scratch. Scratch is a file without a name beside
// `file`, or `scratch_fd` (opened with O_DIRECT, may be overwritten; -1: none). Where there is neither, reads are tried
// on the file itself and writes are not.
SelfTest run_self_test(Storage& storage, DeviceSet& devices, Device& device, File& file, int scratch_fd);

}  // namespace penstock::core
