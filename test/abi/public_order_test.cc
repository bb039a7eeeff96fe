// SPDX-License-Identifier: Apache-2.0

// Objects of the C++ face that are destroyed in every order while requests are in flight. Memory that is given back is
// unmapped, so that a request which still uses it ends the test with a fault.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"

namespace {

using penstock::Buffer;
using penstock::Completion;
using penstock::Config;
using penstock::DeviceMemory;
using penstock::File;
using penstock::Queue;
using penstock::Request;
using penstock::Session;

constexpr std::uint64_t kPart = 256 << 10;  // No two requests share a byte, so that any race is in the library.
constexpr unsigned kRequests = 4;
constexpr std::uint64_t kSize = kPart * 2 * kRequests;

// The program's own host memory, freed right after its registration.
class OwnMemory {
 public:
  explicit OwnMemory(Session& session) : buffer_(std::move(*session.buffer(data_, kSize))) {}
  ~OwnMemory() {
    buffer_.reset();
    ::munmap(data_, kSize);
  }
  char* data() const { return data_; }

 private:
  char* const data_ =
      static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::optional<Buffer> buffer_;
};

// One of everything, and requests of both queues into both kinds of memory.
class Objects {
 public:
  static constexpr unsigned kCount = 6;

  Objects(int fd, const char* device) {
    session_.emplace(std::move(*Session::open(Config().set("device", device).set("workers", "1"))));
    file_.emplace(std::move(*session_->file(fd)));
    memory_.emplace(std::move(*session_->allocate(0, kSize)));
    own_ = std::make_unique<OwnMemory>(*session_);
    threaded_.emplace(std::move(*session_->queue(kRequests)));
    polled_.emplace(std::move(*session_->polled_queue(kRequests, kPart)));
    for (unsigned i = 0; i < 2 * kRequests; ++i) {
      Queue& queue = i < kRequests ? *threaded_ : *polled_;
      const void* const base = i % 2 == 0 ? static_cast<void*>(memory_->data()) : own_->data();
      const auto op = i % kRequests < 2 ? PENSTOCK_READ : PENSTOCK_WRITE;
      EXPECT_TRUE(queue.submit(file_->request(op, base, kPart, i * kPart, i * kPart)).ok());
    }
  }
  void destroy(unsigned which) {
    const std::array<std::function<void()>, kCount> ways = {[this] { session_.reset(); },  [this] { file_.reset(); },
                                                            [this] { memory_.reset(); },   [this] { own_.reset(); },
                                                            [this] { threaded_.reset(); }, [this] { polled_.reset(); }};
    ways[which]();
  }

 private:
  std::optional<Session> session_;
  std::optional<File> file_;
  std::optional<DeviceMemory> memory_;
  std::unique_ptr<OwnMemory> own_;
  std::optional<Queue> threaded_;
  std::optional<Queue> polled_;
};

// On memory that stands in for a GPU, and over the CUDA driver without one.
class PublicOrderTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fd_ = ::memfd_create("order", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd_, kSize), 0);
    if (is_cuda()) {
      ASSERT_EQ(driver("cuInit", 0u), 0);
      ASSERT_EQ(driver("cuDevicePrimaryCtxRetain", &context_, 0), 0);
      ASSERT_EQ(driver("cuCtxSetCurrent", context_), 0);
    }
    auto session = Session::open(Config().set("device", GetParam()));
    ASSERT_TRUE(session) << session.error().message();
    session_.emplace(std::move(*session));
    file_ = std::move(*session_->file(fd_));
  }
  void TearDown() override {
    session_.reset();
    if (is_cuda()) {
      EXPECT_EQ(driver("cuDevicePrimaryCtxRelease_v2", 0), 0);
    }
    ::close(fd_);
  }

  static bool is_cuda() { return std::string(GetParam()) == "cuda"; }
  template <typename... Arguments>
  static int driver(const char* name, Arguments... arguments) {
    const auto call = reinterpret_cast<int (*)(Arguments...)>(::dlsym(RTLD_DEFAULT, name));
    return call != nullptr ? call(arguments...) : -1;
  }
  void* make_stream() {
    void* stream = &fd_;
    if (is_cuda()) {
      EXPECT_EQ(driver("cuStreamCreate", &stream, 1u), 0);
    }
    return stream;
  }

  void* context_ = nullptr;
  int fd_ = -1;
  std::optional<Session> session_;
  File file_{nullptr};
};

INSTANTIATE_TEST_SUITE_P(On, PublicOrderTest, testing::Values("host", "cuda"),
                         [](const auto& device) { return std::string(device.param); });

TEST_P(PublicOrderTest, EveryOrderOfDestructionIsSafeWhileRequestsAreInFlight) {
  std::array<unsigned, Objects::kCount> order;
  std::iota(order.begin(), order.end(), 0u);
  do {
    Objects objects(fd_, GetParam());
    for (const unsigned which : order) objects.destroy(which);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(PublicOrderTest, RequestsIntoMemoryThatWasFreedAreReapedAsDone) {
  auto queue = session_->queue(kRequests);
  auto memory = session_->allocate(0, kRequests * kSize);
  ASSERT_TRUE(queue && memory);
  for (unsigned i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(
        queue->submit(file_.request(PENSTOCK_READ, memory->data(), kSize, 0, static_cast<long>(i * kSize))).ok());
  }

  { const DeviceMemory freed = std::move(*memory); }

  std::vector<Completion> done(kRequests);
  ASSERT_EQ(*queue->reap(done.data(), kRequests, kRequests, 0), kRequests);
  for (const Completion& each : done) EXPECT_EQ(each.report.bytes, kSize) << penstock::Status(each.status).message();
}

TEST_P(PublicOrderTest, VectorsIntoMemoryThatIsFreedAreWaitedFor) {
  auto queue = session_->queue(kRequests);
  auto memory = session_->allocate(0, kSize);
  ASSERT_TRUE(queue && memory);
  const std::array<iovec, 2> pieces = {iovec{memory->data() + kSize / 2, kSize / 2}, iovec{memory->data(), kSize / 2}};
  Request request = file_.request(PENSTOCK_READ, nullptr, 0, 0);
  request.pieces = pieces.data();
  request.piece_count = pieces.size();
  ASSERT_TRUE(queue->submit(request).ok());

  { const DeviceMemory freed = std::move(*memory); }

  Completion done;
  ASSERT_EQ(*queue->reap(&done, 1, 1, 0), 1u);
  EXPECT_EQ(done.report.bytes, kSize);
}

TEST_P(PublicOrderTest, MemoryMayGoWhileAStreamHasRequestsIntoIt) {
  void* const stream = make_stream();
  for (int round = 0; round < 50; ++round) {
    auto memory = session_->allocate(0, kSize);
    ASSERT_TRUE(memory);
    penstock::Sized<penstock_stream_result> result;
    Request request = file_.request(PENSTOCK_READ, memory->data(), kSize, 0);
    request.stream = stream;
    ASSERT_EQ(penstock_stream_submit(&request, &result).code, 0);

    { const DeviceMemory freed = std::move(*memory); }

    EXPECT_EQ(result.done, 1);
    EXPECT_EQ(result.report.bytes, kSize);
  }
}

}  // namespace
