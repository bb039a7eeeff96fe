// SPDX-License-Identifier: Apache-2.0

// cuFile's batches: checks in the order that NVIDIA's library makes them, and translation. Entries are copied, so the
// caller may free its array when the submission returns.
#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "cufile.h"
#include "cufile/entry_points.h"
#include "cufile/stats.h"
#include "frontend/threaded_queue.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;
using core::CufileOperation;
using core::entry_points::driver;
using core::entry_points::ok;
using core::entry_points::refuse;

std::uint64_t number_of(void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

// Keeps a batch alive during a call.
class PinnedBatch {
 public:
  PinnedBatch(core::Frontends& frontends, CUfileBatchHandle_t handle)
      : frontends_(frontends), number_(number_of(handle)), batch_(frontends.pin_batch(number_)) {}
  ~PinnedBatch() {
    if (batch_ != nullptr) frontends_.unpin_batch(number_);
  }
  PinnedBatch(const PinnedBatch&) = delete;
  PinnedBatch& operator=(const PinnedBatch&) = delete;
  explicit operator bool() const { return batch_ != nullptr; }
  core::ThreadedQueue* operator->() const { return batch_; }
  core::ThreadedQueue* get() const { return batch_; }

 private:
  core::Frontends& frontends_;
  const std::uint64_t number_;
  core::ThreadedQueue* const batch_;
};

// A caller's array of requests.
struct Submission {
  const CUfileIOParams_t* params = nullptr;
  unsigned count = 0;
  std::uint64_t began = 0;

  bool is_mixed() const {
    const auto writes = [](const CUfileIOParams_t& one) { return one.opcode == CUFILE_WRITE; };
    return std::any_of(params, params + count, writes) && !std::all_of(params, params + count, writes);
  }
};

// 1.20's answer to a submission with an entry like this, if it is one for which the whole submission is refused. 1.15
// answers all of them with CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR. Neighbouring entries mostly name the same file, so it
// is looked up once.
CUfileOpError fault_of(core::Session& session, std::span<const CUfileIOParams_t> entries) {
  const CUfileIOParams_t* before = nullptr;
  for (const CUfileIOParams_t& one : entries) {
    if (one.mode != CUFILE_BATCH) return CU_FILE_BATCH_SUBMIT_FAILED;
    if (one.u.batch.file_offset < 0 || one.u.batch.devPtr_offset < 0) return CU_FILE_INVALID_VALUE;
    const bool is_known = before != nullptr && before->fh == one.fh;
    if (!is_known && !session.is_file(number_of(one.fh))) return CU_FILE_HANDLE_NOT_REGISTERED;
    before = &one;
  }
  return CU_FILE_SUCCESS;
}

core::Status make_entry(const void* submission, unsigned index, core::QueuedRequest& entry) {
  const auto& [all, count, began] = *static_cast<const Submission*>(submission);
  const CUfileIOParams_t& params = all[index];
  const auto& batch = params.u.batch;
  entry.request = {.op = params.opcode == CUFILE_WRITE ? core::Op::write : core::Op::read,
                   .file = number_of(params.fh),
                   .base = batch.devPtr_base,
                   .size = batch.size,
                   .file_offset = batch.file_offset,
                   .buffer_offset = batch.devPtr_offset};
  entry.cookie = number_of(params.cookie);
  entry.began = began;
  const bool known = params.opcode == CUFILE_READ || params.opcode == CUFILE_WRITE;
  if (!known) entry.refused = core::failure(core::Code::invalid_argument, "carry out an entry of the batch");
  return core::success();
}

// 1.20's answer to a submission, or success if its entries were submitted.
CUfileOpError submit(core::Session& session, core::ThreadedQueue* batch, const Submission& all) {
  if (batch == nullptr) return CU_FILE_INVALID_CONTEXT_ERROR;
  if (all.count == 0 || all.count > batch->capacity() || all.params == nullptr) {
    return CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
  }
  if (const CUfileOpError fault = fault_of(session, {all.params, all.count}); fault != CU_FILE_SUCCESS) return fault;
  return batch->submit_all(all.count, make_entry, &all).ok() ? CU_FILE_SUCCESS : CU_FILE_BATCH_FULL;
}

CUfileError_t no_batch(CUfileOpError of_1_15) {
  return refuse(core::by_version(of_1_15, CU_FILE_INVALID_CONTEXT_ERROR));
}

CUfileStatus_t state_of(const core::QueueEvent& event) {
  return event.outcome.status.ok() ? CUFILE_COMPLETE : CUFILE_FAILED;
}

// The number of bytes, or a negative errno or CUfileOpError cast to the unsigned field.
size_t result_of(const core::QueueEvent& event) {
  if (event.outcome.status.ok()) return event.outcome.report.bytes;
  return static_cast<size_t>(-static_cast<ssize_t>(core::cufile_errno(event.outcome.status)));
}

void count(core::Session& session, const core::QueueEvent& event) {
  core::count_batch_entry(session, event.entry.request, event.outcome, event.entry.began);
  if (!event.ended) return;
  const auto& [unfinished, bytes, all_ok] = *event.ended;
  core::count_batch_complete(session, bytes[0], bytes[1], all_ok, event.entry.began);
}

// Fills the caller's array of events.
struct Events {
  core::Session& session;
  CUfileIOEvents_t* next;

  static void take(void* events, const core::QueueEvent& event) {
    auto& [session, next] = *static_cast<Events*>(events);
    *next++ = {.cookie = reinterpret_cast<void*>(static_cast<std::uintptr_t>(event.entry.cookie)),
               .status = state_of(event),
               .ret = result_of(event)};
    count(session, event);
  }
};

core::ThreadedQueue::Deadline deadline_of(const timespec* timeout) {
  if (timeout == nullptr) return std::nullopt;
  constexpr time_t kSecondsMax = 1'000'000'000;  // Thirty years: a time that can be added to now.
  const auto seconds = std::chrono::seconds(std::clamp<time_t>(timeout->tv_sec, 0, kSecondsMax));
  const auto nanoseconds = std::chrono::nanoseconds(std::clamp(timeout->tv_nsec, 0L, 999'999'999L));
  return std::chrono::steady_clock::now() + seconds + nanoseconds;
}

}  // namespace

