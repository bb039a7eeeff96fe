// SPDX-License-Identifier: Apache-2.0

#include "cufile/userspace_file.h"

#include <sys/types.h>

#include <algorithm>
#include <cerrno>

namespace penstock::core {
namespace {

const char* step_of(Op op) {
  return op == Op::read ? "read by the file system's own call" : "write by the file system's own call";
}

class CallbackFile final : public UserspaceFile {
 public:
  CallbackFile(const void* handle, const CUfileFSOps_t* calls) : handle_(handle), calls_(calls) {}

  // Callbacks report errors as -1 with errno, or as a negative errno.
  Result<std::size_t> move(Op op, std::byte* memory, std::size_t size, std::uint64_t offset) override {
    const bool able = op == Op::read ? calls_->read != nullptr : calls_->write != nullptr;
    if (!able) return failure(Code::unsupported, step_of(op));
    errno = 0;
    const auto position = static_cast<off_t>(offset);
    auto* text = reinterpret_cast<char*>(memory);
    const ssize_t moved = op == Op::read ? calls_->read(handle_, text, size, position, nullptr)
                                         : calls_->write(handle_, text, size, position, nullptr);
    if (moved < -1) return os_failure(static_cast<int>(-std::max<ssize_t>(moved, -4095)), step_of(op));
    if (moved < 0) return os_failure(errno != 0 ? errno : EIO, step_of(op));
    if (static_cast<std::size_t>(moved) > size) return failure(Code::no_progress, step_of(op));
    return static_cast<std::size_t>(moved);
  }

 private:
  const void* const handle_;
  const CUfileFSOps_t* const calls_;
};

}  // namespace

Result<std::unique_ptr<UserspaceFile>> userspace_file(const void* handle, const CUfileFSOps_t* calls) {
  if (calls == nullptr) return failure(Code::unsupported, "register the file without its file system's calls");
  return std::unique_ptr<UserspaceFile>(std::make_unique<CallbackFile>(handle, calls));
}

}  // namespace penstock::core
