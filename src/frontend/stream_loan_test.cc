// SPDX-License-Identifier: Apache-2.0

#include "frontend/stream_loan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "stats/usage.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kSize = 256u << 10;

// Lends the bytes of an array in place of a file's pages: at most `piece_max` at once, and none from `end` on.
class LendingPath final : public Path, private PathHooks {
 public:
  LendingPath() : Path(this) {}

  void before_move(RoutedRequest& request) override {
    EXPECT_EQ(request.mode, SubmitMode::on_stream);
    ++moves;
  }
  std::span<const std::byte> lend(const RoutedRequest& request) override {
    if (request.file_offset >= end) return {};
    return {pages.get() + request.file_offset, std::min({request.size, piece_max, end - request.file_offset})};
  }

  Verdict judge(File&, const PointerFacts&, Op) override { return {}; }
  Shape shape(const RoutedRequest&) override { return {}; }
  std::uint64_t channel_bytes(const ChannelOptions&) const override { return 0; }
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions&) override {
    return failure(Code::unsupported, "open a channel of a path that only lends");
  }

  const std::unique_ptr<std::byte[]> pages = std::make_unique<std::byte[]>(kSize);
  std::uint64_t piece_max = kSize;
  std::uint64_t end = kSize;
  unsigned moves = 0;
};

// Keeps the copies that it is asked for; fails from the `fails_at`th on.
class CopyingWork final : public StreamWork {
 public:
  Status copy_at_once(void*, const StreamBlock&, const StreamCopy& what) override {
    copies.push_back(what);
    return copies.size() < fails_at ? success() : unsupported();
  }
  Status call(void*, void (*)(void*), void*) override { return unsupported(); }
  Status copy(void*, const StreamBlock&, const StreamCopy&, std::uint64_t) override { return unsupported(); }
  Status wait(void*, const StreamBlock&, const std::uint32_t&, std::uint32_t) override { return unsupported(); }
  Status write(void*, const StreamBlock&, const std::uint32_t&, std::uint32_t) override { return unsupported(); }
  void set(std::uint32_t&, std::uint32_t) override {}

  static Status unsupported() { return failure(Code::unsupported, "queue work that is no copy at once"); }
  std::vector<StreamCopy> copies;
  std::size_t fails_at = SIZE_MAX;
};

class StreamLoanTest : public testing::Test {
 protected:
  StreamLoanTest() {
    loan_.reset({&path_, {.path = PathId::pagecache}});
    open(test_config());
  }
  void open(const Config& config) {
    auto storage = std::make_unique<FakeStorage>();
    storage->content.resize(kSize);
    storage_ = storage.get();
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<HostDeviceSet>());
    file_ = session_->register_file(FakeStorage::kUserFd).value();
    memory_ = static_cast<std::byte*>(session_->devices().device(0).value()->memory().allocate(kSize).value());
    facts_ = session_->devices().describe(memory_);
  }

  RawRequest read(std::uint64_t size, std::int64_t offset = 0) const {
    return {.file = file_, .base = memory_, .size = size, .file_offset = offset, .memory = &facts_};
  }
  StreamLoan::Lender lender_of(const RawRequest& request) {
    return StreamLoan::find_lender(*session_, *session_->devices().stream_home(nullptr).value(), request);
  }
  std::uint64_t counted() const { return session_->counters().total(PathId::pagecache, Reason::none, Op::read).bytes; }
  // The positions in the file of the copies' sources, each checked to go where the read wants it.
  std::vector<std::uint64_t> sources(const RawRequest& request) {
    std::vector<std::uint64_t> found;
    for (const StreamCopy& copy : work_.copies) {
      found.push_back(copy.from - reinterpret_cast<std::uintptr_t>(path_.pages.get()));
      EXPECT_EQ(copy.to - reinterpret_cast<std::uintptr_t>(memory_) + request.file_offset, found.back());
    }
    return found;
  }

  LendingPath path_;
  FakeStorage* storage_ = nullptr;
  CopyingWork work_;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  std::byte* memory_ = nullptr;
  PointerFacts facts_;
  StreamBlock block_;
  StreamLoan loan_;
};

TEST_F(StreamLoanTest, AReadOfDeviceMemoryThatIsNotShortHasALender) {
  EXPECT_NE(lender_of(read(StreamLoan::kBytesMin)).path, nullptr);
  EXPECT_EQ(lender_of(read(StreamLoan::kBytesMin - 1)).path, nullptr);
  RawRequest write = read(kSize);
  write.op = Op::write;
  EXPECT_EQ(lender_of(write).path, nullptr);
  const PointerFacts host;
  RawRequest to_host = read(kSize);
  to_host.memory = &host;
  EXPECT_EQ(lender_of(to_host).path, nullptr);
}

TEST_F(StreamLoanTest, WithoutALenderNothingMayBeLent) {
  EXPECT_TRUE(loan_.may_lend(kSize));
  EXPECT_FALSE(loan_.may_lend(StreamLoan::kBytesMin - 1));

  loan_.reset({});

  EXPECT_FALSE(loan_.may_lend(kSize));
}

