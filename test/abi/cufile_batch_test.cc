// SPDX-License-Identifier: Apache-2.0

// Batches as real clients use them: KvikIO frees its parameters at once, NIXL requests all events at every poll,
// Mooncake polls without waiting.
#include <atomic>
#include <ctime>
#include <memory>
#include <thread>

#include "cufile_fixture.h"

namespace {

class CufileBatchTest : public CufileFixture {
 protected:
  static constexpr std::size_t kPiece = 4096;

  static CUfileBatchHandle_t set_up(unsigned capacity) {
    CUfileBatchHandle_t batch = nullptr;
    EXPECT_EQ(cuFileBatchIOSetUp(&batch, capacity).err, CU_FILE_SUCCESS);
    return batch;
  }
  // Entry i is piece i of the file and of the memory; its cookie is i + 1.
  std::vector<CUfileIOParams_t> entries(unsigned count, CUfileOpcode_t opcode, char* memory) {
    std::vector<CUfileIOParams_t> all(count);
    for (unsigned i = 0; i < count; ++i) {
      all[i].mode = CUFILE_BATCH;
      all[i].u.batch = {memory, static_cast<off_t>(i * kPiece), static_cast<off_t>(i * kPiece), kPiece};
      all[i].fh = handle_;
      all[i].opcode = opcode;
      all[i].cookie = reinterpret_cast<void*>(std::uintptr_t{i} + 1);
    }
    return all;
  }
  static CUfileError_t submit(CUfileBatchHandle_t batch, std::vector<CUfileIOParams_t> params) {
    return cuFileBatchIOSubmit(batch, static_cast<unsigned>(params.size()), params.data(), 0);
  }
  // Reaps all events within the time; -1: no limit.
  static std::vector<CUfileIOEvents_t> reap(CUfileBatchHandle_t batch, unsigned least, unsigned room, long ms = -1) {
    std::vector<CUfileIOEvents_t> events(room);
    timespec timeout = {ms / 1000, ms % 1000 * 1'000'000};
    EXPECT_EQ(cuFileBatchIOGetStatus(batch, least, &room, events.data(), ms < 0 ? nullptr : &timeout).err,
              CU_FILE_SUCCESS);
    events.resize(room);
    return events;
  }
};

TEST_F(CufileBatchTest, ReadsAndWritesBetweenSeveralFilesAndMemories) {
  std::string other_name = testing::TempDir() + "penstock_other_XXXXXX";
  const int other_fd = ::mkstemp(other_name.data());
  const CUfileHandle_t other = register_fd(other_fd);
  char* device = device_memory(16 * kPiece);
  std::vector<char> host(16 * kPiece, 'w');
  const CUfileBatchHandle_t batch = set_up(32);
  auto all = entries(16, CUFILE_READ, device);
  for (CUfileIOParams_t& writing : entries(16, CUFILE_WRITE, host.data())) {
    writing.fh = other;
    all.push_back(writing);
  }

  ASSERT_EQ(submit(batch, all).err, CU_FILE_SUCCESS);
  const auto events = reap(batch, 32, 32);

  ASSERT_EQ(events.size(), 32u);
  for (const CUfileIOEvents_t& event : events) {
    EXPECT_EQ(event.status, CUFILE_COMPLETE);
    EXPECT_EQ(event.ret, kPiece);
  }
  std::string back(16 * kPiece, '\0');
  ASSERT_EQ(penstock_device_download(penstock::cufile_session(), back.data(), device, back.size()).code, 0);
  EXPECT_TRUE(back == bytes_at(0, back.size()));
  ASSERT_EQ(::pread(other_fd, back.data(), back.size(), 0), static_cast<ssize_t>(back.size()));
  EXPECT_TRUE(back == std::string(back.size(), 'w'));
  cuFileBatchIODestroy(batch);
  ::close(other_fd);
  ::unlink(other_name.c_str());
}

TEST_F(CufileBatchTest, TheCallersParametersMayGoWhenTheSubmissionReturns) {
  std::vector<char> host(64 * kPiece);
  const CUfileBatchHandle_t batch = set_up(64);
  auto params = std::make_unique<std::vector<CUfileIOParams_t>>(entries(64, CUFILE_READ, host.data()));
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 64, params->data(), 0).err, CU_FILE_SUCCESS);
  std::memset(static_cast<void*>(params->data()), 0xff, 64 * sizeof(CUfileIOParams_t));
  params.reset();

  EXPECT_EQ(reap(batch, 64, 64).size(), 64u);

  EXPECT_TRUE(std::string(host.begin(), host.end()) == bytes_at(0, host.size()));
}

