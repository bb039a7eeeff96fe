// SPDX-License-Identifier: Apache-2.0

// A session refuses what cannot be moved before a path is asked.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/leave_child.h"
#include "fakes/test_config.h"
#include "session/session.h"

namespace penstock::core {
namespace {

class SessionRefusals : public testing::Test {
 protected:
  explicit SessionRefusals(int open_flags = O_RDWR) {
    auto storage = std::make_unique<FakeStorage>();
    storage->open_flags = open_flags;
    session_ = std::make_unique<Session>(test_config(), std::move(storage), std::make_unique<HostDeviceSet>());
    file_ = session_->register_file(FakeStorage::kUserFd).value();
  }
  Status admit(const RawRequest& request) {
    const PinnedFile file(*session_, request.file);
    RoutedRequest admitted;
    return session_->admit(request, file.get(), admitted);
  }

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
                           session_->deregister_file(file_).is(Code::closed) &&
                           session_->deregister_buffer(bytes_).is(Code::closed) &&
                           admit({Op::read, file_, bytes_, 1, 0, 0}).is(Code::closed);
    leave_child(is_closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::core
