// SPDX-License-Identifier: Apache-2.0

#include "simulation/peers.h"

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "simulation/machine.h"

namespace penstock::simulation {
namespace {

constexpr std::string_view kDevices = "/sys/bus/pci/devices", kDevice = "/sys/bus/pci/devices/0000:c1:00.0";
constexpr const char* kAddress = "0000:c1:00.0";
constexpr std::uint64_t kScratchBytes = 4 << 20;
constexpr std::size_t kPage = 4096;
constexpr int kErrors[] = {EREMOTEIO, EREMOTEIO, EINVAL, EIO, EOPNOTSUPP, ENODEV};
constexpr auto kNothing = std::byte{0xff};  // What a drive reads where nobody answers.

void count(Fault fault) { ++disk().faults[static_cast<std::size_t>(fault)]; }

// The name's part behind that of the device, or "".
std::string_view part_of(const char* name) {
  const std::string_view whole = name;
  return whole.starts_with(kDevice) ? whole.substr(kDevice.size()) : std::string_view();
}

void* map_pages(void* place, int fd, std::size_t size) {
  static const auto really = REAL(mmap);
  const int flags = MAP_SHARED | (place == nullptr ? 0 : MAP_FIXED);
  void* const memory = really(place, size, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) scheduler().fail("memory of a device cannot be mapped");
  return memory;
}

}  // namespace

Peers& peers() {
  static auto* const only = new Peers;
  return *only;
}

void Peers::plug_in() {
  Random& random = scheduler().random();
  constexpr Way kWays[] = {Way::refused, Way::refused_by_bus, Way::page_at_most, Way::loses_reads, Way::loses_writes};
  constexpr unsigned kRates[] = {0, 0, 100, 12};
  owner_ = ::getpid();
  if (random.one_in(4)) way_ = kWays[random.below(std::size(kWays))];
  bytes_ = std::size_t{1} << random.between(20, 28);
  fails_one_in_ = kRates[random.below(4)];
  calm_ = random.one_in(4) ? 0 : random.between(10, 400);
  if (random.one_in(8)) closes_in_ = random.between(10, 400);
  if (random.one_in(4)) coming_loss_ = std::uint64_t{1} << random.between(3, 12);
  scratch_ = disk().create(kScratchBytes);
  scratch_->be_scratch();
  if (!random.one_in(4)) scratch_->be_calm(100);
  scratch_fd_ = disk().open(scratch_, true);
  open_device = [](const char* name, int& fd) { return peers().open(name, fd); };
  close_device = [](int fd) { return peers().close(fd); };
  map_device = [](void* place, int fd, std::size_t size) { return peers().map(place, fd, size); };
  unmap_device = [](const void* memory) { peers().unmap(memory); };
  is_of_a_device = [](const void* memory) { return peers().owns(memory); };
  refuse_memory = [](bool is_direct, std::span<const iovec> memory) { return peers().refuse(is_direct, memory); };
  reach_memory = [](bool is_write, std::byte* memory, std::size_t size) {
    return peers().reach(is_write, memory, size);
  };
}

bool Peers::is_there() const { return owner_ != 0 && owner_ == ::getpid(); }

Peers::Pieces::const_iterator Peers::find(const void* memory) const {
  const auto* const at = static_cast<const std::byte*>(memory);
  auto after = pieces_.upper_bound(at);
  if (after == pieces_.begin()) return pieces_.end();
  --after;
  return at < after->first + after->second.size ? after : pieces_.end();
}

std::byte* Peers::seen(std::byte* memory) const {
  const auto piece = find(memory);
  return piece == pieces_.end() ? memory : piece->second.alias + (memory - piece->first);
}

// ---- Its memory -----------------------------------------------------------------------------------------------------

bool Peers::open(const char* name, int& fd) {
  const std::string_view part = is_there() ? part_of(name) : std::string_view();
  if (is_there() && std::strcmp(name, "/") == 0) return fd = -1, errno = EACCES, true;
  if (part.empty()) return false;
  if (is_lost_) return fd = -1, errno = ENOENT, true;
  if (part == "/class") return fd = open_text("0x010802\n"), true;
  if (part == "/p2pmem/size") return fd = open_text(std::to_string(bytes_) + "\n"), true;
  if (part != "/p2pmem/allocate") return fd = -1, errno = ENOENT, true;
  scheduler().point(Call::file);
  fd = ::memfd_create("simulated-peer", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes_)) != 0) scheduler().fail("a device can have no memory");
  descriptors_.insert(fd);
  return true;
}

