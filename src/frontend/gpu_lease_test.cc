// SPDX-License-Identifier: Apache-2.0

// The lease under which kernels, on the host, use a file's pages is taken again, on a device that fails, is slow, or
// stores what is copied byte by byte.
#include <pthread.h>

#include <cstring>
#include <functional>
#include <string_view>

#include "fakes/gpu_file_fixture.h"
#include "fakes/waiting.h"
#include "path/pagecache/pagecache_reasons.h"

namespace penstock::core {
namespace {

// A test has the device do so.
struct Script {
  std::atomic<bool> fails{false};          // Nothing is copied to the device.
  std::atomic<bool> hides_landing{false};  // Copies land, but waiting for them fails.
  std::atomic<bool> stands_still{false};   // Waits for copies do not return.
  std::atomic<bool> refuses_pages{false};  // None are registered.
  std::atomic<unsigned> uploads{0}, waits{0};
  std::function<void()> between_bytes;  // It is called behind each byte of a copy to the device.
};

class ScriptedQueue final : public CopyQueue {
 public:
  ScriptedQueue(std::unique_ptr<CopyQueue> real, Script& script) : real_(std::move(real)), script_(script) {}
  Status copy_many(std::span<const Copy> copies, Direction direction) override {
    if (direction == Direction::to_device) {
      ++script_.uploads;
      if (script_.fails) return failure(Code::device_lost, "copy as scripted");
      if (script_.between_bytes) copy_bytes(copies[0]);
    }
    return real_->copy_many(copies, direction);
  }
  Status record(unsigned marker) override { return real_->record(marker); }
  Result<bool> reached(unsigned marker) override { return real_->reached(marker); }
  Status wait(unsigned marker, bool spin) override {
    const Status status = real_->wait(marker, spin);
    ++script_.waits;
    while (script_.stands_still) std::this_thread::yield();
    return script_.hides_landing ? failure(Code::device_lost, "wait as scripted") : status;
  }

 private:
  void copy_bytes(const Copy& copy) {
    for (std::size_t i = copy.size; i-- > 0;) {
      std::atomic_ref(static_cast<std::byte*>(copy.device_address)[i])
          .store(static_cast<const std::byte*>(copy.host)[i]);
      script_.between_bytes();
    }
  }
  const std::unique_ptr<CopyQueue> real_;
  Script& script_;
};

class ScriptedDevice final : public HostDevice {
 public:
  explicit ScriptedDevice(Script& script) : HostDevice(0, "host"), script_(script) {}
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    return std::unique_ptr<CopyQueue>(new ScriptedQueue(std::move(*HostDevice::open_copy_queue(markers)), script_));
  }
  Status register_pages(const std::byte* memory, std::size_t size, bool writable) override {
    if (script_.refuses_pages) return failure(Code::unsupported, "register as scripted");
    return HostDevice::register_pages(memory, size, writable);
  }

 private:
  Script& script_;
};

class OneDevice final : public DeviceSet {
 public:
  explicit OneDevice(Script& script) : device_(script) {}
  unsigned count() const override { return 1; }
  Result<Device*> device(unsigned) override { return &device_; }
  PointerFacts describe(const void* pointer) override {
    PointerFacts facts;
    (void)device_.find(pointer, facts);
    return facts;
  }
  Result<StreamHome*> stream_home(void*) override { return static_cast<StreamHome*>(&HostStreamHome::of_process()); }

