// SPDX-License-Identifier: Apache-2.0

// The device's DMA engine reads the file's own pages out of the page cache, and no CPU copies them; on memory file
// systems it also writes to them. Pages that are not registered (registration_cache.h), all other writes, and pages
// that changed during a transfer are bounced, and counted as bounced.
#pragma once

#include "path/pagecache/pagecache_reasons.h"
#include "path/pagecache/registration_cache.h"
#include "path/path.h"
#include "path/pipeline/fallback_channel.h"

namespace penstock::core {

struct PagecacheRules {
  RegistrationRules registration;
  bool strict = false;       // Requests that are not fetched from the page cache fail with path_refused.
  bool on_stand_in = false;  // Serves also stand-in devices (host memory as a GPU).
  bool page_cache = true;    // False: settings forbid the page cache.
};

class PagecachePath final : public Path, private PathHooks, private PreferredTerms {
 public:
  PagecachePath(FileIo& io, const PagecacheRules& rules);

  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  bool may_serve(const Device& device) override;
  Shape shape(const RoutedRequest& request) override;
  std::uint64_t channel_bytes(const ChannelOptions& options) const override;
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;
  void forget_file(File& file) override { cache_.forget(file); }

  const RegistrationCache& cache() const { return cache_; }

 private:
  void before_move(RoutedRequest& request) override;
  void learn(const Timing& timing) override;
  std::span<const std::byte> lend(const RoutedRequest& request) override;
  void keep(File& file, Device& device, const Kept& kept, ResidentPages& pages) override;
  Reason ineligible(const RoutedRequest& request, const Chunk& chunk) override;
  // The reason why the settings forbid the path for any file; Reason::none if they allow it.
  Reason refused_by_rules(const Device& device) const;
  bool can_register(const Device& device);
  bool is_quicker_by_cpu(const File& file, Op op, std::uint64_t size) const;
  static bool takes_note_of(const RoutedRequest& request, const CachedFile::Terms& terms);
  bool may_have_to_wait(const RoutedRequest& request) const;
  void before_move_on_stream(CachedFile& cached, const FileRange& range);
  static bool is_within(File& file, const Chunk& chunk);
  int refusal_errno(const Status& status) override { return status.is_errno(ESTALE) ? ESTALE : 0; }
  Reason late_reason() const override { return pagecache_reason::pages_replaced; }
  void refuse_late(const Device*, File&, Op, int) override {}

  static constexpr unsigned kDevicesMax = 64;

  FileIo& io_;
  const PagecacheRules rules_;
  RegistrationCache cache_;
  std::array<std::atomic<std::uint8_t>, kDevicesMax> can_register_{};  // By ordinal: 0 unknown, 1 no, 2 yes.
};

}  // namespace penstock::core
