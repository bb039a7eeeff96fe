// SPDX-License-Identifier: Apache-2.0

#include "fakes/fake_nvfs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace penstock::core {
namespace {

using nvfs::kBlock;
using nvfs::kGpuPage;

std::byte* at(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

// As the kernel's own: aligned for any O_DIRECT.
struct Pages {
  explicit Pages(std::uint64_t bytes) : data(static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes))) {}
  ~Pages() { std::free(data); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* const data;
};

}  // namespace

// ---- Nodes, mappings, files ----------------------------------------------------------------------------------------

int FakeNvfs::open_node(unsigned number) {
  if (node_error != 0) return -node_error;
  if (number >= node_count) return -ENOENT;
  ++open_nodes;
  return ::open("/dev/null", O_RDWR | O_CLOEXEC);
}

void FakeNvfs::close_node(int fd) {
  --open_nodes;
  ::close(fd);
}

std::byte* FakeNvfs::map(int, std::uint64_t bytes, int& error) {
  const bool is_sane = bytes > 0 && bytes <= nvfs::kShadowMax && bytes % (bytes > kGpuPage ? kGpuPage : kBlock) == 0;
  void* const memory =
      is_sane ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    error = is_sane ? ENOMEM : EINVAL;
    return nullptr;
  }
  ::madvise(memory, bytes, MADV_DONTFORK);
  const std::lock_guard lock(mutex_);
  groups_[reinterpret_cast<std::uintptr_t>(memory)] = {.bytes = bytes};
  shadow_bytes += bytes;
  ++mappings;
  return static_cast<std::byte*>(memory);
}

void FakeNvfs::unmap(std::byte* shadow, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(reinterpret_cast<std::uintptr_t>(shadow));
  if (found == groups_.end() || found->second.bytes != bytes) {
    ADD_FAILURE() << "a partial munmap of a shadow buffer, or one of none";
    return;
  }
  if (found->second.state == State::in_progress) ADD_FAILURE() << "munmap of a shadow buffer with a request under way";
  if (found->second.fence != nullptr) --pinned;
  ::munmap(shadow, bytes);
  groups_.erase(found);
  shadow_bytes -= bytes;
  --mappings;
}

std::string FakeNvfs::text(const char* file) {
  const std::string name = file;
  if (version.empty()) return "";
  if (name == nvfs::kModuleVersionFile) return version + "\n";
  if (name == nvfs::kVersionFile) return "version: " + version.substr(0, version.rfind('.')) + "\n";
  if (name == nvfs::kModulesFile) return "wekafsio: 1\n" + (open_nodes > 0 ? modules : "");
  const std::lock_guard lock(mutex_);
  if (!counts) return "Reads\t\t\t\t: err=0 io_state_err=0\nWrites\t\t\t\t: err=0 io_state_err=0\n";
  const auto line = [](const char* label, unsigned long long ok) {
    return std::string(label) + "\t\t\t\t: n=" + std::to_string(ok) + " ok=" + std::to_string(ok) + " err=0\n";
  };
  return line("Reads", reads_ok_) + line("Writes", writes_ok_);
}

// ---- Calls ---------------------------------------------------------------------------------------------------------

int FakeNvfs::fail(nvfs::Argument& argument, std::int64_t error) const {
  const std::int64_t reported = -error;
  std::memcpy(argument.bytes + 32, &reported, sizeof reported);
  return -EPERM;
}

FakeNvfs::Fault FakeNvfs::next_fault(unsigned long call) {
  if (faults.empty() || faults.front().call != call) return {};
  const Fault fault = faults.front();
  faults.pop_front();
  return fault;
}

int FakeNvfs::control(int, unsigned long call, nvfs::Argument& argument) {
  switch (call) {
    case nvfs::kRemove: return 0;
    case nvfs::kMap: return control_map(argument);
    case nvfs::kRead:
    case nvfs::kWrite: return control_io(call, argument);
    default: return -ENOTTY;
  }
}

