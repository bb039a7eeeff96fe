// SPDX-License-Identifier: Apache-2.0

// The fixture of stream tests: a session over one file in memory, and streams of the stand-in device or of the CUDA
// driver without a GPU (test/fakes/fake_cuda/), with words to wait for (as of CUDA 12) and without.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "frontend/frontends.h"

namespace penstock::core {

enum class On { host, cuda12, cuda11 };

inline std::string name_of(const testing::TestParamInfo<On>& info) {
  constexpr const char* kNames[] = {"HostStandIn", "FakeCuda12", "FakeCuda11"};
  return kNames[static_cast<int>(info.param)];
}

inline void deliver(void* result, const RawRequest&, const Outcome& outcome) {
  const auto word = outcome.status.ok() ? static_cast<std::int64_t>(outcome.report.bytes) : -outcome.status.code;
  __atomic_store_n(static_cast<std::int64_t*>(result), word, __ATOMIC_RELEASE);
}
inline constexpr std::int64_t kNothing = 0x5eed;  // The value of a result before the stream reaches the request.
constexpr std::int64_t failed(Code code) { return -static_cast<std::int64_t>(code); }

// The parameters of one request, which the stream reads.
struct Parameters {
  std::uint64_t size = 0;
  std::int64_t file_offset = 0;
  std::int64_t buffer_offset = 0;
  std::int64_t result = kNothing;
};

class StreamsTest : public testing::TestWithParam<On> {
 protected:
  static constexpr std::size_t kFileBytes = 24u << 20;

  void SetUp() override { open(std::uint64_t{64} << 20); }
  void TearDown() override {
    close();
    cuda::CUcontext left = nullptr;
    while (is_cuda() && driver("cuCtxPopCurrent_v2", &left) == cuda::CUDA_SUCCESS) {
    }
  }

  bool is_cuda() const { return GetParam() != On::host; }
  bool has_words() const { return GetParam() != On::cuda11; }
  const char* library() const { return GetParam() == On::cuda11 ? PENSTOCK_FAKE_CUDA_11 : PENSTOCK_FAKE_CUDA; }

  void close() {
    frontends_.reset();
    session_.reset();
  }

  void open(std::uint64_t bounce_bytes) {
    close();
    auto storage = std::make_unique<FakeStorage>();
    static const std::vector<char> content = [] {
      std::vector<char> bytes(kFileBytes);
      for (std::size_t i = 0; i < kFileBytes; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
      return bytes;
    }();
    storage->content = content;
    storage_ = storage.get();
    std::unique_ptr<DeviceSet> devices = std::make_unique<HostDeviceSet>();
    if (is_cuda()) {
      std::string why_not;
      devices = std::move(CudaDeviceSet::open(&why_not, library()).value());
      library_ = ::dlopen(library(), RTLD_NOW | RTLD_LOCAL);
    }
    Config config = test_config({{"workers", "3"}});
    config.bounce_bytes = bounce_bytes;
    session_ = std::make_unique<Session>(config, std::move(storage), std::move(devices));
    frontends_ = std::make_unique<Frontends>(*session_);
    file_ = session_->register_file(FakeStorage::kUserFd).value();
    if (!is_cuda()) return;
    auto& primary = static_cast<CudaDevice&>(*session_->devices().device(0).value());
    EXPECT_EQ(driver("cuCtxPushCurrent_v2", primary.context().handle), cuda::CUDA_SUCCESS);
  }

  // The calls of an application beside the library, straight to the driver.
  template <typename... Arguments>
  int driver(const char* name, Arguments... arguments) const {
    const auto call = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return call != nullptr ? call(arguments...) : -1;
  }
  void* make_stream(unsigned flags = 0) {
    if (!is_cuda()) return new_handle();
    void* stream = nullptr;
    EXPECT_EQ(driver("cuStreamCreate", &stream, flags), cuda::CUDA_SUCCESS);
    return stream;
  }
  static void* new_handle() {
    static std::uintptr_t last = 0x1000;
    return reinterpret_cast<void*>(++last);
  }

  Streams& streams() { return frontends_->streams(); }
  StreamHome& home(void* stream) { return *session_->devices().stream_home(stream).value(); }
  char* memory(std::size_t size, unsigned ordinal = 0) {
    return static_cast<char*>(session_->devices().device(ordinal).value()->memory().allocate(size).value());
  }
  Status submit(Op op, void* stream, void* base, Parameters& parameters) {
    const StreamParameters wanted{
        op, file_, base, &parameters.size, &parameters.file_offset, &parameters.buffer_offset, &parameters.result};
    return streams().submit(stream, wanted, {deliver, nullptr, nullptr});
  }
  void expect_begins(Op op, void* stream, void* base, Parameters& parameters) {
    const Status status = submit(op, stream, base, parameters);
    EXPECT_TRUE(status.ok()) << describe(status);
  }
  void drain(void* stream) { EXPECT_TRUE(home(stream).drain(stream).ok()); }
  // One request, from start to end.
  std::int64_t run(Op op, void* stream, void* base, Parameters parameters) {
    expect_begins(op, stream, base, parameters);
    drain(stream);
    return parameters.result;
  }
  bool is_content(const char* data, std::size_t offset, std::size_t size) const {
    return std::memcmp(data, storage_->content.data() + offset, size) == 0;
  }

  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  FakeStorage* storage_ = nullptr;
  std::uint64_t file_ = 0;
  void* library_ = nullptr;
};

// Blocks a stream, like a user's work.
class Hold {
 public:
  Hold(StreamHome& home, void* stream) : home_(home) {
    if (home.has_words()) {
      block_ = home.memory().take(0, UINT64_MAX).value();
      EXPECT_TRUE(home.work().wait(stream, *block_, block_->word(0), ++block_->begun[0]).ok());
    } else {
      EXPECT_TRUE(home.work().call(stream, &Hold::wait, this).ok());
    }
  }
  ~Hold() {
    release();
    if (block_ != nullptr) home_.memory().give_back(*block_);
    else over_.wait(false);
  }
  void release() {
    if (block_ != nullptr) home_.work().set(block_->word(0), block_->begun[0]);
    released_.store(true);
    released_.notify_all();
  }

 private:
  static void wait(void* hold) {
    static_cast<Hold*>(hold)->released_.wait(false);
    static_cast<Hold*>(hold)->over_.store(true);
    static_cast<Hold*>(hold)->over_.notify_all();
  }
  StreamHome& home_;
  StreamBlock* block_ = nullptr;
  std::atomic<bool> released_{false};
  std::atomic<bool> over_{false};
};

}  // namespace penstock::core
