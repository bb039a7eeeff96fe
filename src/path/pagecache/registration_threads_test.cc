// SPDX-License-Identifier: Apache-2.0

// Threads of the registration cache that wait while the driver registers and unregisters.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/page_size.h"
#include "device/host/host_device.h"
#include "fakes/waiting.h"
#include "path/pagecache/registration_cache.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

using State = Extent::State;

// Records what it registers and unregisters, by the letter that fills the pages, and blocks on a letter as long as the
// test wants.
class HeldBackDevice final : public Device, private DeviceMemory, private DevicePages {
 public:
  HeldBackDevice() : Device(this, this) {}

  Status register_pages(const std::byte* pages, std::size_t, bool) override {
    call(*pages, registered_);
    return success();
  }
  bool unregister_pages(const std::byte* pages) override {
    call(*pages, unregistered_);
    return true;
  }

  // From now on calls for this letter block, until the test names another letter or none.
  void hold_back(char letter) {
    const std::lock_guard lock(mutex_);
    held_back_ = letter;
    changes_.notify_all();
  }
  [[nodiscard]] bool wait_until_one_is_held_back() {
    return wait_until([this] {
      const std::lock_guard lock(mutex_);
      return waiting_ > 0;
    });
  }
  // The calls that began, in order.
  std::string registered() { return copy_of(registered_); }
  std::string unregistered() { return copy_of(unregistered_); }

  const DeviceFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned) override { return unsupported(); }
  Status register_host(void*, std::size_t) override { return unsupported(); }
  bool unregister_host(void*) override { return true; }
  void make_copies_synchronous(const void*) override {}
  Result<void*> allocate(std::size_t) override { return unsupported(); }
  void release(void*) override {}

 private:
  static Status unsupported() { return failure(Code::unsupported, "ask a device that registers pages alone"); }
  void call(std::byte first, std::string& log) {
    const char letter = static_cast<char>(first);
    std::unique_lock lock(mutex_);
    log += letter;
    ++waiting_;
    changes_.wait(lock, [&] { return held_back_ != letter; });
    --waiting_;
  }
  std::string copy_of(const std::string& log) {
    const std::lock_guard lock(mutex_);
    return log;
  }

  const DeviceFacts facts_{};
  std::mutex mutex_;
  std::condition_variable changes_;
  char held_back_ = 0;
  unsigned waiting_ = 0;
  std::string registered_;
  std::string unregistered_;
};

// Files of one page, each named by the letter that fills it; each is one extent.
class RegistrationThreadsTest : public testing::Test {
 protected:
  struct OpenFile {
    UniqueFd fd;
    std::unique_ptr<File> file;
    CachedFile* cached = nullptr;
  };

  // Opens a cache with room for `room` files, and registers these in order.
  void open(std::uint64_t room, const std::string& letters) {
    cache_.emplace(RegistrationRules{.bytes_max = room * page_size()});
    for (const char letter : letters) register_now(letter);
  }
  CachedFile& file(char letter) {
    OpenFile& opened = files_[letter];
    if (opened.cached == nullptr) {
      const std::string content(page_size(), letter);
      opened.fd = UniqueFd(::memfd_create("registration_threads_test", MFD_CLOEXEC));
      EXPECT_EQ(storage_.write(opened.fd.get(), content.data(), content.size(), 0).value(), content.size());
      opened.file = std::move(File::open(storage_, opened.fd.get()).value());
      opened.cached = cache_->find_or_make(*opened.file, device_, {});
    }
    return *opened.cached;
  }
  Extent& extent(char letter) { return *file(letter).extent(0); }
  bool register_now(char letter) {
    cache_->register_now(file(letter), 0);
    return is_registered(letter);
  }
  std::jthread register_beside(char letter) {
    CachedFile& wanted = file(letter);  // Created on this thread, which owns the table of files.
    return std::jthread([this, &wanted] { cache_->register_now(wanted, 0); });
  }
  bool is_registered(char letter) { return extent(letter).state() == State::registered; }
  // Uses an extent as a request does; returns false if it is not registered.
  bool hit(char letter) {
    (void)cache_->want(file(letter), {Op::read, 0, page_size()}, SubmitMode::alone);
    if (!extent(letter).hold(cache_->now())) return false;
    extent(letter).release();
    return true;
  }
  std::uint64_t registered_files() const { return cache_->registered_bytes() / page_size(); }