std::int64_t FakeNvfs::check_map(const nvfs::MapArgument& map) const {
  const auto found = groups_.find(map.shadow);
  if (found == groups_.end()) return EINVAL;
  if (map.shadow_blocks == 0 || map.shadow_blocks * kBlock > found->second.bytes) {
    ADD_FAILURE() << "sbuf_block is 0 or larger than the mapping: an assertion of the kernel";
  }
  if (map.fence_page == 0 || map.fence_page % kBlock != 0) return EINVAL;
  if (map.gpu_bytes <= 0 || map.gpu_address + static_cast<std::uint64_t>(map.gpu_bytes) < map.gpu_address)
    return EINVAL;
  const std::uint64_t within = map.gpu_address % kGpuPage + static_cast<std::uint64_t>(map.gpu_bytes);
  if (static_cast<std::uint64_t>(map.gpu_bytes) < kGpuPage && map.shadow_blocks * kBlock < within) return EINVAL;
  return map_error;
}

int FakeNvfs::control_map(nvfs::Argument& argument) {
  const std::lock_guard lock(mutex_);
  ++maps_made;
  const auto map = argument.get<nvfs::MapArgument>();
  const Fault fault = next_fault(nvfs::kMap);
  const std::int64_t error = fault.error != 0 ? fault.error : check_map(map);
  const auto found = groups_.find(map.shadow);
  if (found == groups_.end()) return fail(argument, error);
  Group& group = found->second;
  if (group.state != State::unmapped) ADD_FAILURE() << "MAP twice on one shadow buffer";
  if (error != 0) {
    group.state = State::dead;  // Its pages stay in the kernel, too.
    return fail(argument, error);
  }
  group.state = State::ready;
  group.gpu_address = map.gpu_address;
  group.gpu_bytes = static_cast<std::uint64_t>(map.gpu_bytes);
  group.fence = reinterpret_cast<nvfs::Fence*>(map.fence_page);
  ++pinned;
  return 0;
}

// In the module's order, with its errors.
std::int64_t FakeNvfs::check_file(const nvfs::IoArgument& io, bool is_write) const {
  if (io.file_offset < 0 || io.file_offset % static_cast<std::int64_t>(kBlock) != 0 || io.size % kBlock != 0) {
    return EINVAL;
  }
  const int flags = ::fcntl(io.fd, F_GETFL);
  if (flags < 0) return EINVAL;
  if ((flags & O_ACCMODE) == (is_write ? O_RDONLY : O_WRONLY)) return EBADF;
  if (io.inode == 0) return EINVAL;
  struct stat status {};
  if (::fstat(io.fd, &status) != 0) return EINVAL;
  const dev_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  const bool is_it = io.generation == 0 && io.inode == status.st_ino && io.device_major == major(device) &&
                     io.device_minor == minor(device);
  return is_it ? 0 : ESTALE;
}

std::int64_t FakeNvfs::check_range(const Group& group, const nvfs::IoArgument& io, int file_flags) const {
  if ((io.flags & nvfs::kSync) == 0) {
    ADD_FAILURE() << "an asynchronous request: nothing holds its file, nor undoes its pin";
    return EINVAL;
  }
  const std::uint64_t within = (group.gpu_address % kGpuPage + io.gpu_offset) % kGpuPage;
  if ((file_flags & O_DIRECT) == 0 || within % kBlock != 0) return EINVAL;
  if (io.size > group.gpu_bytes || io.gpu_offset > group.gpu_bytes - io.size) return EINVAL;
  if (within != 0 && io.size > kGpuPage - within) return EINVAL;
  return 0;
}

int FakeNvfs::control_io(unsigned long call, nvfs::Argument& argument) {
  auto io = argument.get<nvfs::IoArgument>();
  std::unique_lock lock(mutex_);
  requests.push_back({call, io.file_offset, io.size, io.gpu_offset});
  if (const std::int64_t error = check_file(io, call == nvfs::kWrite); error != 0) return fail(argument, error);
  const auto found = groups_.find(io.shadow);
  if (found == groups_.end()) return fail(argument, EINVAL);
  Group& group = found->second;
  if (group.state != State::ready) {
    ++busy_collisions;
    group.state = State::dead;
    ADD_FAILURE() << "a request on a mapping that is busy or dead";
    return fail(argument, EBUSY);
  }
  const int file_flags = ::fcntl(io.fd, F_GETFL);
  if (const std::int64_t error = check_range(group, io, file_flags); error != 0) return fail(argument, error);
  const Fault fault = next_fault(call);
  if (fault.error != 0 && nvfs::is_interruption(static_cast<int>(fault.error))) group.state = State::dead;
  if (fault.error != 0) return fail(argument, fault.error);
  group.state = State::in_progress;
  lock.unlock();
  ++under_way;
  drive();
  const std::int64_t result = carry_out(call, io, group, std::min<std::uint64_t>(fault.at_most, io.size));
  --under_way;
  lock.lock();
  group.state = State::ready;
  if (result < 0) return fail(argument, -result);
  if (counts_grow) (call == nvfs::kWrite ? writes_ok_ : reads_ok_) += 1;
  io.result = result;
  argument.put(io);
  return 0;
}

