// SPDX-License-Identifier: Apache-2.0

// The drive's DMA engine reads and writes the device's own memory: O_DIRECT on pages of a PCI BAR, through upstream
// Linux's P2PDMA. Head and tail of an unaligned request, holes, and chunks that the kernel refuses are bounced, and
// counted as bounced. Docs: docs/reference/direct.md.
#pragma once

#include <string>

#include "path/p2pdma/outlook.h"
#include "path/path.h"
#include "path/pipeline/fallback_channel.h"
#include "path/pipeline/self_test_cache.h"

namespace penstock::core {

struct P2pdmaRules {
  bool strict = false;    // No fallback: chunks that cannot go directly fail with path_refused.
  bool direct_io = true;  // False if the configuration wants no direct I/O: the path then refuses.
  // Device memory may be offered at all, so a refusal names the call that allocated the memory.
  bool explains_memory = false;
  std::string scratch;  // A file that self-tests may overwrite, or empty.
};

class P2pdmaPath final : public Path, private PreferredTerms {
 public:
  P2pdmaPath(Storage& storage, DeviceSet& devices, std::unique_ptr<Outlook> outlook, const P2pdmaRules& rules);

  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  Shape shape(const RoutedRequest& request) override;
  std::uint64_t channel_bytes(const ChannelOptions& options) const override;
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;

 private:
  Reason ineligible(const RoutedRequest& request, const Chunk& chunk) override;
  int refusal_errno(const Status& status) override;
  void refuse_late(const Device* device, File& file, Op op, int error) override;
  Reason memory_reason(const PointerFacts& memory);
  Reason device_reason(const DeviceFacts& device);
  Reason file_reason(File& file, Op op);
  Proof pair_proof(Device& device, File& file, Op op);

  static constexpr unsigned kDevicesMax = 64;

  Storage& storage_;
  DeviceSet& devices_;
  const std::unique_ptr<Outlook> outlook_;
  const P2pdmaRules rules_;
  SelfTestCache pairs_;
  // By ordinal: a reason plus one, or 0 if not known yet.
  std::array<std::atomic<std::uint16_t>, kDevicesMax> device_reasons_{};
};

}  // namespace penstock::core
