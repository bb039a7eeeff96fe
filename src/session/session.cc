#include "session/session.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/align.h"
#include "base/invariant.h"
#include "path/absent_path.h"
#include "path/bounce/bounce_path.h"
#include "path/host/host_path.h"
#include "path/null/null_path.h"
#include "path/p2pdma/p2pdma_path.h"
#include "path/vendor/vendor_path.h"
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
// Large requests are cut into at least two chunks for everybody who works on them, but into none smaller than this:
// every copy takes its turn in the CUDA driver (on an H200 machine 16 threads moved 36 GB/s in chunks of 512 KiB and
// 48 in chunks of 2 MiB).
constexpr std::uint64_t kShareMin = 2u << 20;
constexpr useconds_t kDrainPauseUs = 100;  // Between looks at a file that is still being moved.
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kChunkUnit = 64u << 10;  // Whole blocks of whatever direct I/O asks for.

P2pdmaRules p2pdma_rules(const Config& config) {
  return {.strict = config.require == PathId::p2pdma,
          .direct_io = config.direct_io != DirectIo::never,
          .scratch = config.scratch};
}

VendorRules vendor_rules(const Config& config) {
  return {.use = config.vendor,
          .strict = config.require == PathId::vendor,
          .direct_io = config.direct_io != DirectIo::never,
          .library = config.vendor_library,
          .scratch = config.scratch};
}

const char* step_of(Op op) { return op == Op::read ? "read the file into the buffer" : "write the buffer to the file"; }

std::unique_ptr<Path> make_path(PathId id, Storage& storage, DeviceSet& devices, const Config& config) {
  switch (id) {
    case PathId::p2pdma: return std::make_unique<P2pdmaPath>(storage, devices, machine_outlook(), p2pdma_rules(config));
    case PathId::vendor: return std::make_unique<VendorPath>(storage, vendor_rules(config));
    case PathId::bounce: return std::make_unique<BouncePath>(storage);
    case PathId::host: return std::make_unique<HostPath>(storage);
    case PathId::null: return std::make_unique<NullPath>();
    default: return std::make_unique<AbsentPath>(id);
  }
}

}  // namespace

Session::Pools::Pools(Path& moving, Device* target, const LaneShapes& shapes, RingBudget& budget)
    : path(&moving), device(target), small(moving, target, shapes.small, budget),
      large(moving, target, shapes.large, budget) {}

