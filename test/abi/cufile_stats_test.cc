// SPDX-License-Identifier: Apache-2.0

// cuFile's statistics from outside: levels, start, stop and reset, and the numbers after operations whose outcome is
// known. Memory of the stand-in device comes from penstock.h.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "cufile.h"
#include "fakes/cufile_session.h"

namespace {

constexpr std::size_t kSize = 64 << 10;

class CufileStatsTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PENSTOCK_DEVICE", "host", 1);
    name_ = testing::TempDir() + "penstock_cufile_stats_XXXXXX";
    fd_ = ::mkstemp(name_.data());
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(::ftruncate(fd_, 1 << 20), 0);
    ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
    ASSERT_EQ(penstock_device_alloc(penstock::cufile_session(), 0, kSize, &memory_).code, 0);
  }
  void TearDown() override {
    (void)cuFileSetStatsLevel(0);
    while (cuFileUseCount() > 0) (void)cuFileDriverClose();
    ::close(fd_);
    ::unlink(name_.c_str());
  }

  void start(int level) {
    ASSERT_EQ(cuFileSetStatsLevel(level).err, CU_FILE_SUCCESS);
    ASSERT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  }
  CUfileHandle_t handle() {
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd_;
    CUfileHandle_t registered = nullptr;
    EXPECT_EQ(cuFileHandleRegister(&registered, &descr).err, CU_FILE_SUCCESS);
    return registered;
  }
  CUfileStatsLevel1_t basic() {
    CUfileStatsLevel1_t stats{};
    EXPECT_EQ(cuFileGetStatsL1(&stats).err, CU_FILE_SUCCESS);
    return stats;
  }

  std::string name_;
  int fd_ = -1;
  void* memory_ = nullptr;
};

