// SPDX-License-Identifier: Apache-2.0

#include "session/session.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/shortage.h"
#include "stats/usage.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::int64_t>::max();

}  // namespace

Session::Session(const Config& config, std::unique_ptr<Storage> storage, std::unique_ptr<DeviceSet> devices)
    : config_(config), storage_(std::move(storage)), devices_(std::move(devices)), descriptors_(*storage_) {
  const PathSettings settings = path_settings(config_);
  engine_ = std::make_unique<Engine>(engine_rules(config_), PathEnvironment{*storage_, *devices_, settings});
}

Session::~Session() {
  stop();
  for (std::uint64_t file = files_.next(0); file != 0; file = files_.next(file)) (void)deregister_file(file);
}

// ---- Clients -------------------------------------------------------------------------------------------------------

template <typename Call>
void Session::call_all(Call call) {
  const MutexLock lock(clients_mutex_);
  for (Listed& listed : clients_) {
    ++listed.calls;
    {
      const MutexUnlock unlocked(clients_mutex_);
      call(*listed.client);
    }
    --listed.calls;
    call_ended_.notify_all();
  }
}

void Session::stop() {
  const MutexLock lock(clients_mutex_);
  while (!clients_.empty()) {
    if (clients_.back().calls != 0) {
      call_ended_.wait(clients_mutex_);
      continue;
    }
    Client* const last = clients_.back().client;
    clients_.pop_back();
    const MutexUnlock unlocked(clients_mutex_);
    last->stop();
  }
}

void Session::add(Client* client) {
  const MutexLock lock(clients_mutex_);
  clients_.push_back({client});
}

void Session::remove(Client* client) {
  const auto is_it = [client](const Listed& listed) { return listed.client == client; };
  const auto is_called = [&](const Listed& listed) { return is_it(listed) && listed.calls != 0; };
  const MutexLock lock(clients_mutex_);
  while (std::any_of(clients_.begin(), clients_.end(), is_called)) call_ended_.wait(clients_mutex_);
  std::erase_if(clients_, is_it);
}

// ---- Registration --------------------------------------------------------------------------------------------------

Result<std::uint64_t> Session::register_file(int fd) {
  Result<std::unique_ptr<File>> file = File::open(*storage_, fd);
  if (!file.ok()) return file.status();
  if (is_inherited()) return failure(Code::closed, "register the file");
  if (denies(config_.denylist, (*file)->facts(), fd)) {
    const auto is_posix = [](PathId path) { return traits_of(path).posix; };
    if (std::none_of(config_.paths.begin(), config_.paths.end(), is_posix))
      return failure(Code::denied, "register the file");
    (*file)->deny_direct_paths();
  }
  if (config_.usage != nullptr) (*file)->count_in(config_.usage->file_of(fd));
  const File& opened = **file;
  return descriptors_.add(fd, opened, [&] { return files_.insert(std::move(*file)); });
}

Result<std::uint64_t> Session::register_file(std::unique_ptr<UserspaceFile> file) {
  if (is_inherited()) return failure(Code::closed, "register the file");
  std::unique_ptr<File> opened = File::open(*storage_, std::move(file));
  if (config_.usage != nullptr) opened->count_in(config_.usage->file_named("files of a file system in user space"));
  return files_.insert(std::move(opened));
}

Status Session::deregister_file(std::uint64_t handle) {
  if (is_inherited()) return failure(Code::closed, "deregister the file");
  const File* const retired = files_.retire(handle);
  if (retired == nullptr) return failure(Code::not_registered, "deregister the file");
  descriptors_.remove(handle);
  call_all([&](Client& client) { client.forget_file(*retired); });
  // wait_and_take() waits for calls in flight; then the descriptors close.
  const std::unique_ptr<File> file = files_.wait_and_take(handle);
  engine_->forget_file(*file);
  // They are left to a registration that stays.
  const std::uint64_t other = release_blocks_of_idle(*file);
  if (other == 0 || !file->has_blocks_behind_end()) return success();
  if (const PinnedFile heir(*this, other); heir) heir->note_blocks_behind_end();
  return success();
}

