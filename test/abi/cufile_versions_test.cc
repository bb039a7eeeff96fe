// SPDX-License-Identifier: Apache-2.0

// The answers that PENSTOCK_CUFILE_VERSION chooses, and what they do to memory of programs that were built for an older
// cuFile. The conformance suite asks the other questions, by both versions' answers.
#include "cufile_fixture.h"

// Not in cufile.h, as in NVIDIA's.
extern "C" {
CUfileError_t cuFileObjectInitialize(void);
CUfileError_t cuFileObjectDriverOpen(void);
CUfileError_t cuFileObjectDriverOpenForDiagnostics(void);
}

namespace {

constexpr std::size_t kBytesOf1_15 = 512, kBytesOf1_20 = 624;
constexpr char kGuard = 0x5A;

class CufileVersions : public CufileFixture {
 protected:
  void SetUp() override {}
  void TearDown() override {
    CufileFixture::TearDown();
    ::unsetenv("PENSTOCK_CUFILE_VERSION");
  }
  void open_as(const char* version) {
    ::setenv("PENSTOCK_CUFILE_VERSION", version, 1);
    CufileFixture::SetUp();
    ASSERT_EQ(cuFileSetStatsLevel(1).err, CU_FILE_SUCCESS);
    ASSERT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  }
  static int version() {
    int number = 0;
    EXPECT_EQ(cuFileGetVersion(&number).err, CU_FILE_SUCCESS);
    return number;
  }
  // Statistics in memory of an older or a newer program: how many bytes of it were written.
  static std::size_t bytes_written() {
    std::string memory(4096, kGuard);
    EXPECT_EQ(cuFileGetStatsL1(reinterpret_cast<CUfileStatsLevel1_t*>(memory.data())).err, CU_FILE_SUCCESS);
    return memory.find_last_not_of(kGuard) + 1;
  }
};

TEST_F(CufileVersions, MemoryOfAProgramBuiltFor1_15IsNotWrittenBehindItsEnd) {
  open_as("1.15");

  EXPECT_EQ(bytes_written(), kBytesOf1_15);
  EXPECT_EQ(version(), 1150);
}

TEST_F(CufileVersions, AProgramBuiltFor1_20HasVectoredTransfersInItsStatistics) {
  open_as("1.20");
  char memory[2][4096];
  const CUfileIOVec_t pieces[] = {{memory[0], 4096}, {memory[1], 4096}};
  ASSERT_EQ(cuFileReadv(handle_, pieces, 2, 0, 0), 8192);

  std::uint64_t words[kBytesOf1_20 / 8] = {};
  ASSERT_EQ(cuFileGetStatsL1(reinterpret_cast<CUfileStatsLevel1_t*>(words)).err, CU_FILE_SUCCESS);

  EXPECT_EQ(bytes_written(), kBytesOf1_20);
  EXPECT_EQ(version(), 1200);
  EXPECT_EQ(words[0], 0u);                        // No plain read.
  EXPECT_EQ(words[kBytesOf1_15 / 8], 1u);         // One vectored read,
  EXPECT_EQ(words[kBytesOf1_15 / 8 + 4], 8192u);  // of so many bytes.
}

TEST_F(CufileVersions, AVersionThatThereIsNoneOfKeepsTheDriverClosedAndIsAnsweredByTheOldest) {
  ::setenv("PENSTOCK_CUFILE_VERSION", "1.16", 1);

  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(version(), 1150);
}

// The version is that of the opening, whatever becomes of the variable meanwhile.
TEST_F(CufileVersions, TheVersionHoldsWhileTheDriverIsOpen) {
  open_as("1.20");
  ::setenv("PENSTOCK_CUFILE_VERSION", "1.15", 1);
  EXPECT_EQ(version(), 1200);

  while (cuFileUseCount() > 0) (void)cuFileDriverClose();

  EXPECT_EQ(version(), 1150);
}

TEST_F(CufileVersions, TheEntriesOfCuObjectAreThereAndRefuse) {
  for (const auto entry : {cuFileObjectInitialize, cuFileObjectDriverOpen, cuFileObjectDriverOpenForDiagnostics}) {
    EXPECT_EQ(entry().err, CU_FILE_IO_NOT_SUPPORTED);
  }
  EXPECT_EQ(cuFileUseCount(), 0);
}

}  // namespace
