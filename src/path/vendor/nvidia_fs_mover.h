// SPDX-License-Identifier: Apache-2.0

// Moves a self-test's bytes by NVIDIA's library, and compares nvidia-fs's counters before and after.
#pragma once

#include <optional>

#include "device/device.h"
#include "path/pipeline/self_test.h"
#include "path/vendor/vendor_library.h"
#include "path/vendor/vendor_reasons.h"
#include "topology/root.h"

namespace penstock::core {

class NvidiaFsMover final : public SelfTestMover {
 public:
  NvidiaFsMover(VendorLibrary& library, Device& device, std::chrono::milliseconds patience, const std::string& root);
  ~NvidiaFsMover() override;

  Proof prepare(std::byte*) override { return {}; }
  Result<std::size_t> move(Op op, int fd, std::byte* memory, std::size_t size, std::uint64_t offset) override;
  Proof proof_of(const Status& status) override;
  Proof proof_of_copy() override { return {vendor_reason::not_direct}; }
  void forget_file() override;
  bool is_stuck() const override { return library_.is_given_up(); }
  Proof look_back() override { return {was_counted_ ? Reason::none : vendor_reason::not_direct}; }

 private:
  Result<std::size_t> move_once(Op op, std::byte* memory, std::size_t size, std::uint64_t offset);
  Result<void*> register_file(int fd);
  std::optional<std::uint64_t> count(Op op) const;

  VendorLibrary& library_;
  Device& device_;
  const std::chrono::milliseconds patience_;
  std::optional<Root> root_;
  int fd_ = -1;
  void* handle_ = nullptr;
  bool was_counted_ = false;
};

}  // namespace penstock::core
