// SPDX-License-Identifier: Apache-2.0

// cuFile's configuration from outside: cufile.json, the environment, parameters and properties, and what they do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cufile.h"
#include "fakes/cufile_session.h"

namespace {

constexpr const char* kVariables[] = {"CUFILE_ENV_PATH_JSON",          "CUFILE_ALLOW_COMPAT_MODE",
                                      "CUFILE_FORCE_COMPAT_MODE",      "CUFILE_LOGGING_LEVEL",
                                      "CUFILE_LOGFILE_PATH",           "CUFILE_NVTX",
                                      "CUFILE_SKIP_TOPOLOGY_DETECTION"};

class CufileSettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "penstock_settings_XXXXXX";
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    for (const char* name : kVariables) ::unsetenv(name);
    ::setenv("CUFILE_LOGFILE_PATH", (directory_ + "/cufile.log").c_str(), 1);
    configure("{}");  // Independent of any file installed in /etc.
    fd_ = ::open((directory_ + "/data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::ftruncate(fd_, 1 << 20), 0);
  }
  void TearDown() override {
    while (cuFileUseCount() > 0) (void)cuFileDriverClose();
    ::close(fd_);
    for (const char* name : kVariables) ::unsetenv(name);
    std::filesystem::remove_all(directory_);
  }

  void configure(const std::string& json) {
    std::ofstream(directory_ + "/cufile.json") << json;
    ::setenv("CUFILE_ENV_PATH_JSON", (directory_ + "/cufile.json").c_str(), 1);
  }
  CUfileOpError register_file(CUfileHandle_t* handle) {
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descr.handle.fd = fd_;
    return cuFileHandleRegister(handle, &descr).err;
  }
  void* device_memory(std::size_t size) {
    void* memory = nullptr;
    EXPECT_EQ(penstock_device_alloc(penstock::cufile_session(), 0, size, &memory).code, 0);
    return memory;
  }
  std::string text_of(CUFileStringConfigParameter_t parameter) {
    char text[PATH_MAX] = "";
    return cuFileGetParameterString(parameter, text, sizeof text).err == CU_FILE_SUCCESS ? text : "(none)";
  }
  std::size_t size_of(CUFileSizeTConfigParameter_t parameter) {
    std::size_t value = 4711;
    EXPECT_EQ(cuFileGetParameterSizeT(parameter, &value).err, CU_FILE_SUCCESS);
    return value;
  }
  bool is_on(CUFileBoolConfigParameter_t parameter) {
    bool value = false;
    EXPECT_EQ(cuFileGetParameterBool(parameter, &value).err, CU_FILE_SUCCESS);
    return value;
  }
  CUfileDrvProps_t properties() {
    CUfileDrvProps_t properties{};
    EXPECT_EQ(cuFileDriverGetProperties(&properties).err, CU_FILE_SUCCESS);
    return properties;
  }

  std::string directory_;
  int fd_ = -1;
};

TEST_F(CufileSettingsTest, ParametersHaveTheDefaultsOfTheContract) {
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  const std::size_t sizes[] = {0, 128, 4, 8192, 4, 16384, 131072, 1024, 33554432, 128, 4, 5};
  for (int i = 0; i < 12; ++i) EXPECT_EQ(size_of(static_cast<CUFileSizeTConfigParameter_t>(i)), sizes[i]) << i;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(is_on(static_cast<CUFileBoolConfigParameter_t>(i)), i == 1 || i == 4 || i == 6) << i;
  }
  EXPECT_EQ(text_of(CUFILE_PARAM_LOGGING_LEVEL), "ERROR");
}

TEST_F(CufileSettingsTest, LimitsAreThoseOfTheContract) {
  const std::size_t limits[][2] = {{1, 256},      {0, 128},    {4, UINT_MAX},  {0, 8},   {64, 16384},
                                   {0, 1u << 28}, {64, 16384}, {64, 1u << 28}, {1, 256}, {4, 18014398509481980},
                                   {1, 1000}};
  for (int i = 1; i < 12; ++i) {
    std::size_t low = 4711;
    std::size_t high = 4711;
    ASSERT_EQ(cuFileGetParameterMinMaxValue(static_cast<CUFileSizeTConfigParameter_t>(i), &low, &high).err,
              CU_FILE_SUCCESS);
    EXPECT_EQ(low, limits[i - 1][0]) << i;
    EXPECT_EQ(high, limits[i - 1][1]) << i;
  }
  std::size_t value = 0;
  EXPECT_EQ(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROFILE_STATS, &value, &value).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, nullptr, &value).err,
            CU_FILE_INVALID_VALUE);
}

TEST_F(CufileSettingsTest, WhatWasSetLastIsInForceOnceTheDriverOpens) {
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 32).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, true).err, CU_FILE_SUCCESS);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 32u);

  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 32u);
  EXPECT_EQ(properties().max_batch_io_size, 32u);
  EXPECT_TRUE(is_on(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE));
}

