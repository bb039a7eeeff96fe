// SPDX-License-Identifier: Apache-2.0

// Files that kernels read, through the public face; this thread is the kernel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/gpu.cuh"
#include "penstock/gpu.h"
#include "penstock/penstock.hpp"

namespace {

namespace gpu = penstock::gpu;

class PublicGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/gpu_XXXXXX";
    const int made = ::mkstemp(path_.data());
    for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 7 + i / 251);
    ASSERT_EQ(::write(made, content_.data(), content_.size()), static_cast<ssize_t>(content_.size()));
    ::close(made);
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    penstock_config* config = nullptr;
    ASSERT_EQ(penstock_config_create(&config).code, 0);
    ASSERT_EQ(penstock_config_set(config, "device", "host").code, 0);
    ASSERT_EQ(penstock_config_set(config, "paths", "pagecache,bounce,host").code, 0);
    ASSERT_EQ(penstock_session_open(config, &session_).code, 0);
    penstock_config_close(config);
    ASSERT_EQ(penstock_file_register(session_, fd_, &file_).code, 0);
  }
  void TearDown() override {
    penstock_gpu_close(gpu_file_);
    penstock_file_close(file_);
    penstock_session_close(session_);
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  static penstock_gpu_options options() {
    penstock_gpu_options options{};
    options.struct_size = sizeof options;
    options.layout = PENSTOCK_GPU_LAYOUT;
    return options;
  }
  penstock_status open(const penstock_gpu_options& options) {
    return penstock_gpu_open(session_, file_, &options, &gpu_file_);
  }
  penstock_status get(penstock_gpu_info& info) const {
    info = {};
    info.struct_size = sizeof info;
    return penstock_gpu_get(gpu_file_, &info);
  }
  // How many reads the session has counted for a path.
  std::uint64_t counted(std::int32_t path) const {
    std::vector<penstock_counter> counters(64);
    counters[0].struct_size = sizeof counters[0];
    std::uint32_t count = 0, sum = 0;
    EXPECT_EQ(penstock_counters(session_, counters.data(), 64, &count).code, 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (counters[i].path == path) sum += static_cast<std::uint32_t>(counters[i].read_operations);
    }
    return sum;
  }

  std::string path_, content_ = std::string(100'001, '\0');
  int fd_ = -1;
  penstock_session* session_ = nullptr;
  penstock_file* file_ = nullptr;
  penstock_gpu_file* gpu_file_ = nullptr;
};

TEST_F(PublicGpuTest, AKernelReadsWhatTheFileHasAndTheSessionCountsIt) {
  for (const unsigned way : {0u, 1u, 2u}) {
    penstock_gpu_options chosen = options();
    chosen.ring_only = way > 0;
    chosen.cache_bytes = way == 2 ? 1u << 20 : 0;
    ASSERT_EQ(open(chosen).code, 0);
    penstock_gpu_value value{};
    value.struct_size = sizeof value;
    ASSERT_EQ(penstock_gpu_get_value(gpu_file_, &value).code, 0);
    const gpu::File file(value);
    EXPECT_EQ(file.size(), content_.size());
    std::vector<char> memory(content_.size());
    const std::uint64_t before = counted(PENSTOCK_PATH_PAGECACHE) + counted(PENSTOCK_PATH_HOST);

    const gpu::Result result = file.read(gpu::Thread(), 3, memory.size(), memory.data());

    EXPECT_EQ(result.error, gpu::Error::none);
    ASSERT_EQ(result.bytes, content_.size() - 3);
    EXPECT_EQ(std::memcmp(memory.data(), content_.data() + 3, result.bytes), 0);
    penstock_gpu_info info{};
    ASSERT_EQ(get(info).code, 0);
    EXPECT_EQ(info.resident_reads + info.ring_reads + info.cached_reads, 1u);
    EXPECT_EQ(info.resident_read_bytes + info.ring_read_bytes + info.cached_read_bytes, content_.size() - 3);
    EXPECT_EQ(info.cached_reads == 1, info.cache_bytes > 0);
    EXPECT_EQ(info.fetched_blocks, info.cached_reads * 25);
    EXPECT_EQ(info.resident_reads == 1, info.resident_bytes == content_.size()) << penstock_reason_name(info.reason);
    EXPECT_EQ(info.reason == PENSTOCK_REASON_NONE, info.is_leased == 1 && info.resident_reads == 1);
    EXPECT_GT(counted(PENSTOCK_PATH_PAGECACHE) + counted(PENSTOCK_PATH_HOST), before);
    penstock_gpu_close(std::exchange(gpu_file_, nullptr));
  }
}

TEST_F(PublicGpuTest, OptionsThatMakeNoSenseAreRefused) {
  const auto code_of = [&](auto set) {
    penstock_gpu_options wrong = options();
    set(wrong);
    return open(wrong).code;
  };
  using Options = penstock_gpu_options;
  EXPECT_EQ(code_of([](Options& one) { one.layout = 77; }), PENSTOCK_UNSUPPORTED);
  EXPECT_EQ(code_of([](Options& one) { one.struct_size = 0; }), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](Options& one) { one.device = 77; }), PENSTOCK_NO_DEVICE);
  EXPECT_EQ(code_of([](Options& one) { one.threads = 65; }), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](Options& one) { one.slots = 65537; }), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](Options& one) { one.slot_bytes = 520; }), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(code_of([](Options& one) { one.may_be_stale = 2; }), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_gpu_open(session_, nullptr, nullptr, &gpu_file_).code, PENSTOCK_INVALID_ARGUMENT);
  const penstock_gpu_options good = options();
  EXPECT_EQ(penstock_gpu_open(session_, file_, &good, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(gpu_file_, nullptr);
}

TEST_F(PublicGpuTest, HandlesCloseInAnyOrder) {
  ASSERT_EQ(open(options()).code, 0);
  penstock_file_close(std::exchange(file_, nullptr));
  penstock_gpu_info info{};
  EXPECT_EQ(get(info).code, PENSTOCK_NOT_REGISTERED);
  penstock_gpu_close(std::exchange(gpu_file_, nullptr));

  ASSERT_EQ(penstock_file_register(session_, fd_, &file_).code, 0);
  ASSERT_EQ(open(options()).code, 0);
  penstock_session_close(std::exchange(session_, nullptr));
  EXPECT_EQ(get(info).code, PENSTOCK_CLOSED);
}

}  // namespace
