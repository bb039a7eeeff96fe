// SPDX-License-Identifier: Apache-2.0

// Device memory that real dma-bufs can be made of, for emulated machines. PENSTOCK_FAKE_CUDA_MEMORY says where all of
// it lies: `udmabuf`, in the host's memory, or `vfio:GROUP:DEVICE`, behind BAR 2 of a PCI device that vfio-pci has.
// PENSTOCK_FAKE_CUDA_EXPORTS says what an export reaches: `right`, `other` (memory that nobody sees), `shifted` (from a
// page behind on), or, in the host's memory, `first` (all but the first page is memory that nobody sees).
// PENSTOCK_FAKE_CUDA_ADDRESS is the first GPU's PCI address.
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "fakes/fake_cuda/driver_state.h"

namespace penstock::fake_cuda {
namespace {

constexpr std::size_t kPage = 4096, kGpuPage = 2u << 20;
constexpr std::size_t kHostBytes = 512u << 20;
constexpr unsigned kBar = 2;
constexpr unsigned kFeatureDmaBuf = 11;  // Newer than the headers that this is built with.

struct BarExport {
  std::uint32_t bytes = sizeof(BarExport), feature = VFIO_DEVICE_FEATURE_GET | kFeatureDmaBuf;
  std::uint32_t region = kBar, open_flags = O_RDWR | O_CLOEXEC, flags = 0, ranges = 1;
  std::uint64_t offset = 0, size = 0;
};

// Device memory is the first half of what can be exported. Nobody sees the other half.
struct Arena {
  std::byte* begin = nullptr;
  std::size_t size = 0;
  int fd = -1;  // A memfd, or the device.
  bool is_bar = false;
  std::map<std::size_t, std::size_t> taken = {};  // Sizes by offset.
};

[[noreturn]] void stop(const char* step) {
  std::perror(step);
  std::abort();
}

int checked(int result, const char* step) {
  if (result < 0) stop(step);
  return result;
}

void map(Arena& arena, std::size_t size, off_t at) {
  arena.size = size / 2;
  void* const memory = ::mmap(nullptr, arena.size, PROT_READ | PROT_WRITE, MAP_SHARED, arena.fd, at);
  if (memory == MAP_FAILED) stop("map device memory");
  arena.begin = static_cast<std::byte*>(memory);
}

void open_host_memory(Arena& arena) {
  arena.fd = checked(::memfd_create("fake-gpu-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd_create");
  checked(::ftruncate(arena.fd, 2 * kHostBytes), "ftruncate");
  checked(::fcntl(arena.fd, F_ADD_SEALS, F_SEAL_SHRINK), "seal");
  map(arena, 2 * kHostBytes, 0);
}

// All descriptors stay open: the memory goes with the last of them.
void open_bar(Arena& arena, const std::string& group_name, const std::string& device_name) {
  const int container = checked(::open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC), "open VFIO's container");
  const int group = checked(::open(("/dev/vfio/" + group_name).c_str(), O_RDWR | O_CLOEXEC), "open VFIO's group");
  checked(::ioctl(group, VFIO_GROUP_SET_CONTAINER, &container), "set VFIO's container");
  checked(::ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU), "set VFIO's IOMMU");
  arena.fd = checked(::ioctl(group, VFIO_GROUP_GET_DEVICE_FD, device_name.c_str()), "open VFIO's device");
  arena.is_bar = true;
  vfio_region_info region{};
  region.argsz = sizeof region;
  region.index = kBar;
  checked(::ioctl(arena.fd, VFIO_DEVICE_GET_REGION_INFO, &region), "ask for the BAR");
  map(arena, region.size, static_cast<off_t>(region.offset));
}

Arena open_arena(std::string_view words) {
  Arena arena;
  if (words == "udmabuf") open_host_memory(arena);
  char group[32] = "", device[32] = "";
  if (std::sscanf(words.data(), "vfio:%31[^:]:%31s", group, device) == 2) open_bar(arena, group, device);
  if (arena.fd < 0 && !words.empty()) stop("read PENSTOCK_FAKE_CUDA_MEMORY");
  return arena;
}

Arena& arena() {
  static const char* const words = std::getenv("PENSTOCK_FAKE_CUDA_MEMORY");
  static Arena only = open_arena(words == nullptr ? "" : words);
  return only;
}

std::string_view exports() {
  const char* const word = std::getenv("PENSTOCK_FAKE_CUDA_EXPORTS");
  return word == nullptr ? "right" : word;
}

std::size_t offset_of_export(std::size_t offset) {
  if (exports() == "other") return offset + arena().size;
  return exports() == "shifted" ? offset + kPage : offset;
}

// The name says to a stand-in for the kernel where the memory lies. The kernel shows it and makes nothing of it.
int export_bar(std::size_t offset, std::size_t size) {
  BarExport request{};
  request.offset = offset_of_export(offset);
  request.size = size;
  const int fd = ::ioctl(arena().fd, VFIO_DEVICE_FEATURE, &request);
  const std::string name = "bar:" + std::to_string(request.offset);
  if (fd >= 0) (void)::ioctl(fd, DMA_BUF_SET_NAME, name.c_str());
  return fd;
}

int export_host_memory(std::size_t offset, std::size_t size) {
  struct {
    std::uint32_t flags = UDMABUF_FLAGS_CLOEXEC, count = 1;
    udmabuf_create_item items[2] = {};
  } list;
  const auto memory = static_cast<std::uint32_t>(arena().fd);
  const std::size_t first = exports() == "first" ? kPage : size;
  list.count = first < size ? 2 : 1;
  list.items[0] = {memory, 0, offset_of_export(offset), first};
  list.items[1] = {memory, 0, arena().size + offset + first, size - first};
  const int device = ::open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  const int fd = device < 0 ? -1 : ::ioctl(device, UDMABUF_CREATE_LIST, &list);
  if (device >= 0) ::close(device);
  return fd;
}

}  // namespace

bool is_memory_exported() { return arena().fd >= 0; }

void* take_exported(std::size_t size) {
  const std::size_t bytes = (size + kGpuPage - 1) / kGpuPage * kGpuPage;
  std::size_t at = 0;
  for (const auto& [offset, taken] : arena().taken) {
    if (offset - at >= bytes) break;
    at = offset + taken;
  }
  if (at + bytes > arena().size) return nullptr;
  arena().taken[at] = bytes;
  return arena().begin + at;
}

bool give_back_exported(CUdeviceptr memory) {
  const CUdeviceptr begin = address(arena().begin);
  return is_memory_exported() && memory >= begin && arena().taken.erase(memory - begin) == 1;
}

int export_memory(CUdeviceptr memory, std::size_t size) {
  const std::size_t offset = memory - address(arena().begin);
  return arena().is_bar ? export_bar(offset, size) : export_host_memory(offset, size);
}

}  // namespace penstock::fake_cuda
