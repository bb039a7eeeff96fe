// The memory a sub-command moves data through: of a device, or plain page-aligned host memory. One owner; the Session
// must outlive it. Uploads and downloads that fail throw a Failure.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "penstock/penstock.hpp"

namespace penstock::tools {

class Arena {
 public:
  static Arena on_device(Session& session, unsigned gpu, std::size_t size);
  static Arena on_host(std::size_t size);

  std::byte* data() const { return device_ ? device_->data() : host_.get(); }
  std::size_t size() const { return size_; }
  void upload(std::size_t offset, std::span<const std::byte> bytes);
  void download(std::size_t offset, std::span<std::byte> bytes) const;

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* memory) const;
  };
  explicit Arena(std::size_t size) : size_(size) {}

  std::size_t size_;
  std::optional<DeviceMemory> device_;
  std::unique_ptr<std::byte, Unmap> host_{nullptr, Unmap{0}};
};

}  // namespace penstock::tools
