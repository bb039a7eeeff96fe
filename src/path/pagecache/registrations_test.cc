// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/registrations.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <optional>
#include <random>
#include <string>

#include "base/page_size.h"
#include "base/unique_fd.h"

namespace penstock::core {
namespace {

using State = Extent::State;

// Records what is unregistered, by the letter that fills the pages.
class LetteredPages final : public DevicePages {
 public:
  Status register_pages(const std::byte*, std::size_t, bool) override { return success(); }
  bool can_unregister_pages() override { return can_unregister; }
  bool unregister_pages(const std::byte* pages) override {
    unregistered += static_cast<char>(*pages);
    return !keeps_all;
  }

  bool can_unregister = true;
  bool keeps_all = false;
  std::string unregistered;
};

// Extents of one page, each named by the letter that fills it.
class RegistrationsTest : public testing::Test {
 protected:
  // Makes room for so many extents, and registers these in order.
  void open(std::uint64_t room, const std::string& letters) {
    registrations_.emplace(room * page_size());
    for (const char letter : letters) register_now(letter);
  }
  bool register_now(char letter) {
    if (!registrations_->reserve(device_, page_size(), ++now_)) return false;
    const UniqueFd fd(::memfd_create("registrations_test", MFD_CLOEXEC));
    const std::string content(page_size(), letter);
    EXPECT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
    auto registration = std::make_unique<Registration>();
    registration->device = &device_;
    registration->mapping = std::move(PageMapping::open(fd.get(), 0, page_size(), false).value());
    registration->used_at = now_;
    extents_[letter].attach(*registration);
    registrations_->add(std::move(registration));
    return true;
  }
  bool is_registered(char letter) { return extents_[letter].state() == State::registered; }
  // Uses an extent as a request does; returns false if it is not registered.
  bool hit(char letter) {
    if (!extents_[letter].hold(++now_)) return false;
    extents_[letter].release();
    return true;
  }
  std::uint64_t pages() const { return registrations_->bytes() / page_size(); }