bool Peers::close(int fd) {
  static const auto really = REAL(close);
  return descriptors_.erase(fd) == 1 && (really(fd), true);
}

void* Peers::map(void* place, int fd, std::size_t size) {
  if (!descriptors_.contains(fd)) return nullptr;
  scheduler().point(Call::file);
  std::size_t used = size;
  for (const auto& [begin, piece] : pieces_) used += piece.size;
  if (draw_loss()) return errno = ENODEV, MAP_FAILED;
  if (used > bytes_ || disk().refuses(32)) return errno = ENOMEM, MAP_FAILED;
  auto* const memory = static_cast<std::byte*>(map_pages(place, fd, size));
  pieces_[memory] = {size, static_cast<std::byte*>(map_pages(nullptr, fd, size))};
  return memory;
}

void Peers::unmap(const void* memory) {
  const auto found = pieces_.find(static_cast<const std::byte*>(memory));
  if (found == pieces_.end()) return;
  static const auto really = REAL(munmap);
  Moving::require_none({found->first, found->second.size});
  really(found->second.alias, found->second.size);
  pieces_.erase(found);
}

// ---- What goes wrong ------------------------------------------------------------------------------------------------

bool Peers::draw_loss() {
  if (!is_lost_ && coming_loss_ > 0 && --coming_loss_ == 0) be_lost();
  return is_lost_;
}

void Peers::be_lost() {
  is_lost_ = true;
  count(Fault::broken);
  for (const auto& [begin, piece] : pieces_) {
    if (::mprotect(const_cast<std::byte*>(begin), piece.size, PROT_NONE) != 0)
      scheduler().fail("memory of a device does not go");
  }
}

int Peers::refuse(bool is_direct, std::span<const iovec> memory) {
  const auto count_of =
      std::count_if(memory.begin(), memory.end(), [&](const iovec& one) { return owns(one.iov_base); });
  if (count_of == 0) return 0;
  if (static_cast<std::size_t>(count_of) != memory.size())
    scheduler().fail("memory of a device and of the host are in one request, which stops the kernel");
  if (!is_direct) scheduler().fail("the kernel is to copy to or from a device's memory by the page cache");
  if (draw_loss()) return EFAULT;
  const bool is_large = std::any_of(memory.begin(), memory.end(), [](const iovec& one) { return one.iov_len > kPage; });
  if (closes_in_ > 0 && --closes_in_ == 0) way_ = Way::refused;
  const bool is_refused =
      calm_ > 0 ? (--calm_, false) : fails_one_in_ != 0 && scheduler().random().one_in(fails_one_in_);
  int error = is_refused ? kErrors[scheduler().random().below(std::size(kErrors))] : 0;
  if (way_ == Way::refused) error = EREMOTEIO;
  if (way_ == Way::refused_by_bus) error = EINVAL;
  if (way_ == Way::page_at_most && is_large) error = EIO;
  if (error != 0) count(Fault::refused);
  return error;
}

std::byte* Peers::reach(bool is_write, std::byte* memory, std::size_t size) {
  if (!owns(memory)) return memory;
  const bool is_wrong = way_ == (is_write ? Way::loses_writes : Way::loses_reads);
  if (!is_wrong) return moved_ += size, seen(memory);
  static auto& elsewhere = *new std::vector<std::byte>;
  elsewhere.assign(size, kNothing);
  return elsewhere.data();
}

}  // namespace penstock::simulation

using namespace penstock::simulation;

namespace {

// The folder of devices, as who reads it has it open.
struct Listing {
  dirent entry{};
  bool is_read = false;
};
Listing listing;
DIR* folder_of_devices() { return reinterpret_cast<DIR*>(&listing); }

}  // namespace

extern "C" {

DIR* opendir(const char* name) {
  static const auto really = REAL(opendir);
  if (!peers().is_there() || name != kDevices) return really(name);
  listing = {};
  return folder_of_devices();
}

dirent* readdir(DIR* folder) {
  static const auto really = REAL(readdir);
  if (folder != folder_of_devices()) return really(folder);
  if (std::exchange(listing.is_read, true)) return nullptr;
  std::strcpy(listing.entry.d_name, kAddress);
  return &listing.entry;
}

int closedir(DIR* folder) {
  static const auto really = REAL(closedir);
  return folder == folder_of_devices() ? 0 : really(folder);
}

int access(const char* name, int mode) noexcept {
  static const auto really = REAL(access);
  if (!peers().is_there() || part_of(name) != "/p2pmem/allocate") return really(name, mode);
  return peers().is_lost() ? (errno = ENOENT, -1) : 0;
}

}  // extern "C"
