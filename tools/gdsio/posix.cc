// SPDX-License-Identifier: Apache-2.0

// The transfer types that do without the library, to compare it with: pread and pwrite on host memory, and with copies
// to or from the device that gdsio makes itself.
#include <fmt/format.h>
#include <unistd.h>

#include <deque>
#include <vector>

#include "tools/common/failure.h"
#include "tools/gdsio/transport.h"

namespace penstock::tools {
namespace {

std::uint64_t move_bytes(const ThreadSetup& setup, std::byte* memory, const Extent& extent) {
  std::uint64_t done = 0;
  while (done < extent.size) {
    const auto offset = static_cast<off_t>(extent.offset + done);
    const ssize_t count = setup.is_write ? pwrite(setup.file->fd(), memory + done, extent.size - done, offset)
                                         : pread(setup.file->fd(), memory + done, extent.size - done, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      const char* hint = error == EINVAL ? "; O_DIRECT may want larger multiples: -O 1 opens the file without" : "";
      const Status status(
          penstock_status{PENSTOCK_DOMAIN_OS, 0, error, setup.is_write ? "write the file" : "read the file"});
      throw Failure(fmt::format("{}: at offset {}: {}{}", setup.file->path(), offset, status.message(), hint));
    }
    if (count == 0) break;
    done += static_cast<std::uint64_t>(count);
  }
  return done;
}

// -x 1
class HostTransport final : public Transport {
 public:
  explicit HostTransport(const ThreadSetup& setup) : Transport(memory_of(setup), setup.slot_size), setup_(setup) {}

  void start(unsigned slot, const Extent& extent) override {
    done_ = completion_of(slot, move_bytes(setup_, arena().data() + slot * slot_size(), extent));
  }
  unsigned reap(std::span<Completion> done) override {
    done[0] = done_;
    return 1;
  }

 private:
  const ThreadSetup setup_;
  Completion done_;
};

// Host memory for each slot, and copies between it and the device's memory; each slot's copy is waited for by itself.
class SlotCopies {
 public:
  virtual ~SlotCopies() = default;
  virtual std::byte* staging(unsigned slot) = 0;
  virtual void to_device(unsigned slot, std::byte* memory, std::size_t size) = 0;
  virtual void to_host(unsigned slot, const std::byte* memory, std::size_t size) = 0;
  virtual void wait(unsigned slot) = 0;
};

class CudaCopies final : public SlotCopies {
 public:
  explicit CudaCopies(const ThreadSetup& setup)
      : cuda_(*setup.cuda), slot_size_(setup.slot_size), staging_(cuda_.pinned_host(slot_size_ * setup.depth)) {
    for (unsigned slot = 0; slot < setup.depth; ++slot) {
      const CudaDriver::Stream stream = cuda_.open_stream();
      streams_.emplace_back(stream, [this](void* opened) { cuda_.close_stream(opened); });
    }
  }
  std::byte* staging(unsigned slot) override { return staging_.data() + slot * slot_size_; }
  void to_device(unsigned slot, std::byte* memory, std::size_t size) override {
    cuda_.copy_to_device(memory, staging(slot), size, streams_[slot].get());
  }
  void to_host(unsigned slot, const std::byte* memory, std::size_t size) override {
    cuda_.copy_to_host(staging(slot), memory, size, streams_[slot].get());
  }
  void wait(unsigned slot) override { cuda_.wait(streams_[slot].get()); }

 private:
  const CudaDriver& cuda_;
  const std::uint64_t slot_size_;
  Arena staging_;
  std::vector<std::shared_ptr<void>> streams_;
};

// The copies if host memory stands in for a GPU: they are complete when the call returns.
class StandInCopies final : public SlotCopies {
 public:
  explicit StandInCopies(const ThreadSetup& setup)
      : session_(setup.session), slot_size_(setup.slot_size), staging_(Arena::on_host(slot_size_ * setup.depth)) {}
  std::byte* staging(unsigned slot) override { return staging_.data() + slot * slot_size_; }
  void to_device(unsigned slot, std::byte* memory, std::size_t size) override {
    require(penstock_device_upload(session_, memory, staging(slot), size), "copy");
  }
  void to_host(unsigned slot, const std::byte* memory, std::size_t size) override {
    require(penstock_device_download(session_, staging(slot), memory, size), "copy");
  }
  void wait(unsigned) override {}

 private:
  penstock_session* const session_;
  const std::uint64_t slot_size_;
  Arena staging_;
};

// -x 2 to 4: reads or writes the next slot while one slot is being copied.
class StagedTransport final : public Transport {
 public:
  explicit StagedTransport(const ThreadSetup& setup)
      : Transport(memory_of(setup), setup.slot_size), setup_(setup), extents_(setup.depth), moved_(setup.depth) {
    if (setup.cuda != nullptr) copies_ = std::make_unique<CudaCopies>(setup);
    else copies_ = std::make_unique<StandInCopies>(setup);
  }

  void start(unsigned slot, const Extent& extent) override {
    std::byte* memory = arena().data() + slot * slot_size();
    extents_[slot] = extent;
    if (setup_.is_write) {
      copies_->to_host(slot, memory, extent.size);
    } else {
      moved_[slot] = move_bytes(setup_, copies_->staging(slot), extent);
      copies_->to_device(slot, memory, moved_[slot]);
    }
    under_way_.push_back(slot);
  }

  unsigned reap(std::span<Completion> done) override {
    const unsigned slot = under_way_.front();
    under_way_.pop_front();
    copies_->wait(slot);
    if (setup_.is_write) moved_[slot] = move_bytes(setup_, copies_->staging(slot), extents_[slot]);
    done[0] = completion_of(slot, moved_[slot]);
    return 1;
  }

 private:
  const ThreadSetup setup_;
  std::vector<Extent> extents_;
  std::vector<std::uint64_t> moved_;
  std::deque<unsigned> under_way_;
  std::unique_ptr<SlotCopies> copies_;
};

}  // namespace

std::unique_ptr<Transport> open_posix_transport(const ThreadSetup& setup) {
  if (setup.transfer == TransferType::cpu_only) return std::make_unique<HostTransport>(setup);
  return std::make_unique<StagedTransport>(setup);
}

}  // namespace penstock::tools
