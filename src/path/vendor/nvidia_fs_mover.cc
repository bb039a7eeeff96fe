// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/nvidia_fs_mover.h"

#include <cerrno>
#include <thread>

#include "path/vendor/foreign_call.h"
#include "path/vendor/vendor_reasons.h"
#include "topology/nvidia_fs_stats.h"

namespace penstock::core {
namespace {

// The counters are machine-wide, and other programs may use nvidia-fs, too. So a round is some requests of ours and
// then an equally long wait, and the difference must show our requests; if other requests came during the wait, every
// round must show them.
constexpr unsigned kRequestsOfRound = 8;
constexpr unsigned kRounds = 3;
constexpr const char* kStep = "wait for NVIDIA's library in a self-test";

}  // namespace

NvidiaFsMover::NvidiaFsMover(VendorLibrary& library, Device& device, std::chrono::milliseconds patience,
                             const std::string& root)
    : SelfTestMover({.opens_by_name = true}), library_(library), device_(device), patience_(patience) {
  if (Result<Root> opened = Root::open(root); opened.ok()) root_.emplace(std::move(*opened));
}

NvidiaFsMover::~NvidiaFsMover() { forget_file(); }

void NvidiaFsMover::forget_file() {
  if (handle_ != nullptr) library_.deregister_file(handle_);
  handle_ = nullptr;
  fd_ = -1;
}

Proof NvidiaFsMover::proof_of(const Status& status) { return {vendor_reason::refused, errno_or(status, EFAULT)}; }

std::optional<std::uint64_t> NvidiaFsMover::count(Op op) const {
  if (!root_) return std::nullopt;
  const NvidiaFsStats stats = read_nvidia_fs_stats(*root_);
  return op == Op::read ? stats.reads() : stats.writes();
}

Result<std::size_t> NvidiaFsMover::move_once(Op op, std::byte* memory, std::size_t size, std::uint64_t offset) {
  Result<std::size_t> moved = std::size_t{0};
  Status entered;
  // If the call is given up, the thread keeps its handle.
  const bool came_back = ForeignCall::run(patience_, [&, handle = handle_](ForeignCall& call) {
    entered = device_.run_inside([&] {
      moved = op == Op::read ? library_.read(handle, memory, size, offset, &call)
                             : library_.write(handle, memory, size, offset, &call);
    });
  });
  if (!came_back) {
    library_.give_up();
    return os_failure(ETIMEDOUT, kStep);
  }
  if (!entered.ok()) return entered;
  return moved;
}

Result<void*> NvidiaFsMover::register_file(int fd) {
  Result<void*> handle = nullptr;
  Status entered;
  const bool came_back = ForeignCall::run(patience_, [&](ForeignCall& call) {
    entered = device_.run_inside([&] { handle = library_.register_file(fd, &call); });
  });
  if (!came_back) {
    library_.give_up();
    return os_failure(ETIMEDOUT, kStep);
  }
  if (!entered.ok()) return entered;
  return handle;
}

Result<std::size_t> NvidiaFsMover::move(Op op, int fd, std::byte* memory, std::size_t size, std::uint64_t offset) {
  using Clock = std::chrono::steady_clock;
  if (is_stuck()) return os_failure(ETIMEDOUT, kStep);
  if (fd_ != fd) {
    forget_file();
    const Result<void*> handle = register_file(fd);
    if (!handle.ok()) return handle.status();
    handle_ = *handle;
    fd_ = fd;
  }
  was_counted_ = false;
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::optional<std::uint64_t> before = count(op);
    const Clock::time_point began = Clock::now();
    for (unsigned i = 0; i < kRequestsOfRound; ++i) {
      const Result<std::size_t> moved = move_once(op, memory, size, offset);
      if (!moved.ok() || *moved != size) return moved;
    }
    const Clock::duration took = Clock::now() - began;
    const std::optional<std::uint64_t> after = count(op);
    if (!before || !after || *after < *before) return size;  // nvidia-fs does not count, or the counters were reset.
    std::this_thread::sleep_for(took);
    const std::uint64_t others = count(op).value_or(*after) - *after;
    if (*after - *before < kRequestsOfRound + others) return size;
    if (others == 0) break;
  }
  was_counted_ = true;
  return size;
}

}  // namespace penstock::core
