// SPDX-License-Identifier: Apache-2.0

#include "fakes/fake_nvfs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
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

// Where the module would trip an assertion of the kernel, or do worse.
[[noreturn]] void never(const char* what) {
  std::fprintf(stderr, "nvidia-fs must never be sent: %s\n", what);
  std::abort();
}

bool is_readable(const void* memory, std::size_t bytes) {
  std::byte copy[256];
  const iovec here{copy, std::min(bytes, sizeof copy)}, there{const_cast<void*>(memory), here.iov_len};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(here.iov_len);
}

bool is_misfit(const nvfs::IoArgument& io, int file_flags) {
  struct stat status {};
  const bool is_whole = (static_cast<std::uint64_t>(io.file_offset) | io.size | io.gpu_offset) % kBlock == 0;
  return !is_whole || (file_flags & O_DIRECT) == 0 || (::fstat(io.fd, &status) == 0 && status.st_ino != io.inode);
}

constexpr std::int64_t kInterrupted = 512;  // The kernel's own number for a wait that a signal ended.
constexpr std::size_t kLargerArgument = sizeof(nvfs::Argument) + 8;

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
  if (memory == MAP_FAILED || shadow_error != 0) {
    if (memory != MAP_FAILED) ::munmap(memory, bytes);
    error = !is_sane ? EINVAL : shadow_error != 0 ? shadow_error : ENOMEM;
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
    never("a partial munmap of a shadow buffer, or one of none");
  }
  if (found->second.state == State::in_progress) never("munmap of a shadow buffer with a request under way");
  if (found->second.fence != nullptr) --pinned;
  ::munmap(shadow, bytes);
  groups_.erase(found);
  shadow_bytes -= bytes;
  --mappings;
}

std::string FakeNvfs::text(const char* file) {
  const std::string name = file;
  if (name == nvfs::kKernelReleaseFile) return kernel + "\n";
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
  std::memcpy(argument.bytes + (lie == Lie::moved_error ? 40 : 32), &reported, sizeof reported);
  return -EPERM;
}

FakeNvfs::Fault FakeNvfs::next_fault(unsigned long call) {
  if (faults.empty()) return draw_fault(call);
  if (faults.front().call != call) return {};
  const Fault fault = faults.front();
  faults.pop_front();
  return fault;
}

int FakeNvfs::control(int, unsigned long call, nvfs::Argument& argument) {
  const bool has_room = is_readable(&argument, kLargerArgument);
  if (lie == Lie::larger_argument && !has_room) return -ENOMEM;
  const int result = answer(call, argument);
  if (lie == Lie::larger_answer && !has_room) return call == nvfs::kMap ? -EFAULT : -EPERM;
  if (lie == Lie::writes_argument) argument.bytes[96] = std::byte{1};
  if (lie == Lie::writes_map && call == nvfs::kMap) argument.bytes[32] ^= std::byte{0xff};
  return result;
}

int FakeNvfs::answer(unsigned long call, nvfs::Argument& argument) {
  constexpr unsigned long kBatch = 0x40047408;
  if (call == kBatch) never("a batch");
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
  if (map.shadow_blocks == 0) never("MAP with sbuf_block 0");
  if (map.shadow_blocks * kBlock > found->second.bytes) never("MAP with sbuf_block larger than the mapping");
  if (map.fence_page == 0 || map.fence_page % kBlock != 0) return EINVAL;
  if (map.gpu_bytes <= 0 || map.gpu_address + static_cast<std::uint64_t>(map.gpu_bytes) < map.gpu_address)
    return EINVAL;
  const std::uint64_t within = map.gpu_address % kGpuPage + static_cast<std::uint64_t>(map.gpu_bytes);
  if (static_cast<std::uint64_t>(map.gpu_bytes) < kGpuPage && map.shadow_blocks * kBlock < within) return EINVAL;
  return map_error;
}

void FakeNvfs::check_inside(std::uint64_t shadow) const {
  for (const auto& [begin, group] : groups_) {
    if (shadow > begin && shadow < begin + group.bytes) never("MAP with cpuvaddr inside a shadow buffer");
  }
}

