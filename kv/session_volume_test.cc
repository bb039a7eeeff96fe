// SPDX-License-Identifier: Apache-2.0

// Stores on a real file system, with bytes moved by a real session.
#include "kv/session_volume.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <numeric>
#include <thread>

#include "kv/follower.h"
#include "kv/store.h"
#include "kv/test_chunks.h"
#include "kv/tiered_store.h"
#include "penstock/device_memory.h"

static std::atomic<bool> is_without_memory = false;
static std::atomic<int> interruptions = 0;  // So many calls are interrupted.
// Stands in place of the C library's.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  const bool is_interrupted = interruptions > 0 && interruptions-- > 0;
  if (!is_without_memory && !is_interrupted) return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
  errno = is_interrupted ? EINTR : ENOSPC;
  return -1;
}

namespace penstock::kv {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSlab = 32 << 20;
constexpr std::uint64_t kExtent = 4 << 20;
constexpr std::size_t kChunk = 100'000;
constexpr Library kLibrary = {penstock_file_register, penstock_file_close,   penstock_file_sync,
                              penstock_transfer,      penstock_queue_open,   penstock_queue_close,
                              penstock_queue_submit,  penstock_queue_reap,   penstock_crc32c_vector,
                              penstock_path_count,    penstock_report_bytes, penstock_file_advise};

class SessionVolumeTest : public testing::Test {
 protected:
  SessionVolumeTest() {
    std::string name = (fs::temp_directory_path() / "penstock-kv-XXXXXX").string();
    base_ = mkdtemp(name.data());
    session_ = open_session();
  }
  ~SessionVolumeTest() override {
    penstock_session_close(session_);
    fs::remove_all(base_);
  }
  static penstock_session* open_session() {
    penstock_config* config = nullptr;
    EXPECT_EQ(penstock_config_create(&config).code, 0);
    EXPECT_EQ(penstock_config_set(config, "device", "host").code, 0);
    penstock_session* session = nullptr;
    EXPECT_EQ(penstock_session_open(config, &session).code, 0);
    penstock_config_close(config);
    return session;
  }
  core::Result<std::unique_ptr<SessionVolume>> volume(SessionVolume::Role role) const {
    return SessionVolume::open(kLibrary, session_, folder(), role, kSlab);
  }
  static std::unique_ptr<Store> store(Volume& volume) {
    return std::move(Store::open(volume, {name_of(0), kSlab, kExtent}).value());
  }
  std::string folder() const { return base_ + "/store"; }

