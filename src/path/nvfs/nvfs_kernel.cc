// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_kernel.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "topology/root.h"

namespace penstock::core {
namespace {

class RealNvfsKernel final : public NvfsKernel {
 public:
  explicit RealNvfsKernel(const std::string& root) {
    if (Result<Root> opened = Root::open(root); opened.ok()) root_.emplace(std::move(*opened));
  }

  int open_node(unsigned number) override {
    const int fd = ::open((nvfs::kNodeStem + std::to_string(number)).c_str(), O_RDWR | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
  }
  void close_node(int fd) override { ::close(fd); }
  std::byte* map(int fd, std::uint64_t bytes, int& error) override {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) return static_cast<std::byte*>(memory);
    error = errno;
    return nullptr;
  }
  void unmap(std::byte* shadow, std::uint64_t bytes) override { ::munmap(shadow, bytes); }
  int control(int fd, unsigned long call, nvfs::Argument& argument) override {
    return ::ioctl(fd, call, &argument) >= 0 ? 0 : -errno;
  }
  std::string text(const char* file) override { return root_ ? root_->read(file).value_or("") : ""; }

 private:
  std::optional<Root> root_;
};

}  // namespace

std::unique_ptr<NvfsKernel> real_nvfs_kernel(const std::string& root) { return std::make_unique<RealNvfsKernel>(root); }

}  // namespace penstock::core