  HeldBackDevice device_;
  PosixStorage storage_{false};
  std::map<char, OpenFile> files_;
  std::optional<RegistrationCache> cache_;
};

TEST_F(RegistrationThreadsTest, AHitDoesNotWaitForTheRegistrationOfAnotherExtent) {
  open(3, "a");
  device_.hold_back('b');
  const std::jthread slow = register_beside('b');
  ASSERT_TRUE(device_.wait_until_one_is_held_back());

  EXPECT_TRUE(hit('a'));

  EXPECT_EQ(extent('b').state(), State::wanted);
  device_.hold_back(0);
}

TEST_F(RegistrationThreadsTest, OneThreadRegistersAtATime) {
  open(3, "");
  device_.hold_back('b');
  std::jthread first = register_beside('b');
  ASSERT_TRUE(device_.wait_until_one_is_held_back());
  std::jthread second = register_beside('c');

  give_time_to_go_wrong();
  EXPECT_EQ(device_.registered(), "b");
  device_.hold_back(0);
  first.join();
  second.join();

  EXPECT_EQ(device_.registered(), "bc");
  EXPECT_EQ(extent('c').state(), State::registered);
}

TEST_F(RegistrationThreadsTest, WhoWantsAnExtentThatIsBeingRegisteredWaitsForThatOne) {
  open(3, "");
  device_.hold_back('b');
  std::jthread first = register_beside('b');
  ASSERT_TRUE(device_.wait_until_one_is_held_back());
  std::atomic<bool> found{false};
  std::jthread second([&, &wanted = file('b')] {
    cache_->register_now(wanted, 0);
    found = wanted.extent(0)->state() == State::registered;
  });

  give_time_to_go_wrong();
  EXPECT_FALSE(found);
  device_.hold_back(0);
  second.join();

  EXPECT_TRUE(found);
  EXPECT_EQ(device_.registered(), "b");
}

TEST_F(RegistrationThreadsTest, ASlowEvictionHoldsUpNeitherHitsNorOtherEvictions) {
  open(2, "ab");
  device_.hold_back('a');
  std::jthread slow = register_beside('c');
  ASSERT_TRUE(device_.wait_until_one_is_held_back());

  EXPECT_TRUE(hit('b'));
  EXPECT_TRUE(register_now('d'));

  EXPECT_FALSE(is_registered('c'));
  device_.hold_back(0);
  slow.join();
  EXPECT_TRUE(is_registered('c'));
  EXPECT_EQ(device_.unregistered(), "ab");
}

TEST_F(RegistrationThreadsTest, AFileIsForgottenAlsoWhileItsExtentIsBeingEvicted) {
  open(1, "a");
  device_.hold_back('a');
  std::jthread slow = register_beside('b');
  ASSERT_TRUE(device_.wait_until_one_is_held_back());

  cache_->forget(*files_['a'].file);
  files_.erase('a');

  device_.hold_back(0);
  slow.join();
  EXPECT_TRUE(is_registered('b'));
  EXPECT_EQ(device_.unregistered(), "a");
}

TEST_F(RegistrationThreadsTest, AnExtentTakesRoomUntilTheDeviceHasLetGoOfIt) {
  open(1, "a");
  device_.hold_back('a');
  std::jthread slow = register_beside('b');
  ASSERT_TRUE(device_.wait_until_one_is_held_back());

  EXPECT_EQ(registered_files(), 1u);
  EXPECT_FALSE(register_now('c'));

  device_.hold_back(0);
  slow.join();
  EXPECT_EQ(registered_files(), 1u);
}

