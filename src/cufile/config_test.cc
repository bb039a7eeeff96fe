// SPDX-License-Identifier: Apache-2.0

#include "cufile/config.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::core {
namespace {

class CufileConfigTest : public testing::Test {
 protected:
  Config config() const { return config_from(settings).value(); }
  std::string paths() const {
    std::string names;
    for (const PathId path : config().paths) names.append(names.empty() ? "" : " ").append(path_name(path));
    return names;
  }
  void set(Setting setting, Value value) { settings.set(setting, std::move(value), Origin::file); }

  Settings settings;
};

TEST_F(CufileConfigTest, NvidiasDefaultsDoNotHoldASessionBack) {
  const Config plain = make_config(settings);
  const Config made = config();

  EXPECT_EQ(made.paths, plain.paths);
  EXPECT_EQ(made.workers, plain.workers);
  EXPECT_EQ(made.threads_max, UINT_MAX);
  EXPECT_EQ(made.share_min, 0u);
  EXPECT_GE(made.operation_max, made.chunk_bytes);
  EXPECT_EQ(made.direct_io, DirectIo::automatic);
  EXPECT_FALSE(made.cached_unaligned_writes);
  EXPECT_TRUE(made.denylist.empty());
}

TEST_F(CufileConfigTest, CompatibilityModeChoosesThePaths) {
  set("penstock.paths", Texts{"p2pdma", "pagecache", "vendor", "bounce", "host"});
  set("properties.allow_compat_mode", false);
  EXPECT_TRUE(config_from(settings).status().is(Code::no_direct_path));
  set("properties.force_compat_mode", true);  // NVIDIA's library checks this setting first.
  EXPECT_EQ(paths(), "bounce host");
  set("properties.allow_compat_mode", true);
  EXPECT_EQ(paths(), "bounce host");
  set("properties.force_compat_mode", false);
  set("properties.vanilla_posix_io_mode", true);
  EXPECT_EQ(paths(), "bounce host");
  set("properties.allow_compat_mode", false);
  EXPECT_TRUE(config_from(settings).status().is(Code::no_direct_path));  // This one does not overrule it.
  set("properties.allow_compat_mode", true);
  set("properties.vanilla_posix_io_mode", false);
  set("properties.allow_system_memory", false);
  EXPECT_EQ(paths(), "p2pdma pagecache vendor bounce");
}

TEST_F(CufileConfigTest, OnlyPathsThatBothAllowAreLeft) {
  set("penstock.paths", Texts{"null", "bounce", "p2pdma"});
  set("properties.force_compat_mode", true);
  EXPECT_EQ(paths(), "null bounce");
  set("properties.force_compat_mode", false);
  set("properties.allow_compat_mode", false);
  EXPECT_EQ(paths(), "null p2pdma");
}

TEST_F(CufileConfigTest, NumbersThatWereSetBecomeLimits) {
  set("execution.max_io_threads", std::int64_t{2});
  set("execution.max_request_parallelism", std::int64_t{3});
  set("execution.min_io_threshold_size_kb", std::int64_t{512});
  set("properties.max_direct_io_size_kb", std::int64_t{128});
  set("properties.force_odirect_mode", true);
  set("fs.generic.posix_unaligned_writes", true);
  set("denylist.mounts", Texts{"/data"});
  set("denylist.filesystems", Texts{"nfs"});

  const Config made = config();

  EXPECT_EQ(made.workers, 2u);
  EXPECT_EQ(made.threads_max, 3u);
  EXPECT_EQ(made.share_min, 512u << 10);
  EXPECT_EQ(made.operation_max, 128u << 10);
  EXPECT_EQ(made.direct_io, DirectIo::always);
  EXPECT_TRUE(made.cached_unaligned_writes);
  EXPECT_EQ(made.denylist.mounts, Texts{"/data"});
  EXPECT_EQ(made.denylist.file_systems, Texts{"nfs"});
}

TEST_F(CufileConfigTest, AnInstalledFileWithNvidiasDefaultsLimitsNothing) {
  const Config plain = config();
  for (const Origin origin : {Origin::installed, Origin::file}) {
    settings.set("execution.max_request_parallelism", std::int64_t{4}, origin);
    settings.set("execution.min_io_threshold_size_kb", std::int64_t{8192}, origin);
    EXPECT_EQ(config().threads_max == plain.threads_max, origin == Origin::installed);
    EXPECT_EQ(config().share_min == plain.share_min, origin == Origin::installed);
  }
  settings.set("execution.max_request_parallelism", std::int64_t{3}, Origin::installed);
  EXPECT_EQ(config().threads_max, 3u);
}

TEST_F(CufileConfigTest, WithoutParallelIoARequestIsItsCallersAloneAndThereAreNoStreams) {
  for (const bool by_threads : {false, true}) {
    settings = Settings();
    EXPECT_TRUE(allows_streams(settings));
    if (by_threads) set("execution.max_io_threads", std::int64_t{0});
    else set("execution.parallel_io", false);

    EXPECT_EQ(config().threads_max, 1u);
    EXPECT_GE(config().workers, 1u);
    EXPECT_FALSE(allows_streams(settings));
    EXPECT_EQ(properties_from(settings).fflags & (1u << CU_FILE_STREAMS_SUPPORTED), 0u);
    EXPECT_EQ(properties_from(settings).fflags & (1u << CU_FILE_PARALLEL_IO_SUPPORTED), 0u);
  }
}

TEST_F(CufileConfigTest, PenstocksOwnSettingsComeFirstWhoeverSaysThem) {
  set("execution.max_io_threads", std::int64_t{2});
  set("properties.force_odirect_mode", true);
  for (const Origin origin : {Origin::installed, Origin::file, Origin::environment}) {
    settings.set("penstock.workers", std::int64_t{7}, origin);
    settings.set("penstock.direct_io", std::string("never"), origin);

    EXPECT_EQ(config().workers, 7u);
    EXPECT_EQ(config().direct_io, DirectIo::never);
  }
}

TEST_F(CufileConfigTest, PropertiesAreThoseMeasuredWithoutNvidiaFs) {
  const CUfileDrvProps_t properties = properties_from(settings);

  EXPECT_EQ(properties.nvfs.major_version, 0u);
  EXPECT_EQ(properties.nvfs.poll_thresh_size, 4u);
  EXPECT_EQ(properties.nvfs.max_direct_io_size, 16384u);
  EXPECT_EQ(properties.nvfs.dstatusflags, 0u);
  EXPECT_EQ(properties.nvfs.dcontrolflags, 2u);
  EXPECT_EQ(properties.max_device_cache_size, 131072u);
  EXPECT_EQ(properties.per_buffer_cache_size, 0u);
  EXPECT_EQ(properties.max_device_pinned_mem_size, 33554432u);
  EXPECT_EQ(properties.max_batch_io_size, 128u);
  EXPECT_EQ(properties.max_batch_io_timeout_msecs, 5u);
}

TEST_F(CufileConfigTest, PropertiesFollowTheSettings) {
  set("properties.use_poll_mode", true);
  set("properties.allow_compat_mode", false);
  set("properties.io_batchsize", std::int64_t{16});
  set("properties.max_device_pinned_mem_size_kb", std::int64_t{1} << 40);

  const CUfileDrvProps_t properties = properties_from(settings);

  EXPECT_EQ(properties.nvfs.dcontrolflags, 1u);
  EXPECT_EQ(properties.max_batch_io_size, 16u);
  EXPECT_EQ(properties.max_device_pinned_mem_size, UINT_MAX);
}

}  // namespace
}  // namespace penstock::core
