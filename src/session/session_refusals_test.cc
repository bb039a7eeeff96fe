// SPDX-License-Identifier: Apache-2.0

// A session refuses what cannot be moved before a path is asked.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "session/session.h"
#include "stats/usage.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

// Counts how often blocks behind a file's end were released.
class CountingStorage final : public FakeStorage {
 public:
  bool release_blocks_behind_end(int) override { return ++released > 0; }
  unsigned released = 0;
};

// A file of a file system in user space, of which nothing is moved.
class NoFile final : public UserspaceFile {
 public:
  Result<std::size_t> move(Op, std::byte*, std::size_t, std::uint64_t) override { return std::size_t{0}; }
};

class SessionRefusals : public testing::Test {
 protected:
  explicit SessionRefusals(int open_flags = O_RDWR) {
    auto storage = std::make_unique<CountingStorage>();
    storage_ = storage.get();
    storage->open_flags = open_flags;
    session_ = std::make_unique<Session>(test_config(), std::move(storage), std::make_unique<HostDeviceSet>());
    file_ = session_->register_file(FakeStorage::kUserFd).value();
  }
  Status admit(const RawRequest& request) {
    const PinnedFile file(*session_, request.file);
    RoutedRequest admitted;
    return session_->admit(request, file.get(), admitted);
  }

  CountingStorage* storage_ = nullptr;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  char bytes_[100] = {};
};

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST_F(SessionRefusals, ABufferHasAnAddressAndBytesThatDoNotWrap) {
  EXPECT_TRUE(session_->register_buffer(nullptr, 100).is(Code::invalid_argument));
  EXPECT_TRUE(session_->register_buffer(bytes_, 0).is(Code::invalid_argument));
  EXPECT_TRUE(session_->register_buffer(bytes_, UINT64_MAX).is(Code::past_allocation));
  EXPECT_TRUE(session_->register_buffer(at(1), 100).is(Code::invalid_argument));
  EXPECT_TRUE(session_->deregister_buffer(nullptr).is(Code::invalid_argument));
  EXPECT_TRUE(session_->deregister_buffer(at(1)).is(Code::invalid_argument));
}

TEST_F(SessionRefusals, AFileThatIsNotRegisteredHasNoCalls) {
  const std::uint64_t none = file_ + 1000;
  EXPECT_TRUE(session_->file_facts(none).status().is(Code::not_registered));
  EXPECT_TRUE(session_->sync_file(none).is(Code::not_registered));
  EXPECT_TRUE(session_->advise_read_once(none).is(Code::not_registered));
  EXPECT_TRUE(session_->check_descriptors(none).is(Code::not_registered));
  EXPECT_TRUE(session_->deregister_file(none).is(Code::not_registered));
  EXPECT_TRUE(admit({Op::read, none, bytes_, 1, 0, 0}).is(Code::not_registered));
}

TEST_F(SessionRefusals, ARequestThatNoMemoryHasRoomForIsPastItsAllocation) {
  EXPECT_TRUE(admit({Op::read, file_, at(UINTPTR_MAX - 10), 1, 0, 100}).is(Code::past_allocation));
  EXPECT_TRUE(admit({Op::read, file_, at(UINTPTR_MAX - 10), 100, 0, 0}).is(Code::past_allocation));
}

class SessionRefusalsOfReads : public SessionRefusals {
 protected:
  SessionRefusalsOfReads() : SessionRefusals(O_WRONLY) {}
};

class SessionRefusalsOfWrites : public SessionRefusals {
 protected:
  SessionRefusalsOfWrites() : SessionRefusals(O_RDONLY) {}
};

TEST_F(SessionRefusalsOfReads, AFileThatIsOpenForWritingAloneIsNotRead) {
  EXPECT_TRUE(admit({Op::read, file_, bytes_, 1, 0, 0}).is(Code::not_readable));
  EXPECT_TRUE(admit({Op::write, file_, bytes_, 1, 0, 0}).ok());
}

TEST_F(SessionRefusalsOfWrites, AFileThatIsOpenForReadingAloneIsNotWritten) {
  EXPECT_TRUE(admit({Op::write, file_, bytes_, 1, 0, 0}).is(Code::not_writable));
  EXPECT_TRUE(admit({Op::read, file_, bytes_, 1, 0, 0}).ok());
}

