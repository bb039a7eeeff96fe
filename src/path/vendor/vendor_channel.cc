// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_channel.h"

#include "path/vendor/vendor_path.h"

namespace penstock::core {

Completion VendorChannel::move_and_wait(const RoutedRequest& request, const Chunk& chunk) {
  Completion completion{.file_offset = chunk.file_offset,
                        .size = chunk.size,
                        .io_mode = path_.io_mode_of(&device_, *request.file, request.op)};
  Status status;
  const Status entered = device_.run_inside([&] { status = move(request, chunk, completion.bytes); });
  completion.status = entered.ok() ? status : entered;
  return completion;
}

// Continues after a short read that does not end with the file, and after a short write.
Status VendorChannel::move(const RoutedRequest& request, const Chunk& chunk, std::uint64_t& moved) {
  const Result<void*> handle = path_.handle_of(*request.file);
  if (!handle.ok()) return handle.status();
  VendorLibrary& library = path_.library();
  while (moved < chunk.size) {
    std::byte* const memory = request.memory_of(chunk).address() + moved;
    const std::uint64_t size = chunk.size - moved;
    const std::uint64_t offset = chunk.file_offset + moved;
    const Result<std::size_t> count = request.op == Op::read ? library.read(*handle, memory, size, offset)
                                                             : library.write(*handle, memory, size, offset);
    if (!count.ok()) return count.status();
    if (*count > size)
      return failure(Code::no_progress, "use what NVIDIA's library moved, which is more than it was asked for");
    moved += *count;
    if (*count == 0 || (request.op == Op::read && is_at_end(request, chunk, moved))) break;
  }
  const bool is_short_write = request.op == Op::write && moved < chunk.size;
  return is_short_write ? failure(Code::no_progress, "write to the file through NVIDIA's library") : success();
}

bool VendorChannel::is_at_end(const RoutedRequest& request, const Chunk& chunk, std::uint64_t moved) {
  return ends_by(*request.file, chunk.file_offset + moved);
}

}  // namespace penstock::core
