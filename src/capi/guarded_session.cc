// SPDX-License-Identifier: Apache-2.0

#include "capi/guarded_session.h"

#include <utility>

#include "base/invariant.h"
#include "device/providers.h"
#include "storage/posix_storage.h"

namespace penstock::core {

Result<std::shared_ptr<GuardedSession>> GuardedSession::open(const PendingValues& pending) {
  const LoadedSettings loaded = load_session_settings(process_environment, pending, process_variables());
  if (loaded.must_refuse) return refusal_of(loaded);
  return open(make_config(loaded.settings), loaded.settings);
}

Result<std::shared_ptr<GuardedSession>> GuardedSession::open(const Config& config, const Settings& settings) {
  const Result<Placement> placement = placement_on("", config.placement, allowed_cpus());
  if (!placement.ok()) return placement.status();
  Result<OpenedDevices> devices = open_devices(config.devices, config.nvidia_export);
  if (!devices.ok()) return devices.status();
  std::shared_ptr<GuardedSession> opened(new GuardedSession);
  opened->settings_ = settings;
  opened->device_kinds_ = std::move(devices->kinds);
  opened->device_reason_ = std::move(devices->why_no_gpu);
  ProcessReport* const report = ProcessReport::to(settings.text("penstock.report"));
  Config completed = config;
  completed.placement = *placement;
  if (report != nullptr) completed.usage = &report->usage();
  opened->session_ = std::make_unique<Session>(completed, std::make_unique<PosixStorage>(config.io_uring),
                                               std::move(devices->devices));
  opened->frontends_ = std::make_unique<Frontends>(*opened->session_);
  opened->checksums_ = std::make_unique<Checksums>(opened->session_->devices(), *placement);
  if (report != nullptr) report->session_opened(opened->session_->counters(), placement_text(*placement));
  opened->report_ = report;  // From here on the report must learn of the session's end.
  opened->gate_.open();
  return opened;
}

GuardedSession::~GuardedSession() {
  if (!is_inherited() && !closed_) close();
  // The threads, rings and contexts of these objects are the parent's.
  (void)checksums_.release();
  (void)frontends_.release();
  (void)session_.release();
  for (auto& [device, queue] : copies_) (void)queue.release();
}

void GuardedSession::close() {
  PENSTOCK_INVARIANT(!is_inherited() && !closed_);
  gate_.close();
  {
    const MutexLock lock(copies_mutex_);
    copies_.clear();
  }
  checksums_.reset();
  frontends_.reset();
  if (report_ != nullptr) {
    session_->stop();
    report_->session_closed(session_->counters());
  }
  session_.reset();
  closed_ = true;
  closed_.notify_all();
}

void GuardedSession::wait_closed() const {
  if (!is_inherited()) closed_.wait(false);
}

template <typename Copy>
Status GuardedSession::copy(const void* device_memory, const HostRange& host, Copy copy) {
  constexpr const char* kStep = "copy device memory";
  const PointerFacts facts = session_->devices().describe(device_memory);
  if (!facts.needs_device()) return failure(Code::bad_pointer, kStep);
  if (facts.device == nullptr) return failure(Code::no_device, kStep);
  const std::uint64_t skipped = reinterpret_cast<std::uintptr_t>(device_memory) - facts.base;
  if (facts.size != 0 && host.size > facts.size - skipped) return failure(Code::past_allocation, kStep);
  const PointerFacts other = session_->devices().describe(host.begin);
  const std::uint64_t before = reinterpret_cast<std::uintptr_t>(host.begin) - other.base;
  // A piece that begins in device memory may reach beyond its allocation.
  const bool is_known = other.kind != MemoryKind::host && (other.size == 0 || host.size <= other.size - before);
  if (!is_known && !is_reachable(host.begin, host.size, host.access)) return failure(Code::bad_pointer, kStep);
  const MutexLock lock(copies_mutex_);
  std::unique_ptr<CopyQueue>& queue = copies_[facts.device];
  if (queue == nullptr) {
    Result<std::unique_ptr<CopyQueue>> opened = facts.device->open_copy_queue(1);
    if (!opened.ok()) return opened.status();
    queue = std::move(*opened);
  }
  return wait_for_copies(*queue, copy(*queue));
}

Status GuardedSession::upload(void* device_memory, const void* host, std::uint64_t size) {
  const auto to_device = [&](CopyQueue& queue) { return queue.copy_to_device(device_memory, host, size); };
  return copy(device_memory, {host, size, Access::read}, to_device);
}

Status GuardedSession::download(void* host, const void* device_memory, std::uint64_t size) {
  const auto to_host = [&](CopyQueue& queue) { return queue.copy_to_host(host, device_memory, size); };
  return copy(device_memory, {host, size, Access::write}, to_host);
}

}  // namespace penstock::core