TEST_F(SessionRefusals, AForkedChildIsToldThatTheSessionIsClosed) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_closed = session_->register_file(FakeStorage::kUserFd).status().is(Code::closed) &&
                           session_->register_file(std::make_unique<NoFile>()).status().is(Code::closed) &&
                           session_->deregister_file(file_).is(Code::closed) &&
                           session_->deregister_buffer(bytes_).is(Code::closed) &&
                           admit({Op::read, file_, bytes_, 1, 0, 0}).is(Code::closed);
    ::_exit(is_closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(SessionRefusals, ADescriptorThatIsNoFileIsNotRegistered) {
  EXPECT_TRUE(session_->register_file(-1).status().is_errno(EBADF));
}

TEST_F(SessionRefusals, AFileOfUserSpaceIsNeitherFlushedNorMixedUpInAReport) {
  Usage usage;
  Config config = test_config();
  config.usage = &usage;
  Session session(config, std::make_unique<FakeStorage>(), std::make_unique<HostDeviceSet>());
  const std::uint64_t file = session.register_file(std::make_unique<NoFile>()).value();
  EXPECT_TRUE(session.sync_file(file).is(Code::unsupported));
  const PinnedFile pinned(session, file);
  EXPECT_EQ(pinned->usage(), &usage.file_named("files of a file system in user space"));
}

TEST_F(SessionRefusals, AFileWhoseDescriptorsBecameAnothersIsNotFlushed) {
  EXPECT_TRUE(session_->check_descriptors(file_).ok());
  EXPECT_TRUE(session_->sync_file(file_).ok());
  storage_->descriptors_lost = true;
  EXPECT_EQ(describe(session_->check_descriptors(file_)), describe(descriptor_lost()));
  EXPECT_EQ(describe(session_->sync_file(file_)), describe(descriptor_lost()));
}

// They may be another request's, which is about to write into them.
TEST_F(SessionRefusals, BlocksBehindTheEndStayWhileAnotherHasTheFile) {
  const PinnedFile file(*session_, file_);
  file->note_blocks_behind_end();
  {
    const PinnedFile other(*session_, file_);
    session_->release_blocks(file_, *file);
    EXPECT_EQ(storage_->released, 0u);
  }
  session_->release_blocks(file_, *file);
  EXPECT_EQ(storage_->released, 1u);
}

class CountingFiles final : public PosixStorage {
 public:
  CountingFiles() : PosixStorage(false) {}
  bool release_blocks_behind_end(int) override { return ++released > 0; }
  unsigned released = 0;
};

// The failed write that left them was by the registration that goes first.
TEST(SessionDescriptors, LeaveBlocksBehindTheEndToTheRegistrationThatStays) {
  auto files = std::make_unique<CountingFiles>();
  const CountingFiles& counted = *files;
  Session session(test_config(), std::move(files), std::make_unique<HostDeviceSet>());
  const UniqueFd one(::memfd_create("one", MFD_CLOEXEC)), again(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
  const std::uint64_t first = session.register_file(one.get()).value();
  const std::uint64_t second = session.register_file(again.get()).value();
  { PinnedFile(session, first)->note_blocks_behind_end(); }
  ASSERT_TRUE(session.deregister_file(first).ok());
  EXPECT_EQ(counted.released, 0u) << "the other one may be writing there";
  ASSERT_TRUE(session.deregister_file(second).ok());
  EXPECT_EQ(counted.released, 1u);
}

// A number that was closed and given to another file is that file's.
TEST(SessionDescriptors, AreKnownByTheFileThatTheyAreOf) {
  Session session(test_config(), std::make_unique<PosixStorage>(false), std::make_unique<HostDeviceSet>());
  const UniqueFd one(::memfd_create("one", MFD_CLOEXEC)), other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_TRUE(session.register_file(one.get()).ok());
  EXPECT_TRUE(session.register_file(one.get()).status().is(Code::already_registered));
  const UniqueFd again(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
  EXPECT_TRUE(session.register_file(again.get()).ok()) << "another number of the same file is a file of its own";
  ASSERT_EQ(::dup2(other.get(), one.get()), one.get());
  EXPECT_TRUE(session.register_file(one.get()).ok());
  EXPECT_TRUE(session.register_file(one.get()).status().is(Code::already_registered));
}

}  // namespace
}  // namespace penstock::core