  std::string base_;
  penstock_session* session_ = nullptr;
};

using Role = SessionVolume::Role;

TEST_F(SessionVolumeTest, ItsFilesAreTheOwnersAlone) {
  const auto writer = std::move(volume(Role::writer).value());
  const auto kept = store(*writer);
  for (const auto& [name, mode] : {std::pair("", 0700u), {"/slab", 0600u}, {"/journal", 0600u}, {"/lease", 0600u}}) {
    struct stat facts {};
    ASSERT_EQ(stat((folder() + name).c_str(), &facts), 0) << name;
    EXPECT_EQ(facts.st_mode & 0777, mode) << name;
  }
}

TEST_F(SessionVolumeTest, ThereIsOneWriterAndTheNextOneFollowsWhenItEnds) {
  auto first = std::move(volume(Role::writer).value());
  EXPECT_TRUE(volume(Role::writer).status().is_errno(EWOULDBLOCK));
  first.reset();
  EXPECT_TRUE(volume(Role::writer).ok());
}

TEST_F(SessionVolumeTest, WithoutAStoreThereIsNothingToRead) {
  EXPECT_TRUE(volume(Role::reader).status().is_errno(ENOENT));
}

TEST_F(SessionVolumeTest, ANameThatLeadsElsewhereIsNotFollowed) {
  fs::create_directory(folder());
  fs::create_symlink("/dev/null", folder() + "/slab");
  EXPECT_TRUE(volume(Role::writer).status().is_errno(ELOOP));
}

// A hang here is the fault that this test looks for.
TEST_F(SessionVolumeTest, PipesInPlaceOfItsFilesAreRefusedWithTheirNames) {
  for (const char* name : {"/slab", "/lease", "/journal"}) {
    {
      const auto writer = std::move(volume(Role::writer).value());
      store(*writer);
    }
    fs::remove(folder() + name);
    ASSERT_EQ(mkfifo((folder() + name).c_str(), 0600), 0);
    for (const Role role : {Role::writer, Role::reader}) {
      const auto opened = volume(role);
      const core::Status status = opened.ok() ? (*opened)->read_journal(0).status() : opened.status();
      const bool needs_it = role == Role::writer || name != std::string("/lease");
      EXPECT_EQ(status.is(core::Code::unsupported_file), needs_it) << name << core::describe(status);
      EXPECT_EQ(core::describe(status).find(folder() + name) != std::string::npos, needs_it) << core::describe(status);
    }
    fs::remove(folder() + name);
  }
}

// Else memory would be freed that the kernel still writes into, and a queue be lost with its session.
TEST_F(SessionVolumeTest, AnExceptionAtARequestsEndPassesWhenAllHaveEnded) {
  constexpr std::size_t kRequests = 20, kBytes = 64 << 10;
  static int open_queues = 0;
  Library counted = kLibrary;
  counted.queue_open = [](auto... arguments) { return ++open_queues, penstock_queue_open(arguments...); };
  counted.queue_close = [](penstock_queue* queue) { --open_queues, penstock_queue_close(queue); };
  auto writer = std::move(SessionVolume::open(counted, session_, folder(), Role::writer, kSlab).value());
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, kRequests * kBytes)), std::free);
  const auto transfer = [&](penstock_op op, auto ended) {
    std::vector<iovec> pieces(kRequests);
    std::vector<penstock_request> requests;
    for (std::size_t i = 0; i < kRequests; ++i) {
      pieces[i] = {memory.get() + i * kBytes, kBytes};
      requests.push_back(slab_request(op, i * kBytes, {&pieces[i], 1}));
    }
    writer->transfer_each(requests, ended);
  };
  std::memset(memory.get(), 'x', kRequests * kBytes);
  transfer(PENSTOCK_WRITE, [](const auto&) {});
  for (int round = 0; round < 2; ++round) {
    std::memset(memory.get(), 0, kRequests * kBytes);
    EXPECT_THROW(transfer(PENSTOCK_READ, [](const auto&) { throw std::bad_alloc(); }), std::bad_alloc);
    EXPECT_EQ(std::count(memory.get(), memory.get() + kRequests * kBytes, std::byte{'x'}), kRequests * kBytes);
  }
  writer.reset();
  EXPECT_EQ(open_queues, 0);
}

// The session's threads have to be woken; meanwhile the caller would only wait.
TEST_F(SessionVolumeTest, TheCallerMovesTheLastOfItsRequestsAndThreadsMoveTheOthers) {
  static std::uint64_t here = 0, queued = 0;
  Library counted = kLibrary;
  counted.transfer = [](const penstock_request* one, penstock_report* report) {
    here += one->size;
    return penstock_transfer(one, report);
  };
  counted.queue_submit = [](penstock_queue* queue, const penstock_request* all, std::uint32_t count,
                            std::uint32_t* taken) {
    const penstock_status status = penstock_queue_submit(queue, all, count, taken);
    for (std::uint32_t i = 0; i < *taken; ++i) queued += all[i].size;
    return status;
  };
  const auto writer = std::move(SessionVolume::open(counted, session_, folder(), Role::writer, kSlab).value());
  const auto kept = store(*writer);

  ASSERT_EQ(put(*kept, 1, content_of(1, 0, kChunk)), Outcome::done);

  EXPECT_EQ(here, kChunk);
  EXPECT_EQ(queued, kHeaderBytes);
}