bool Session::is_file(std::uint64_t handle) { return static_cast<bool>(PinnedFile(*this, handle)); }

Status Session::register_buffer(const void* base, std::uint64_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  if (base == nullptr || size == 0) return failure(Code::invalid_argument, "register the buffer");
  if (size > UINT64_MAX - address) return failure(Code::past_allocation, "register the buffer");
  PointerFacts memory = devices_->describe(base);
  // Only the kernel knows the ranges of host memory: it fails the request itself.
  if (memory.needs_device() && memory.size != 0 && address + size > memory.base + memory.size) {
    return failure(Code::past_allocation, "register the buffer");
  }
  if (buffers_.find(address)) return failure(Code::already_registered, "register the buffer");
  if (memory.kind == MemoryKind::host) memory.base = address, memory.size = size;
  const bool may_be_offered = memory.kind == MemoryKind::device && memory.device != nullptr;
  const std::uint64_t offered = may_be_offered ? memory.device->memory().offer(memory, base, size) : 0;
  if (offered != 0) memory.mapped = offered;
  const Status status = buffers_.insert({address, size, memory});
  if (!status.ok() && offered != 0) memory.device->memory().withdraw(base);
  if (!status.ok() || memory.device == nullptr) return status;
  memory.device->make_copies_synchronous(base);
  engine_->add_buffer(memory, address, size);
  return status;
}

Status Session::deregister_buffer(const void* base) {
  if (is_inherited()) return failure(Code::closed, "deregister the buffer");
  if (base == nullptr) return failure(Code::invalid_argument, "deregister the buffer");
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const Result<Buffer> buffer = buffers_.remove(address);
  if (!buffer.ok()) return buffer.status();
  call_all([&](Client& client) { client.forget_memory(reinterpret_cast<std::byte*>(address)); });
  engine_->remove_buffer(address);
  if (buffer->memory.device != nullptr) buffer->memory.device->memory().withdraw(base);
  return success();
}

MemoryPiece Session::buffer_at(const void* base) const {
  const std::optional<Buffer> buffer = buffers_.find(reinterpret_cast<std::uintptr_t>(base));
  return {const_cast<void*>(base), buffer ? static_cast<std::size_t>(buffer->size) : 0};
}

Result<FileFacts> Session::file_facts(std::uint64_t handle) {
  const PinnedFile file(*this, handle);
  if (!file) return failure(Code::not_registered, "look at the file");
  return file->facts();
}

Status Session::sync_file(std::uint64_t handle) {
  const PinnedFile file(*this, handle);
  if (!file) return failure(Code::not_registered, "flush the file");
  if (file->userspace() != nullptr) return failure(Code::unsupported, "flush the file");
  if (!file->fstat_descriptors()) return descriptor_lost();
  const Status status = storage_->sync(file->own_descriptor());
  if (may_have_lost_bytes(status)) file->note_failed_flush();
  return file->take_failed_flush() && status.ok() ? os_failure(EIO, "flush the file") : status;
}

Status Session::check_flushes(std::uint64_t handle) {
  const PinnedFile file(*this, handle);
  if (!file) return failure(Code::not_registered, "look at the file's flushes");
  return file->has_failed_flush() ? os_failure(EIO, "flush the file") : success();
}

Status Session::check_descriptors(std::uint64_t handle) {
  const PinnedFile file(*this, handle);
  if (!file) return failure(Code::not_registered, "look at the file's descriptors");
  return file->fstat_descriptors() ? success() : descriptor_lost();
}

Status Session::advise_read_once(std::uint64_t handle) { return advise(handle, &File::note_read_once); }

Status Session::advise_flushed_later(std::uint64_t handle) { return advise(handle, &File::note_flushed_later); }

Status Session::advise_own_store(std::uint64_t handle) { return advise(handle, &File::note_own_store); }

Status Session::advise(std::uint64_t handle, void (File::*note)()) {
  const PinnedFile file(*this, handle);
  if (!file) return failure(Code::not_registered, "advise on the file");
  (file.get()->*note)();
  return success();
}

