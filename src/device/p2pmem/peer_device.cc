// SPDX-License-Identifier: Apache-2.0

#include "device/p2pmem/peer_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/align.h"
#include "base/invariant.h"
#include "base/page_size.h"
#include "base/unique_fd.h"
#include "base/unique_folder.h"

namespace penstock::core {
namespace {

constexpr std::size_t kStepBytes = 256u << 10;  // Bytes per copy step.
constexpr unsigned long kDisplayClass = 0x03;
// Larger allocations are aligned to GPU pages, as on a GPU: nvidia-fs and its stand-in map only whole ones.
constexpr std::size_t kGpuPage = 64u << 10;

// A number in a small file of /sys, or 0.
unsigned long long read_number(const std::string& path, int base) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[32] = "";
  if (fd.get() < 0 || ::read(fd.get(), text, sizeof text - 1) <= 0) return 0;
  return std::strtoull(text, nullptr, base);
}

bool is_gpu(const std::string& directory) { return read_number(directory + "/class", 16) >> 16 == kDisplayClass; }

// Returns MAP_FAILED if the mapping fails.
void* map_memory(int fd, std::size_t bytes) {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  if (bytes < kGpuPage) return ::mmap(nullptr, bytes, kAccess, MAP_SHARED, fd, 0);
  void* const room = ::mmap(nullptr, bytes + kGpuPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<std::byte*>(room);
  auto* const place = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<std::uintptr_t>(room), kGpuPage));
  void* const memory = ::mmap(place, bytes, kAccess, MAP_SHARED | MAP_FIXED, fd, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, bytes + kGpuPage);
    errno = error;
    return MAP_FAILED;
  }
  const std::size_t before = static_cast<std::size_t>(place - begin);
  if (before > 0) ::munmap(begin, before);
  if (before < kGpuPage) ::munmap(place + bytes, kGpuPage - before);
  return memory;
}

// CPU loads and stores would kill the process if the memory is gone. So the kernel moves the bytes, to and from a file
// in memory, and returns EFAULT.
class PeerCopyQueue final : public CopyQueue {
 public:
  PeerCopyQueue(UniqueFd between, unsigned markers) : between_(std::move(between)), markers_(markers) {}

  Status copy_many(std::span<const Copy> copies, Direction direction) override {
    Status status;
    for (const Copy& one : copies) {
      const bool to_device = direction == Direction::to_device;
      void* const to = to_device ? one.device_address : one.host;
      if (status.ok()) status = copy_on_device(to, to_device ? one.host : one.device_address, one.size);
    }
    return status;
  }
  // The kernel moves these bytes, too, since a p2pmem device has no copy engine.
  Status copy_on_device(void* to, const void* from, std::size_t size) override {
    return copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
  }
  Status record(unsigned marker) override {
    PENSTOCK_INVARIANT(marker < markers_);
    return success();
  }
  Result<bool> reached(unsigned) override { return true; }
  Status wait(unsigned, bool) override { return success(); }

 private:
  Status copy(std::byte* to, const std::byte* from, std::size_t size) {
    constexpr const char* kStep = "copy to or from the device's memory";
    for (std::size_t done = 0; done < size;) {
      const std::size_t step = std::min(size - done, kStepBytes);
      const ssize_t in = ::pwrite(between_.get(), from + done, step, 0);
      const ssize_t out = in > 0 ? ::pread(between_.get(), to + done, static_cast<std::size_t>(in), 0) : in;
      if (out <= 0) return errno == EFAULT ? failure(Code::device_lost, kStep) : os_failure(errno, kStep);
      done += static_cast<std::size_t>(out);
    }
    return success();
  }

  const UniqueFd between_;
  const unsigned markers_;
};

}  // namespace

PeerDevice::PeerDevice(int ordinal, const char* kind, std::string directory)
    : Device(this), directory_(std::move(directory)) {
  const std::string address = directory_.substr(directory_.rfind('/') + 1);
  facts_.ordinal = ordinal;
  facts_.kind = kind;
  std::snprintf(facts_.name, sizeof facts_.name, "memory of PCI device %.16s", address.c_str());
  std::snprintf(facts_.pci_address, sizeof facts_.pci_address, "%.15s", address.c_str());
  std::snprintf(reinterpret_cast<char*>(facts_.uuid), sizeof facts_.uuid, "%.15s", address.c_str());
  facts_.memory_bytes = read_number(directory_ + "/p2pmem/size", 10);
}

Result<std::unique_ptr<CopyQueue>> PeerDevice::open_copy_queue(unsigned markers) {
  UniqueFd between(::memfd_create("penstock-peer-copy", MFD_CLOEXEC));
  if (between.get() < 0) return os_failure(errno, "make room for copies to the device's memory");
  return std::unique_ptr<CopyQueue>(std::make_unique<PeerCopyQueue>(std::move(between), markers));
}

Result<void*> PeerDevice::allocate(std::size_t size) {
  constexpr const char* kStep = "map the device's memory";
  if (size == 0) return failure(Code::invalid_argument, kStep);
  const std::size_t bytes = align_up(size, size >= kGpuPage ? kGpuPage : page_size());
  if (bytes < size || bytes > facts_.memory_bytes) return failure(Code::out_of_memory, kStep);
  const UniqueFd fd(::open((directory_ + "/p2pmem/allocate").c_str(), O_RDWR | O_CLOEXEC));
  if (fd.get() < 0) return os_failure(errno, kStep);
  void* const memory = map_memory(fd.get(), bytes);
  if (memory == MAP_FAILED) return errno == ENOMEM ? failure(Code::out_of_memory, kStep) : os_failure(errno, kStep);
  pieces_.add(memory, bytes);
  return memory;
}

bool PeerDevice::find(const void* pointer, PointerFacts& facts) {
  const std::optional<Piece> piece = pieces_.find(pointer);
  if (!piece) return false;
  facts = {.kind = MemoryKind::device, .device = this, .base = piece->base, .size = piece->size, .mapped = piece->base};
  return true;
}

Result<std::unique_ptr<DeviceSet>> PeerDeviceSet::open(const DeviceTerms& terms, const std::string& pci_devices) {
  constexpr const char* kStep = "find a PCI device that offers memory (p2pmem) and is no GPU";
  const UniqueFolder listing(::opendir(pci_devices.c_str()));
  if (listing == nullptr) return os_failure(errno, kStep);
  std::vector<std::string> directories;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string directory = pci_devices + "/" + entry->d_name;
    if (entry->d_name[0] == '.' || ::access((directory + "/p2pmem/allocate").c_str(), F_OK) != 0) continue;
    if (!is_gpu(directory) && directories.size() < kDevicesMax) directories.push_back(directory);
  }
  if (directories.empty()) return failure(Code::no_device, kStep);
  std::sort(directories.begin(), directories.end());
  auto set = std::make_unique<PeerDeviceSet>();
  for (const std::string& directory : directories) {
    const auto ordinal = static_cast<int>(terms.first_ordinal + set->devices_.size());
    set->devices_.push_back(std::make_unique<PeerDevice>(ordinal, terms.kind, directory));
  }
  return std::unique_ptr<DeviceSet>(std::move(set));
}

Result<Device*> PeerDeviceSet::device(unsigned place) {
  if (place >= devices_.size()) return failure(Code::no_device, "find the device");
  return static_cast<Device*>(devices_[place].get());
}

PointerFacts PeerDeviceSet::describe(const void* pointer) {
  PointerFacts facts;
  for (const auto& device : devices_) {
    if (device->find(pointer, facts)) break;
  }
  return facts;
}

}  // namespace penstock::core
