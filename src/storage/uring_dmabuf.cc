// SPDX-License-Identifier: Apache-2.0

#include "storage/uring_dmabuf.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace penstock::core {
namespace {

constexpr unsigned kBuffersUpdate = 16;  // IORING_REGISTER_BUFFERS_UPDATE
constexpr std::uint32_t kExtended = 2;   // The update's descriptors are of the type below, not iovec.

enum class BufferType : std::uint32_t { empty = 0, memory = 1, dmabuf = 2 };

struct BufferDescriptor {
  BufferType type = BufferType::empty;
  std::uint32_t flags = 0;
  std::uint64_t size = 0;
  std::uint64_t address = 0;
  std::int32_t dmabuf = 0;
  std::int32_t drive = 0;
  std::uint64_t zero[6] = {};
};
static_assert(sizeof(BufferDescriptor) == 80 && offsetof(BufferDescriptor, dmabuf) == 24);

struct BuffersUpdate {
  std::uint32_t slot = 0;
  std::uint32_t flags = kExtended;
  std::uint64_t descriptors = 0;
  std::uint64_t tags = 0;
  std::uint32_t count = 1;
  std::uint32_t zero = 0;
};
static_assert(sizeof(BuffersUpdate) == 32 && offsetof(BuffersUpdate, count) == 24);

// Returns the number of descriptors that were taken, or a negative errno.
int update(int ring, unsigned slot, const BufferDescriptor& descriptor, std::uint64_t tag) {
  BuffersUpdate update{.slot = slot,
                       .descriptors = reinterpret_cast<std::uintptr_t>(&descriptor),
                       .tags = reinterpret_cast<std::uintptr_t>(&tag)};
  const long result = ::syscall(__NR_io_uring_register, ring, kBuffersUpdate, &update, sizeof update);
  return result < 0 ? -errno : static_cast<int>(result);
}

int error_of(int taken) { return taken == 1 ? 0 : taken < 0 ? -taken : EIO; }

}  // namespace

int set_uring_dmabuf(int ring, unsigned slot, int dmabuf, int drive, std::uint64_t tag) {
  return error_of(update(ring, slot, {.type = BufferType::dmabuf, .dmabuf = dmabuf, .drive = drive}, tag));
}

int clear_uring_dmabuf(int ring, unsigned slot) { return error_of(update(ring, slot, {}, 0)); }

}  // namespace penstock::core