// ---- Requests ------------------------------------------------------------------------------------------------------

// A registered base limits the request to its registration; any other address to its allocation, where that is known.
Status Session::find_memory(const RawRequest& request, PointerFacts& memory) const {
  const auto base = reinterpret_cast<std::uintptr_t>(request.base);
  const auto offset = static_cast<std::uint64_t>(request.buffer_offset);
  const char* const step = transfer_step(request.op);
  if (offset > UINT64_MAX - base || request.size > UINT64_MAX - base - offset) {
    return failure(Code::past_allocation, step);
  }
  if (const std::optional<Buffer> buffer = buffers_.find(base)) {
    if (offset > buffer->size || request.size > buffer->size - offset) return failure(Code::out_of_range, step);
    memory = buffer->memory;
  } else {
    // Describes the base: base + offset may be in another allocation.
    memory = request.memory != nullptr ? *request.memory : devices_->describe(request.base);
    const std::uint64_t end = memory.base + memory.size;
    if (memory.size != 0 && base + offset + request.size > end) return failure(Code::past_allocation, step);
  }
  if (memory.needs_device() && memory.device == nullptr) return failure(Code::no_device, step);
  return success();
}

Status Session::check(const RawRequest& request, File* file, RoutedRequest& checked) const {
  const char* const step = transfer_step(request.op);
  if (is_inherited()) return failure(Code::closed, step);
  if (file == nullptr) return failure(Code::not_registered, step);
  if (request.base == nullptr) return failure(Code::invalid_argument, step);
  if (request.file_offset < 0 || request.buffer_offset < 0) return failure(Code::negative_offset, step);
  if (request.size > kOffsetMax - static_cast<std::uint64_t>(request.file_offset)) {
    return failure(Code::invalid_argument, step);
  }
  if (request.op == Op::read && !file->facts().readable()) return failure(Code::not_readable, step);
  if (request.op == Op::write && !file->facts().writable()) return failure(Code::not_writable, step);
  // Only a number here: a later step checks whether memory is mapped there.
  const std::uintptr_t address =
      reinterpret_cast<std::uintptr_t>(request.base) + static_cast<std::uintptr_t>(request.buffer_offset);
  checked.op = request.op;
  checked.file = file;
  checked.memory = reinterpret_cast<std::byte*>(address);
  checked.file_offset = static_cast<std::uint64_t>(request.file_offset);
  checked.size = request.size;
  return success();
}

Status Session::admit(const RawRequest& request, File* file, RoutedRequest& admitted) const {
  const Status status = check(request, file, admitted);
  return status.ok() ? find_memory(request, admitted.facts) : status;
}

bool Session::is_all_of(PointerFacts& memory, RawRequest request, std::span<const MemoryPiece> pieces) const {
  PointerFacts facts = memory;
  for (const MemoryPiece& piece : pieces) {
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.iov_base);
    const bool is_known = begin - facts.base < facts.size && piece.iov_len <= facts.size - (begin - facts.base);
    if (piece.iov_len == 0 || (is_known && !buffers_.find(begin))) continue;
    request.base = piece.iov_base;
    request.size = piece.iov_len;
    if (!find_memory(request, facts).ok() || facts.kind != memory.kind || facts.device != memory.device) return false;
    // Mapped pieces may have a more direct path than others.
    if ((facts.mapped != 0) != (memory.mapped != 0)) return false;
    memory.is_fresh = memory.is_fresh && facts.is_fresh;
  }
  return true;
}

void Session::release_blocks(std::uint64_t file_handle, File& file) {
  if (!files_.hold(file_handle)) return;
  (void)release_blocks_of_idle(file);
  files_.let_go(file_handle);
}

// Releases the blocks of a file without requests in flight and without other registrations of the same file. Returns
// the handle of one of these, or 0.
std::uint64_t Session::release_blocks_of_idle(File& file) {
  return descriptors_.when_alone(file, [&] { file.release_blocks_behind_end(); });
}

}  // namespace penstock::core
