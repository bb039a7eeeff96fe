// SPDX-License-Identifier: Apache-2.0

// Every path that reaches device memory by itself refuses the same.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "fakes/fake_gpu.h"
#include "fakes/fake_storage.h"
#include "path/path.h"

namespace penstock::core {
namespace {

TEST(RefusalOfAllTest, TellsTheFirstOfWhatIsWrong) {
  struct Case {
    MemoryKind kind;
    bool has_device, is_denied, is_stand_in;
    Reason reason;
  };
  const Case cases[] = {
      {MemoryKind::host, false, true, true, Reason::host_memory},
      {MemoryKind::device, false, true, true, reason_of(Obstacle::peer_unseen)},
      {MemoryKind::device, true, true, true, Reason::denied},
      {MemoryKind::device, true, false, true, Reason::stand_in},
      {MemoryKind::device, true, false, false, Reason::none},
  };
  for (const Case& one : cases) {
    FakeStorage storage;
    FakeGpu gpu;
    const_cast<DeviceFacts&>(gpu.facts()).stand_in = one.is_stand_in;
    const std::unique_ptr<File> file = std::move(*File::open(storage, FakeStorage::kUserFd));
    if (one.is_denied) file->deny_direct_paths();
    EXPECT_EQ(refusal_of_all(*file, {one.kind, one.has_device ? &gpu : nullptr}), one.reason)
        << reason_name(one.reason);
  }
}

}  // namespace
}  // namespace penstock::core
