// SPDX-License-Identifier: Apache-2.0

// -x 6: -w entries of one batch in flight, each replaced as it completes.
#include <algorithm>
#include <vector>

#include "tools/common/failure.h"
#include "tools/gdsio/transport.h"

namespace penstock::tools {
namespace {

class BatchTransport final : public CufileTransport {
 public:
  explicit BatchTransport(const ThreadSetup& setup)
      : CufileTransport(setup), extents_(setup.depth), events_(setup.depth) {
    require_cufile(cuFileBatchIOSetUp(&batch_, setup.depth), setup.file->path(), "cuFileBatchIOSetUp");
  }
  ~BatchTransport() override { cuFileBatchIODestroy(batch_); }

  // Entries gather until they are reaped, and are submitted together.
  void start(unsigned slot, const Extent& extent) override {
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.u.batch.devPtr_base = arena().data();
    entry.u.batch.devPtr_offset = static_cast<off_t>(slot * slot_size());
    entry.u.batch.file_offset = static_cast<off_t>(extent.offset);
    entry.u.batch.size = extent.size;
    entry.fh = setup_.file->handle();
    entry.opcode = setup_.is_write ? CUFILE_WRITE : CUFILE_READ;
    extents_[slot] = extent;
    entry.cookie = &extents_[slot];
    entries_.push_back(entry);
  }

  unsigned reap(std::span<Completion> done) override {
    if (!entries_.empty()) {
      const auto count = static_cast<unsigned>(entries_.size());
      require_cufile(cuFileBatchIOSubmit(batch_, count, entries_.data(), 0), setup_.file->path(),
                     "cuFileBatchIOSubmit");
      entries_.clear();
    }
    auto count = static_cast<unsigned>(std::min(done.size(), events_.size()));
    require_cufile(cuFileBatchIOGetStatus(batch_, 1, &count, events_.data(), nullptr), setup_.file->path(),
                   "cuFileBatchIOGetStatus");
    for (unsigned i = 0; i < count; ++i) done[i] = completion_of_event(events_[i]);
    return count;
  }

 private:
  Completion completion_of_event(const CUfileIOEvents_t& event) const {
    const auto slot = static_cast<std::uint64_t>(static_cast<const Extent*>(event.cookie) - extents_.data());
    const auto count = static_cast<ssize_t>(event.ret);
    if (event.status != CUFILE_COMPLETE && count >= 0) {
      throw Failure(setup_.file->path() + ": an entry of the batch ended in state " + std::to_string(event.status));
    }
    return completion_of(slot,
                         require_bytes(count, static_cast<int>(-count), setup_, "cuFileBatchIOSubmit", extents_[slot]));
  }

  CUfileBatchHandle_t batch_ = nullptr;
  std::vector<Extent> extents_;
  std::vector<CUfileIOParams_t> entries_;
  std::vector<CUfileIOEvents_t> events_;
};

}  // namespace

std::unique_ptr<Transport> open_batch_transport(const ThreadSetup& setup) {
  return std::make_unique<BatchTransport>(setup);
}

}  // namespace penstock::tools
