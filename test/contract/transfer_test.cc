// SPDX-License-Identifier: Apache-2.0

// The contract of reads and writes, in every fixture.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "contract/fixture.h"

namespace penstock::core {
namespace {

// -1 if the kernel does not report it.
long dirty_pages(int fd) {
  constexpr long kCachestat = 451;
  struct {
    std::uint64_t offset, length;
  } range{0, 0};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } answer{};
  if (::syscall(kCachestat, fd, &range, &answer, 0) != 0) return -1;
  return static_cast<long>(answer.dirty + answer.writeback);
}

class TransferTest : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, TransferTest, testing::ValuesIn(all_fixtures()), fixture_name);

std::vector<Fixture> direct_fixtures() {
  std::vector<Fixture> fixtures = kernel_fixtures();
  std::erase_if(fixtures, [](const Fixture& fixture) { return !fixture.direct; });
  return fixtures;
}

class DirectTransferTest : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, DirectTransferTest, testing::ValuesIn(direct_fixtures()), fixture_name);

constexpr std::uint64_t kSizes[] = {1, 511, 512, 513, 4095, 4096, 4097, 65536, (1 << 20) - 1, (5 << 20) + 123};
constexpr std::int64_t kOffsets[] = {0, 1, 511, 512, 4096, 12345};

TEST_P(TransferTest, EverySizeAtEveryOffsetIsWrittenWhereItBelongs) {
  const std::string before = pattern(6 << 20, 1);
  std::byte* memory = allocate(6 << 20);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  for (const std::uint64_t size : kSizes) {
    for (const std::int64_t offset : kOffsets) {
      SCOPED_TRACE(std::to_string(size) + " at " + std::to_string(offset));
      set_file_content(before);
      const std::string data = pattern(size, size + static_cast<std::uint64_t>(offset));
      upload(memory + 13, data);

      const Outcome outcome = write(file, memory, size, offset, 13);

      expect_moved(outcome, size);
      std::string expected = before;
      expected.replace(static_cast<std::size_t>(offset), size, data);
      ASSERT_TRUE(file_content(0, before.size()) == expected);
      if (goes_direct(file, outcome) && size >= 2 * 4096) {
        EXPECT_GE(outcome.report.direct_bytes, size - 2 * 4096);
      } else if (!goes_direct(file, outcome)) {
        EXPECT_EQ(outcome.report.direct_bytes, 0u);
      }
    }
  }
}

TEST_P(TransferTest, EverySizeAtEveryOffsetIsReadAndNothingElseIsTouched) {
  const std::string content = pattern(6 << 20, 2);
  set_file_content(content);
  std::byte* memory = allocate(6 << 20);
  const UniqueFd fd = open_fd(O_RDONLY);
  const std::uint64_t file = register_fd(fd);
  for (const std::uint64_t size : kSizes) {
    for (const std::int64_t offset : kOffsets) {
      SCOPED_TRACE(std::to_string(size) + " at " + std::to_string(offset));
      upload(memory, std::string(size + 200, '\x5a'));

      const Outcome outcome = read(file, memory, size, offset, 100);

      expect_moved(outcome, size);
      EXPECT_EQ(outcome.report.direct_bytes, goes_direct(file, outcome) ? size : 0u);
      const std::string got = download(memory, size + 200);
      ASSERT_TRUE(got.substr(0, 100) == std::string(100, '\x5a'));
      ASSERT_TRUE(got.substr(100, size) == content.substr(static_cast<std::size_t>(offset), size));
      ASSERT_TRUE(got.substr(100 + size) == std::string(100, '\x5a'));
    }
  }
}