TEST_F(CufileBatchTest, AskingForEverythingAtEveryPollNeverHangs) {
  std::vector<char> host(32 * kPiece);
  const CUfileBatchHandle_t batch = set_up(32);
  ASSERT_EQ(submit(batch, entries(20, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);

  std::size_t reported = 0;
  for (int poll = 0; poll < 3; ++poll) reported += reap(batch, 32, 32).size();

  EXPECT_EQ(reported, 20u);
}

TEST_F(CufileBatchTest, PollingWithNothingComesToAnEnd) {
  std::vector<char> host(32 * kPiece);
  const CUfileBatchHandle_t batch = set_up(32);
  ASSERT_EQ(submit(batch, entries(32, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);

  for (std::size_t reported = 0; reported < 32;) reported += reap(batch, 0, 7).size();

  EXPECT_TRUE(reap(batch, 0, 32).empty());
}

TEST_F(CufileBatchTest, TheEndOfTheFileAndNothingAtAllAreNoFailures) {
  std::vector<char> host(4 * kPiece);
  const CUfileBatchHandle_t batch = set_up(4);
  auto three = entries(3, CUFILE_READ, host.data());
  three[0].u.batch.file_offset = kFileBytes - 100;
  three[1].u.batch.file_offset = kFileBytes + 4096;
  three[2].u.batch.size = 0;

  ASSERT_EQ(submit(batch, three).err, CU_FILE_SUCCESS);

  for (const CUfileIOEvents_t& event : reap(batch, 3, 4)) {
    EXPECT_EQ(event.status, CUFILE_COMPLETE);
    EXPECT_EQ(event.ret, reinterpret_cast<std::uintptr_t>(event.cookie) == 1 ? 100u : 0u);
  }
}

TEST_F(CufileBatchTest, WhatIsWrongWithOneEntryIsItsOwnAffair) {
  std::vector<char> host(8 * kPiece);
  const int read_only = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  const CUfileBatchHandle_t batch = set_up(8);
  auto four = entries(4, CUFILE_READ, host.data());
  four[1].opcode = number_as<CUfileOpcode_t>(7);
  four[2].opcode = CUFILE_WRITE;
  four[2].fh = register_fd(read_only);
  four[3].u.batch.devPtr_base = nullptr;

  ASSERT_EQ(submit(batch, four).err, CU_FILE_SUCCESS);

  const auto events = reap(batch, 4, 8);
  ASSERT_EQ(events.size(), 4u);
  for (const CUfileIOEvents_t& event : events) {
    const auto cookie = reinterpret_cast<std::uintptr_t>(event.cookie);
    EXPECT_EQ(event.status, cookie == 1 ? CUFILE_COMPLETE : CUFILE_FAILED);
    EXPECT_EQ(static_cast<ssize_t>(event.ret) < 0, cookie > 1);
    EXPECT_EQ(static_cast<ssize_t>(event.ret) == -CU_FILE_INVALID_FILE_OPEN_FLAG, cookie == 3);
  }
  ::close(read_only);
}

TEST_F(CufileBatchTest, ASubmissionIsTakenAsAWholeOrNotAtAll) {
  std::vector<char> host(8 * kPiece);
  const CUfileBatchHandle_t batch = set_up(4);
  auto bad_mode = entries(2, CUFILE_READ, host.data());
  bad_mode[1].mode = number_as<CUfileBatchMode_t>(2);
  auto bad_file = entries(2, CUFILE_READ, host.data());
  bad_file[1].fh = reinterpret_cast<CUfileHandle_t>(0x7fff1234);
  auto no_file = entries(2, CUFILE_READ, host.data());
  no_file[0].fh = no_file[1].fh = nullptr;

  EXPECT_EQ(submit(batch, bad_mode).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(submit(batch, bad_file).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(submit(batch, no_file).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(submit(batch, {}).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(submit(batch, entries(5, CUFILE_READ, host.data())).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 1, nullptr, 0).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_TRUE(reap(batch, 0, 4).empty());
  EXPECT_EQ(submit(batch, entries(4, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);
  EXPECT_EQ(submit(batch, entries(1, CUFILE_READ, host.data())).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(reap(batch, 2, 2).size(), 2u);
  EXPECT_EQ(submit(batch, entries(2, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);
  EXPECT_EQ(reap(batch, 4, 4).size(), 4u);  // The memory goes out of scope.
}

TEST_F(CufileBatchTest, UnknownBatchesAreToldByNumber) {
  std::vector<char> host(kPiece);
  unsigned number = 1;
  CUfileIOEvents_t event{};
  const CUfileBatchHandle_t destroyed = set_up(4);
  cuFileBatchIODestroy(destroyed);

  for (const CUfileBatchHandle_t batch : {CUfileBatchHandle_t{nullptr}, destroyed, CUfileBatchHandle_t{&number}}) {
    EXPECT_EQ(submit(batch, entries(1, CUFILE_READ, host.data())).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
    EXPECT_EQ(cuFileBatchIOGetStatus(batch, 0, &number, &event, nullptr).err, CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
    EXPECT_EQ(cuFileBatchIOCancel(batch).err, CU_FILE_SUCCESS);
    cuFileBatchIODestroy(batch);
  }
}

TEST_F(CufileBatchTest, OfWhatWasCanceledNothingIsReportedAndNoMemoryIsTouched) {
  const CUfileBatchHandle_t batch = set_up(128);
  for (int round = 0; round < 20; ++round) {
    auto host = std::make_unique<std::vector<char>>(128 * kPiece);
    ASSERT_EQ(submit(batch, entries(128, CUFILE_READ, host->data())).err, CU_FILE_SUCCESS);
    ASSERT_EQ(cuFileBatchIOCancel(batch).err, CU_FILE_SUCCESS);
    host.reset();  // For the memory checkers: nothing may write to it any more.

    EXPECT_TRUE(reap(batch, 128, 128).empty());
  }
}

TEST_F(CufileBatchTest, ACanceledBatchTakesAsManyEntriesAsBefore) {
  std::vector<char> host(128 * kPiece);
  const CUfileBatchHandle_t batch = set_up(128);
  ASSERT_EQ(submit(batch, entries(128, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileBatchIOCancel(batch).err, CU_FILE_SUCCESS);

  ASSERT_EQ(submit(batch, entries(128, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);

  EXPECT_EQ(reap(batch, 128, 128).size(), 128u);
  EXPECT_TRUE(std::string(host.begin(), host.end()) == bytes_at(0, host.size()));
}

TEST_F(CufileBatchTest, DestroyingInFlightLeavesTheMemoryToItsOwner) {
  for (int round = 0; round < 20; ++round) {
    auto host = std::make_unique<std::vector<char>>(128 * kPiece);
    const CUfileBatchHandle_t batch = set_up(128);
    ASSERT_EQ(submit(batch, entries(128, CUFILE_READ, host->data())).err, CU_FILE_SUCCESS);
    cuFileBatchIODestroy(batch);
    host.reset();  // For the memory checkers: nothing may write to it any more.
  }
}

TEST_F(CufileBatchTest, ClosingTheDriverTakesItsBatchesAlong) {
  std::vector<char> host(128 * kPiece);
  const CUfileBatchHandle_t batch = set_up(128);
  ASSERT_EQ(submit(batch, entries(128, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  unsigned number = 1;
  CUfileIOEvents_t event{};
  EXPECT_EQ(submit(batch, entries(1, CUFILE_READ, host.data())).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(cuFileBatchIOGetStatus(batch, 0, &number, &event, nullptr).err, CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
  cuFileBatchIODestroy(batch);
  handle_ = register_fd(fd_);
  EXPECT_EQ(cuFileBatchIOGetStatus(batch, 0, &number, &event, nullptr).err, CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
}

TEST_F(CufileBatchTest, DeregisteringAFileOfABatchInFlightEndsEveryEntry) {
  std::vector<char> host(128 * kPiece);
  const CUfileBatchHandle_t batch = set_up(128);
  ASSERT_EQ(submit(batch, entries(128, CUFILE_READ, host.data())).err, CU_FILE_SUCCESS);

  cuFileHandleDeregister(handle_);

  for (const CUfileIOEvents_t& event : reap(batch, 128, 128)) {
    if (event.status == CUFILE_COMPLETE) continue;
    EXPECT_EQ(static_cast<ssize_t>(event.ret), -CU_FILE_HANDLE_NOT_REGISTERED);
  }
}

TEST_F(CufileBatchTest, SixteenThreadsAndThirtyTwoBatchesMoveFourThousandEntries) {
  char* device = device_memory(kFileBytes);
  std::vector<char> host(kFileBytes);
  std::vector<CUfileBatchHandle_t> batches;
  for (int i = 0; i < 32; ++i) batches.push_back(set_up(128));
  std::atomic<unsigned> complete{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      for (unsigned half = 0; half < 2; ++half) {
        const CUfileBatchHandle_t batch = batches[2 * i + half];
        auto all = entries(128, CUFILE_READ, half == 0 ? device : host.data());
        for (CUfileIOParams_t& params : all) {
          params.u.batch.file_offset = params.u.batch.devPtr_offset = (params.u.batch.file_offset + 64 * kPiece * i);
          params.u.batch.devPtr_offset %= kFileBytes;
          params.u.batch.file_offset %= kFileBytes;
        }
        (void)submit(batch, all);
      }
      for (unsigned half = 0; half < 2; ++half) {
        for (unsigned reported = 0; reported < 128;) {
          for (const CUfileIOEvents_t& event : reap(batches[2 * i + half], 1, 128, 1000)) {
            ++reported;
            if (event.status == CUFILE_COMPLETE && event.ret == kPiece) ++complete;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(complete, 4096u);
  EXPECT_TRUE(std::string(host.begin(), host.end()) == bytes_at(0, kFileBytes));
  std::string back(kFileBytes, '\0');
  ASSERT_EQ(penstock_device_download(penstock::cufile_session(), back.data(), device, back.size()).code, 0);
  EXPECT_TRUE(back == bytes_at(0, kFileBytes));
}

}  // namespace
