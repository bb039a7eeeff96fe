// SPDX-License-Identifier: Apache-2.0

#include "session/session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/align.h"
#include "base/invariant.h"
#include "base/shortage.h"
#include "path/paths.h"
#include "session/batch.h"
#include "session/queue.h"
#include "session/streams.h"
#include "session/tally.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::int64_t>::max();
// A read this large from a buffered descriptor asks whether the data is in the page cache, and goes around it when
// it is not. Below, the page cache's own read-ahead does better.
constexpr std::uint64_t kProbeBytesMin = 1u << 20;
constexpr useconds_t kDrainPauseUs = 100;  // Between looks at a file that is still being moved.
constexpr std::uint64_t kPage = 4096;

const char* step_of(Op op) { return op == Op::read ? "read the file into the buffer" : "write the buffer to the file"; }

}  // namespace

Session::Pools::Pools(Path& moving, Device* target, const ChannelShapes& shapes, BounceBudget& budget)
    : path(&moving), device(target), small(moving, target, shapes.small, budget),
      large(moving, target, shapes.large, budget) {}

Session::Session(const Config& config, std::unique_ptr<Storage> storage, std::unique_ptr<DeviceSet> devices)
    : config_(config), shapes_(shape_channels(config.bounce_bytes, config.chunk_bytes, config.workers)),
      storage_(std::move(storage)), devices_(std::move(devices)),
      tuner_(std::min(config.workers + 1, config.threads_max), cpu_weight(config.policy)), workers_(config.workers),
      stream_executor_(std::make_unique<Executor>(*this, config.workers)),
      batch_executor_(std::make_unique<Executor>(*this, config.workers)),
      streams_(std::make_unique<Streams>(*this, *stream_executor_)) {
  limit_operations(config.operation_max);
  const PathSettings settings = path_settings(config_);
  const PathWorld world{*storage_, *devices_, settings};
  staging_path_ = make_staging_path(world);
  for (unsigned i = 0; i < config.paths.count; ++i) paths_.push_back(make_path(config.paths.paths[i], world));
  for (unsigned i = 0; i < kDevicesMax; ++i) budgets_.push_back(std::make_unique<BounceBudget>(config.bounce_bytes));
}

Session::~Session() {
  for (const std::uint64_t batch : batches_.handles()) (void)close_batch(batch);
  batch_executor_.reset();
  streams_->close();
  stream_executor_.reset();
  streams_.reset();
  while (true) {
    Queue* queue = nullptr;
    {
      const std::lock_guard lock(queues_mutex_);
      if (queues_.empty()) break;
      queue = queues_.back();
    }
    delete queue;  // Waits for its requests, and removes itself from the list.
  }
  for (const std::uint64_t file : files_.handles()) (void)deregister_file(file);
  for (auto& pools : pools_) delete pools.load();
}

// ---- Registration --------------------------------------------------------------------------------------------------

Result<std::uint64_t> Session::register_file(int fd) {
  Result<std::unique_ptr<File>> file = File::open(*storage_, fd);
  if (!file.ok()) return file.status();
  if (is_inherited()) return failure(Code::closed, "register the file");
  if (denies(config_.denylist, (*file)->facts(), fd)) {
    if (!config_.paths.contains_posix()) return failure(Code::denied, "register the file");
    (*file)->deny_direct_paths();
  }
  const FileFacts facts = (*file)->facts();
  const int own = (*file)->own_descriptor();
  const std::lock_guard lock(registration_mutex_);
  // A number that the user closed and the kernel gave out again is not the same descriptor.
  const auto same = [&](const UserFd& known) {
    return known.fd == fd && known.device == facts.file_system_device && known.inode == facts.inode &&
           storage_->is_same_open_file(known.own, own);
  };
  if (std::any_of(fds_.begin(), fds_.end(), same)) return failure(Code::already_registered, "register the file");
  // First, since there may be no memory for it.
  if (fds_.size() == fds_.capacity()) fds_.reserve(std::max<std::size_t>(2 * fds_.size(), 16));
  const Result<std::uint64_t> handle = files_.insert(std::move(*file));
  if (handle.ok()) fds_.push_back({fd, *handle, own, facts.file_system_device, facts.inode});
  return handle;
}

