#include "abi/cufile_driver.h"

namespace penstock::core {
namespace {

// As cuFile 1.15.1 reports itself where it has no nvidia-fs, but for the features: those are the ones served here.
constexpr CUfileDrvProps_t kProperties = {
    .nvfs = {.major_version = 0,
             .minor_version = 0,
             .poll_thresh_size = 4,
             .max_direct_io_size = 16384,
             .dstatusflags = 0,
             .dcontrolflags = 1u << CU_FILE_ALLOW_COMPAT_MODE},
    .fflags = 1u << CU_FILE_PARALLEL_IO_SUPPORTED,
    .max_device_cache_size = 131072,
    .per_buffer_cache_size = 0,
    .max_device_pinned_mem_size = 33554432,
    .max_batch_io_size = 128,
    .max_batch_io_timeout_msecs = 5,
};

}  // namespace

CufileDriver& CufileDriver::instance() {
  static CufileDriver* const driver = new CufileDriver;  // Never deleted.
  return *driver;
}

Status CufileDriver::open_session_locked() {
  Result<std::unique_ptr<penstock_session>> opened = open_session({});
  if (!opened.ok()) return opened.status();
  session_ = std::move(*opened);
  {
    const std::lock_guard lock(properties_mutex_);
    properties_ = kProperties;
  }
  gate_.open();
  return success();
}

// A forked child finds its parent's session here, whose threads, rings and contexts it does not have: it is left
// alone, for ever, and the child starts as if nothing had been opened.
bool CufileDriver::drop_inherited_locked() {
  if (session_ == nullptr || !session_->session->is_inherited()) return false;
  gate_.forget();
  static_cast<void>(session_.release());
  use_count_ = 0;
  return true;
}

Status CufileDriver::open() {
  const std::lock_guard lock(mutex_);
  drop_inherited_locked();
  if (use_count_ == 0) {
    if (const Status status = open_session_locked(); !status.ok()) return status;
  }
  ++use_count_;
  return success();
}

Status CufileDriver::open_implicitly() {
  const std::lock_guard lock(mutex_);
  drop_inherited_locked();
  if (use_count_ > 0) return success();
  const Status status = open_session_locked();
  if (status.ok()) use_count_ = 1;
  return status;
}

bool CufileDriver::enter_or_open(Status& status) {
  if (gate_.enter()) {
    if (!session_->session->is_inherited()) return true;
    gate_.leave();
  }
  status = open_implicitly();
  if (!status.ok()) return false;
  const bool inside = gate_.enter();
  if (!inside) status = failure(Code::closed, "use the driver");  // Somebody closed it just now.
  return inside;
}

bool CufileDriver::close() {
  const std::lock_guard lock(mutex_);
  if (drop_inherited_locked()) return true;
  if (use_count_ == 0) return false;
  if (--use_count_ > 0) return true;
  gate_.close();
  session_.reset();
  return true;
}

long CufileDriver::use_count() {
  const std::lock_guard lock(mutex_);
  return use_count_;
}

CUfileDrvProps_t CufileDriver::properties() {
  const std::lock_guard lock(properties_mutex_);
  return properties_;
}

}  // namespace penstock::core