 private:
  ScriptedDevice device_;
};

class GpuLeaseTest : public GpuFileFixture {
 protected:
  GpuLeaseTest() { again_after_ = std::chrono::nanoseconds(0); }
  void SetUp() override {
    GpuFileFixture::SetUp();
    close_session();
    open_session(std::make_unique<PosixStorage>(true), std::make_unique<OneDevice>(script_));
  }
  void TearDown() override {
    script_.stands_still = false;
    GpuFileFixture::TearDown();
  }
  // Its storage tells what sizes a test wants.
  void open_telling() {
    close_session();
    auto storage = std::make_unique<TellingStorage>();
    storage_ = storage.get();
    open_session(std::move(storage), std::make_unique<OneDevice>(script_));
    open_leased();
  }
  // True on the thread that takes the lease again.
  static bool is_taker() {
    char name[16] = "";
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    return std::string_view(name) == "penstock-again";
  }
  void open_leased(const GpuFile::Terms& terms = {}) {
    open(terms);
    if (!facts().is_leased) GTEST_SKIP() << "not here: " << reason_name(facts().reason);
  }
  // The descriptor that has it; -1: none.
  static int leased_descriptor() {
    for (int fd = 0; fd < 1024; ++fd) {
      if (::fcntl(fd, F_GETLEASE) == F_RDLCK) return fd;
    }
    return -1;
  }
  // Whoever has the lease gives it back: somebody who does not wait can open the file for writing then.
  bool is_given_back() const {
    return wait_until([&] { return open_as(O_WRONLY | O_NONBLOCK).valid(); });
  }
  void write_anew(std::uint64_t version) { write(open_as(O_WRONLY | O_TRUNC).get(), version); }
  std::uint64_t kept_reads() { return facts().counts.resident_reads + facts().counts.cached_reads; }

  Script script_;
  TellingStorage* storage_ = nullptr;
};

TEST_F(GpuLeaseTest, WhatCouldNotBePublishedIsNeverReadOutOfPages) {
  open_leased({.cache_bytes = 1 << 16});
  ASSERT_EQ(version_of(7, 9), 0);
  script_.fails = true;
  const unsigned before = script_.uploads;
  write_anew(1);
  ASSERT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && script_.uploads > before; }));
  ASSERT_TRUE(is_given_back());
  script_.fails = false;
  write_anew(2);

  const unsigned uploads = script_.uploads;
  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(version_of(i, 9), 2);
  EXPECT_EQ(script_.uploads, uploads) << "it is not known what the device has";
  EXPECT_EQ(kept_reads(), 1u);
  EXPECT_FALSE(facts().is_leased);
}

TEST_F(GpuLeaseTest, WhatWasPublishedThoughTheDeviceSaysNotIsNotReadBehindTheLeasesEnd) {
  open_leased();
  if (facts().resident_bytes == 0) GTEST_SKIP() << reason_name(facts().reason);
  ASSERT_EQ(version_of(7, 9), 0);
  {
    const UniqueFd writer = open_as(O_WRONLY);
    write(writer.get(), 1);
    ASSERT_EQ(version_of(7, 9), 1);
    // No place of the table changes: the next upload is the generation's.
    script_.hides_landing = true;
  }
  const unsigned before = script_.uploads;
  ASSERT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && script_.uploads > before; }));
  ASSERT_TRUE(is_given_back());
  script_.hides_landing = false;
  write_anew(2);

  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(version_of(i, 9), 2);
}

TEST_F(GpuLeaseTest, KernelsAreAnsweredWhileTheDeviceKeepsTheTakerWaiting) {
  open_leased();
  ASSERT_EQ(version_of(7, 9), 0);
  write_anew(1);
  script_.stands_still = true;
  const unsigned before = script_.waits;
  ASSERT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && script_.waits > before; }));

  write_anew(2);

  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(version_of(i, 9), 2);
}

TEST_F(GpuLeaseTest, NoPartOfAnExtentsPlaceIsEverOneToLoadFrom) {
  script_.refuses_pages = true;
  open_leased({.cache_bytes = 1 << 16});
  ASSERT_EQ(facts().resident_bytes, 0u);
  GpuFile* const file = files().pin(number_);
  const gpu::Long* const place = file->value().extents;
  files().unpin(number_);
  std::vector<gpu::Long> seen;
  script_.refuses_pages = false;
  write_anew(1);
  script_.between_bytes = [&] { seen.push_back(__atomic_load_n(place, __ATOMIC_RELAXED)); };

  ASSERT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && facts().is_leased; }));

  if (facts().resident_bytes == 0) GTEST_SKIP() << reason_name(facts().reason);
  const gpu::Long last = *place;
  EXPECT_EQ(last % 2, 0u);
  EXPECT_NE(last, 0u);
  for (const gpu::Long each : seen) EXPECT_TRUE(each == 0 || each % 2 == 1 || each == last) << std::hex << each;
}

