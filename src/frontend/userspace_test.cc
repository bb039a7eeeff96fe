// SPDX-License-Identifier: Apache-2.0

// Files of file systems in user space, by every way to ask: their own calls move the bytes, and nothing else does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "frontend/channel_queue.h"
#include "frontend/dry_run.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

struct Content {
  std::string bytes;
  std::size_t at_most = SIZE_MAX;  // Moved by one call.
  int fails_with = 0;
};

class MemoryFile final : public UserspaceFile {
 public:
  explicit MemoryFile(Content& content) : content_(content) {}
  Result<std::size_t> move(Op op, std::byte* memory, std::size_t size, std::uint64_t offset) override {
    if (content_.fails_with != 0) return os_failure(content_.fails_with, "move bytes of the file in memory");
    std::string& bytes = content_.bytes;
    size = std::min(size, content_.at_most);
    if (op == Op::write && bytes.size() < offset + size) bytes.resize(offset + size);
    size = std::min(size, bytes.size() - std::min<std::size_t>(bytes.size(), offset));
    if (op == Op::read) std::memcpy(memory, bytes.data() + offset, size);
    else std::memcpy(bytes.data() + offset, memory, size);
    return size;
  }

 private:
  Content& content_;
};

class UserspaceTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 9u << 20;

  UserspaceTest() {
    for (std::size_t i = 0; i < kBytes; ++i) content_.bytes.push_back(static_cast<char>(i * 2654435761u >> 13));
    Config config = test_config({{"workers", "3"}});
    auto storage = std::make_unique<FakeStorage>();
    storage_ = storage.get();
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<HostDeviceSet>());
    device_ = static_cast<char*>(session_->devices().device(0).value()->memory().allocate(kBytes).value());
    file_ = session_->register_file(std::make_unique<MemoryFile>(content_)).value();
  }
  // The bytes in the device's memory, by way of the other kind of request.
  std::string on_device(std::size_t size) {
    Content copy;
    const std::uint64_t other = session_->register_file(std::make_unique<MemoryFile>(copy)).value();
    EXPECT_EQ(transfer(*session_, {Op::write, other, device_, size}).report.bytes, size);
    return copy.bytes;
  }

  Content content_;
  std::unique_ptr<Session> session_;
  FakeStorage* storage_ = nullptr;
  char* device_ = nullptr;
  std::uint64_t file_ = 0;
};

TEST_F(UserspaceTest, HostMemoryIsReadInOneCallWhereTheFileSystemTakesIt) {
  std::string memory(kBytes, '-');
  const Outcome outcome = transfer(*session_, {Op::read, file_, memory.data(), kBytes});
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.path, PathId::userspace);
  EXPECT_TRUE(memory == content_.bytes);
}

TEST_F(UserspaceTest, DeviceMemoryGoesByBounceBuffersPieceByPiece) {
  content_.at_most = 700'001;
  const Outcome outcome = transfer(*session_, {Op::read, file_, device_, kBytes});
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.bytes, kBytes);
  EXPECT_TRUE(on_device(kBytes) == content_.bytes);
  EXPECT_GT(session_->engine().bounce_bytes(), 0u);
}

TEST_F(UserspaceTest, AReadEndsWithTheFile) {
  const Outcome outcome = transfer(*session_, {Op::read, file_, device_, kBytes, kBytes - 10});
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.bytes, 10u);
}

TEST_F(UserspaceTest, AQueueServesIt) {
  const auto queue = std::move(ChannelQueue::open(*session_, 4, 64 << 10).value());
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue
                    ->submit({Op::read, file_, device_, 50'000, static_cast<std::int64_t>(i * 60'000),
                              static_cast<std::int64_t>(i * 50'000)},
                             i)
                    .ok());
  }
  QueueCompletion done[4];
  ASSERT_EQ(queue->reap(done, 4), 4u);
  std::string wanted;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].report.bytes, 50'000u);
    wanted += content_.bytes.substr(i * 60'000, 50'000);
  }
  EXPECT_TRUE(on_device(wanted.size()) == wanted);
}

TEST_F(UserspaceTest, StagingMemoryOfAStreamIsReadInto) {
  std::string staging(5000, '-');
  const Outcome outcome = transfer(*session_, {.file = file_,
                                               .base = device_,
                                               .size = 5000,
                                               .file_offset = 77,
                                               .staging = reinterpret_cast<std::byte*>(staging.data())});
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_TRUE(staging == content_.bytes.substr(77, 5000));
}

TEST_F(UserspaceTest, ItsErrorsArrive) {
  content_.fails_with = ENOLINK;
  const Outcome outcome = transfer(*session_, {Op::read, file_, device_, 4096});
  EXPECT_TRUE(outcome.status.is_errno(ENOLINK));
  EXPECT_EQ(outcome.report.bytes, 0u);
}

TEST_F(UserspaceTest, TheKernelIsNotAsked) {
  ASSERT_TRUE(transfer(*session_, {Op::write, file_, device_, kBytes}).status.ok());
  EXPECT_TRUE(storage_->accesses.empty());
}

TEST_F(UserspaceTest, ItsPathAloneIsExplained) {
  Verdict verdicts[kPathCount];
  const PointerFacts memory = session_->devices().describe(device_);
  ASSERT_EQ(explain(*session_, file_, memory, Op::read, verdicts).value(), 1u);
  EXPECT_EQ(verdicts[0].path, PathId::userspace);
  EXPECT_TRUE(verdicts[0].usable);
}

TEST_F(UserspaceTest, ADeregisteredFileIsNone) {
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  EXPECT_TRUE(transfer(*session_, {Op::read, file_, device_, 4096}).status.is(Code::not_registered));
}

}  // namespace
}  // namespace penstock::core