TEST_P(TransferTest, AnAlignedRequestGoesByTheFixturesPathAsAWhole) {
  constexpr std::uint64_t kSize = 8 << 20;
  const std::string data = pattern(kSize, 11);
  std::byte* memory = allocate(kSize);
  upload(memory, data);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  const Outcome written = write(file, memory, kSize, 4096);
  upload(memory, std::string(kSize, '\x5a'));
  const Outcome got = read(file, memory, kSize, 4096);

  for (const Outcome& outcome : {written, got}) {
    expect_moved(outcome, kSize);
    EXPECT_TRUE(fixture().path == PathId::bounce || outcome.report.path == fixture().path);
    EXPECT_TRUE(!traits_of(fixture().path).direct || outcome.report.bounced_bytes == 0);
  }
  EXPECT_TRUE(file_content(4096, kSize) == data);
  EXPECT_TRUE(download(memory, kSize) == data);
}

// A page in the page cache, written back later, would take a neighbour's sectors along as they were.
TEST_P(DirectTransferTest, AWriteOfWholeSectorsLeavesThePageCacheAlone) {
  const std::string before = pattern(1 << 20, 1);
  std::byte* memory = allocate(1 << 20);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  if (!goes_direct(file)) GTEST_SKIP() << "no direct I/O here";
  const std::uint64_t sector = session().file_facts(file).value().direct_offset_align;
  for (const std::uint64_t size : {sector, 3 * sector, 4096 + sector, (300u << 10) + 5 * sector}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, sector, 5 * sector, 64 * 1024 - sector}) {
      SCOPED_TRACE(std::to_string(size) + " at " + std::to_string(offset));
      set_file_content(before);
      ASSERT_EQ(::fsync(fd.get()), 0);
      ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
      const std::string data = pattern(size, size + offset);
      upload(memory, data);

      const Outcome outcome = write(file, memory, size, static_cast<std::int64_t>(offset));

      expect_moved(outcome, size);
      EXPECT_EQ(outcome.report.direct_bytes, size);
      EXPECT_FALSE(session().storage().is_resident(fd.get(), offset, 1));
      EXPECT_FALSE(session().storage().is_resident(fd.get(), offset + size - 1, 1));
      ASSERT_TRUE(file_content(offset, size) == data);
    }
  }
}

TEST_P(DirectTransferTest, WhatAnUnalignedWriteLeftInThePageCacheIsClean) {
  std::byte* memory = allocate(1 << 20);
  set_file_content(pattern(1 << 20, 1));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  if (!goes_direct(file)) GTEST_SKIP() << "no direct I/O here";
  if (dirty_pages(fd.get()) < 0) GTEST_SKIP() << "this kernel has no cachestat";
  ASSERT_EQ(::fsync(fd.get()), 0);

  expect_moved(write(file, memory, 100'001, 1'001), 100'001);

  EXPECT_EQ(dirty_pages(fd.get()), 0);
}

TEST_P(TransferTest, NothingIsMovedByNoBytes) {
  std::byte* memory = allocate(4096);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd), size = file_size();

  for (const Outcome& outcome : {read(file, memory, 0, 0), write(file, memory, 0, 0)}) {
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, 0u);
  }

  EXPECT_EQ(file_size(), size);
}

TEST_P(TransferTest, AReadOverTheEndIsShortAndLeavesTheRestAlone) {
  for (const std::uint64_t end : {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096}, std::uint64_t{10'000},
                                  std::uint64_t{(9 << 20) + 77}}) {
    SCOPED_TRACE(end);
    const std::string content = pattern(end, end);
    const auto begin = static_cast<std::int64_t>(end_file_with(content));
    const auto behind = static_cast<std::int64_t>(file_size());
    std::byte* memory = allocate(12 << 20);
    upload(memory, std::string(12 << 20, '\x5a'));
    const UniqueFd fd = open_fd();
    const std::uint64_t file = register_fd(fd);

    const Outcome outcome = read(file, memory, 12 << 20, begin);

    expect_moved(outcome, end);
    const std::string got = download(memory, 12 << 20);
    ASSERT_TRUE(got.substr(0, end) == content);
    ASSERT_TRUE(got.substr(end) == std::string((12 << 20) - end, '\x5a'));
    expect_moved(read(file, memory, 4096, behind), 0);
    expect_moved(read(file, memory, 8 << 20, behind + 1'000'000), 0);
    ASSERT_TRUE(session().deregister_file(file).ok());
  }
}

