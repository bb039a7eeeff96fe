// SPDX-License-Identifier: Apache-2.0

// Fails each allocation of a copy of staged settings in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "settings/settings.h"

namespace {

constexpr long kNever = -1;
long allocations_left = kNever;  // The test has one thread.

}  // namespace

// These replace those of the whole program. Not inlined: GCC would warn of free() for what it saw come from new.
void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  return std::malloc(std::max<std::size_t>(size, 1));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace penstock::core {
namespace {

TEST(SettingsShortageTest, ACopyOfStagedSettingsThatFindsNoMemoryDestroysNothingThatWasNotMade) {
  PendingValues pending;
  ASSERT_TRUE(set_pending_named(pending, "paths", "bounce,host").ok());
  ASSERT_TRUE(set_pending_named(pending, "workers", "2").ok());

  long refused = 0;
  for (bool is_copied = false; !is_copied; ++refused) {
    allocations_left = refused;
    try {
      const PendingValues copy = pending;
      allocations_left = kNever;
      EXPECT_EQ(copy[0].value, pending[0].value);
      is_copied = true;
    } catch (const std::bad_alloc&) {
      allocations_left = kNever;
    }
  }

  EXPECT_GT(refused, 2);  // The list's own memory, and that of the paths.
}

}  // namespace
}  // namespace penstock::core