int FakeNvfs::control_map(nvfs::Argument& argument) {
  const std::lock_guard lock(mutex_);
  ++maps_made;
  const auto map = argument.get<nvfs::MapArgument>();
  check_inside(map.shadow);
  const Fault fault = next_fault(nvfs::kMap);
  const std::int64_t error = fault.error != 0 ? fault.error : check_map(map);
  const auto found = groups_.find(map.shadow);
  if (found == groups_.end()) return fail(argument, error);
  Group& group = found->second;
  if (group.state != State::unmapped) never("MAP twice on one shadow buffer");
  if (error != 0) {
    group.state = State::dead;  // Its pages stay in the kernel, too.
    return fault.result != 0 ? fault.result : fail(argument, error);
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
  const bool is_offset_whole = io.file_offset >= 0 && io.file_offset % static_cast<std::int64_t>(kBlock) == 0;
  if (!is_offset_whole && lie != Lie::takes_offset) return EINVAL;
  if (io.size % kBlock != 0 && lie != Lie::takes_size) return EINVAL;
  const int flags = ::fcntl(io.fd, F_GETFL);
  if (flags < 0) return EINVAL;
  if ((flags & O_ACCMODE) == (is_write ? O_RDONLY : O_WRONLY)) return EBADF;
  if (io.inode == 0) return EINVAL;
  struct stat status {};
  if (::fstat(io.fd, &status) != 0) return EINVAL;
  const dev_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  const bool is_it = io.generation == 0 && io.inode == status.st_ino && io.device_major == major(device) &&
                     io.device_minor == minor(device);
  if (is_it || lie == Lie::takes_inode) return 0;
  return lie == Lie::other_errno ? EBADF : ESTALE;
}

std::int64_t FakeNvfs::check_range(const Group& group, const nvfs::IoArgument& io, int file_flags) const {
  if ((io.flags & nvfs::kSync) == 0 && (io.size == 0 || io.size > group.bytes)) {
    never("an asynchronous request of nothing, or larger than the shadow buffer");
  }
  if ((io.flags & nvfs::kSync) == 0 && answer_later == nullptr) {
    ADD_FAILURE() << "an asynchronous request: nothing holds its file, nor undoes its pin";
    return EINVAL;
  }
  const std::uint64_t within = (group.gpu_address % kGpuPage + io.gpu_offset) % kGpuPage;
  if ((file_flags & O_DIRECT) == 0 && lie != Lie::takes_buffered) return EINVAL;
  if (within % kBlock != 0 && lie != Lie::takes_alignment) return EINVAL;
  if (io.size > group.gpu_bytes || io.gpu_offset > group.gpu_bytes - io.size) return EINVAL;
  if (within != 0 && io.size > kGpuPage - within) return EINVAL;
  return 0;
}

// A refusal of known versions changes nothing.
int FakeNvfs::refuse(nvfs::Argument& argument, const nvfs::IoArgument& io, std::int64_t error) {
  const auto found = groups_.find(io.shadow);
  if (found == groups_.end()) return fail(argument, error);
  Group& group = found->second;
  if (lie == Lie::writes_fence) group.fence->result = -error;
  scribble(*group.fence);
  if (lie == Lie::moves_refused) std::memset(reach(group.gpu_address, kBlock), 0xee, kBlock);
  if (lie == Lie::dies_of_refusals) group.state = State::dead;
  return fail(argument, error);
}

// A request that known versions refuse is carried out: some bytes change.
int FakeNvfs::take(nvfs::Argument& argument, nvfs::IoArgument io) {
  const Group& group = groups_.at(io.shadow);
  const std::uint64_t bytes = std::min(io.size, group.gpu_bytes - io.gpu_offset);
  std::memset(reach(group.gpu_address + io.gpu_offset, bytes), 0xee, bytes);
  io.result = static_cast<std::int64_t>(io.size);
  argument.put(io);
  return 0;
}

int FakeNvfs::control_io(unsigned long call, nvfs::Argument& argument) {
  auto io = argument.get<nvfs::IoArgument>();
  std::unique_lock lock(mutex_);
  requests.push_back({call, io.file_offset, io.size, io.gpu_offset});
  if (const std::int64_t error = check_file(io, call == nvfs::kWrite); error != 0) return refuse(argument, io, error);
  const auto found = groups_.find(io.shadow);
  if (found == groups_.end()) return fail(argument, EINVAL);
  Group& group = found->second;
  if (group.state != State::ready && lie == Lie::dies_of_refusals) return fail(argument, EBUSY);
  if (group.state != State::ready) never("a request on a mapping that is busy or dead");
  const int file_flags = ::fcntl(io.fd, F_GETFL);
  if (const std::int64_t error = check_range(group, io, file_flags); error != 0) return refuse(argument, io, error);
  const bool is_taken = lie >= Lie::takes_offset && lie <= Lie::takes_buffered;
  if (is_taken && is_misfit(io, file_flags)) return take(argument, io);
  const Fault fault = next_fault(call);
  if (fault.error != 0 && nvfs::is_interruption(static_cast<int>(fault.error))) group.state = State::dead;
  if (fault.result != 0) return fault.result;
  if (fault.error != 0) return fail(argument, fault.error);
  group.state = State::in_progress;
  lock.unlock();
  ++under_way;
  drive();
  const std::int64_t result = carry_out(call, io, group, std::min<std::uint64_t>(fault.at_most, io.size));
  --under_way;
  lock.lock();
  if (counts_grow && result >= 0) (call == nvfs::kWrite ? writes_ok_ : reads_ok_) += 1;
  if ((io.flags & nvfs::kSync) == 0) return end_later(group, argument, io, result);
  group.state = result == -EINTR ? State::dead : State::ready;
  if (result == -EINTR) return fail(argument, kInterrupted);
  if (result < 0) return fail(argument, -result);
  scribble(*group.fence);
  io.result = result + fault.told_besides;
  argument.put(io);
  return 0;
}

// The module writes the result first, then the ticket.
int FakeNvfs::end_later(Group& group, nvfs::Argument& argument, nvfs::IoArgument io, std::int64_t result) {
  ++asynchronous;
  answer_later([this, &group, ticket = io.ticket, result] {
    --asynchronous;
    group.state = State::ready;
    group.fence->result = result;
    group.fence->ticket = ticket;
  });
  io.result = 0;
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
  if (holes > 0 && lie != Lie::hides_holes) {
    group.fence->magic = nvfs::kMagic;
    group.fence->meta_version = 1;
    group.fence->file_offset = io.file_offset;
    group.fence->hole_count = holes;
    group.fence->state = nvfs::kSparse;
  }
  return static_cast<std::int64_t>(bytes);
}

bool FakeNvfs::is_regular(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

// True if any part went by DMA. The rest (holes in smaller blocks of the file system) is zeroed in the shadow buffer,
// unreported.
bool FakeNvfs::read_block(const Group& group, const nvfs::IoArgument& io, const std::byte* from,
                          std::uint64_t done) const {
  const std::uint64_t within = (group.gpu_address + io.gpu_offset) % kGpuPage;
  const std::uint64_t offset = static_cast<std::uint64_t>(io.file_offset) + done;
  const bool is_drive_hooked = is_hooked(offset);  // A page is one drive's.
  bool went = false;
  for (std::uint64_t at_byte = 0; at_byte < kBlock; at_byte += block_size) {
    // A raw drive has no holes.
    const bool is_left_out = zeros_are_holes && is_regular(io.fd) && is_zero(from + done + at_byte);
    const bool is_data = has_data(io.fd, offset + at_byte) && !is_left_out;
    const bool goes = is_drive_hooked && is_data;
    const std::uint64_t gpu_offset = lie == Lie::reads_at_beginning ? 0 : io.gpu_offset;
    std::byte* const to = goes ? reach(group.gpu_address + gpu_offset + done, kBlock) : at(io.shadow + within + done);
    std::memcpy(to + at_byte, from + done + at_byte, block_size);
    if (goes && lie == Lie::reads_wrong && done == 0) to[at_byte] ^= std::byte{1};
    went = went || goes;
  }
  return went;
}

bool FakeNvfs::is_zero(const std::byte* block) const {
  return std::all_of(block, block + block_size, [](std::byte one) { return one == std::byte{}; });
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
    const std::byte* const from =
        hooked ? reach(group.gpu_address + io.gpu_offset + done, kBlock) : at(io.shadow + done);
    std::memcpy(pages.data + done, from, kBlock);
  }
  if (lie == Lie::writes_wrong) pages.data[0] ^= std::byte{1};
  const ssize_t count = write_file(io.fd, pages.data, at_most, io.file_offset, is_direct);
  return count < 0 ? -errno : count;
}

}  // namespace penstock::core
