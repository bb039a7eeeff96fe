// SPDX-License-Identifier: Apache-2.0

// The proof of one device with one storage, before the first direct byte: a block and a large piece, written from the
// device's memory and read into it, on scratch of our own, and compared with what the host sees. A transfer that
// succeeds proves nothing by itself: the CPU may have copied, or the fabric may have dropped the bytes.
#pragma once

#include <string>

#include "core/verdict.h"
#include "device/device.h"
#include "storage/file.h"

namespace penstock::core {

struct Proof {
  Reason reason = Reason::none;  // None: proven.
  int error = 0;                 // The errno of a refusal.
};

// The status's errno, or another number if it has none.
constexpr int errno_or(const Status& status, int other) { return status.domain == Domain::os ? status.code : other; }

struct SelfTest {
  Proof read;
  Proof write;
};

// How the bytes of a self-test travel between a descriptor with O_DIRECT and the device's memory.
class SelfTestMover {
 public:
  struct Needs {
    // A write that does not go directly may do silent harm: unless reads have passed, nothing is written then.
    bool reads_first = false;
    // Foreign code may open a file a second time, by its name: scratch has to have one.
    bool opens_by_name = false;
    std::size_t block_min = 1;  // The least that is moved at once.
  };
  explicit SelfTestMover(const Needs& needs) : needs_(needs) {}
  virtual ~SelfTestMover() = default;
  SelfTestMover(const SelfTestMover&) = delete;
  SelfTestMover& operator=(const SelfTestMover&) = delete;

  const Needs& needs() const { return needs_; }
  // Called once, before the rest, with the memory that will be moved.
  virtual Proof prepare(std::byte* memory) = 0;
  virtual Result<std::size_t> move(Op op, int fd, std::byte* memory, std::size_t size, std::uint64_t offset) = 0;
  // The proof of a move that failed, and of a page cache that grew under one.
  virtual Proof proof_of(const Status& status) = 0;
  virtual Proof proof_of_copy() = 0;
  // After each move whose bytes were right: tells if it went directly, where there is more to be seen than the page
  // cache.
  virtual Proof look_back() { return {}; }
  // The memory is about to be freed.
  virtual void forget_memory() {}
  // Before the scratch that was moved to and from is closed.
  virtual void forget_file() {}
  // A move was given up and may still go on: the memory and the scratch that it knows of stay as they are, for good.
  virtual bool is_stuck() const { return false; }

 private:
  const Needs needs_;
};

// Some milliseconds, and up to 1 MiB of the device's memory and of scratch. Scratch is a file of our own beside
// `file`, which is gone afterwards, or the file or partition `scratch_name` (may be overwritten; "": none) where that
// lies on the same storage: on the same file system, or for a block device on the same disk. Where there is neither,
// reads are tried on the file itself and writes are not.
SelfTest run_self_test(Storage& storage, SelfTestMover& mover, Device& device, File& file,
                       const std::string& scratch_name);

// The file or partition of that name, open with O_DIRECT for reading and writing, if it lies on the storage of the
// file. Invalid if the name is empty, or it does not.
UniqueFd open_named_scratch(Descriptors& descriptors, const std::string& name, const FileFacts& file);

// A file system, or a block device that is used as it is.
struct StorageKey {
  dev_t device = 0;
  bool is_block_device = false;
  std::uint32_t open = 0;  // The number of one open of it, if a proof holds for that open alone.

  bool is_same_storage(const StorageKey& other) const {
    return device == other.device && is_block_device == other.is_block_device;
  }
};
StorageKey key_of(const FileFacts& file);

}  // namespace penstock::core
