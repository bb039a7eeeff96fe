// SPDX-License-Identifier: Apache-2.0

#include "base/thread.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

// Many are tried: a name that comes late may come in time for one.
TEST(ThreadTest, AThreadHasItsNameFromItsFirstStepOn) {
  const auto body = [](void* seen) { ::pthread_getname_np(::pthread_self(), static_cast<char*>(seen), 16); };
  for (unsigned i = 0; i < 200; ++i) {
    char seen[16] = "";
    pthread_t thread;
    ASSERT_TRUE(start_thread(thread, "penstock-of-a-test", body, seen));
    ASSERT_EQ(::pthread_join(thread, nullptr), 0);
    ASSERT_STREQ(seen, "penstock-of-a-t") << "thread " << i;
  }
}

}  // namespace
}  // namespace penstock::core