  LetteredPages device_;
  std::map<char, Extent> extents_;
  std::uint64_t now_ = 0;
  std::optional<Registrations> registrations_;
};

// ---- Extents that give way -----------------------------------------------------------------------------------------

TEST_F(RegistrationsTest, TheExtentThatWasUsedLeastRecentlyGivesWay) {
  open(3, "abc");
  hit('a');
  hit('b');

  for (const char letter : {'d', 'e', 'f'}) EXPECT_TRUE(register_now(letter)) << letter;

  EXPECT_EQ(device_.unregistered, "cab");
}

TEST_F(RegistrationsTest, WhateverIsUsedEvictionsGoByTheLastUse) {
  constexpr std::size_t kRoom = 8;
  open(kRoom, "");
  std::mt19937 random(12);
  std::string recent;  // Registered extents, least recently used first.
  std::string evicted;

  for (int step = 0; step < 1000; ++step) {
    const char letter = static_cast<char>('a' + random() % 12);
    if (!hit(letter)) register_now(letter);
    if (const auto at = recent.find(letter); at != std::string::npos) recent.erase(at, 1);
    recent += letter;
    if (recent.size() <= kRoom) continue;
    evicted += recent.front();
    recent.erase(0, 1);
  }

  EXPECT_EQ(device_.unregistered, evicted);
}

TEST_F(RegistrationsTest, WhatIsInUseIsPassedOver) {
  open(2, "ab");
  ASSERT_TRUE(extents_['a'].hold(now_));

  EXPECT_TRUE(register_now('c'));

  EXPECT_EQ(device_.unregistered, "b");
  extents_['a'].release();
}

TEST_F(RegistrationsTest, WhereAllIsInUseNothingMoreIsRegistered) {
  open(1, "a");
  ASSERT_TRUE(extents_['a'].hold(now_));

  EXPECT_FALSE(register_now('b'));

  EXPECT_TRUE(is_registered('a'));
  extents_['a'].release();
}

TEST_F(RegistrationsTest, AnExtentThatIsEvictedGoesAtOnceUnlessItIsInUse) {
  open(2, "ab");
  ASSERT_TRUE(extents_['b'].hold(now_));

  registrations_->evict(extents_['a']);
  registrations_->evict(extents_['b']);

  EXPECT_EQ(device_.unregistered, "a");
  EXPECT_FALSE(is_registered('a'));
  EXPECT_TRUE(is_registered('b'));
  extents_['b'].release();
}

TEST_F(RegistrationsTest, WhatIsTakenOutTakesRoomUntilItIsUnregistered) {
  open(1, "a");
  RegistrationList taken;
  taken.insert(registrations_->take(extents_['a']));

  EXPECT_EQ(registrations_->take(extents_['a']), nullptr);
  EXPECT_FALSE(register_now('b'));

  registrations_->unregister_all(taken);
  EXPECT_TRUE(register_now('b'));
}

TEST_F(RegistrationsTest, ShortOfMemoryHalfOfTheExtentsGo) {
  open(4, "abcd");

  registrations_->tidy_up(false, now_);
  EXPECT_EQ(device_.unregistered, "");
  registrations_->tidy_up(true, now_);

  EXPECT_EQ(device_.unregistered, "abc");
  EXPECT_EQ(pages(), 1u);
}

// ---- Bytes ---------------------------------------------------------------------------------------------------------

TEST_F(RegistrationsTest, MoreThanTheLimitIsNeverReserved) {
  open(2, "a");

  EXPECT_FALSE(registrations_->reserve(device_, 3 * page_size(), now_));

  EXPECT_TRUE(is_registered('a'));
}

TEST_F(RegistrationsTest, WhatWasReservedInVainIsThereAgain) {
  open(1, "");
  ASSERT_TRUE(registrations_->reserve(device_, page_size(), now_));
  EXPECT_FALSE(register_now('a'));

  registrations_->cancel(page_size());

  EXPECT_TRUE(register_now('a'));
}

// ---- Devices that release nothing for now --------------------------------------------------------------------------

TEST_F(RegistrationsTest, OfADeviceThatCannotUnregisterNothingIsEvicted) {
  open(1, "a");
  device_.can_unregister = false;

  EXPECT_FALSE(register_now('b'));
  registrations_->tidy_up(true, now_);

  EXPECT_TRUE(is_registered('a'));
}

TEST_F(RegistrationsTest, WhatTheDeviceKeepsForNowTakesRoomAndIsUnregisteredLater) {
  open(1, "a");
  device_.keeps_all = true;
  EXPECT_FALSE(register_now('b'));
  EXPECT_EQ(pages(), 1u);

  device_.keeps_all = false;
  registrations_->tidy_up(false, now_);

  EXPECT_EQ(device_.unregistered, "aa");
  EXPECT_EQ(pages(), 0u);
}

TEST_F(RegistrationsTest, AtTheEndAllIsUnregistered) {
  open(3, "ab");
  device_.keeps_all = true;
  registrations_->evict(extents_['a']);
  device_.keeps_all = false;

  registrations_.reset();

  EXPECT_EQ(device_.unregistered, "aba");
}

TEST_F(RegistrationsTest, WhatTheDeviceKeepsForGoodStaysMapped) {
  open(1, "a");
  const std::byte* const pages = extents_['a'].at(0);
  device_.keeps_all = true;

  registrations_.reset();

  EXPECT_EQ(*pages, std::byte{'a'});
  ::munmap(const_cast<std::byte*>(pages), page_size());
}

TEST_F(RegistrationsTest, WhereMemoryIsShortNothingGoesThatCannotAndOnlyWhatIsNotInUse) {
  open(3, "abc");
  device_.can_unregister = false;
  registrations_->tidy_up(true, now_);
  EXPECT_EQ(device_.unregistered, "");
  device_.can_unregister = true;
  for (const char letter : {'a', 'b', 'c'}) ASSERT_TRUE(extents_[letter].hold(now_));
  registrations_->tidy_up(true, now_);
  EXPECT_EQ(device_.unregistered, "");
  for (const char letter : {'a', 'b', 'c'}) extents_[letter].release();
  registrations_->tidy_up(true, now_);
  EXPECT_EQ(device_.unregistered.size(), 2u) << "more than half of them";
}

TEST_F(RegistrationsTest, AnExtentThatIsNotRegisteredIsNotEvicted) {
  open(2, "a");
  registrations_->evict(extents_['b']);
  registrations_->evict(extents_['a']);
  registrations_->evict(extents_['a']);
  EXPECT_EQ(device_.unregistered, "a");
}

}  // namespace
}  // namespace penstock::core