TEST_F(SessionVolumeTest, AHoleBehindTheRecordsOfAJournalIsNotRead) {
  const auto writer = std::move(volume(Role::writer).value());
  const auto kept = store(*writer);
  put(*kept, 1, content_of(1, 0, kChunk));
  ASSERT_TRUE(kept->commit().ok());
  const std::uint64_t bytes = fs::file_size(folder() + "/journal");
  fs::resize_file(folder() + "/journal", std::uint64_t{3} << 30);
  const auto journal = writer->read_journal(0);
  ASSERT_TRUE(journal.ok());
  EXPECT_GE(journal->bytes.size(), bytes);
  EXPECT_LE(journal->bytes.size(), bytes + (1 << 20));
  fs::resize_file(folder() + "/journal", std::uint64_t{5} << 30);
  EXPECT_TRUE(writer->read_journal(0).status().is_errno(EFBIG));
}

TEST_F(SessionVolumeTest, AJournalThatNoDescriptorIsLeftForIsNotReplaced) {
  const auto writer = std::move(volume(Role::writer).value());
  const auto kept = store(*writer);
  const std::vector<std::byte> records = writer->read_journal(0)->bytes;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  int failures = 0;
  core::Status status = core::failure(core::Code::limit, "not tried yet");
  for (rlimit few{0, before.rlim_max}; !status.ok(); ++few.rlim_cur, ++failures) {
    ASSERT_LT(few.rlim_cur, before.rlim_cur);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    bool is_replaced = false;
    status = writer->replace_journal(records, is_replaced);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(is_replaced, status.ok()) << core::describe(status);
    EXPECT_TRUE(writer->write_journal(0, records).ok()) << "with " << few.rlim_cur << " descriptors";
  }
  EXPECT_GT(failures, 3) << "not each of its descriptors was missing once";
}

TEST_F(SessionVolumeTest, DeviceMemoryInPiecesComesBack) {
  const auto writer = std::move(volume(Role::writer).value());
  const auto kept = store(*writer);
  void* memory = nullptr;
  ASSERT_EQ(penstock_device_alloc(session_, 0, 3 * kChunk, &memory).code, 0);
  const std::vector<std::byte> content = content_of(1, 0, kChunk);
  ASSERT_EQ(penstock_device_upload(session_, memory, content.data(), kChunk).code, 0);
  auto* const device = static_cast<std::byte*>(memory);
  const iovec from[] = {{device, 4096}, {device + 4096, kChunk - 4096}};
  Request request{name_of(1), from};
  kept->put(each_of({&request, 1}));
  ASSERT_EQ(request.outcome, Outcome::done) << core::describe(request.status);
  const iovec into[] = {{device + 2 * kChunk, 10'000}, {device + kChunk, kChunk - 10'000}};
  request.pieces = into;
  kept->get(each_of({&request, 1}));
  EXPECT_EQ(request.outcome, Outcome::done) << core::describe(request.status);
  std::vector<std::byte> back(kChunk);
  ASSERT_EQ(penstock_device_download(session_, back.data(), device + 2 * kChunk, 10'000).code, 0);
  ASSERT_EQ(penstock_device_download(session_, back.data() + 10'000, device + kChunk, kChunk - 10'000).code, 0);
  EXPECT_EQ(back, content);
  EXPECT_GT(writer->moved().by_path[PENSTOCK_PATH_BOUNCE], 2 * kChunk - 1);
  penstock_device_free(session_, 0, memory);
}

TEST_F(SessionVolumeTest, MorePiecesThanARequestTakesAreAFailureThatIsTold) {
  const auto writer = std::move(volume(Role::writer).value());
  const auto kept = store(*writer);
  std::vector<std::byte> content = content_of(1, 0, 2000);
  std::vector<iovec> pieces;
  for (std::byte& one : content) pieces.push_back({&one, 1});
  Request request{name_of(1), pieces};
  kept->put(each_of({&request, 1}));
  EXPECT_EQ(request.outcome, Outcome::failed);
  EXPECT_FALSE(request.status.ok());
  EXPECT_FALSE(kept->contains(name_of(1)));
}

TEST_F(SessionVolumeTest, ThreadsPutAndGetAtOnce) {
  const auto writer = std::move(volume(Role::writer).value());
  const auto kept = store(*writer);
  std::vector<std::jthread> threads;
  std::atomic<int> hits = 0;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(number);
      std::vector<std::byte> memory(kChunk);
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t key = random() % 500;  // More keys than fit.
        if (random() % 2 == 0) {
          put(*kept, key, content_of(key, 0, kChunk));
        } else {
          const Outcome outcome = get(*kept, key, memory);
          EXPECT_TRUE(outcome == Outcome::done || outcome == Outcome::miss) << "it was overwritten while it was read";
          if (outcome != Outcome::done) continue;
          EXPECT_EQ(memory, content_of(key, 0, kChunk));
          ++hits;
        }
        if (random() % 20 == 0) {
          EXPECT_TRUE(kept->commit().ok());
        }
        if (random() % 20 == 0) kept->erase(name_of(random() % 500));
      }
    });
  }
  threads.clear();
  EXPECT_GT(hits, 0);
  EXPECT_LE(kept->state().used_bytes, kSlab);
}