Status Session::deregister_file(std::uint64_t handle) {
  if (is_inherited()) return failure(Code::closed, "deregister the file");
  File* file = files_.retire(handle);
  if (file == nullptr) return failure(Code::not_registered, "deregister the file");
  {
    const std::lock_guard lock(registration_mutex_);
    std::erase_if(fds_, [&](const UserFd& known) { return known.handle == handle; });
  }
  // First the transfers end and the queues' rings let go, then the descriptors close. A request that was just being
  // submitted to a queue may need a second look.
  const auto drain = [&] {
    const std::lock_guard lock(queues_mutex_);
    for (Queue* queue : queues_) queue->drain_file(*file);
  };
  for (drain(); files_.is_pinned(handle); drain()) ::usleep(kDrainPauseUs);
  for (const auto& path : paths_) path->forget_file(*file);
  release_blocks_behind_end(*file);
  (void)files_.finish(handle);
  return success();
}

bool Session::is_file(std::uint64_t handle) {
  const bool known = files_.pin(handle) != nullptr;
  if (known) files_.unpin(handle);
  return known;
}

Status Session::register_buffer(const void* base, std::uint64_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  if (base == nullptr || size == 0) return failure(Code::invalid_argument, "register the buffer");
  if (size > UINT64_MAX - address) return failure(Code::past_allocation, "register the buffer");
  const PointerFacts memory = devices_->describe(base);
  // Of host memory only the kernel knows what is there: it says so when a request gets there.
  if (memory.needs_device() && memory.size != 0 && address + size > memory.base + memory.size) {
    return failure(Code::past_allocation, "register the buffer");
  }
  const Status status = buffers_.insert({address, size, memory});
  if (status.ok() && memory.device != nullptr) memory.device->finish_blocking_copies(base);
  return status;
}

Status Session::deregister_buffer(const void* base) {
  if (base == nullptr) return failure(Code::invalid_argument, "deregister the buffer");
  return buffers_.remove(reinterpret_cast<std::uintptr_t>(base));
}

Result<FileFacts> Session::file_facts(std::uint64_t handle) {
  const File* file = files_.pin(handle);
  if (file == nullptr) return failure(Code::not_registered, "look at the file");
  const FileFacts facts = file->facts();
  files_.unpin(handle);
  return facts;
}

// ---- Verdicts ------------------------------------------------------------------------------------------------------

// Whether a caller's pinned memory can stand in for the path's own, or the path moves nothing anyway.
bool can_stage(PathId path) { return traits_of(path).posix || traits_of(path).host_memory || traits_of(path).pretends; }

Status Session::choose(Checked& checked, bool staged) {
  Report& report = checked.report;
  for (const auto& path : paths_) {
    Verdict verdict = path->judge(*checked.input.file, checked.memory, checked.input.op);
    if (verdict.usable && staged && !can_stage(verdict.path)) verdict = refused(verdict.path, Reason::on_stream);
    if (verdict.usable) {
      if (config_.require && *config_.require != verdict.path) continue;
      checked.path = path.get();
      if (traits_of(verdict.path).direct) checked.input.prefer_cached = false;
      report.path = verdict.path;
      report.path_reason = verdict.reason;
      return success();
    }
    if (report.refused < 0) {
      report.refused = static_cast<int>(verdict.path);
      report.reason = verdict.reason;
    }
  }
  return failure(Code::path_refused, step_of(checked.input.op));
}

void Session::count(const Report& report, Op op) {
  // What is forced although it is not direct is told from what is.
  const bool is_forced = traits_of(report.path).direct && report.path_reason != Reason::none;
  counters_.add(report.path, is_forced ? report.path_reason : report.reason, op, report.bytes - report.bounced_bytes);
  if (report.bounced_bytes > 0) counters_.add(PathId::bounce, report.bounced_reason, op, report.bounced_bytes);
}

// ---- Requests ------------------------------------------------------------------------------------------------------

// A registered base bounds the request by its registration; any other address by its allocation, where that is known.
Result<PointerFacts> Session::memory_of(const RawRequest& request) {
  const auto base = reinterpret_cast<std::uintptr_t>(request.base);
  const auto offset = static_cast<std::uint64_t>(request.buffer_offset);
  const char* const step = step_of(request.op);
  if (offset > UINT64_MAX - base || request.size > UINT64_MAX - base - offset) {
    return failure(Code::past_allocation, step);
  }
  PointerFacts memory;
  if (const std::optional<Buffer> buffer = buffers_.find(base)) {
    if (offset > buffer->size || request.size > buffer->size - offset) return failure(Code::out_of_range, step);
    memory = buffer->memory;
  } else {
    // The allocation is that of the base, not of whatever lies at base + offset.
    memory = request.memory != nullptr ? *request.memory : devices_->describe(request.base);
    const std::uint64_t end = memory.base + memory.size;
    if (memory.size != 0 && base + offset + request.size > end) return failure(Code::past_allocation, step);
  }
  if (memory.needs_device() && memory.device == nullptr) return failure(Code::no_device, step);
  return memory;
}

