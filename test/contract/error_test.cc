// SPDX-License-Identifier: Apache-2.0

// Failures in use: each must be a typed error that names the step, without touching other bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>

#include "contract/fixture.h"

namespace penstock::core {
namespace {

class ErrorTest : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, ErrorTest, testing::ValuesIn(all_fixtures()), fixture_name);

class KernelErrorTest : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, KernelErrorTest, testing::ValuesIn(kernel_fixtures()), fixture_name);

TEST_P(ErrorTest, OffsetsAndRangesThatMakeNoSenseAreRefusedBeforeAnythingMoves) {
  std::byte* memory = allocate(1 << 20);
  set_file_content(pattern(8192, 1));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd), size = file_size();

  EXPECT_TRUE(read(file, memory, 10, -1).status.is(Code::negative_offset));
  EXPECT_TRUE(read(file, memory, 10, 0, -1).status.is(Code::negative_offset));
  EXPECT_TRUE(read(file, nullptr, 10, 0).status.is(Code::invalid_argument));
  EXPECT_TRUE(read(file, memory, UINT64_MAX, 0).status.is(Code::invalid_argument));
  EXPECT_TRUE(read(file, memory, 10, INT64_MAX).status.is(Code::invalid_argument));
  EXPECT_TRUE(read(file, memory, (1 << 20) + 1, 0).status.is(Code::past_allocation));
  EXPECT_TRUE(read(file, memory, 1, 0, 1 << 20).status.is(Code::past_allocation));
  EXPECT_TRUE(read(file, memory, 1, 0, 1 << 30).status.is(Code::past_allocation));
  EXPECT_TRUE(write(file, memory, INT64_MAX - 5, 0).status.is(Code::past_allocation));
  EXPECT_TRUE(read(0, memory, 10, 0).status.is(Code::not_registered));
  EXPECT_TRUE(read(0x7fff12345678, memory, 10, 0).status.is(Code::not_registered));
  EXPECT_EQ(file_size(), size);
}

TEST_P(ErrorTest, ARegisteredBufferBoundsItsRequests) {
  std::byte* memory = allocate(1 << 20);
  set_file_content(pattern(1 << 20, 1));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  ASSERT_TRUE(session().register_buffer(memory, 8192).ok());

  expect_moved(read(file, memory, 8192, 0), 8192);
  EXPECT_TRUE(read(file, memory, 8193, 0).status.is(Code::out_of_range));
  EXPECT_TRUE(read(file, memory, 8000, 0, 193).status.is(Code::out_of_range));
  // Another address inside is not the registered base: it is as good as unregistered.
  expect_moved(read(file, memory + 1, 8193, 0), 8193);
  ASSERT_TRUE(session().deregister_buffer(memory).ok());
  expect_moved(read(file, memory, 8193, 0), 8193);
}

TEST_P(ErrorTest, ABufferIsRegisteredOnceAndWithinItsAllocation) {
  std::byte* memory = allocate(1 << 20);

  ASSERT_TRUE(session().register_buffer(memory, 8192).ok());

  EXPECT_TRUE(session().register_buffer(memory, 8192).is(Code::already_registered));
  EXPECT_TRUE(session().register_buffer(memory + 4096, 100).ok());
  EXPECT_TRUE(session().register_buffer(memory + 1, 1 << 20).is(Code::past_allocation));
  EXPECT_TRUE(session().deregister_buffer(memory).ok());
  EXPECT_TRUE(session().deregister_buffer(memory).is(Code::not_registered));
}

TEST_P(KernelErrorTest, HostAddressesThatAreNoMemoryAreAnErrorAndNoCrash) {
  void* hole = ::mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  set_file_content(pattern(1 << 20, 1));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  for (const std::uint64_t size : {std::uint64_t{100}, std::uint64_t{4096}, std::uint64_t{1 << 20}}) {
    const Outcome from = read(file, hole, size, 0);
    const Outcome to = write(file, hole, size, 0);
    EXPECT_TRUE(from.status.is(Code::bad_pointer)) << describe(from.status);
    EXPECT_TRUE(to.status.is(Code::bad_pointer)) << describe(to.status);
    EXPECT_EQ(from.report.bytes, 0u);
  }
  EXPECT_TRUE(file_content(0, 1 << 20) == pattern(1 << 20, 1));
  ::munmap(hole, 1 << 20);
}

