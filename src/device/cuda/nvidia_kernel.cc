// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/nvidia_kernel.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "base/unique_fd.h"

namespace penstock::core {

using namespace nvidia;

namespace {

class RealKernel final : public NvidiaKernel {
 public:
  int open(const char* path) override { return answer(::open(path, O_RDWR | O_CLOEXEC)); }
  void close(int fd) override { ::close(fd); }
  // A signal can only interrupt a request at its start, before anything was done.
  int control(int fd, unsigned long request, void* argument) override {
    int result = 0;
    do {
      result = answer(::ioctl(fd, request, argument));
    } while (result == -EINTR);
    return result;
  }
  std::byte* reserve(std::size_t size) override {
    void* const memory = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  }
  // Linux removes the old mapping before it asks the driver, so a failure leaves a hole that anyone may fill.
  int map_shared(std::byte* address, std::size_t size, int fd) override {
    const auto offset = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(address));
    return ::mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED ? -errno : 0;
  }
  void unmap(std::byte* address, std::size_t size) override { ::munmap(address, size); }

 private:
  static int answer(int result) { return result < 0 ? -errno : result; }
};

struct RmStatusText {
  RmStatus status;
  int nearest_errno;
  const char* name;
};
constexpr RmStatusText kRmStatusTexts[] = {
    {NV_ERR_BUSY_RETRY, EAGAIN, "NV_ERR_BUSY_RETRY"},
    {NV_ERR_GPU_IS_LOST, ENODEV, "NV_ERR_GPU_IS_LOST"},
    {NV_ERR_GPU_UUID_NOT_FOUND, ENODEV, "NV_ERR_GPU_UUID_NOT_FOUND"},
    {NV_ERR_ILLEGAL_ACTION, EINVAL, "NV_ERR_ILLEGAL_ACTION"},
    {NV_ERR_INSUFFICIENT_RESOURCES, ENOMEM, "NV_ERR_INSUFFICIENT_RESOURCES"},
    {NV_ERR_INSUFFICIENT_PERMISSIONS, EPERM, "NV_ERR_INSUFFICIENT_PERMISSIONS"},
    {NV_ERR_INVALID_ADDRESS, EINVAL, "NV_ERR_INVALID_ADDRESS"},
    {NV_ERR_INVALID_ARGUMENT, EINVAL, "NV_ERR_INVALID_ARGUMENT"},
    {NV_ERR_INVALID_DEVICE, ENODEV, "NV_ERR_INVALID_DEVICE"},
    {NV_ERR_INVALID_OBJECT_HANDLE, EINVAL, "NV_ERR_INVALID_OBJECT_HANDLE"},
    {NV_ERR_INVALID_OBJECT_PARENT, EINVAL, "NV_ERR_INVALID_OBJECT_PARENT"},
    {NV_ERR_INVALID_PARAM_STRUCT, EINVAL, "NV_ERR_INVALID_PARAM_STRUCT"},
    {NV_ERR_INVALID_PARAMETER, EINVAL, "NV_ERR_INVALID_PARAMETER"},
    {NV_ERR_INVALID_STATE, EINVAL, "NV_ERR_INVALID_STATE"},
    {NV_ERR_NO_MEMORY, ENOMEM, "NV_ERR_NO_MEMORY"},
    {NV_ERR_NOT_SUPPORTED, EOPNOTSUPP, "NV_ERR_NOT_SUPPORTED"},
    {NV_ERR_OBJECT_NOT_FOUND, ENODEV, "NV_ERR_OBJECT_NOT_FOUND"},
    {NV_ERR_UVM_ADDRESS_IN_USE, EBUSY, "NV_ERR_UVM_ADDRESS_IN_USE"},
    {kUnanswered, EPROTO, "none: the driver has another interface"},
};

const RmStatusText* text_of(RmStatus status) {
  for (const RmStatusText& text : kRmStatusTexts) {
    if (text.status == status) return &text;
  }
  return nullptr;
}

// Finds two numbers as in "580.159.04", wherever they stand in the text.
bool read_pair(const std::string& text, int& first, int& second) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins_word = i == 0 || std::isspace(static_cast<unsigned char>(text[i - 1])) != 0;
    if (begins_word && std::sscanf(text.c_str() + i, "%4d.%4d", &first, &second) == 2) return true;
  }
  first = second = 0;
  return false;
}

std::string read_text(const std::string& path) {
  char text[256] = "";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = fd.valid() ? ::read(fd.get(), text, sizeof text - 1) : 0;
  return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

}  // namespace

NvidiaKernel& NvidiaKernel::real() {
  static RealKernel kernel;
  return kernel;
}

NvidiaVersions NvidiaVersions::read(const std::string& root) {
  NvidiaVersions versions;
  if (!read_pair(read_text(root + "/sys/module/nvidia/version"), versions.driver.major, versions.driver.minor)) {
    read_pair(read_text(root + "/proc/driver/nvidia/version"), versions.driver.major, versions.driver.minor);
  }
  read_pair(read_text(root + "/proc/sys/kernel/osrelease"), versions.kernel.major, versions.kernel.minor);
  return versions;
}

std::string describe(const NvidiaStep& step) {
  std::string sentence = describe(step.status);
  if (step.rm_status == NV_OK) return sentence;
  const RmStatusText* const text = text_of(step.rm_status);
  char status[24] = "";
  std::snprintf(status, sizeof status, "0x%x", step.rm_status);
  return sentence + " (" + (text != nullptr ? std::string(text->name) + ", " : "NVIDIA status ") + status + ")";
}

NvidiaStep NvidiaStep::of(RmStatus status, const char* name) {
  if (status == NV_OK) return {};
  const RmStatusText* const text = text_of(status);
  return {os_failure(text != nullptr ? text->nearest_errno : EIO, name), status};
}

}  // namespace penstock::core
