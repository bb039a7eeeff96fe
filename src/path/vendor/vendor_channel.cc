// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_channel.h"

#include "path/vendor/vendor_path.h"

namespace penstock::core {

Completion VendorChannel::move_and_wait(const Task& task) {
  Completion completion{.cookie = task.cookie,
                        .file_offset = task.chunk.file_offset,
                        .size = task.chunk.size,
                        .io_mode = path_.io_mode_of(&device_, *task.file, task.op)};
  Status status;
  const Status entered = device_.run_inside([&] { status = move(task, completion.bytes); });
  completion.status = entered.ok() ? status : entered;
  return completion;
}

// Continues after a short read that does not end with the file, and after a short write.
Status VendorChannel::move(const Task& task, std::uint64_t& moved) {
  const Result<void*> handle = path_.handle_of(*task.file);
  if (!handle.ok()) return handle.status();
  VendorLibrary& library = path_.library();
  while (moved < task.chunk.size) {
    std::byte* const memory = task.memory.address() + moved;
    const std::uint64_t size = task.chunk.size - moved;
    const std::uint64_t offset = task.chunk.file_offset + moved;
    const Result<std::size_t> count = task.op == Op::read ? library.read(*handle, memory, size, offset)
                                                          : library.write(*handle, memory, size, offset);
    if (!count.ok()) return count.status();
    if (*count > size)
      return failure(Code::no_progress, "use what NVIDIA's library moved, which is more than it was asked for");
    moved += *count;
    if (*count == 0 || (task.op == Op::read && is_at_end(task, moved))) break;
  }
  const bool is_short_write = task.op == Op::write && moved < task.chunk.size;
  return is_short_write ? failure(Code::no_progress, "write to the file through NVIDIA's library") : success();
}

bool VendorChannel::is_at_end(const Task& task, std::uint64_t moved) {
  const Result<std::uint64_t> size = task.file->size();
  return size.ok() && task.chunk.file_offset + moved >= *size;
}

}  // namespace penstock::core
