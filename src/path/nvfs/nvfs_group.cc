// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_group.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/align.h"
#include "base/page_size.h"

namespace penstock::core {
namespace {

using nvfs::kBlock;
using nvfs::kGpuPage;

constexpr const char* kMapStep = "map GPU memory through nvidia-fs";
constexpr const char* kMoveStep = "move bytes by nvidia-fs";
constexpr std::size_t kPages = 3;       // The fence, the argument, and one that cannot be touched.
constexpr std::uint64_t kMisfit = 512;  // No multiple of a block, and within every range if the module takes it.

template <typename Number>
Number load(const Number& number) {
  return std::atomic_ref<Number>(const_cast<Number&>(number)).load(std::memory_order_acquire);
}

// These errors leave the module's state unchanged. After any other error of a checked request the state is in doubt.
bool leaves_it_ready(int error) {
  switch (error) {
    case EBUSY:
    case EINVAL:
    case EFAULT:
    case EMSGSIZE:
    case EPROTO: return false;
    default: return !nvfs::is_interruption(error);
  }
}

}  // namespace

NvfsFile NvfsFile::of(int fd, const FileFacts& facts) {
  const dev_t device = facts.type == FileType::block_device ? facts.block_device : facts.file_system_device;
  return {fd, facts.inode, major(device), minor(device)};
}

Result<NvfsFile> NvfsFile::of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return os_failure(errno, "look at a file for nvidia-fs");
  const dev_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  return NvfsFile{fd, status.st_ino, major(device), minor(device)};
}

// ---- Life ----------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<NvfsGroup>> NvfsGroup::open(std::shared_ptr<NvfsModule> module, const GpuRange& range,
                                                   std::uint64_t shadow_bytes) {
  const bool is_sane = range.address != 0 && range.bytes > 0 && range.bytes <= std::uint64_t{LLONG_MAX} &&
                       is_aligned(range.address | range.bytes, kGpuPage) && range.address + range.bytes > range.address;
  if (!is_sane || shadow_bytes == 0 || shadow_bytes > nvfs::kShadowMax || !is_aligned(shadow_bytes, kGpuPage)) {
    return failure(Code::invalid_argument, kMapStep);
  }
  if (module->is_inherited()) return os_failure(ECHILD, kMapStep);
  if (const int error = module->map_refusal(); error != 0) return os_failure(error, kMapStep);
  std::unique_ptr<NvfsGroup> group(new NvfsGroup(std::move(module), range));
  if (const Status status = group->map(shadow_bytes); !status.ok()) return status;
  return group;
}