TEST_F(CufileSettingsTest, ParametersAreLockedWhileTheDriverIsOpen) {
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 8).err, CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, true).err, CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "INFO").err, CU_FILE_DRIVER_ALREADY_OPEN);
}

TEST_F(CufileSettingsTest, AParameterIsInForceForOneOpeningAlone) {
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 32).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 128u);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 128u);
}

TEST_F(CufileSettingsTest, ANumberOutOfRangeIsTakenAndGivesWayWhenTheDriverOpens) {
  configure(R"({"properties": {"max_batch_io_timeout_msecs": 7}})");
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, 5000).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, SIZE_MAX).err, CU_FILE_SUCCESS);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS), 5000u);
  EXPECT_EQ(size_of(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB), SIZE_MAX);

  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS), 7u);
  EXPECT_EQ(size_of(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB), 4u);
}

TEST_F(CufileSettingsTest, ParametersThatDoNotExistAreRefused) {
  std::size_t size = 0;
  bool flag = false;
  char text[64];
  const auto bad_size = static_cast<CUFileSizeTConfigParameter_t>(12);
  const auto bad_bool = static_cast<CUFileBoolConfigParameter_t>(15);
  const auto bad_text = std::bit_cast<CUFileStringConfigParameter_t>(4);
  EXPECT_EQ(cuFileGetParameterSizeT(bad_size, &size).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterSizeT(bad_size, 1).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterBool(bad_bool, &flag).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterBool(bad_bool, true).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterString(bad_text, text, sizeof text).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterString(bad_text, "x").err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_PROFILE_STATS, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, nullptr).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileSettingsTest, ATextNeedsRoomForItsEnd) {
  char text[8] = "untouch";
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, 5).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, -1).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, nullptr, 8).err, CU_FILE_INVALID_VALUE);
  EXPECT_STREQ(text, "untouch");
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, 6).err, CU_FILE_SUCCESS);
  EXPECT_STREQ(text, "ERROR");
}

TEST_F(CufileSettingsTest, TheLogsPathIsThereWhereItWasSaid) {
  EXPECT_EQ(text_of(CUFILE_PARAM_ENV_LOGFILE_PATH), directory_ + "/cufile.log");
  ::unsetenv("CUFILE_LOGFILE_PATH");
  EXPECT_EQ(text_of(CUFILE_PARAM_ENV_LOGFILE_PATH), "(none)");
  EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_ENV_LOGFILE_PATH, "").err, CU_FILE_INVALID_VALUE);
  const std::string path = directory_ + "/other.log";
  EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_ENV_LOGFILE_PATH, path.c_str()).err, CU_FILE_SUCCESS);
  EXPECT_EQ(text_of(CUFILE_PARAM_ENV_LOGFILE_PATH), path);
}

TEST_F(CufileSettingsTest, ATextIsNeitherEmptyNorEndless) {
  const std::string endless(PATH_MAX, 'x');
  for (const auto parameter : {CUFILE_PARAM_LOGGING_LEVEL, CUFILE_PARAM_ENV_LOGFILE_PATH, CUFILE_PARAM_LOG_DIR}) {
    EXPECT_EQ(cuFileSetParameterString(parameter, "").err, CU_FILE_INVALID_VALUE);
    EXPECT_EQ(cuFileSetParameterString(parameter, endless.c_str()).err, CU_FILE_INVALID_VALUE);
  }
}

class CufileSlabsTest : public CufileSettingsTest {
 protected:
  static constexpr std::size_t kSizes[] = {4, 64};
  static constexpr std::size_t kCounts[] = {10, 20};

  std::size_t got_sizes_[4] = {};
  std::size_t got_counts_[4] = {};
};

TEST_F(CufileSlabsTest, ArePairsOfSizeAndCountAndAsManyAsWereSet) {
  ASSERT_EQ(cuFileSetParameterPosixPoolSlabArray(kSizes, kCounts, 2).err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileGetParameterPosixPoolSlabArray(got_sizes_, got_counts_, 3).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileGetParameterPosixPoolSlabArray(got_sizes_, got_counts_, 2).err, CU_FILE_SUCCESS);
  EXPECT_EQ(got_sizes_[1], 64u);
  EXPECT_EQ(got_counts_[1], 20u);
}