TEST_F(StreamLoanTest, AWholeReadIsBorrowedInPiecesAndCopiedInTheirOrder) {
  path_.piece_max = 40'000;
  const RawRequest request = read(100'000, 4097);

  ASSERT_TRUE(loan_.borrow_whole(*session_, request));
  ASSERT_TRUE(loan_.copy(work_, nullptr, block_, request).ok());

  EXPECT_EQ(sources(request), (std::vector<std::uint64_t>{4097, 44'097, 84'097}));
  EXPECT_EQ(work_.copies.back().size, 20'000u);
  EXPECT_EQ(loan_.outcome_of(100'000).report.bytes, 100'000u);
}

TEST_F(StreamLoanTest, AReadThatIsLentIsCountedAndToldToItsPathOnce) {
  path_.piece_max = 40'000;

  ASSERT_TRUE(loan_.borrow_whole(*session_, read(100'000)));

  EXPECT_EQ(counted(), 100'000u);
  EXPECT_EQ(path_.moves, 1u);
}

TEST_F(StreamLoanTest, AReadThatIsLentIsInTheReportAmongItsFiles) {
  Usage usage;
  Config config = test_config();
  config.usage = &usage;
  open(config);

  ASSERT_TRUE(loan_.borrow_whole(*session_, read(kSize)));
  ASSERT_EQ(loan_.borrow_part(*session_, read(40'000)), path_.pages.get());

  const FileSums sums = usage.files().at(0).sums;
  EXPECT_EQ(sums.bytes(), kSize + 40'000);
  EXPECT_EQ(sums.requests(), 2u);
  EXPECT_EQ(sums.failed, 0u);
  session_.reset();
}

TEST_F(StreamLoanTest, AReadThatIsLentInPartIsNotBorrowed) {
  path_.piece_max = 40'000;
  path_.end = 90'000;

  EXPECT_FALSE(loan_.borrow_whole(*session_, read(100'000)));

  EXPECT_FALSE(loan_.has_whole());
  EXPECT_EQ(counted(), 0u);
  EXPECT_EQ(path_.moves, 0u);
}

TEST_F(StreamLoanTest, AReadOfTooManyPiecesIsNotBorrowed) {
  path_.piece_max = 8;
  EXPECT_TRUE(loan_.borrow_whole(*session_, read(8 * StreamLoan::kPiecesMax)));
  loan_.reset({&path_, {}});
  EXPECT_FALSE(loan_.borrow_whole(*session_, read(8 * StreamLoan::kPiecesMax + 1)));
}

TEST_F(StreamLoanTest, APartIsBorrowedInOnePieceOrStaged) {
  path_.piece_max = 40'000;

  EXPECT_EQ(loan_.borrow_part(*session_, read(40'000, 512)), path_.pages.get() + 512);
  EXPECT_EQ(loan_.borrow_part(*session_, read(40'001, 512)), nullptr);

  EXPECT_FALSE(loan_.has_whole());
  EXPECT_EQ(counted(), 40'000u);
  EXPECT_EQ(path_.moves, 2u);
}

TEST_F(StreamLoanTest, TheFirstCopyThatFailsIsTheLast) {
  path_.piece_max = 40'000;
  work_.fails_at = 2;
  ASSERT_TRUE(loan_.borrow_whole(*session_, read(100'000)));

  EXPECT_TRUE(loan_.copy(work_, nullptr, block_, read(100'000)).is(Code::unsupported));

  EXPECT_EQ(work_.copies.size(), 2u);
}

TEST_F(StreamLoanTest, OfAFileThatIsGoneNothingIsLent) {
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  EXPECT_FALSE(loan_.borrow_whole(*session_, read(kSize)));
  EXPECT_EQ(loan_.borrow_part(*session_, read(kSize)), nullptr);
  EXPECT_EQ(path_.moves, 0u);
}

TEST_F(StreamLoanTest, ToARequestThatTheSessionRefusesNothingIsLentNorTold) {
  RawRequest nowhere = read(kSize);
  nowhere.memory = nullptr;
  for (const RawRequest& refused : {nowhere, read(kSize, -1)}) {
    EXPECT_FALSE(loan_.borrow_whole(*session_, refused));
    EXPECT_EQ(loan_.borrow_part(*session_, refused), nullptr);
  }
  EXPECT_EQ(path_.moves, 0u);
  EXPECT_EQ(counted(), 0u);
}

TEST_F(StreamLoanTest, OfAFileWhoseDescriptorIsAnothersNothingIsLent) {
  storage_->descriptors_lost = true;
  EXPECT_FALSE(loan_.borrow_whole(*session_, read(kSize)));
  EXPECT_EQ(counted(), 0u);
  storage_->descriptors_lost = false;
  EXPECT_TRUE(loan_.borrow_whole(*session_, read(kSize)));
}

}  // namespace
}  // namespace penstock::core