Status Session::check_request(const RawRequest& request, File* file, Checked& checked) const {
  const char* const step = step_of(request.op);
  if (is_inherited()) return failure(Code::closed, step);
  if (file == nullptr) return failure(Code::not_registered, step);
  if (request.base == nullptr) return failure(Code::invalid_argument, step);
  if (request.file_offset < 0 || request.buffer_offset < 0) return failure(Code::negative_offset, step);
  if (request.size > kOffsetMax - static_cast<std::uint64_t>(request.file_offset)) {
    return failure(Code::invalid_argument, step);
  }
  if (request.op == Op::read && !file->facts().readable()) return failure(Code::not_readable, step);
  if (request.op == Op::write && !file->facts().writable()) return failure(Code::not_writable, step);
  // As a number: whether there is memory is seen later.
  const std::uintptr_t address =
      reinterpret_cast<std::uintptr_t>(request.base) + static_cast<std::uintptr_t>(request.buffer_offset);
  checked.input = {.op = request.op,
                   .file = file,
                   .storage = storage_.get(),
                   .memory = reinterpret_cast<std::byte*>(address),
                   .file_offset = static_cast<std::uint64_t>(request.file_offset),
                   .size = request.size};
  checked.input.prefer_cached =
      config_.direct_io == DirectIo::automatic && request.op == Op::read && !file->prefers_direct();
  return success();
}

Status Session::check(const RawRequest& request, File* file, Checked& checked) {
  if (const Status status = check_request(request, file, checked); !status.ok()) return status;
  const Result<PointerFacts> memory = memory_of(request);
  if (!memory.ok()) return memory.status();
  checked.memory = *memory;
  if (const Status status = choose(checked, request.staging != nullptr); !status.ok()) return status;
  if (request.staging != nullptr) {
    // It may have gone since the stream was told of it.
    if (!checked.memory.needs_device()) return failure(Code::bad_pointer, step_of(request.op));
    stage(request, checked);
  }
  return success();
}

void Session::prepare(Checked& checked, SubmitMode mode) {
  TransferInput& input = checked.input;
  checked.prepared = checked.path->prepare({.op = input.op,
                                            .file = *input.file,
                                            .memory = checked.memory,
                                            .offset = input.file_offset,
                                            .size = input.size,
                                            .mode = mode,
                                            .way = wanted_way(checked),
                                            .chunk_max = chunk_for(checked)});
  input.token = checked.prepared.token;
  if (mode != SubmitMode::dry_run) end_with_file(checked);
}

// A direct read of the file's last block fills the whole block: in memory that is not ours that would be bytes behind
// those that the read returns. So the last piece is read through the page cache, up to the file's end.
void Session::end_with_file(Checked& checked) {
  TransferInput& input = checked.input;
  const Limits& limits = checked.prepared.limits;
  if (input.op == Op::write || limits.staged || limits.file_align == 1) return;
  const Result<int> fd = input.file->descriptor(Way::direct);
  const Result<std::uint64_t> end = fd.ok() ? storage_->size(*fd) : fd.status();
  if (end.ok()) input.size = std::min(input.size, *end > input.file_offset ? *end - input.file_offset : 0);
}

// The path and the reason stay those of the whole way.
void Session::stage(const RawRequest& request, Checked& checked) {
  checked.memory = {};
  checked.input.memory = request.staging;
  if (!traits_of(checked.report.path).pretends) checked.path = staging_path_.get();
}

Way Session::wanted_way(const Checked& checked) const {
  const TransferInput& input = checked.input;
  if (config_.cached_unaligned_writes && input.op == Op::write && !is_aligned(input.file_offset | input.size, kPage)) {
    return Way::buffered;
  }
  switch (config_.direct_io) {
    case DirectIo::always: return Way::direct;
    case DirectIo::never: return Way::buffered;
    case DirectIo::automatic: break;
  }
  if (input.file->prefers_direct()) return Way::direct;
  return input.op == Op::read && input.size >= kProbeBytesMin ? Way::direct : Way::buffered;
}