TEST_F(CufileSlabsTest, OfNoSizesOrNoNumberAreRefused) {
  EXPECT_EQ(cuFileSetParameterPosixPoolSlabArray(nullptr, kCounts, 2).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterPosixPoolSlabArray(kSizes, kCounts, 0).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileSlabsTest, OfTheGpuAreUnknownUnlessTheyWereSet) {
  EXPECT_EQ(cuFileGetParameterGpuBounceBufferSlabArray(got_sizes_, got_counts_, 4).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(kSizes, kCounts, 2).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileGetParameterGpuBounceBufferSlabArray(got_sizes_, got_counts_, 2).err, CU_FILE_SUCCESS);
  EXPECT_EQ(got_sizes_[1], 64u);
  EXPECT_EQ(got_counts_[1], 20u);
}

TEST_F(CufileSlabsTest, AreLockedWhileTheDriverIsOpen) {
  ASSERT_EQ(cuFileSetParameterPosixPoolSlabArray(kSizes, kCounts, 2).err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileSetParameterPosixPoolSlabArray(kSizes, kCounts, 2).err, CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(cuFileGetParameterPosixPoolSlabArray(got_sizes_, got_counts_, 2).err, CU_FILE_SUCCESS);
}

TEST_F(CufileSlabsTest, HoldForOneOpening) {
  ASSERT_EQ(cuFileSetParameterPosixPoolSlabArray(kSizes, kCounts, 2).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(kSizes, kCounts, 2).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileGetParameterPosixPoolSlabArray(got_sizes_, got_counts_, 3).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetParameterGpuBounceBufferSlabArray(got_sizes_, got_counts_, 2).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileSettingsTest, WithoutCompatibilityModeAndDirectPathsTheDriverDoesNotOpen) {
  configure(R"({"properties": {"allow_compat_mode": false}})");
  CUfileHandle_t handle = nullptr;

  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(register_file(&handle), CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileBufRegister(&handle, 8, 0).err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(properties().nvfs.dcontrolflags, 0u);
}

TEST_F(CufileSettingsTest, TheEnvironmentOverridesTheFileAndACallBoth) {
  configure(R"({"properties": {"allow_compat_mode": false}})");
  ::setenv("CUFILE_ALLOW_COMPAT_MODE", "true", 1);
  EXPECT_TRUE(is_on(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_file(&handle), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(handle, device_memory(4096), 4096, 0, 0), 4096);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, false).err, CU_FILE_SUCCESS);
  EXPECT_EQ(register_file(&handle), CU_FILE_DRIVER_NOT_INITIALIZED);
}

TEST_F(CufileSettingsTest, ForcedCompatibilityModeKeepsToBounce) {
  ::setenv("CUFILE_FORCE_COMPAT_MODE", "1", 1);
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_file(&handle), CU_FILE_SUCCESS);
  penstock_file* file = nullptr;
  ASSERT_EQ(penstock_cufile_file(handle, &file).code, 0);

  const auto explained = penstock::File(file).explain({PENSTOCK_READ, 0, device_memory(4096)});

  ASSERT_TRUE(explained) << explained.error().message();
  const std::vector<penstock::Verdict>& verdicts = *explained;
  ASSERT_GE(verdicts.size(), 5u);
  EXPECT_EQ(verdicts[0].path, PENSTOCK_PATH_BOUNCE);
  for (const penstock::Verdict& verdict : verdicts) {
    if (verdict.path <= PENSTOCK_PATH_VENDOR) {
      EXPECT_EQ(verdict.reason, PENSTOCK_REASON_NOT_LISTED);
    }
  }
}

TEST_F(CufileSettingsTest, ADeniedFileIsServedInCompatibilityMode) {
  configure(R"({"denylist": {"filesystems": ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "9p"]}})");
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_file(&handle), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(handle, device_memory(4096), 4096, 0, 0), 4096);
}

TEST_F(CufileSettingsTest, AConfigurationThatCannotBeUnderstoodDoesNotOpenTheDriver) {
  for (const char* json : {R"({"properties": {"allow_compat_mode": "no"}})", "{", ""}) {
    configure(json);
    EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_INVALID_VALUE) << json;
    EXPECT_EQ(cuFileUseCount(), 0);
    CUfileHandle_t handle = nullptr;
    EXPECT_EQ(register_file(&handle), CU_FILE_INVALID_VALUE) << json;
  }
  ::setenv("CUFILE_ENV_PATH_JSON", "/nowhere/cufile.json", 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_INVALID_VALUE);
  configure("{}");
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
}

TEST_F(CufileSettingsTest, AProhibitionInAnotherSectionHoldsAndAMisspeltOneKeepsTheDriverClosed) {
  configure(R"({"execution": {"allow_compat_mode": false}})");
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  configure(R"({"properties": {"allow_compat_mod": false}})");
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_INVALID_VALUE);
  configure("{}");
  ::setenv("CUFILE_ALLOW_COMPAT", "false", 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_INVALID_VALUE);
  ::unsetenv("CUFILE_ALLOW_COMPAT");
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
}