// Its end is found by the ring alone, until it is as long as it was.
TEST_F(GpuLeaseTest, AFileThatBecameShorterIsNotLeasedBeforeItHasGrownAgain) {
  open_leased();
  ASSERT_EQ(::truncate(path_.c_str(), 4096), 0);
  gpu::Result result;
  for (unsigned i = 0; i < 300; ++i) {
    ASSERT_EQ(version_of(8, 9), 0);
    ASSERT_EQ(version_of(kWords - 9, 9, &result), -1);
    ASSERT_EQ(result.bytes, 0u) << "it has ended";
  }
  EXPECT_FALSE(facts().is_leased);

  write_anew(1);

  EXPECT_TRUE(wait_until([&] { return version_of(kWords - 9, 9) == 1 && facts().is_leased; }));
}

// Whoever takes it again finds its size right, and wrong once the lease is there.
TEST_F(GpuLeaseTest, ALeaseOnAFileThatBecameShorterMeanwhileIsGivenBack) {
  open_telling();
  std::atomic<unsigned> looks{0};
  storage_->tell = [&] { return is_taker() && ++looks == 2 ? kBytes - 1 : kBytes; };
  write_anew(1);
  ASSERT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && looks >= 2; }));
  ASSERT_TRUE(is_given_back());
  EXPECT_EQ(version_of(7, 9), 1);

  EXPECT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && facts().is_leased; })) << "its size is right again";
}

TEST_F(GpuLeaseTest, WhereItsSizeIsNotToldNoLeaseIsTakenAgain) {
  open_telling();
  std::atomic<unsigned> looks{0};
  std::atomic<bool> is_told{false};
  storage_->tell = [&]() -> Result<std::uint64_t> {
    if (!is_taker() || is_told) return kBytes;
    ++looks;
    return os_failure(EIO, "ask for the size");
  };
  write_anew(1);
  ASSERT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && looks >= 2; }));
  EXPECT_TRUE(open_as(O_WRONLY | O_NONBLOCK).valid()) << "nobody has to ask for it";

  is_told = true;

  EXPECT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && facts().is_leased; }));
}

TEST_F(GpuLeaseTest, WithoutItsDescriptorALeaseIsNotTakenAgain) {
  open_leased();
  const int leased = leased_descriptor();
  ASSERT_GE(leased, 0);
  UniqueFd writer = open_as(O_WRONLY);
  ASSERT_EQ(::close(leased), 0) << "by the program, as closefrom(3) does";
  write(writer.get(), 1);
  writer.reset();

  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(version_of(i, 9), 1);

  EXPECT_FALSE(facts().is_leased);
  EXPECT_TRUE(open_as(O_WRONLY | O_NONBLOCK).valid()) << "nobody has to ask for it";
}

// This kernel's slots are all of the second thread of the ring.
TEST_F(GpuLeaseTest, ReadsOfAnyThreadOfTheRingHaveItTakenAgain) {
  open_leased({.ring = {.threads = 2, .slots = 8}});
  write_anew(1);
  bool is_taken = false, is_done = false;
  while (!is_done) {
    std::thread([&] {
      if (gpu::detail::group_number() % 2 == 0) return;
      is_done = true;
      is_taken = wait_until([&] { return version_of(7, 9) == 1 && facts().is_leased; });
    }).join();
  }
  EXPECT_TRUE(is_taken);
}

}  // namespace
}  // namespace penstock::core
