// SPDX-License-Identifier: Apache-2.0

// io_uring as a Ring.
#pragma once

#include <vector>

#include "storage/ring.h"

struct io_uring;

namespace penstock::core {

class UringRing final : public Ring {
 public:
  // Fails with the errno that io_uring_setup gave.
  static Result<std::unique_ptr<Ring>> open(unsigned depth);
  ~UringRing() override;

  bool is_io_uring() const override { return true; }
  void push(const RingOp& op) override;
  Status submit() override;
  Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) override;
  Status register_memory(void* memory, std::size_t size) override;
  int register_file(int fd) override;
  void unregister_file(int fixed_file) override;

 private:
  explicit UringRing(unsigned depth);
  bool is_registered(const RingOp& op) const;
  RingCompletion finish(std::uint64_t index, int result);
  bool owns_its_descriptor() const;

  std::unique_ptr<io_uring> ring_;
  std::vector<RingOp> ops_;            // In flight, by index; the index is the kernel's user_data.
  std::vector<std::uint32_t> unused_;  // Indexes of ops_ that are free.
  std::vector<int> files_;             // Registered descriptors by fixed number; -1 where free.
  bool files_registered_ = false;
  unsigned unsubmitted_ = 0;
  unsigned in_flight_ = 0;  // Pushed and not reaped.
  std::uintptr_t memory_begin_ = 0;
  std::uintptr_t memory_end_ = 0;
};

}  // namespace penstock::core
