// SPDX-License-Identifier: Apache-2.0

// The part of a driver that registers pages of files, as a test says. Thread-safe.
#pragma once

#include <atomic>

#include "device/device.h"

namespace penstock::core {

class ScriptedPages final : public DevicePages {
 public:
  bool can_register_pages() const override { return is_supported; }
  Status register_pages(const std::byte*, std::size_t, bool) override {
    if (refuses) return failure(Code::out_of_memory, "register pages as scripted");
    ++registered;
    return success();
  }
  bool can_unregister_pages() override { return !keeps; }
  bool unregister_pages(const std::byte*) override {
    if (keeps) return false;
    --registered;
    return true;
  }

  bool is_supported = true;
  std::atomic<bool> refuses{false};
  std::atomic<bool> keeps{false};  // Nothing can be unregistered now.
  std::atomic<int> registered{0};
};

}  // namespace penstock::core