// Its first bytes share a block with others, and go after the direct middle, which fails here.
TEST_P(KernelErrorTest, TheBytesThatAFailedRequestCountsWereMoved) {
  constexpr std::uint64_t kMapped = 1 << 20, kReadable = 64 << 10, kOffset = 1000, kSize = kMapped - kOffset;
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_EQ(::mprotect(memory + kReadable, kMapped - kReadable, PROT_NONE), 0);
  const std::string old = pattern(kMapped, 1);
  set_file_content(old);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  const Outcome from = read(file, memory, kSize, kOffset, kOffset);
  const std::string got(reinterpret_cast<const char*>(memory + kOffset), from.report.bytes);
  const std::string fresh = pattern(kReadable, 2);
  std::memcpy(memory, fresh.data(), kReadable);
  const Outcome to = write(file, memory, kSize, kOffset, kOffset);

  EXPECT_TRUE(from.status.is(Code::bad_pointer)) << describe(from.status);
  EXPECT_TRUE(to.status.is(Code::bad_pointer)) << describe(to.status);
  EXPECT_TRUE(got == old.substr(kOffset, from.report.bytes)) << from.report.bytes;
  EXPECT_TRUE(file_content(kOffset, to.report.bytes) == fresh.substr(kOffset, to.report.bytes)) << to.report.bytes;
  EXPECT_EQ(from.report.bytes > 0, goes_direct(file));
  ::munmap(memory, kMapped);
}

TEST_P(KernelErrorTest, RegisteringAFolderSaysThatItIsNoFile) {
  const UniqueFd directory(::open(fixture().directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));

  EXPECT_TRUE(session().register_file(directory.get()).status().is(Code::unsupported_file));
}

TEST_P(ErrorTest, RegisteringNoDescriptorSaysSo) { EXPECT_TRUE(session().register_file(-1).status().is_errno(EBADF)); }

TEST_P(ErrorTest, ADescriptorIsRegisteredOnce) {
  const UniqueFd fd = open_fd();

  ASSERT_TRUE(session().register_file(fd.get()).ok());

  EXPECT_TRUE(session().register_file(fd.get()).status().is(Code::already_registered));
}

TEST_P(KernelErrorTest, ADescriptorClosedAndReusedDoesNotLeadToTheWrongFile) {
  std::byte* memory = allocate(4096);
  upload(memory, std::string(4096, 'n'));
  set_file_content(std::string(4096, 'o'));
  UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  std::string other_name = fixture().directory + "/penstock_other_XXXXXX";
  const int number = fd.release();
  ::close(number);
  const UniqueFd other(::mkstemp(other_name.data()));  // Takes the number that became free.
  ::unlink(other_name.c_str());

  expect_moved(write(file, memory, 4096, 0), 4096);

  EXPECT_TRUE(file_content(0, 4096) == std::string(4096, 'n'));
  char byte;
  EXPECT_EQ(::pread(other.get(), &byte, 1, 0), 0);
  if (other.get() == number) {
    EXPECT_TRUE(session().register_file(number).ok()) << "another file under the same number is no duplicate";
  }
}

std::set<int> descriptors_on(int file) {
  struct stat wanted {};
  EXPECT_EQ(::fstat(file, &wanted), 0);
  std::set<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat status {};
    if (::fstat(fd, &status) == 0 && status.st_ino == wanted.st_ino && status.st_dev == wanted.st_dev) found.insert(fd);
  }
  return found;
}

// The state after closefrom(3), once another file got the numbers of the descriptors on a file that the user had not.
std::vector<UniqueFd> take_descriptors(int file, const std::set<int>& users, int other) {
  std::vector<UniqueFd> taken;
  for (const int number : descriptors_on(file)) {
    if (!users.contains(number)) taken.emplace_back(::dup2(other, number));
  }
  EXPECT_FALSE(taken.empty());
  return taken;
}