TEST_P(TransferTest, AWriteExtendsTheFileAndLeavesAHoleBeforeItself) {
  if (fixture().is_drive()) GTEST_SKIP() << "a drive has its size";
  std::byte* memory = allocate(1 << 20);
  const std::string data = pattern(1 << 20, 3);
  upload(memory, data);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  expect_moved(write(file, memory, 100'001, 3'000'000), 100'001);

  EXPECT_EQ(file_size(), 3'100'001u);
  EXPECT_TRUE(file_content(0, 3'000'000) == std::string(3'000'000, '\0'));
  EXPECT_TRUE(file_content(3'000'000, 200'000) == data.substr(0, 100'001));
}

TEST_P(TransferTest, HolesReadAsZeros) {
  set_file_size(10 << 20);
  set_file_content("islands", 5 << 20);
  std::byte* memory = allocate(10 << 20);
  upload(memory, std::string(10 << 20, '\x5a'));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  expect_moved(read(file, memory, 10 << 20, 0), 10 << 20);

  EXPECT_TRUE(download(memory, 10 << 20) == file_content(0, 10 << 20));
}

TEST_P(TransferTest, LargeRequestsArriveWhole) {
  constexpr std::uint64_t kSize = (96 << 20) + 4097;
  std::byte* memory = allocate(kSize);
  const std::string data = pattern(kSize, 4);
  upload(memory, data);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  expect_moved(write(file, memory, kSize, 77), kSize);
  EXPECT_TRUE(file_content(77, kSize) == data);
  upload(memory, std::string(kSize, '\x5a'));
  expect_moved(read(file, memory, kSize, 77), kSize);

  EXPECT_TRUE(download(memory, kSize) == data);
  EXPECT_LE(session().engine().bounce_bytes(), session().config().bounce_bytes);
}

TEST_P(TransferTest, HostMemoryGoesByTheHostPath) {
  constexpr std::uint64_t kSize = (9 << 20) + 5;
  std::string data = pattern(kSize, 5);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  expect_moved(write(file, data.data(), kSize, 1001), kSize, PathId::host);
  std::string back(kSize + 8192, '\x5a');
  expect_moved(read(file, back.data(), kSize, 1001, 4099), kSize, PathId::host);

  EXPECT_TRUE(back.substr(4099, kSize) == data);
  EXPECT_TRUE(back.substr(0, 4099) == std::string(4099, '\x5a'));
  EXPECT_TRUE(back.substr(4099 + kSize) == std::string(8192 - 4099, '\x5a'));
}

TEST_P(TransferTest, AlignedHostMemoryIsReachedDirectly) {
  constexpr std::uint64_t kSize = 8 << 20;
  auto* memory = static_cast<char*>(std::aligned_alloc(4096, kSize));
  const std::string data = pattern(kSize, 6);
  std::memcpy(memory, data.data(), kSize);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  const Outcome written = write(file, memory, kSize, 0);
  std::memset(memory, 0, kSize);
  const Outcome back = read(file, memory, kSize, 0);

  expect_moved(written, kSize, PathId::host);
  expect_moved(back, kSize, PathId::host);
  EXPECT_EQ(back.report.direct_bytes, goes_direct(file) ? kSize : 0u);
  EXPECT_EQ(std::memcmp(memory, data.data(), kSize), 0);
  std::free(memory);
}

TEST_P(TransferTest, EachAccessModeDoesItsOwnAndRefusesTheOther) {
  std::byte* memory = allocate(8192);
  set_file_content(pattern(8192, 7));
  const UniqueFd reading = open_fd(O_RDONLY);
  const UniqueFd writing = open_fd(O_WRONLY);
  const std::uint64_t readable = register_fd(reading);
  const std::uint64_t writable = register_fd(writing);

  expect_moved(read(readable, memory, 5000, 3), 5000);
  expect_moved(write(writable, memory, 5000, 3), 5000);
  EXPECT_TRUE(write(readable, memory, 10, 0).status.is(Code::not_writable));
  EXPECT_TRUE(read(writable, memory, 10, 0).status.is(Code::not_readable));
}

TEST_P(TransferTest, ManyThreadsShareOneFile) {
  constexpr unsigned kThreads = 8;
  constexpr std::uint64_t kShare = 1 << 20;
  std::byte* memory = allocate(kThreads * kShare);
  const std::string data = pattern(kThreads * kShare, 8);
  upload(memory, data);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;

  // Shares that meet inside blocks and pages, written in pieces of odd sizes.
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 random(i);
      std::uint64_t done = 0;
      while (done < kShare) {
        const std::uint64_t size = std::min<std::uint64_t>(1 + random() % 30'000, kShare - done);
        const auto at = static_cast<std::int64_t>(i * kShare + done);
        const Outcome outcome = write(file, memory, size, at + 333, at);
        if (!outcome.status.ok() || outcome.report.bytes != size) ++failures;
        done += size;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(file_content(333, kThreads * kShare) == data);
}

TEST_P(TransferTest, UnalignedWritersOfOneBlockKeepEachOthersBytes) {
  constexpr unsigned kThreads = 4;
  constexpr unsigned kBlocks = 16;
  set_file_size(kBlocks * 4096);
  std::byte* memory = allocate(4096);
  upload(memory, "0123456789abcdef" + std::string(4080, 'x'));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;

  // Thread t owns every byte whose offset is t modulo kThreads, in the first 400 bytes of each block; a stranger
  // owns bytes 2000 on, with a descriptor of its own.
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 100; ++round) {
        for (unsigned block = 0; block < kBlocks; block += 5) {
          const auto at = static_cast<std::int64_t>(block * 4096 + t + round * kThreads);
          if (!write(file, memory, 1, at, t + 1).status.ok()) ++failures;
        }
      }
    });
  }
  threads.emplace_back([&] {
    for (unsigned round = 0; round < 400; ++round) {
      for (unsigned block = 0; block < kBlocks; block += 5) set_file_content("s", block * 4096 + 2000 + round);
    }
  });
  for (std::thread& thread : threads) thread.join();

  ASSERT_EQ(failures, 0);
  std::string expected;
  for (unsigned i = 0; i < 400; ++i) expected.push_back(static_cast<char>('1' + i % kThreads));
  for (unsigned block = 0; block < kBlocks; block += 5) {
    EXPECT_EQ(file_content(block * 4096, 400), expected) << block;
    EXPECT_EQ(file_content(block * 4096 + 2000, 400), std::string(400, 's')) << block;
  }
}