TEST_F(SessionVolumeTest, MemoryIsNoFolderAndHasABound) {
  const auto memory = std::move(SessionVolume::open(kLibrary, session_, "", Role::memory, kSlab).value());
  const auto kept = store(*memory);
  for (std::uint64_t key = 0; key < 500; ++key) put(*kept, key, content_of(key, 0, kChunk));
  ASSERT_TRUE(kept->commit().ok());
  EXPECT_LE(kept->state().used_bytes, kSlab);
  std::vector<std::byte> bytes(kChunk);
  EXPECT_EQ(get(*kept, 499, bytes), Outcome::done);
  EXPECT_EQ(bytes, content_of(499, 0, kChunk));
  EXPECT_EQ(get(*kept, 0, bytes), Outcome::miss);
  EXPECT_TRUE(kept->close().ok());
  EXPECT_TRUE(fs::is_empty(base_));
}

// A copy into it would end the process.
TEST_F(SessionVolumeTest, IntoMemoryThatTheKernelDoesNotGiveNothingIsCopied) {
  const auto memory = std::move(SessionVolume::open(kLibrary, session_, "", Role::memory, kSlab).value());
  const auto kept = store(*memory);
  const auto by_requests = [&] {
    const std::vector<std::uint64_t> bytes = memory->moved().by_path;
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  };
  interruptions = 3;
  EXPECT_EQ(put(*kept, 1, content_of(1, 0, kChunk), 0, true), Outcome::done);
  EXPECT_EQ(by_requests(), 0u);
  EXPECT_EQ(interruptions, 0);
  is_without_memory = true;
  EXPECT_EQ(put(*kept, 2, content_of(2, 0, kChunk), 0, true), Outcome::done) << "its pages came with those before";
  EXPECT_EQ(by_requests(), 0u);
  const std::size_t large = kExtent - kHeaderBytes;  // It needs an extent of its own.
  EXPECT_EQ(put(*kept, 3, content_of(3, 0, large), 0, true), Outcome::done);
  EXPECT_EQ(by_requests(), kHeaderBytes + large) << "a request fails where a copy ends the process";
  is_without_memory = false;
  std::vector<std::byte> bytes(large);
  EXPECT_EQ(get(*kept, 3, bytes, true), Outcome::done);
  EXPECT_EQ(bytes, content_of(3, 0, large));
}

TEST_F(SessionVolumeTest, MoreMemoryThanThereIsIsRefused) {
  const auto memory = SessionVolume::open(kLibrary, session_, "", Role::memory, std::uint64_t{1} << 50);
  EXPECT_TRUE(memory.status().is_errno(ENOMEM)) << core::describe(memory.status());
}