TEST_P(KernelErrorTest, DescriptorsClosedBehindOurBackAreNoticedBeforeAByteMoves) {
  std::byte* memory = allocate(4 << 20);
  set_file_content(std::string(4 << 20, 'o'));
  const UniqueFd fd = open_fd();
  const std::set<int> users = descriptors_on(fd.get());
  const std::uint64_t file = register_fd(fd);
  expect_moved(write(file, memory, 100, 1), 100);
  std::string other_name = fixture().directory + "/penstock_other_XXXXXX";
  const UniqueFd other(::mkstemp(other_name.data()));
  ::unlink(other_name.c_str());
  const std::vector<UniqueFd> taken = take_descriptors(fd.get(), users, other.get());

  for (const std::uint64_t size : {std::uint64_t{4096}, std::uint64_t{4 << 20}}) {
    EXPECT_TRUE(write(file, memory, size, 0).status.is(Code::descriptor_lost));
    EXPECT_TRUE(read(file, memory, size, 0).status.is(Code::descriptor_lost));
  }
  const auto queue = std::move(ChannelQueue::open(session(), 1, 4096).value());
  EXPECT_TRUE(queue->submit({Op::write, file, memory, 4096, 0, 0}, 0).is(Code::descriptor_lost));
  char byte;
  EXPECT_EQ(::pread(other.get(), &byte, 1, 0), 0) << "nothing was written to the other file";
  ASSERT_TRUE(session().deregister_file(file).ok());
  for (const UniqueFd& each : taken) EXPECT_GE(::fcntl(each.get(), F_GETFD), 0) << "it is not ours to close";
}

TEST_P(KernelErrorTest, AFlushByADescriptorThatHasBecomeAnotherFilesIsNotToldAsDone) {
  const UniqueFd fd = open_fd();
  const std::set<int> users = descriptors_on(fd.get());
  const std::uint64_t file = register_fd(fd);
  ASSERT_TRUE(session().sync_file(file).ok());
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  const std::vector<UniqueFd> taken = take_descriptors(fd.get(), users, other.get());

  EXPECT_TRUE(session().sync_file(file).is(Code::descriptor_lost));
}

TEST_P(KernelErrorTest, ARequestBehindOneThatItsQueueRefusedHasItsDescriptorsLookedAt) {
  std::byte* memory = allocate(8192);
  const UniqueFd fd = open_fd();
  const std::set<int> users = descriptors_on(fd.get());
  const std::uint64_t file = register_fd(fd);
  const auto queue = std::move(ChannelQueue::open(session(), 1, 4096).value());
  ASSERT_TRUE(queue->submit({Op::write, file, memory, 8192, 0, 0}, 0).is(Code::limit));
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  const std::vector<UniqueFd> taken = take_descriptors(fd.get(), users, other.get());

  EXPECT_TRUE(queue->submit({Op::write, file, memory, 4096, 0, 0}, 0).is(Code::descriptor_lost));
}

TEST_P(KernelErrorTest, ADescriptorClosedAndOpenedAnewIsNoDuplicate) {
  const int before = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(session().register_file(before).ok());
  ::close(before);

  const UniqueFd after(::open(name_.c_str(), O_RDWR | O_CLOEXEC));

  ASSERT_EQ(after.get(), before);
  EXPECT_TRUE(session().register_file(after.get()).ok());
  EXPECT_TRUE(session().register_file(after.get()).status().is(Code::already_registered));
}

TEST_P(KernelErrorTest, TheSecondDescriptorIsAsSynchronousAsTheFirst) {
  for (const int flag : {O_SYNC, O_DSYNC, 0}) {
    const UniqueFd fd(::open(name_.c_str(), O_RDWR | O_CLOEXEC | flag));
    const std::unique_ptr<File> file = std::move(File::open(session().storage(), fd.get()).value());
    const Result<int> second = file->descriptor(IoMode::o_direct);
    if (!second.ok()) GTEST_SKIP() << "no O_DIRECT on " << fixture().file_system;
    EXPECT_EQ(::fcntl(*second, F_GETFL) & O_SYNC, flag);
    EXPECT_NE(::fcntl(*second, F_GETFL) & O_DIRECT, 0);
  }
}

TEST_P(ErrorTest, ADeregisteredFileIsGone) {
  std::byte* memory = allocate(4096);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  ASSERT_TRUE(session().deregister_file(file).ok());

  EXPECT_TRUE(session().deregister_file(file).is(Code::not_registered));
  EXPECT_TRUE(write(file, memory, 4096, 0).status.is(Code::not_registered));
  EXPECT_TRUE(session().register_file(fd.get()).ok());
}