TEST_F(CufileStatsTest, ALevelIsOneOfFour) {
  for (const int level : {0, 1, 2, 3}) {
    EXPECT_EQ(cuFileSetStatsLevel(level).err, CU_FILE_SUCCESS);
    int got = -1;
    EXPECT_EQ(cuFileGetStatsLevel(&got).err, CU_FILE_SUCCESS);
    EXPECT_EQ(got, level);
  }
  for (const int level : {-1, 4, 1 << 30}) EXPECT_EQ(cuFileSetStatsLevel(level).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileStatsTest, NullIsRefused) {
  start(3);

  EXPECT_EQ(cuFileGetStatsLevel(nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetStatsL1(nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetStatsL2(nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetStatsL3(nullptr).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileStatsTest, OnlyLevelsThatAreCountedCanBeAskedFor) {
  CUfileStatsLevel1_t one;
  CUfileStatsLevel2_t two;
  CUfileStatsLevel3_t three;

  EXPECT_EQ(cuFileGetStatsL1(&one).err, CU_FILE_INVALID_VALUE);
  start(2);
  EXPECT_EQ(cuFileGetStatsL1(&one).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetStatsL2(&two).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetStatsL3(&three).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileStatsTest, AClosedDriverHasNone) {
  start(1);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  CUfileStatsLevel1_t stats;
  EXPECT_EQ(cuFileGetStatsL1(&stats).err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileStatsStart().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileStatsStop().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileStatsReset().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(CufileStatsTest, ALevelChosenWhileClosedHoldsOnceOpen) {
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetStatsLevel(2).err, CU_FILE_SUCCESS);
  int level = -1;
  ASSERT_EQ(cuFileGetStatsLevel(&level).err, CU_FILE_SUCCESS);
  EXPECT_EQ(level, 2);

  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileGetStatsLevel(&level).err, CU_FILE_SUCCESS);
  EXPECT_EQ(level, 2);
  CUfileStatsLevel2_t stats;
  EXPECT_EQ(cuFileGetStatsL2(&stats).err, CU_FILE_SUCCESS);
}

// Runs itself again in a process that has not set a level by a call.
TEST(ConfiguredCufileStatsTest, ALevelOfTheConfigurationIsCountedFromTheOpeningOn) {
  if (::getenv("CUFILE_ENV_PATH_JSON") == nullptr) {
    const std::string name = testing::TempDir() + "penstock_stats_" + std::to_string(::getpid()) + ".json";
    std::ofstream(name) << R"({"profile": {"cufile_stats": 2}})";
    const std::string again = "CUFILE_ENV_PATH_JSON=" + name + " /proc/" + std::to_string(::getpid()) +
                              "/exe --gtest_filter='ConfiguredCufileStatsTest.*'";
    EXPECT_EQ(std::system(again.c_str()), 0);
    ::unlink(name.c_str());
    return;
  }
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  int level = -1;
  ASSERT_EQ(cuFileGetStatsLevel(&level).err, CU_FILE_SUCCESS);
  EXPECT_EQ(level, 2);
  std::vector<char> memory(4096);
  ASSERT_EQ(cuFileBufRegister(memory.data(), memory.size(), 0).err, CU_FILE_SUCCESS);

  CUfileStatsLevel2_t stats;
  ASSERT_EQ(cuFileGetStatsL2(&stats).err, CU_FILE_SUCCESS);
  EXPECT_EQ(stats.basic.buf_register_ops.ok, 1u);
}

TEST_F(CufileStatsTest, NothingIsCountedBeforeItIsStarted) {
  ASSERT_EQ(cuFileSetStatsLevel(1).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileWrite(handle(), memory_, 4096, 0, 0), 4096);

  CUfileStatsLevel1_t none;
  EXPECT_EQ(cuFileGetStatsL1(&none).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  EXPECT_EQ(basic().write_ops.ok, 0u);
  EXPECT_EQ(basic().hdl_register_ops.ok, 0u);
}

TEST_F(CufileStatsTest, ALevelThatIsThereWhenTheDriverOpensIsCounted) {
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetStatsLevel(1).err, CU_FILE_SUCCESS);

  (void)handle();

  EXPECT_EQ(basic().hdl_register_ops.ok, 1u);
}

TEST_F(CufileStatsTest, LevelZeroCannotBeStarted) {
  ASSERT_EQ(cuFileSetStatsLevel(0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStatsStart().err, CU_FILE_INTERNAL_ERROR);
}

TEST_F(CufileStatsTest, CountsEveryCallWithItsBytesAndTime) {
  start(1);
  const CUfileHandle_t registered = handle();
  ASSERT_EQ(cuFileBufRegister(memory_, kSize, 0).err, CU_FILE_SUCCESS);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cuFileWrite(registered, memory_, 4096, i * 4096, 0), 4096);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(cuFileRead(registered, memory_, 1000, i * 4096, 0), 1000);
  ASSERT_EQ(cuFileBufDeregister(memory_).err, CU_FILE_SUCCESS);
  cuFileHandleDeregister(registered);

  const CUfileStatsLevel1_t stats = basic();

  EXPECT_EQ(stats.read_ops.ok, 5u);
  EXPECT_EQ(stats.write_ops.ok, 3u);
  EXPECT_EQ(stats.hdl_register_ops.ok, 1u);
  EXPECT_EQ(stats.hdl_deregister_ops.ok, 1u);
  EXPECT_EQ(stats.buf_register_ops.ok, 1u);
  EXPECT_EQ(stats.buf_deregister_ops.ok, 1u);
  EXPECT_EQ(stats.read_bytes, 5000u);
  EXPECT_EQ(stats.write_bytes, 3 * 4096u);
  EXPECT_GT(stats.read_bw_bytes_per_sec, 0u);
  EXPECT_GT(stats.write_ops_per_sec, 0u);
  EXPECT_EQ(stats.write_lat_avg_us, stats.write_lat_sum_us / 3);
  EXPECT_LT(stats.read_lat_sum_us, 10'000'000u);
  for (const CUfileOpCounter_t& ops : {stats.read_ops, stats.write_ops, stats.hdl_register_ops}) EXPECT_EQ(ops.err, 0u);
}

TEST_F(CufileStatsTest, FailuresAreCountedAndLeaveErrnoAlone) {
  start(1);
  const CUfileHandle_t registered = handle();
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd_;
  CUfileHandle_t again = nullptr;

  EXPECT_EQ(cuFileRead(registered, nullptr, 10, 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cuFileRead(registered, memory_, 10, -1, 0), -1);
  EXPECT_EQ(errno, CU_FILE_INVALID_VALUE);
  cuFileHandleDeregister(registered);
  EXPECT_EQ(cuFileWrite(registered, memory_, 10, 0, 0), -1);
  EXPECT_EQ(errno, CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_NE(cuFileBufRegister(nullptr, 10, 0).err, CU_FILE_SUCCESS);
  EXPECT_NE(cuFileBufDeregister(memory_).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileHandleRegister(&again, &descr).err, CU_FILE_SUCCESS);
  EXPECT_NE(cuFileHandleRegister(&again, &descr).err, CU_FILE_SUCCESS);

  const CUfileStatsLevel1_t stats = basic();
  EXPECT_EQ(stats.read_ops.err, 2u);
  EXPECT_EQ(stats.write_ops.err, 1u);
  EXPECT_EQ(stats.buf_register_ops.err, 1u);
  EXPECT_EQ(stats.buf_deregister_ops.err, 1u);
  EXPECT_EQ(stats.hdl_register_ops.err, 1u);
  EXPECT_EQ(stats.read_bytes + stats.write_bytes, 0u);
}

TEST_F(CufileStatsTest, StopKeepsAndResetForgets) {
  start(1);
  const CUfileHandle_t registered = handle();
  ASSERT_EQ(cuFileWrite(registered, memory_, 4096, 0, 0), 4096);

  ASSERT_EQ(cuFileStatsStop().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileWrite(registered, memory_, 4096, 0, 0), 4096);
  CUfileStatsLevel1_t none;
  EXPECT_EQ(cuFileGetStatsL1(&none).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  EXPECT_EQ(basic().write_ops.ok, 1u);

  ASSERT_EQ(cuFileStatsReset().err, CU_FILE_SUCCESS);
  EXPECT_EQ(basic().write_ops.ok, 0u);
  EXPECT_EQ(basic().write_bytes, 0u);

  ASSERT_EQ(cuFileWrite(registered, memory_, 4096, 0, 0), 4096);
  EXPECT_EQ(basic().write_ops.ok, 1u);
}

TEST_F(CufileStatsTest, LevelTwoTellsSizes) {
  start(2);
  const CUfileHandle_t registered = handle();
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, kSize}) {
    ASSERT_EQ(cuFileRead(registered, memory_, size, 0, 0), static_cast<ssize_t>(size));
  }

  CUfileStatsLevel2_t stats;
  ASSERT_EQ(cuFileGetStatsL2(&stats).err, CU_FILE_SUCCESS);
  EXPECT_EQ(stats.basic.read_ops.ok, 4u);
  EXPECT_EQ(stats.read_size_kb_hist[0], 2u);
  EXPECT_EQ(stats.read_size_kb_hist[1], 1u);
  EXPECT_EQ(stats.read_size_kb_hist[5], 1u);
  EXPECT_EQ(std::accumulate(std::begin(stats.read_size_kb_hist), std::end(stats.read_size_kb_hist), 0u), 4u);
  EXPECT_EQ(std::accumulate(std::begin(stats.write_size_kb_hist), std::end(stats.write_size_kb_hist), 0u), 0u);
}

TEST_F(CufileStatsTest, LevelThreeTellsGpusApartFromHostMemory) {
  start(3);
  const CUfileHandle_t registered = handle();
  std::vector<char> host(4096);
  ASSERT_EQ(cuFileBufRegister(memory_, kSize, 0).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileWrite(registered, memory_, 8192, 0, 0), 8192);
  ASSERT_EQ(cuFileRead(registered, memory_, 100, 1, 0), 100);
  ASSERT_EQ(cuFileRead(registered, host.data(), 4096, 0, 0), 4096);

  CUfileStatsLevel3_t stats;
  ASSERT_EQ(cuFileGetStatsL3(&stats).err, CU_FILE_SUCCESS);
  penstock::SessionInfo info;
  ASSERT_EQ(penstock_session_get(penstock::cufile_session(), &info).code, 0);
  EXPECT_EQ(stats.num_gpus, info.device_count);
  EXPECT_EQ(stats.detailed.basic.read_ops.ok, 2u);
  const CUfilePerGpuStats_t& gpu = stats.per_gpu_stats[0];
  EXPECT_EQ(gpu.n_total_reads, 1u);
  EXPECT_EQ(gpu.read_bytes, 100u);
  EXPECT_EQ(gpu.n_unaligned_reads, 1u);
  EXPECT_EQ(gpu.n_total_writes, 1u);
  EXPECT_EQ(gpu.writes_bytes, 8192u);
  EXPECT_EQ(gpu.n_unaligned_writes, 0u);
  EXPECT_EQ(gpu.n_posix_writes, 1u);
  EXPECT_EQ(gpu.n_mmap_ok, 1u);
  EXPECT_EQ(gpu.reg_bytes, kSize);

  ASSERT_EQ(cuFileBufDeregister(memory_).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileGetStatsL3(&stats).err, CU_FILE_SUCCESS);
  EXPECT_EQ(stats.per_gpu_stats[0].n_mmap_free, 1u);
  EXPECT_EQ(stats.per_gpu_stats[0].reg_bytes, 0u);
}

TEST_F(CufileStatsTest, AForkedChildCountsForItself) {
  start(1);
  const CUfileHandle_t registered = handle();
  ASSERT_EQ(cuFileWrite(registered, memory_, 4096, 0, 0), 4096);

  const pid_t child = ::fork();
  if (child == 0) {
    (void)cuFileDriverOpen();
    (void)cuFileStatsStart();
    std::vector<char> host(4096);
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd_;
    CUfileHandle_t own = nullptr;
    (void)cuFileHandleRegister(&own, &descr);
    (void)cuFileRead(own, host.data(), 4096, 0, 0);
    cuFileHandleDeregister(registered);  // The parent's.
    CUfileStatsLevel1_t stats{};
    const bool counted =
        cuFileGetStatsL1(&stats).err == CU_FILE_SUCCESS && stats.read_ops.ok == 1 && stats.write_ops.ok == 0;
    ::_exit(counted ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);

  EXPECT_EQ(status, 0);
  EXPECT_EQ(basic().write_ops.ok, 1u);
  EXPECT_EQ(basic().read_ops.ok, 0u);
  EXPECT_EQ(basic().hdl_deregister_ops.ok + basic().hdl_deregister_ops.err, 0u);
}

}  // namespace