extern "C" {

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr) {
  return core::cufile_call([&] {
    if (batch_idp == nullptr || nr == 0) return refuse(CU_FILE_INVALID_VALUE);
    const core::Result<CufileDriver::Use> use = driver().open_and_use();
    if (!use.ok()) return core::cufile_error(use.status());
    if (nr > driver().number("properties.io_batchsize")) return refuse(CU_FILE_INVALID_VALUE);
    const core::Result<std::uint64_t> batch = use->frontends().open_batch(nr);
    core::count(use->session(), CufileOperation::batch_setup, batch.ok());
    if (!batch.ok()) return core::cufile_error(batch.status());
    *batch_idp = reinterpret_cast<CUfileBatchHandle_t>(static_cast<std::uintptr_t>(*batch));
    return ok();
  });
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t* iocbp, unsigned) {
  return core::cufile_call([&] {
    const CufileDriver::Use use(driver());
    if (!use) return no_batch(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
    const PinnedBatch batch(use.frontends(), batch_idp);
    const Submission all{iocbp, nr, core::stats_clock(use.session())};
    const CUfileOpError error = submit(use.session(), batch.get(), all);
    const bool submitted = error == CU_FILE_SUCCESS;
    core::count_batch_submit(use.session(), nr, submitted && all.is_mixed(), submitted, all.began);
    return submitted ? ok() : refuse(core::by_version(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, error));
  });
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout) {
  return core::cufile_call([&] {
    if (nr == nullptr || iocbp == nullptr || *nr == 0 || min_nr > *nr) return refuse(CU_FILE_INVALID_VALUE);
    const CufileDriver::Use use(driver());
    if (!use) return no_batch(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
    const PinnedBatch batch(use.frontends(), batch_idp);
    if (!batch) return no_batch(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
    Events events{use.session(), iocbp};
    *nr = batch->reap(*nr, min_nr, deadline_of(timeout), &Events::take, &events);
    return ok();
  });
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp) {
  return core::cufile_call([&] {
    const CufileDriver::Use use(driver());
    if (!use) return no_batch(CU_FILE_SUCCESS);
    const PinnedBatch batch(use.frontends(), batch_idp);
    if (batch) batch->cancel();
    core::count(use.session(), CufileOperation::batch_cancel, static_cast<bool>(batch));
    return batch ? ok() : no_batch(CU_FILE_SUCCESS);
  });
}

void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp) {
  return core::boundary(
      [&] {
        const CufileDriver::Use use(driver());
        if (use)
          core::count(use.session(), CufileOperation::batch_destroy, use.frontends().close_batch(number_of(batch_idp)));
      },
      [] {});
}

}  // extern "C"
