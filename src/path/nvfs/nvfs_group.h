// SPDX-License-Identifier: Apache-2.0

// One mapping of the module nvidia-fs, and the only requests that we make of it. The module trusts its caller: a second
// request while one is in flight, a second MAP, a shadow buffer unmapped during a request, or a bad size leaks memory,
// breaks mappings or trips a kernel assertion. This class makes such calls impossible:
//
// - it maps once, with sizes that it computes, and unmaps in its destructor;
// - every request is synchronous: an asynchronous one holds neither its file nor, when its process ends, its pin, and
//   its call does not return the module's own result;
// - an argument ends where its page ends, and the next page cannot be touched: a module whose arguments are larger
//   fails, and overwrites nothing;
// - requests are checked against file blocks, GPU pages and the shadow buffer before the module sees them;
// - one request at a time: a second one, from any thread, fails here with EBUSY and does no harm;
// - after an error that leaves the module's state in doubt the group is broken, and sends no more requests.
//
// Any thread may use it, one request at a time.
#pragma once

#include <cerrno>
#include <memory>

#include "core/io.h"
#include "path/nvfs/nvfs_module.h"
#include "storage/file_facts.h"

namespace penstock::core {

// A range of whole GPU pages.
struct GpuRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pci = 0;  // The same as MapArgument::gpu_pci; 0: unknown.
};

// A file as the module identifies it: a descriptor with O_DIRECT, and the inode facts that it compares.
struct NvfsFile {
  int fd = -1;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;

  static NvfsFile of(int fd, const FileFacts& facts);
  static Result<NvfsFile> of(int fd);
};

struct NvfsRequest {
  Op op = Op::read;
  NvfsFile file;
  std::uint64_t file_offset = 0;
  std::uint64_t gpu_offset = 0;  // Relative to the range's begin.
  std::uint64_t size = 0;        // At most fit().
};

// Bytes of a read that are still in host memory.
struct NvfsHole {
  std::uint64_t offset = 0;  // Relative to the request's begin.
  std::uint64_t bytes = 0;
  const std::byte* seen = nullptr;  // The bytes; valid until the next request.
};

struct NvfsAnswer {
  Status status;
  std::uint64_t bytes = 0;  // Bytes moved, holes included.
  unsigned hole_count = 0;  // See hole().
  std::uint64_t hole_bytes = 0;
};

// A field that is wrong in an otherwise good read. The module refuses each of these before it changes any state.
enum class NvfsMisfit : std::uint8_t { offset, size, alignment, inode, buffered };
constexpr int error_of(NvfsMisfit misfit) { return misfit == NvfsMisfit::inode ? ESTALE : EINVAL; }

class NvfsGroup {
 public:
  // `shadow_bytes`: whole GPU pages, up to nvfs::kShadowMax. Fails with the module's errno; each failed try leaks
  // kernel memory (NvfsModule::note_failed_map).
  static Result<std::unique_ptr<NvfsGroup>> open(std::shared_ptr<NvfsModule> module, const GpuRange& range,
                                                 std::uint64_t shadow_bytes);
  ~NvfsGroup();
  NvfsGroup(const NvfsGroup&) = delete;
  NvfsGroup& operator=(const NvfsGroup&) = delete;

  // Returns how many of `size` bytes from gpu_offset on one request can move.
  std::uint64_t fit(std::uint64_t gpu_offset, std::uint64_t size) const;
  // Runs the request synchronously. Parallel requests need several threads, each with a group.
  NvfsAnswer run(const NvfsRequest& request);
  // Asks for the file's first block with that fault, for the test of the interface. Returns the errno of the answer, 0
  // if the module took the request. Any but error_of(misfit) breaks the group: EMSGSIZE, if the module's arguments are
  // larger, and EPROTO, if it answers or writes at other places. For NvfsMisfit::buffered, `file` has no O_DIRECT.
  int provoke(NvfsMisfit misfit, const NvfsFile& file);
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
  int call(unsigned long number);
  bool is_intact(std::size_t from) const;
  NvfsAnswer answer_of(std::int64_t result);
  Status failure_of(int error);
  bool take_holes(NvfsAnswer& answer);
  void clear_fence();
  void break_down() { state_.store(State::broken, std::memory_order_release); }

  const std::shared_ptr<NvfsModule> module_;
  const GpuRange range_;
  std::byte* shadow_ = nullptr;
  std::uint64_t shadow_bytes_ = 0;
  nvfs::Fence* fence_ = nullptr;        // The first of three pages; the argument ends with the second one.
  nvfs::Argument* argument_ = nullptr;  // The argument of the call under way.
  std::atomic<State> state_{State::ready};
  NvfsRequest request_;  // The request in flight, or the last one.
};

}  // namespace penstock::core
