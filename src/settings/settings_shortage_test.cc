// SPDX-License-Identifier: Apache-2.0

// Fails each allocation of a copy of staged settings in turn.
#include "fakes/short_memory.h"
#include "settings/settings.h"

namespace penstock::core {
namespace {

TEST(SettingsShortageTest, ACopyOfStagedSettingsThatFindsNoMemoryDestroysNothingThatWasNotMade) {
  PendingValues pending;
  ASSERT_TRUE(set_pending_named(pending, "paths", "bounce,host").ok());
  ASSERT_TRUE(set_pending_named(pending, "workers", "2").ok());

  long refused = 0;
  for (bool is_copied = false; !is_copied; ++refused) {
    try {
      EXPECT_TRUE(with_allocations(refused, [&] {
        const PendingValues copy = pending;
        return copy[0].value == pending[0].value;
      }));
      is_copied = true;
    } catch (const std::bad_alloc&) {
    }
  }

  EXPECT_GT(refused, 2);  // The list's own memory, and that of the paths.
}

}  // namespace
}  // namespace penstock::core