// ---- Bytes ---------------------------------------------------------------------------------------------------------

// The call's result: a write that the file system did through the page cache moved no GPU bytes.
std::int64_t FakeNvfs::carry_out(unsigned long call, const nvfs::IoArgument& io, const Group& group,
                                 std::uint64_t at_most) {
  if (call != nvfs::kWrite) return read_blocks(group, io, at_most);
  bool is_direct = true;
  const std::int64_t count = write_blocks(group, io, at_most, is_direct);
  return is_direct || count < 0 ? count : 0;
}

// Blocks of a driver that bypasses the module stay in the shadow buffer, and are reported as holes, like the file's
// holes; they do not reach the GPU.
std::int64_t FakeNvfs::read_blocks(const Group& group, const nvfs::IoArgument& io, std::uint64_t at_most) const {
  const Pages pages(io.size);
  const ssize_t count = ::pread(io.fd, pages.data, io.size, io.file_offset);
  if (count < 0) return -errno;
  const std::uint64_t bytes = std::min<std::uint64_t>(static_cast<std::uint64_t>(count), at_most);
  std::uint32_t holes = 0;
  bool is_open = false;
  for (std::uint64_t done = 0; done < bytes; done += kBlock) {
    if (read_block(group, io, pages.data, done)) {
      is_open = false;
      continue;
    }
    if (!is_open && holes == nvfs::kHolesMax) return static_cast<std::int64_t>(done);
    if (!is_open) group.fence->holes[holes++] = {static_cast<std::uint16_t>(done / kBlock), 0};
    ++group.fence->holes[holes - 1].count;
    is_open = true;
  }
  if (holes > 0) {
    group.fence->magic = nvfs::kMagic;
    group.fence->meta_version = 1;
    group.fence->file_offset = io.file_offset;
    group.fence->hole_count = holes;
    group.fence->state = nvfs::kSparse;
  }
  return static_cast<std::int64_t>(bytes);
}

// True if any part went by DMA. The rest (holes in smaller blocks of the file system) is zeroed in the shadow buffer,
// unreported.
bool FakeNvfs::read_block(const Group& group, const nvfs::IoArgument& io, const std::byte* from,
                          std::uint64_t done) const {
  const std::uint64_t within = (group.gpu_address + io.gpu_offset) % kGpuPage;
  const std::uint64_t offset = static_cast<std::uint64_t>(io.file_offset) + done;
  bool went = false;
  for (std::uint64_t at_byte = 0; at_byte < kBlock; at_byte += block_size) {
    const bool goes = is_hooked(offset) && has_data(io.fd, offset + at_byte);
    std::byte* const to = goes ? at(group.gpu_address + io.gpu_offset + done) : at(io.shadow + within + done);
    std::memcpy(to + at_byte, from + done + at_byte, block_size);
    went = went || goes;
  }
  return went;
}

bool FakeNvfs::has_data(int fd, std::uint64_t offset) const {
  const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  const bool is_hole_of_file = data < 0 ? errno == ENXIO : static_cast<std::uint64_t>(data) >= offset + block_size;
  return !is_hole_of_file && !is_hole(offset);
}

// If the driver bypasses the module, the file gets the shadow buffer's bytes.
std::int64_t FakeNvfs::write_blocks(const Group& group, const nvfs::IoArgument& io, std::uint64_t at_most,
                                    bool& is_direct) const {
  const Pages pages(io.size);
  for (std::uint64_t done = 0; done < at_most; done += kBlock) {
    const bool hooked = is_hooked(static_cast<std::uint64_t>(io.file_offset) + done);
    is_direct = is_direct && hooked;
    const std::byte* const from = hooked ? at(group.gpu_address + io.gpu_offset + done) : at(io.shadow + done);
    std::memcpy(pages.data + done, from, kBlock);
  }
  const ssize_t count = ::pwrite(io.fd, pages.data, at_most, io.file_offset);
  return count < 0 ? -errno : count;
}

}  // namespace penstock::core
