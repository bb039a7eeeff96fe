// SPDX-License-Identifier: Apache-2.0

// A preferred channel together with one that bounces the chunks that the first cannot move: chunks that are not
// aligned, that lie in holes, or that the kernel refused. A chunk goes to the second at most once, as a whole: moving
// the same bytes to the same place again loses nothing.
#pragma once

#include <memory>
#include <vector>

#include "path/path.h"
#include "path/pipeline/completions.h"
#include "path/pipeline/pipeline_reasons.h"
#include "storage/storage.h"

namespace penstock::core {

// The differences between paths that have such channels: which chunks the preferred channel takes, and which errors are
// refusals.
class PreferredTerms {
 public:
  virtual ~PreferredTerms() = default;
  // The reason why a chunk cannot go through the preferred channel; none if it can be tried. The channel itself may
  // find one without trying: then its completion has that reason, and path_refused.
  virtual Reason ineligible(const RoutedRequest& request, const Chunk& chunk) = 0;
  // The errno of a refusal, after which the chunk may still be bounced; 0 for other failures.
  virtual int refusal_errno(const Status& status) = 0;
  // The reason for which a refused chunk is bounced.
  virtual Reason late_reason() const { return pipeline_reason::refused_late; }
  // Notes that a move was refused and then bounced, although the self-test had proven it.
  virtual void refuse_late(const Device* device, File& file, Op op, int error) = 0;
};

class FallbackChannel final : public Channel, private ChannelHooks {
 public:
  // With `strict`, nothing is bounced. The terms must outlive the channel.
  FallbackChannel(PreferredTerms& terms, FileIo& io, std::unique_ptr<Channel> preferred, const ChannelOptions& options,
                  bool strict);

  bool has_room() const override { return !free_.empty() && !is_broken(); }
  bool is_idle() const override { return free_.size() == slots_.size(); }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override;
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override;
  void forget_file(std::uint64_t file_id) override;
  bool has_storage_under_way() const override {
    return preferred_->has_storage_under_way() || (bounce_ != nullptr && bounce_->has_storage_under_way());
  }
  bool is_broken() const override { return preferred_->is_broken() || (bounce_ != nullptr && bounce_->is_broken()); }

 private:
  struct Slot : Submitted {
    Reason bounced = Reason::none;
    int refusal = 0;                  // The errno with which the preferred channel refused it.
    std::uint64_t bounced_bytes = 0;  // For chunks larger than the bouncing channel's, which go in parts.
  };

  struct Failed {  // A chunk that neither channel could start.
    std::uint32_t index = 0;
    Status status;
  };

  Status broken_by() const override { return (preferred_->is_broken() ? preferred_ : bounce_)->hooks().broken_by(); }
  void warm_up() override { (void)bounce(); }
  bool is_warm() const override { return strict_ || bounce_ != nullptr; }
  bool wait_for_storage(std::chrono::steady_clock::time_point deadline) override;
  Result<Channel*> bounce();
  Reason reason_to_bounce(const RoutedRequest& request, const Chunk& chunk);
  void start_bounce(std::uint32_t index);
  Chunk next_part(const Slot& slot) const;
  bool takes_next_part(std::uint32_t index, Completion& completion);
  unsigned take_failed(std::span<Completion> completions);
  unsigned reap_preferred(std::span<Completion> completions, bool wait);
  unsigned reap_bounced(std::span<Completion> completions, bool wait);
  Reason reason_after(Slot& slot, const Completion& completion);
  void remember(const Slot& slot, const Completion& completion);
  Completion failure_of(const Slot& slot, Status status) const;
  void release(std::uint32_t index, Completion& completion);

  PreferredTerms& terms_;
  FileIo& io_;
  const ChannelOptions options_;
  const bool strict_;
  const std::unique_ptr<Channel> preferred_;
  std::unique_ptr<Channel> bounce_;  // Opened when it is first needed.
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Failed> failed_;
  unsigned collisions_ = 0;  // Reads in a row that the preferred channel ended with EIO.
};

}  // namespace penstock::core