Plan Session::plan_for(const Checked& checked, std::uint64_t chunk_max) const {
  const TransferInput& input = checked.input;
  const Request request{.op = input.op,
                        .file_offset = input.file_offset,
                        .buffer_address = reinterpret_cast<std::uintptr_t>(input.memory),
                        .size = input.size};
  Limits limits = checked.prepared.limits;
  limits.chunk_max = std::min(limits.chunk_max, chunk_max);
  if (!is_aligned(limits.chunk_max, limits.file_align)) limits.file_align = 1;
  return {request, limits};
}

Outcome Session::transfer(const RawRequest& request) {
  File* file = files_.pin(request.file);
  Checked checked;
  Outcome outcome;
  const auto move_checked = [&] {
    // Where nothing is to be moved, it does not matter where to.
    outcome.status = request.size > 0 ? check(request, file, checked) : check_request(request, file, checked);
    if (outcome.status.ok() && request.size > 0 && !file->has_its_descriptors()) outcome.status = descriptor_lost();
    if (!outcome.status.ok() || request.size == 0) {
      outcome.report = checked.report;
      return;
    }
    outcome = move(checked);
    count(outcome.report, request.op);
    if (request.op == Op::write && outcome.report.bytes < request.size && files_.hold(request.file)) {
      release_blocks_behind_end(*file);
      files_.let_go(request.file);
    }
  };
  // The file is let go in any case.
  unless_short_of_memory(move_checked, [&] { outcome.status = failure(Code::out_of_memory, step_of(request.op)); });
  if (file != nullptr) files_.unpin(request.file);
  return outcome;
}

// Of a file that nothing is done with just now. Other registrations of the same open file are not told of it.
void Session::release_blocks_behind_end(File& file) {
  const FileFacts& facts = file.facts();
  const std::lock_guard lock(registration_mutex_);
  const auto is_other = [&](const UserFd& known) {
    return known.device == facts.file_system_device && known.inode == facts.inode && known.own != file.own_descriptor();
  };
  if (std::none_of(fds_.begin(), fds_.end(), is_other)) file.release_blocks_behind_end();
}

// ---- Batches -------------------------------------------------------------------------------------------------------

Result<std::uint64_t> Session::open_batch(unsigned capacity) {
  if (capacity == 0) return failure(Code::invalid_argument, "open the batch");
  if (is_inherited()) return failure(Code::closed, "open the batch");
  return batches_.insert(std::make_unique<Batch>(*batch_executor_, capacity));
}

Batch* Session::pin_batch(std::uint64_t batch) { return is_inherited() ? nullptr : batches_.pin(batch); }

void Session::unpin_batch(std::uint64_t batch) { batches_.unpin(batch); }

bool Session::close_batch(std::uint64_t handle) {
  if (is_inherited()) return false;
  Batch* batch = batches_.retire(handle);
  if (batch == nullptr) return false;
  batch->cancel();  // So that whoever waits for its entries comes to an end.
  (void)batches_.finish(handle);
  return true;
}

// ---- Channels ------------------------------------------------------------------------------------------------------

BounceBudget& Session::budget_of(const Device* device) {
  const int ordinal = device == nullptr ? 0 : device->facts().ordinal;
  return *budgets_[static_cast<unsigned>(ordinal) % kDevicesMax];
}

Result<Session::Pools*> Session::pools_for(Path& path, Device* device) {
  const auto find = [&]() -> Pools* {
    for (auto& place : pools_) {
      Pools* pools = place.load(std::memory_order_acquire);
      if (pools == nullptr || (pools->path == &path && pools->device == device)) return pools;
    }
    return nullptr;
  };
  if (Pools* pools = find()) return pools;
  const std::lock_guard lock(registration_mutex_);
  if (Pools* pools = find()) return pools;
  for (auto& place : pools_) {
    if (place.load() != nullptr) continue;
    place.store(new Pools(path, device, shapes_, budget_of(device)), std::memory_order_release);
    return place.load();
  }
  return failure(Code::limit, "use one more device context");
}

std::uint64_t Session::bounce_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& budget : budgets_) bytes += budget->used();
  return bytes;
}

void Session::add_queue(Queue* queue) {
  const std::lock_guard lock(queues_mutex_);
  queues_.push_back(queue);
}

void Session::remove_queue(Queue* queue) {
  const std::lock_guard lock(queues_mutex_);
  std::erase(queues_, queue);
}

}  // namespace penstock::core