Session::Session(const Config& config, std::unique_ptr<Storage> storage, std::unique_ptr<DeviceSet> devices)
    : config_(config), shapes_(shape_lanes(config.ring_bytes, config.chunk_bytes, config.workers)),
      storage_(std::move(storage)), devices_(std::move(devices)), staging_path_(std::make_unique<HostPath>(*storage_)),
      workers_(config.workers), stream_executor_(std::make_unique<Executor>(*this, config.workers)),
      batch_executor_(std::make_unique<Executor>(*this, config.workers)),
      streams_(std::make_unique<Streams>(*this, *stream_executor_)) {
  limit_operations(config.operation_max);
  for (unsigned i = 0; i < config.paths.count; ++i) {
    paths_.push_back(make_path(config.paths.paths[i], *storage_, *devices_, config_));
  }
  for (unsigned i = 0; i < kDevicesMax; ++i) budgets_.push_back(std::make_unique<RingBudget>(config.ring_bytes));
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
    if (!config_.paths.contains(PathId::bounce)) return failure(Code::denied, "register the file");
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
  for (const auto& path : paths_) path->forget_file(file->id());
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

Result<unsigned> Session::explain(std::uint64_t handle, const PointerFacts& memory, Op op,
                                  Verdict (&verdicts)[kPathCount]) {
  File* const file = files_.pin(handle);
  if (file == nullptr) return failure(Code::not_registered, "explain the file");
  unsigned count = 0;
  for (const auto& path : paths_) verdicts[count++] = path->judge(*file, memory, op);
  files_.unpin(handle);
  for (unsigned i = 0; i < kPathCount; ++i) {
    const auto id = static_cast<PathId>(i);
    // The null path moves nothing: it is no choice that anybody misses.
    if (!config_.paths.contains(id) && id != PathId::null) verdicts[count++] = refused(id, Reason::not_listed);
  }
  return count;
}

Result<std::string> Session::plan_text(const RawRequest& request, const PointerFacts& memory, unsigned lines_max) {
  File* file = files_.pin(request.file);
  Checked checked;
  Status status = check_request(request, file, checked);
  checked.memory = memory;
  if (status.ok()) status = choose(checked);
  std::string text;
  if (status.ok()) {
    const Plan plan = plan_for(checked, chunk_for(checked));
    const std::uint64_t lines = std::min<std::uint64_t>(plan.chunk_count(), lines_max);
    char line[200];
    for (std::uint64_t i = 0; i < lines; ++i) {
      text.append(line, format_chunk(plan.chunk(i), request.op, line)).push_back('\n');
    }
    if (lines < plan.chunk_count()) text += "... and " + std::to_string(plan.chunk_count() - lines) + " more\n";
  }
  if (file != nullptr) files_.unpin(request.file);
  if (!status.ok()) return status;
  return text;
}

Status Session::choose(Checked& checked, bool staged) {
  Report& report = checked.report;
  for (const auto& path : paths_) {
    Verdict verdict = path->judge(*checked.input.file, checked.memory, checked.input.op);
    if (verdict.usable && staged && path->is_direct()) verdict = refused(verdict.path, Reason::on_stream);
    if (verdict.usable) {
      if (config_.require && *config_.require != verdict.path) continue;
      checked.path = path.get();
      if (path->is_direct()) {
        checked.input.prefer_cached = false;
        checked.input.mapped_shift = static_cast<std::int64_t>(checked.memory.mapped - checked.memory.base);
      }
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
  const bool is_forced = report.path_reason == Reason::vendor_not_direct;
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
  end_with_file(checked);
  return success();
}

// A direct read of the file's last block fills the whole block: in memory that is not ours that would be bytes behind
// those that the read returns. So the last piece is read through the page cache, up to the file's end.
void Session::end_with_file(Checked& checked) {
  TransferInput& input = checked.input;
  if (input.op != Op::read) return;
  const Limits limits = checked.path->limits(*input.file, input.op, wanted_way(checked), kPage);
  if (limits.staged || limits.file_align == 1) return;
  const Result<int> fd = input.file->descriptor(Way::direct);
  const Result<std::uint64_t> end = fd.ok() ? storage_->size(*fd) : fd.status();
  if (end.ok()) input.size = std::min(input.size, *end > input.file_offset ? *end - input.file_offset : 0);
}

// The path and the reason stay those of the whole way.
void Session::stage(const RawRequest& request, Checked& checked) {
  checked.memory = {};
  checked.input.memory = request.staging;
  if (checked.report.path != PathId::null) checked.path = staging_path_.get();
}

Way Session::wanted_way(const Checked& checked) const {
  const TransferInput& input = checked.input;
  if (checked.path->is_direct()) return Way::direct;
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
  return {request, checked.path->limits(*input.file, input.op, wanted_way(checked), chunk_max)};
}

Outcome Session::transfer(const RawRequest& request) {
  File* file = files_.pin(request.file);
  Checked checked;
  Outcome outcome;
  // Where nothing is to be moved, it does not matter where to.
  outcome.status = request.size > 0 ? check(request, file, checked) : check_request(request, file, checked);
  outcome.report = checked.report;
  if (outcome.status.ok() && request.size > 0) {
    outcome = move(checked);
    count(outcome.report, request.op);
  }
  if (file != nullptr) files_.unpin(request.file);
  return outcome;
}

Outcome Session::move(const Checked& checked) {
  const Result<Pools*> pools =
      pools_for(*checked.path, checked.memory.needs_device() ? checked.memory.device : nullptr);
  if (!pools.ok()) return {pools.status(), checked.report};
  const Plan plan = plan_for(checked, chunk_for(checked));
  return is_small(checked) ? move_small(checked, plan, (*pools)->small) : move_large(checked, plan, (*pools)->large);
}

void Session::limit_operations(std::uint64_t bytes) {
  operation_max_.store(std::max(align_down(bytes, kChunkUnit), kChunkUnit), std::memory_order_relaxed);
}

std::uint64_t Session::chunk_for(const Checked& checked) const {
  const std::uint64_t operation_max = operation_max_.load(std::memory_order_relaxed);
  if (is_small(checked)) return std::min(shapes_.small.chunk, operation_max);
  const std::uint64_t hands = std::clamp<std::uint64_t>(checked.input.size / kShareMin, 1, config_.workers);
  const std::uint64_t share = align_up(std::max(checked.input.size / (2 * hands), kShareMin), kChunkUnit);
  return std::min({share, shapes_.large.chunk, operation_max});
}

// At most a few chunks, one after the other on the caller's thread: no ring, no worker, the fewest system calls.
Outcome Session::move_small(const Checked& checked, const Plan& plan, LanePool& pool) {
  const Result<LanePool::Loan> loan = pool.borrow();
  if (!loan.ok()) return {loan.status(), checked.report};
  Tally tally(checked.input);
  for (const bool edges : {false, true}) {
    for (std::uint64_t i = 0; i < plan.chunk_count() && tally.goes_on(); ++i) {
      if (plan.is_edge(i) == edges) tally.take_in((**loan).run(make_task(checked.input, plan.chunk(i))));
    }
  }
  Outcome outcome{tally.status(), checked.report};
  tell(tally, outcome.report);
  return outcome;
}

Outcome Session::move_large(const Checked& checked, const Plan& plan, LanePool& pool) {
  Transfer transfer(checked.input, plan, pool);
  workers_.run(transfer, helpers_for(checked, plan));
  Outcome outcome{transfer.status(), checked.report};
  tell(transfer, outcome.report);
  return outcome;
}

unsigned Session::helpers_for(const Checked& checked, const Plan& plan) const {
  const TransferInput& input = checked.input;
  // Writers of one file queue up behind its inode's lock when the page cache takes part. Two keep it busy; more
  // only spin on it (measured on ext4: sixteen took 2.6 times the CPU of four, and were slower).
  const bool one_writer_at_a_time =
      input.op == Op::write && plan.middle_way() == Way::buffered && !checked.path->is_direct();
  const std::uint64_t most = one_writer_at_a_time ? 1 : config_.workers;
  const std::uint64_t shares =
      config_.share_min == 0 ? UINT64_MAX : std::max<std::uint64_t>(input.size / config_.share_min, 1);
  const std::uint64_t hands = std::min<std::uint64_t>(config_.hands_max, shares);
  return static_cast<unsigned>(std::min({input.size / kShareMin, most, hands - 1}));
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

// ---- Lanes ---------------------------------------------------------------------------------------------------------

RingBudget& Session::budget_of(const Device* device) {
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

std::uint64_t Session::ring_bytes() const {
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