// A file that nobody but the session and the test's one descriptor has open.
class BlocksBehindTheEnd {
 public:
  explicit BlocksBehindTheEnd(const Fixture& fixture) : name_(fixture.directory + "/penstock_blocks_XXXXXX") {
    fd_.reset(::mkostemp(name_.data(), O_CLOEXEC));
  }
  ~BlocksBehindTheEnd() { ::unlink(name_.c_str()); }

  int fd() const { return fd_.get(); }
  UniqueFd reader() const { return UniqueFd(::open(name_.c_str(), O_RDONLY | O_CLOEXEC)); }
  // The kernel may go on for a little with blocks that it has promised, so they are looked at once it has settled.
  std::int64_t allocated() const {
    ::syncfs(fd_.get());
    struct stat status {};
    EXPECT_EQ(::stat(name_.c_str(), &status), 0);
    return status.st_blocks * 512 - status.st_size;
  }

 private:
  std::string name_;
  UniqueFd fd_;
};

const void* const kNowhere = reinterpret_cast<const void*>(4096);
constexpr std::uint64_t kFarTooLarge = 64 << 20;

TEST_P(KernelErrorTest, AWriteThatFailsGivesBackWhatWasPreallocatedForIt) {
  const BlocksBehindTheEnd blocks(fixture());
  const std::uint64_t file = session().register_file(blocks.fd()).value();

  EXPECT_FALSE(write(file, kNowhere, kFarTooLarge, 0).status.ok());

  EXPECT_LT(blocks.allocated(), 1 << 20);
}

TEST_P(KernelErrorTest, BlocksThatOthersKeptFromBeingGivenBackAreGivenBackAtTheEnd) {
  const BlocksBehindTheEnd blocks(fixture());
  const std::uint64_t file = session().register_file(blocks.fd()).value();
  {
    const UniqueFd reader = blocks.reader();
    EXPECT_FALSE(write(file, kNowhere, kFarTooLarge, 0).status.ok());
  }

  ASSERT_TRUE(session().deregister_file(file).ok());

  EXPECT_LT(blocks.allocated(), 1 << 20);
}

TEST_P(ErrorTest, AFileTruncatedUnderTheReadIsShortAndNotWrong) {
  if (fixture().is_drive()) GTEST_SKIP() << "a drive has its size";
  constexpr std::uint64_t kSize = 32 << 20;
  const std::string content = pattern(kSize, 2);
  set_file_content(content);
  std::byte* memory = allocate(kSize);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  for (int round = 0; round < 5; ++round) {
    set_file_content(content);
    std::thread truncater([&] { set_file_size(kSize / 2 + 100); });

    const Outcome outcome = read(file, memory, kSize, 0);
    truncater.join();

    ASSERT_TRUE(outcome.status.ok()) << describe(outcome.status);
    ASSERT_GE(outcome.report.bytes, kSize / 2 + 100);
    ASSERT_TRUE(download(memory, kSize / 2 + 100) == content.substr(0, kSize / 2 + 100));
  }
}

class DriveErrorTest : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, DriveErrorTest, testing::ValuesIn(drive_fixtures()), fixture_name);

TEST_P(DriveErrorTest, AWriteOverTheEndWritesWhatFitsAndSaysThatTheDriveIsFull) {
  std::byte* memory = allocate(1 << 20);
  const std::string data = pattern(1 << 20, 3);
  upload(memory, data);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd), size = file_size();

  for (const std::uint64_t room : {std::uint64_t{0}, std::uint64_t{8192}, std::uint64_t{100'003}}) {
    const Outcome outcome = write(file, memory, 1 << 20, static_cast<std::int64_t>(size - room));

    EXPECT_TRUE(outcome.status.is_errno(ENOSPC)) << describe(outcome.status);
    EXPECT_LE(outcome.report.bytes, room);
    EXPECT_TRUE(file_content(size - room, room) == data.substr(0, room));
    EXPECT_EQ(file_size(), size);
  }
}

}  // namespace
}  // namespace penstock::core
