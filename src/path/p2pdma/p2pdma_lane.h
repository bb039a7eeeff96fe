// A direct lane and, beside it, one that bounces what the first cannot have: chunks that are not aligned, that lie in
// holes, or that the kernel refused. A chunk goes to the second at most once, as a whole: moving the same bytes to the
// same place again loses nothing.
#pragma once

#include <memory>
#include <vector>

#include "path/path.h"
#include "storage/storage.h"

namespace penstock::core {

class P2pdmaPath;

class P2pdmaLane final : public Lane {
 public:
  // `strict`: nothing is bounced.
  static Result<std::unique_ptr<Lane>> open(P2pdmaPath& path, Storage& storage, const LaneOptions& options,
                                            bool strict);

  bool has_room() const override { return !free_.empty() && !is_broken(); }
  bool is_idle() const override { return free_.size() == slots_.size(); }
  void submit(const Task& task) override;
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion run(const Task& task) override;
  void forget_file(std::uint64_t file_id) override;
  bool is_broken() const override { return direct_->is_broken() || (bounce_ != nullptr && bounce_->is_broken()); }

 private:
  struct Slot {
    Task task;
    Reason bounced = Reason::none;
    int refusal = 0;  // The errno of the direct attempt.
  };

  struct Failed {  // Neither lane would have it.
    std::uint32_t index = 0;
    Status status;
  };

  P2pdmaLane(P2pdmaPath& path, Storage& storage, const LaneOptions& options, bool strict);
  Reason unfit(const Task& task);
  Result<Lane*> bounce();
  Task direct_task(const Slot& slot, std::uint64_t cookie) const;
  void start_bounce(std::uint32_t index);
  unsigned take_failed(std::span<Completion> completions);
  unsigned reap_direct(std::span<Completion> completions, bool wait);
  unsigned reap_bounced(std::span<Completion> completions, bool wait);
  void remember(const Slot& slot, const Completion& completion);
  Completion failure_of(const Slot& slot, Status status) const;
  void release(std::uint32_t index, Completion& completion);

  P2pdmaPath& path_;
  Storage& storage_;
  const LaneOptions options_;
  const bool strict_;
  std::unique_ptr<Lane> direct_;
  std::unique_ptr<Lane> bounce_;  // Opened when it is first needed.
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Failed> failed_;
};

// The errno of a refusal to move bytes of device pages, which a bounce may move all the same; 0 for other failures.
int refusal_errno(const Status& status);

}  // namespace penstock::core