TEST_F(CufileSettingsTest, TheLogNamesFileLineAndKeyOfWhatIsWrong) {
  const auto log = [&] {
    std::ostringstream text;
    text << std::ifstream(directory_ + "/cufile.log").rdbuf();
    return text.str();
  };
  // A log path set by a call stays for the process; an earlier test may have set one.
  ASSERT_EQ(cuFileSetParameterString(CUFILE_PARAM_ENV_LOGFILE_PATH, (directory_ + "/cufile.log").c_str()).err,
            CU_FILE_SUCCESS);
  configure("{}");
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(log(), "");

  configure("{\n\"denylist\": {\"mounts\": 1},\n\"properties\": {\"use_poll_mode\": true}}");
  ASSERT_NE(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_NE(log().find("cufile.json:2: error: denylist.mounts: must be a list of texts"), std::string::npos) << log();
  EXPECT_EQ(log().find("use_poll_mode"), std::string::npos) << log();

  ::setenv("CUFILE_LOGGING_LEVEL", "info", 1);
  ASSERT_NE(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_NE(log().find("without effect: properties.use_poll_mode"), std::string::npos) << log();
}

TEST_F(CufileSettingsTest, SettersOfAClosedDriverHoldForItsNextOpening) {
  EXPECT_EQ(cuFileDriverSetPollMode(true, 64).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(128).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(properties().nvfs.max_direct_io_size, 128u);

  // As in NVIDIA's library, this call opens the driver.
  EXPECT_EQ(cuFileDriverSetMaxCacheSize(1024).err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileUseCount(), 1);
  EXPECT_EQ(properties().nvfs.poll_thresh_size, 64u);
  EXPECT_EQ(properties().nvfs.max_direct_io_size, 128u);
  EXPECT_EQ(properties().max_device_cache_size, 1024u);
}

TEST_F(CufileSettingsTest, AParameterThatAnOpeningAppliedIsItsDefaultAgainOnceTheDriverHasClosed) {
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 2).err, CU_FILE_SUCCESS);
    EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16).err, CU_FILE_SUCCESS);
    EXPECT_EQ(cuFileSetParameterBool(CUFILE_PARAM_PROFILE_NVTX, true).err, CU_FILE_SUCCESS);
    EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "INFO").err, CU_FILE_SUCCESS);
    ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
    ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

    std::size_t threads = 42, entries = 42;
    bool traces = true;
    char level[16] = "";
    EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, &threads).err, CU_FILE_SUCCESS);
    EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &entries).err, CU_FILE_SUCCESS);
    EXPECT_EQ(cuFileGetParameterBool(CUFILE_PARAM_PROFILE_NVTX, &traces).err, CU_FILE_SUCCESS);
    EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, level, sizeof level).err, CU_FILE_SUCCESS);
    EXPECT_EQ(threads, 0u);  // The same as before the first opening.
    EXPECT_EQ(entries, 128u);
    EXPECT_FALSE(traces);
    EXPECT_STREQ(level, "ERROR");
  }
}

TEST_F(CufileSettingsTest, HostMemoryThatTheConfigurationForbidsIsNotRegistered) {
  configure(R"({"properties": {"allow_system_memory": false}})");
  std::vector<char> host(4096);

  EXPECT_EQ(cuFileBufRegister(host.data(), host.size(), 0).err, CU_FILE_CUDA_MEMORY_TYPE_INVALID);
  EXPECT_EQ(cuFileBufRegister(device_memory(4096), 4096, 0).err, CU_FILE_SUCCESS);
}

TEST_F(CufileSettingsTest, ABatchHasRoomForWhatTheConfigurationSays) {
  CUfileBatchHandle_t batch = nullptr;
  EXPECT_EQ(cuFileBatchIOSetUp(&batch, 129).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOSetUp(&batch, 128).err, CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);

  configure(R"({"properties": {"io_batchsize": 256}})");
  EXPECT_EQ(cuFileBatchIOSetUp(&batch, 256).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBatchIOSetUp(&batch, 257).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileSettingsTest, SettersChangeWhatIsInForceWhileTheDriverIsOpen) {
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);

  EXPECT_EQ(cuFileDriverSetPollMode(true, 64).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(128).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(63).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(SIZE_MAX).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxCacheSize(1024).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxCacheSize(1023).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxPinnedMemSize(4).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxPinnedMemSize(SIZE_MAX).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileDriverSetMaxPinnedMemSize(0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetPollMode(true, 0).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);

  const CUfileDrvProps_t changed = properties();
  EXPECT_EQ(changed.nvfs.dcontrolflags, 3u);
  EXPECT_EQ(changed.nvfs.poll_thresh_size, 64u);
  EXPECT_EQ(changed.nvfs.max_direct_io_size, 128u);
  EXPECT_EQ(changed.max_device_cache_size, 1024u);
  EXPECT_EQ(changed.max_device_pinned_mem_size, 0u);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 128u);
  ASSERT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(properties().nvfs.max_direct_io_size, 16384u);
}

}  // namespace
