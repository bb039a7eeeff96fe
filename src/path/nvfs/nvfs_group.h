// SPDX-License-Identifier: Apache-2.0

// One mapping of the module nvidia-fs, and all that may be asked of it. The module trusts its caller: a second request
// while one is under way, a mapping made twice, a shadow buffer given back under a request, sizes that it does not
// check end in lost memory, dead mappings or an assertion of the kernel. This class makes such calls impossible:
//
// - it is mapped once, with sizes of its own making, and given back by its end;
// - every request is one that its call waits for: an asynchronous one holds neither its file nor, when its process
//   ends, its pin, and what such a call answers is not the module's own judgement;
// - requests are checked against file blocks, GPU pages and the shadow buffer before the module sees them;
// - one request at a time: a second one, of whatever thread, fails here with EBUSY and does no harm;
// - after anything that leaves the module's own state in doubt it is broken, and asks no more.
//
// For one request at a time, of any thread.
#pragma once

#include <memory>

#include "core/io.h"
#include "path/nvfs/nvfs_module.h"
#include "storage/file_facts.h"

namespace penstock::core {

// Whole GPU pages.
struct GpuRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pci = 0;  // The same as MapArgument::gpu_pci; 0: unknown.
};

// A file by the facts that the module compares: a descriptor with O_DIRECT, and its file.
struct NvfsFile {
  int fd = -1;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;

  static NvfsFile of(int fd, const FileFacts& facts);
};

struct NvfsRequest {
  Op op = Op::read;
  NvfsFile file;
  std::uint64_t file_offset = 0;
  std::uint64_t gpu_offset = 0;  // From the range's begin on.
  std::uint64_t size = 0;        // At most fit().
};

// Bytes of a read that went no further than host memory.
struct NvfsHole {
  std::uint64_t offset = 0;  // From the request's begin on.
  std::uint64_t bytes = 0;
  const std::byte* seen = nullptr;  // Where they are, until the next request.
};

struct NvfsAnswer {
  Status status;
  std::uint64_t bytes = 0;  // Bytes of the request, holes included.
  unsigned hole_count = 0;  // See hole().
  std::uint64_t hole_bytes = 0;
};

class NvfsGroup {
 public:
  // `shadow_bytes`: whole GPU pages, up to nvfs::kShadowMax. Fails with the module's errno; do not try again lightly
  // then (NvfsModule::note_failed_map).
  static Result<std::unique_ptr<NvfsGroup>> open(std::shared_ptr<NvfsModule> module, const GpuRange& range,
                                                 std::uint64_t shadow_bytes);
  ~NvfsGroup();
  NvfsGroup(const NvfsGroup&) = delete;
  NvfsGroup& operator=(const NvfsGroup&) = delete;

  // So much of what begins at an offset of the range can be asked for at once.
  std::uint64_t fit(std::uint64_t gpu_offset, std::uint64_t size) const;
  // Runs the request from start to end, in the call: requests side by side need several threads, each with a group.
  NvfsAnswer run(const NvfsRequest& request);
  bool is_broken() const { return state_.load(std::memory_order_relaxed) == State::broken; }
  // A hole of the last answer, whose hole_count is larger than `index`.
  NvfsHole hole(unsigned index) const;
  const GpuRange& range() const { return range_; }

 private:
  enum class State : std::uint8_t { ready, busy, broken };

  NvfsGroup(std::shared_ptr<NvfsModule> module, const GpuRange& range) : module_(std::move(module)), range_(range) {}
  Status map(std::uint64_t shadow_bytes);
  Status tie();
  Status check(const NvfsRequest& request) const;
  bool claim();
  std::int64_t ask(const NvfsRequest& request);
  NvfsAnswer answer_of(std::int64_t result);
  Status failure_of(int error);
  bool take_holes(NvfsAnswer& answer);
  void clear_fence();
  void break_down() { state_.store(State::broken, std::memory_order_release); }

  const std::shared_ptr<NvfsModule> module_;
  const GpuRange range_;
  std::byte* shadow_ = nullptr;
  std::uint64_t shadow_bytes_ = 0;
  nvfs::Fence* fence_ = nullptr;
  std::size_t fence_bytes_ = 0;
  std::atomic<State> state_{State::ready};
  NvfsRequest request_;  // Under way, or the last.
};

}  // namespace penstock::core