Status NvfsGroup::map(std::uint64_t shadow_bytes) {
  void* const pages = ::mmap(nullptr, kPages * page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return failure(Code::out_of_memory, kMapStep);
  fence_ = new (pages) nvfs::Fence{};  // Written, so that the page is present.
  std::byte* const end = static_cast<std::byte*>(pages) + (kPages - 1) * page_size();
  argument_ = new (end - sizeof(nvfs::Argument)) nvfs::Argument;
  int error = ::mprotect(end, page_size(), PROT_NONE) == 0 ? 0 : errno;
  if (error != 0) return os_failure(error, kMapStep);
  // A child should not share the fence page, and it should not move; a failure is harmless.
  (void)::madvise(pages, kPages * page_size(), MADV_DONTFORK);
  shadow_ = module_->kernel().map(module_->node(), shadow_bytes, error);
  if (shadow_ == nullptr) return os_failure(error, "map nvidia-fs's shadow buffer");
  shadow_bytes_ = shadow_bytes;
  return tie();
}

// Only once: a failed MAP leaves the shadow buffer unusable.
Status NvfsGroup::tie() {
  *argument_ = {};
  argument_->put(nvfs::MapArgument{.gpu_bytes = static_cast<std::int64_t>(range_.bytes),
                                   .gpu_pci = range_.pci,
                                   .shadow = reinterpret_cast<std::uintptr_t>(shadow_),
                                   .gpu_address = range_.address,
                                   .fence_page = reinterpret_cast<std::uintptr_t>(fence_),
                                   .shadow_blocks = static_cast<std::uint32_t>(shadow_bytes_ / kBlock)});
  const int result = call(nvfs::kMap);
  const std::uint64_t page = argument_->get<nvfs::MapArgument>().fence_page;
  const bool is_intact_too = is_intact(sizeof(nvfs::MapArgument)) && page == reinterpret_cast<std::uintptr_t>(fence_);
  if (result == 0 && is_intact_too) return success();
  break_down();
  const auto reported = static_cast<std::int64_t>(page);
  const bool is_reported = result == -nvfs::kFailed && reported < 0 && reported > -4096;
  const int error = result == 0 ? EPROTO : is_reported ? static_cast<int>(-reported) : -result;
  module_->note_failed_map(error);
  return os_failure(error, kMapStep);
}

NvfsGroup::~NvfsGroup() {
  if (module_->is_inherited()) return;  // A forked child has neither mapping.
  if (shadow_ != nullptr) module_->kernel().unmap(shadow_, shadow_bytes_);
  if (fence_ != nullptr) ::munmap(fence_, kPages * page_size());
}

// ---- Requests ------------------------------------------------------------------------------------------------------

std::uint64_t NvfsGroup::fit(std::uint64_t gpu_offset, std::uint64_t size) const {
  const std::uint64_t within = gpu_offset % kGpuPage;
  return std::min(size, within != 0 ? kGpuPage - within : shadow_bytes_);
}

Status NvfsGroup::check(const NvfsRequest& request) const {
  const bool is_aligned_to_blocks = is_aligned(request.file_offset | request.gpu_offset | request.size, kBlock);
  const bool is_inside = request.size <= range_.bytes && request.gpu_offset <= range_.bytes - request.size;
  const bool has_room = request.file_offset <= std::uint64_t{LLONG_MAX} - request.size;
  const bool is_sane = request.size > 0 && is_aligned_to_blocks && is_inside && has_room && request.file.fd >= 0 &&
                       request.file.inode != 0 && fit(request.gpu_offset, request.size) == request.size;
  return is_sane ? success() : failure(Code::invalid_argument, kMoveStep);
}

bool NvfsGroup::claim() {
  State expected = State::ready;
  return state_.compare_exchange_strong(expected, State::busy, std::memory_order_acquire);
}

void NvfsGroup::clear_fence() {
  fence_->state = nvfs::kClean;
  fence_->hole_count = 0;
  fence_->file_offset = 0;
}

// 0 or a negative errno. EMSGSIZE: the module could not read or write an argument of ours, so it has larger ones.
int NvfsGroup::call(unsigned long number) {
  const int result = module_->kernel().control(module_->node(), number, *argument_);
  return result == -ENOMEM || result == -EFAULT ? -EMSGSIZE : result;
}

// True if the argument is still zero behind its first bytes, where no known version writes.
bool NvfsGroup::is_intact(std::size_t from) const {
  return std::all_of(argument_->bytes + from, std::end(argument_->bytes),
                     [](std::byte one) { return one == std::byte{}; });
}

// Returns bytes, or a negative errno.
std::int64_t NvfsGroup::ask(const NvfsRequest& request) {
  clear_fence();
  *argument_ = {};
  argument_->put(nvfs::IoArgument{.shadow = reinterpret_cast<std::uintptr_t>(shadow_),
                                  .file_offset = static_cast<std::int64_t>(request.file_offset),
                                  .size = request.size,
                                  .inode = request.file.inode,
                                  .device_major = request.file.device_major,
                                  .device_minor = request.file.device_minor,
                                  .gpu_offset = request.gpu_offset,
                                  .fd = request.file.fd,
                                  .flags = nvfs::kSync});
  const int result = call(request.op == Op::read ? nvfs::kRead : nvfs::kWrite);
  const std::int64_t reported = argument_->get<nvfs::IoArgument>().result;
  if (!is_intact(sizeof(nvfs::IoArgument))) return -EPROTO;
  if (result == 0) return reported;
  if (result != -nvfs::kFailed) return result;
  return reported < 0 ? reported : -EPROTO;  // The module's answer was lost.
}

NvfsAnswer NvfsGroup::run(const NvfsRequest& request) {
  if (const Status status = check(request); !status.ok()) return {.status = status};
  if (!claim()) return {.status = os_failure(EBUSY, kMoveStep)};
  request_ = request;
  return answer_of(ask(request));
}

int NvfsGroup::provoke(NvfsMisfit misfit, const NvfsFile& file) {
  if (!claim()) return EBUSY;
  request_ = {.op = Op::read, .file = file, .size = kBlock};
  if (misfit == NvfsMisfit::offset) request_.file_offset = kMisfit;
  if (misfit == NvfsMisfit::size) request_.size -= kMisfit;
  if (misfit == NvfsMisfit::alignment) request_.gpu_offset = kMisfit;
  if (misfit == NvfsMisfit::inode) ++request_.file.inode;
  const auto answer = static_cast<int>(-std::clamp<std::int64_t>(ask(request_), -4095, 0));
  const bool is_silent = fence_->ticket == 0 && fence_->result == 0 && fence_->state == nvfs::kClean;
  if (!is_silent || answer != error_of(misfit)) break_down();
  else state_.store(State::ready, std::memory_order_release);
  return is_silent ? answer : EPROTO;
}

Status NvfsGroup::failure_of(int error) {
  if (leaves_it_ready(error)) state_.store(State::ready, std::memory_order_release);
  else break_down();
  return os_failure(nvfs::is_interruption(error) ? EINTR : error, kMoveStep);
}

NvfsAnswer NvfsGroup::answer_of(std::int64_t result) {
  if (result < 0) return {.status = failure_of(result > -4096 ? static_cast<int>(-result) : EPROTO)};
  if (load(fence_->state) == nvfs::kDied) return {.status = failure_of(EFAULT)};
  NvfsAnswer answer;
  answer.bytes = static_cast<std::uint64_t>(result);
  if (answer.bytes > request_.size) return {.status = failure_of(EPROTO)};
  if (request_.op == Op::read && !take_holes(answer)) return {.status = failure_of(EPROTO)};
  state_.store(State::ready, std::memory_order_release);
  return answer;
}

// Returns false if the page's contents are impossible.
bool NvfsGroup::take_holes(NvfsAnswer& answer) {
  if (load(fence_->state) != nvfs::kSparse) return true;
  const std::uint32_t count = load(fence_->hole_count);
  const bool is_sane = count <= nvfs::kHolesMax && fence_->magic == nvfs::kMagic &&
                       fence_->file_offset == static_cast<std::int64_t>(request_.file_offset);
  if (!is_sane) return false;
  answer.hole_count = count;
  for (unsigned i = 0; i < count; ++i) {
    const NvfsHole one = hole(i);
    if (one.offset + one.bytes > request_.size) return false;
    answer.hole_bytes += one.bytes;
  }
  return true;
}

NvfsHole NvfsGroup::hole(unsigned index) const {
  const nvfs::Hole& hole = fence_->holes[index];
  const std::uint64_t offset = std::uint64_t{hole.first} * kBlock;
  return {.offset = offset,
          .bytes = std::uint64_t{hole.count} * kBlock,
          .seen = shadow_ + request_.gpu_offset % kGpuPage + offset};
}

}  // namespace penstock::core