TEST_F(SessionVolumeTest, ThreadsUseATierOfHostMemoryBeforeTheDrive) {
  const auto writer = std::move(volume(Role::writer).value());
  const auto memory = std::move(SessionVolume::open(kLibrary, session_, "", Role::memory, kSlab / 4).value());
  const auto on_drive = store(*writer);
  const auto in_memory = std::move(Store::open(*memory, {name_of(0), kSlab / 4, kExtent}).value());
  TieredStore tier(*in_memory, *on_drive);
  ASSERT_EQ(put(tier, 1000, content_of(1000, 0, kChunk)), Outcome::done);
  ASSERT_TRUE(tier.pin(name_of(1000)));
  std::vector<std::jthread> threads;
  std::atomic<int> hits = 0;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(number);
      std::vector<std::byte> bytes(kChunk);
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t key = random() % 500;  // More keys than fit.
        if (random() % 2 == 0) put(tier, key, content_of(key, 0, kChunk));
        else if (get(tier, key, bytes) == Outcome::done) {
          EXPECT_EQ(bytes, content_of(key, 0, kChunk));
          ++hits;
        }
        if (random() % 20 == 0) {
          EXPECT_TRUE(tier.commit().ok());
        }
        if (random() % 20 == 0) tier.erase(name_of(random() % 500));
        if (random() % 20 == 0 && tier.pin(name_of(key))) tier.unpin(name_of(key));
      }
    });
  }
  threads.clear();
  EXPECT_GT(hits, 0);
  ASSERT_TRUE(tier.commit().ok());
  EXPECT_EQ(tier.state().waiting, 0u);
  EXPECT_LE(in_memory->state().used_bytes, kSlab / 4);
  EXPECT_LE(on_drive->state().used_bytes, kSlab);
  EXPECT_TRUE(on_drive->contains(name_of(1000)));
  for (std::uint64_t key = 0; key < 500; ++key) {
    EXPECT_FALSE(in_memory->unpin(name_of(key))) << "a pin of the tier's was left behind: of " << key;
  }
}

// A writer is killed during its work; the next one finds its committed chunks, and no wrong bytes.
TEST_F(SessionVolumeTest, AWriterThatIsKilledIsFollowedByAnother) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a forked child that starts a thread";
#endif
  for (int round = 0; round < 5; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      penstock_session* const own = open_session();
      auto theirs = SessionVolume::open(kLibrary, own, folder(), Role::writer, kSlab);
      if (!theirs.ok()) _exit(1);
      const auto kept = store(**theirs);
      for (std::uint64_t key = static_cast<unsigned>(round) * 1000;; ++key) {
        put(*kept, key, content_of(key, 0, kChunk));
        if (key % 4 == 3 && kept->commit().ok() && write(pipe_ends[1], &key, sizeof key) < 0) _exit(1);
      }
    }
    close(pipe_ends[1]);
    std::uint64_t committed = 0;
    for (int i = 0; i < 5; ++i) ASSERT_EQ(read(pipe_ends[0], &committed, sizeof committed), (ssize_t)sizeof committed);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    while (read(pipe_ends[0], &committed, sizeof committed) == (ssize_t)sizeof committed) {
    }
    close(pipe_ends[0]);
    const auto next = std::move(volume(Role::writer).value());
    const auto kept = store(*next);
    std::vector<std::byte> memory(kChunk);
    for (std::uint64_t key = committed - 19; key < committed + 100; ++key) {
      const Outcome outcome = get(*kept, key, memory);
      if (outcome == Outcome::done) {
        EXPECT_EQ(memory, content_of(key, 0, kChunk));
      }
      EXPECT_TRUE(outcome == Outcome::done || key > committed) << key << " of " << committed;
    }
  }
}

}  // namespace
}  // namespace penstock::kv
