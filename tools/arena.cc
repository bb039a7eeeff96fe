#include "arena.h"

#include <sys/mman.h>

#include <cstring>

#include "failure.h"
#include "units.h"

namespace penstock::tools {

void Arena::Unmap::operator()(std::byte* memory) const { munmap(memory, size); }

Arena Arena::on_device(Session& session, unsigned gpu, std::size_t size) {
  Arena arena(size);
  arena.device_ = require(session.allocate(gpu, size), format_size(size) + " of device memory");
  return arena;
}

Arena Arena::on_host(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail_errno(format_size(size) + " of host memory", "allocate memory");
  Arena arena(size);
  arena.host_ = {static_cast<std::byte*>(memory), Unmap{size}};
  return arena;
}

void Arena::upload(std::size_t offset, std::span<const std::byte> bytes) {
  if (device_) return require(device_->upload(offset, bytes), "upload");
  std::memcpy(data() + offset, bytes.data(), bytes.size());
}

void Arena::download(std::size_t offset, std::span<std::byte> bytes) const {
  if (device_) return require(device_->download(offset, bytes), "download");
  std::memcpy(bytes.data(), data() + offset, bytes.size());
}

}  // namespace penstock::tools
