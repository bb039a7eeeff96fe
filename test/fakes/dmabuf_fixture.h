// SPDX-License-Identifier: Apache-2.0

// For tests of the path dmabuf: a raw drive of a known content, on a kernel that takes dma-bufs (fake_dmabuf.h), a GPU
// with memory of the user's, and the path between them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "fakes/fake_gpu.h"
#include "fakes/fake_storage.h"
#include "fakes/manual_clock.h"
#include "fakes/named_scratch.h"
#include "fakes/path_fixture.h"
#include "path/dmabuf/dmabuf_path.h"

namespace penstock::core {

// Knows nothing against any machine, but the reason that a test sets against the drive.
class QuietOutlook final : public Outlook {
 public:
  QuietOutlook(const Reason& drive, const std::uint64_t& request_max) : drive_(drive), request_max_(request_max) {}
  Reason of_device(const DeviceFacts&) override { return Reason::none; }
  Reason of_file(File&, Op) override { return Reason::none; }
  Reason of_route(const DeviceFacts&, File&) override { return Reason::none; }
  Reason of_drive(const DeviceFacts&, File&) override { return drive_; }
  std::uint64_t request_max(File&) override { return request_max_; }

 private:
  const Reason& drive_;
  const std::uint64_t& request_max_;
};

class DmabufFixture : public PathFixture {
 public:
  static constexpr std::size_t kDriveBytes = 320u << 10;
  static constexpr std::size_t kUserBytes = 1u << 20;

 protected:
  explicit DmabufFixture(std::unique_ptr<FakeGpu> gpu = std::make_unique<FakeGpu>()) {
    storage_.content.resize(kDriveBytes);
    for (std::size_t i = 0; i < kDriveBytes; ++i) storage_.content[i] = byte_at(i);
    storage_.open_flags = O_RDWR | O_DIRECT;
    storage_.type = FileType::block_device;
    storage_.dmabufs = &kernel_;
    kernel_.on_wait = [this] { clock_.advance(std::chrono::seconds(1)); };
    storage_.takes_named_scratch = true;
    gpu_ = gpu.get();
    device_ = gpu_;
    devices_ = std::move(gpu);
    memory_ = static_cast<char*>(*gpu_->allocate(kUserBytes));
    make_path({.is_on = true, .scratch = scratch_.name()});
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
  }
  void TearDown() override {
    path_->forget_file(*file_);
    file_.reset();
    path_.reset();
    devices_.reset();
  }
  Path& path() override { return *path_; }

  void make_path(const DmabufRules& rules) {
    if (path_ != nullptr && file_ != nullptr) path_->forget_file(*file_);
    const DmabufPath::Seams seams{.clock = clock_, .open_file = open_file_};
    path_ = std::make_unique<DmabufPath>(storage_, std::make_unique<QuietOutlook>(drive_reason_, request_max_), rules,
                                         seams);
  }
  void open_file_anew() {
    path_->forget_file(*file_);
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
  }
  static char byte_at(std::size_t i) { return static_cast<char>(i * 31 + i / 257); }
  Verdict judge(Op op = Op::read) { return path_->judge(*file_, devices_->describe(memory_), op); }
  bool wrote_to_user_drive() const {
    return std::any_of(storage_.accesses.begin(), storage_.accesses.end(),
                       [](const FakeStorage::Access& access) { return !access.scratch && access.op == Op::write; });
  }
  // Reads through a channel of the test's, and compares.
  Reason read_and_compare(Channel& channel, std::uint64_t offset, std::uint64_t size) {
    std::memset(memory_, 0x5a, size + 1);
    Reason bounced = Reason::none;
    const Plan plan = this->plan(Op::read, offset, size);
    for (std::uint64_t i = 0; i < plan.chunk_count(); ++i) {
      const Completion completion = channel.move_and_wait(request(Op::read, size), plan.chunk(i));
      EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
      if (completion.bounced != Reason::none) bounced = completion.bounced;
    }
    EXPECT_EQ(std::memcmp(memory_, storage_.content.data() + offset, size), 0);
    EXPECT_EQ(memory_[size], 0x5a) << "nothing is written behind the request";
    return bounced;
  }

  FakeDmabufs kernel_;
  FakeStorage storage_;
  NamedScratch scratch_;
  ManualClock clock_;
  Reason drive_reason_ = Reason::none;
  std::uint64_t request_max_ = 0;  // Of the drive; 0: not told.
  DmabufFile::Opened (*open_file_)(File&, DmabufDrives&, bool) = open_file_on_drive;
  FakeGpu* gpu_ = nullptr;
  std::unique_ptr<DmabufPath> path_;
};

}  // namespace penstock::core