// Some of the pieces are whole sectors and go directly, where that is to be had, some go through the page cache, and
// all lie in the same pages. Each thread writes its own again and again; the last round is what stays.
constexpr std::uint64_t kCuts[] = {0, 512, 700, 1536, 3072, 4096, 6000, 6656, 8192};
constexpr int kRounds = 200;
constexpr char kFirst = 'a', kLast = 'a' + kRounds % 26;

void write_neighbouring_pieces(const std::function<bool(std::uint64_t at, std::uint64_t size, char value)>& write) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (std::size_t i = 0; i + 1 < std::size(kCuts); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round <= kRounds; ++round) {
        const char value = static_cast<char>(kFirst + round % 26);
        if (!write(kCuts[i], kCuts[i + 1] - kCuts[i], value)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(failures, 0);
}

TEST_P(TransferTest, NeighboursInOnePageKeepTheirBytesWhateverTheirAlignment) {
  set_file_size(8192);
  std::byte* memory = allocate(8192);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  write_neighbouring_pieces([&](std::uint64_t at, std::uint64_t size, char value) {
    upload(memory + at, std::string(size, value));
    const auto offset = static_cast<std::int64_t>(at);
    return write(file, memory, size, offset, offset).status.ok();
  });

  EXPECT_EQ(file_content(0, 8192), std::string(8192, kLast));
}

TEST_P(TransferTest, NeighboursInOnePageKeepTheirBytesAlsoThroughQueues) {
  set_file_size(8192);
  std::byte* memory = allocate(8192);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  write_neighbouring_pieces([&](std::uint64_t at, std::uint64_t size, char value) {
    upload(memory + at, std::string(size, value));
    const auto offset = static_cast<std::int64_t>(at);
    const auto queue = std::move(ChannelQueue::open(session(), 1, 4096).value());
    QueueCompletion completion;
    return queue->submit({Op::write, file, memory, size, offset, offset}, 0).ok() &&
           queue->reap({&completion, 1}, 1) == 1 && completion.status.ok();
  });

  EXPECT_EQ(file_content(0, 8192), std::string(8192, kLast));
}

TEST_P(TransferTest, RandomWorkAgreesWithAModel) {
  constexpr std::uint64_t kSpan = 3 << 20;
  std::string model = file_content(0, file_size());
  std::byte* on_device = allocate(kSpan);
  std::string on_host(kSpan, '\0');
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  std::mt19937_64 random(9);
  const auto any = [&](std::uint64_t limit) { return random() % limit; };

  for (int step = 0; step < 300; ++step) {
    SCOPED_TRACE(step);
    const bool use_device = any(3) != 0;
    // Mostly small, sometimes large; half of them aligned.
    std::uint64_t size = any(8) == 0 ? any(kSpan / 2) : any(20'000);
    std::uint64_t offset = any(kSpan - size);
    if (any(2) == 0) {
      size &= ~std::uint64_t{4095};
      offset &= ~std::uint64_t{4095};
    }
    const std::uint64_t in_buffer = any(kSpan - size);
    const auto signed_offset = static_cast<std::int64_t>(offset);
    const auto signed_in_buffer = static_cast<std::int64_t>(in_buffer);
    const PathId path = use_device ? fixture().path : PathId::host;
    void* base = use_device ? static_cast<void*>(on_device) : on_host.data();
    if (any(2) == 0) {
      const std::string data = pattern(size, random());
      if (use_device) upload(on_device + in_buffer, data);
      else on_host.replace(in_buffer, size, data);
      const Outcome outcome = write(file, base, size, signed_offset, signed_in_buffer);
      if (size > 0) expect_moved(outcome, size, path);
      if (size > 0 && model.size() < offset + size) model.resize(offset + size);
      model.replace(std::min<std::uint64_t>(offset, model.size()), size, data);
    } else {
      const std::uint64_t expected = offset >= model.size() ? 0 : std::min(size, model.size() - offset);
      const Outcome outcome = read(file, base, size, signed_offset, signed_in_buffer);
      if (size > 0) expect_moved(outcome, expected, path);
      const std::string got =
          use_device ? download(on_device + in_buffer, expected) : on_host.substr(in_buffer, expected);
      ASSERT_TRUE(got == model.substr(std::min<std::uint64_t>(offset, model.size()), expected));
    }
    ASSERT_EQ(file_size(), model.size());
  }

  EXPECT_TRUE(file_content(0, model.size() + 1) == model);
}

TEST_P(TransferTest, SeveralDevicesAreServedAtOnce) {
  const unsigned count = session().devices().count();
  if (count < 2) GTEST_SKIP() << "there is one GPU only";
  constexpr std::uint64_t kSize = (24 << 20) + 11;
  const std::string content = pattern(kSize, 10);
  set_file_content(content);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  std::vector<void*> memory;
  for (unsigned i = 0; i < count; ++i) {
    memory.push_back(session().devices().device(i).value()->memory().allocate(kSize).value());
    EXPECT_EQ(session().devices().describe(memory[i]).device, session().devices().device(i).value());
  }
  std::vector<std::thread> threads;

  for (void* target : memory) {
    threads.emplace_back([&, target] {
      for (int round = 0; round < 3; ++round) expect_moved(read(file, target, kSize, 0), kSize);
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (unsigned i = 0; i < count; ++i) {
    Device* owner = session().devices().device(i).value();
    EXPECT_TRUE(download(static_cast<std::byte*>(memory[i]), kSize, owner) == content) << i;
    owner->memory().release(memory[i]);
  }
}

}  // namespace
}  // namespace penstock::core
