// cuFile's batches: checks in the order that NVIDIA's library makes them, and translation. Entries are copied, so the
// caller's array may go when the submission returns.
#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "abi/cufile_driver.h"
#include "abi/cufile_errors.h"
#include "abi/cufile_stats.h"
#include "cufile.h"
#include "session/batch.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;
using core::CufileOperation;

constexpr unsigned kEntriesMax = 256;
constexpr unsigned kReapMax = kEntriesMax;

CufileDriver& driver() { return CufileDriver::instance(); }
CUfileError_t ok() { return core::cufile_error(CU_FILE_SUCCESS); }
CUfileError_t refuse(CUfileOpError error) { return core::cufile_error(error); }
std::uint64_t number_of(void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

// A batch that stays while it is looked at.
class PinnedBatch {
 public:
  PinnedBatch(core::Session& session, CUfileBatchHandle_t handle)
      : session_(session), number_(number_of(handle)), batch_(session.pin_batch(number_)) {}
  ~PinnedBatch() {
    if (batch_ != nullptr) session_.unpin_batch(number_);
  }
  PinnedBatch(const PinnedBatch&) = delete;
  PinnedBatch& operator=(const PinnedBatch&) = delete;
  explicit operator bool() const { return batch_ != nullptr; }
  core::Batch* operator->() const { return batch_; }

 private:
  core::Session& session_;
  const std::uint64_t number_;
  core::Batch* const batch_;
};

core::BatchEntry entry_of(const CUfileIOParams_t& params, std::uint64_t began) {
  const auto& batch = params.u.batch;
  core::BatchEntry entry{.request = {.op = params.opcode == CUFILE_WRITE ? core::Op::write : core::Op::read,
                                     .file = number_of(params.fh),
                                     .base = batch.devPtr_base,
                                     .size = batch.size,
                                     .file_offset = batch.file_offset,
                                     .buffer_offset = batch.devPtr_offset},
                         .cookie = params.cookie,
                         .began = began};
  if (params.opcode != CUFILE_READ && params.opcode != CUFILE_WRITE) {
    entry.refused = core::failure(core::Code::invalid_argument, "carry out an entry of the batch");
  }
  return entry;
}

bool is_mixed(std::span<const core::BatchEntry> entries) {
  const auto writes = [](const core::BatchEntry& entry) { return entry.request.op == core::Op::write; };
  return std::any_of(entries.begin(), entries.end(), writes) && !std::all_of(entries.begin(), entries.end(), writes);
}

CUfileStatus_t state_of(const core::BatchEvent& event) {
  if (event.canceled) return CUFILE_CANCELED;
  return event.outcome.status.ok() ? CUFILE_COMPLETE : CUFILE_FAILED;
}

// Bytes; or the negative of an errno or a CUfileOpError, in the unsigned field.
size_t result_of(const core::BatchEvent& event) {
  if (event.canceled) return 0;
  if (event.outcome.status.ok()) return event.outcome.report.bytes;
  return static_cast<size_t>(-static_cast<ssize_t>(core::cufile_errno(event.outcome.status)));
}

core::Batch::Deadline deadline_of(const timespec* timeout) {
  if (timeout == nullptr) return std::nullopt;
  constexpr time_t kSecondsMax = 1'000'000'000;  // Thirty years: a time that can be added to now.
  const auto seconds = std::chrono::seconds(std::clamp<time_t>(timeout->tv_sec, 0, kSecondsMax));
  const auto nanoseconds = std::chrono::nanoseconds(std::clamp(timeout->tv_nsec, 0L, 999'999'999L));
  return std::chrono::steady_clock::now() + seconds + nanoseconds;
}

}  // namespace

extern "C" {

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr) {
  if (batch_idp == nullptr || nr == 0) return refuse(CU_FILE_INVALID_VALUE);
  core::Status opened;
  const CufileDriver::Use use(driver(), opened);
  if (!use) return core::cufile_error(opened);
  if (nr > driver().number("properties.io_batchsize")) return refuse(CU_FILE_INVALID_VALUE);
  const core::Result<std::uint64_t> batch = use->open_batch(nr);
  core::count(use.session(), CufileOperation::batch_setup, batch.ok());
  if (!batch.ok()) return core::cufile_error(batch.status());
  *batch_idp = reinterpret_cast<CUfileBatchHandle_t>(static_cast<std::uintptr_t>(*batch));
  return ok();
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t* iocbp, unsigned) {
  const CufileDriver::Use use(driver());
  if (!use) return refuse(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  const PinnedBatch batch(use.session(), batch_idp);
  const std::uint64_t began = core::stats_clock(use.session());
  std::array<core::BatchEntry, kEntriesMax> entries;
  bool sane = batch && nr > 0 && nr <= batch->capacity() && iocbp != nullptr;
  for (unsigned i = 0; sane && i < nr; ++i) {
    const std::uint64_t file = number_of(iocbp[i].fh);
    const bool userspace = use.userspace_files().contains(file);
    const auto& batch_of_one = iocbp[i].u.batch;
    sane = iocbp[i].mode == CUFILE_BATCH && (userspace || use->is_file(file)) && batch_of_one.file_offset >= 0 &&
           batch_of_one.devPtr_offset >= 0;
    entries[i] = entry_of(iocbp[i], began);
    if (userspace) entries[i].refused = core::failure(core::Code::unsupported, "carry out an entry of the batch");
  }
  const auto all = std::span(entries).first(sane ? nr : 0);
  const bool submitted = sane && batch->submit(all).ok();
  core::count_batch_submit(use.session(), nr, is_mixed(all), submitted, began);
  return submitted ? ok() : refuse(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout) {
  if (nr == nullptr || iocbp == nullptr || *nr == 0 || min_nr > *nr) return refuse(CU_FILE_INVALID_VALUE);
  const CufileDriver::Use use(driver());
  if (!use) return refuse(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
  const PinnedBatch batch(use.session(), batch_idp);
  if (!batch) return refuse(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
  std::array<core::BatchEvent, kReapMax> events;
  const auto room = std::span(events).first(std::min(*nr, kReapMax));
  const unsigned count = batch->reap(room, min_nr, deadline_of(timeout));
  for (unsigned i = 0; i < count; ++i) {
    const core::BatchEvent& event = events[i];
    iocbp[i] = {.cookie = event.entry.cookie, .status = state_of(event), .ret = result_of(event)};
    if (!event.canceled) {
      core::count_batch_entry(use.session(), event.entry.request, event.outcome, event.entry.began);
    }
    if (event.ended) {
      const auto& [unfinished, bytes, all_ok] = *event.ended;
      core::count_batch_complete(use.session(), bytes[0], bytes[1], all_ok, event.entry.began);
    }
  }
  *nr = count;
  return ok();
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp) {
  const CufileDriver::Use use(driver());
  if (!use) return ok();
  const PinnedBatch batch(use.session(), batch_idp);
  if (batch) batch->cancel();
  core::count(use.session(), CufileOperation::batch_cancel, static_cast<bool>(batch));
  return ok();
}

void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp) {
  const CufileDriver::Use use(driver());
  if (use) core::count(use.session(), CufileOperation::batch_destroy, use->close_batch(number_of(batch_idp)));
}

}  // extern "C"