// Gives the cache's thread `a`, which the driver holds back, and then more than wait their turn.
class OrdersTest : public RegistrationThreadsTest {
 protected:
  void order(const std::string& letters) {
    open(16, "");
    for (const char letter : letters) {
      (void)file(letter).extent(0);  // Created here, since the table of files is this thread's.
      if (letter == 'a') device_.hold_back('a');
      cache_->order(file(letter), 0, 0);
      if (letter == 'a') {
        ASSERT_TRUE(device_.wait_until_one_is_held_back());
      }
    }
  }
};

TEST_F(OrdersTest, NoMoreWaitThanThereIsRoomForAndNoneTwice) {
  order("abbcdef");
  EXPECT_EQ(extent('e').state(), State::wanted);
  EXPECT_EQ(extent('f').state(), State::none) << "the fifth";
  device_.hold_back(0);
  for (const char letter : std::string("abcde")) {
    extent(letter).wait_while_wanted();
    EXPECT_TRUE(is_registered(letter)) << letter;
  }
  EXPECT_EQ(device_.registered(), "abcde");
}

TEST_F(OrdersTest, AFileThatIsForgottenTakesItsOrderWithItAndNoOther) {
  order("abc");
  cache_->forget(*files_['b'].file);
  files_.erase('b');
  EXPECT_EQ(extent('c').state(), State::wanted);
  device_.hold_back(0);
  extent('c').wait_while_wanted();
  EXPECT_EQ(device_.registered(), "ac");
}

TEST_F(OrdersTest, AFileThatIsBeingRegisteredIsForgottenOnceThatHasEnded) {
  order("a");
  std::jthread forgetter([this, file = files_['a'].file.get()] { cache_->forget(*file); });
  give_time_to_go_wrong();
  EXPECT_EQ(device_.unregistered(), "");
  device_.hold_back(0);
  forgetter.join();
  EXPECT_EQ(device_.unregistered(), "a");
}

// Requests find it again and again before the cache's thread comes to it.
TEST_F(OrdersTest, WhatIsFoundToBeGoneIsEvictedOnceHoweverOftenItIsFound) {
  order("");
  for (const char letter : std::string("bcd")) ASSERT_TRUE(register_now(letter));
  ASSERT_EQ(cache_->watch().error(), 0);
  (void)file('a');
  device_.hold_back('a');
  cache_->order(file('a'), 0, 0);
  ASSERT_TRUE(device_.wait_until_one_is_held_back());
  const auto find_gone = [&](char letter) {
    ASSERT_TRUE(extent(letter).hold(0));
    ASSERT_EQ(::madvise(extent(letter).at(0), page_size(), MADV_DONTNEED), 0);  // It is not this process's any more.
    extent(letter).release();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(cache_->lend(file(letter), {Op::read, 0, 4096}).empty());
  };
  find_gone('b');
  find_gone('c');
  cache_->order(file('e'), 0, 0);
  EXPECT_EQ(extent('e').state(), State::wanted) << "there is room left for it";
  find_gone('d');
  cache_->forget(*files_['d'].file);
  files_.erase('d');
  EXPECT_EQ(device_.unregistered(), "d") << "with its file, and not by its order";

  device_.hold_back(0);

  EXPECT_TRUE(wait_until([&] { return extent('b').state() == State::none && extent('c').state() == State::none; }));
  cache_->order(file('f'), 0, 0);  // Behind all that waits.
  extent('f').wait_while_wanted();
  EXPECT_EQ(device_.unregistered().size(), 3u);
  EXPECT_TRUE(is_registered('a') && is_registered('e'));
}

TEST_F(OrdersTest, WhatWaitsWhenTheCacheEndsIsDropped) {
  order("abc");
  std::jthread closer([this] { cache_.reset(); });
  give_time_to_go_wrong();
  device_.hold_back(0);
  closer.join();
  EXPECT_EQ(device_.registered().find('c'), std::string::npos);
}

}  // namespace
}  // namespace penstock::core
