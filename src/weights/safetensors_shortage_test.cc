// SPDX-License-Identifier: Apache-2.0

// Fails each allocation of a call in turn: the result reports a shortage, and nothing is thrown.
#include <optional>
#include <string>

#include "fakes/short_memory.h"
#include "weights/safetensors.h"

namespace penstock::core {
namespace {

SafetensorsHeader some_header() {
  SafetensorsHeader header;
  header.metadata.emplace_back("a key that is not short", "and a text that is not, either");
  for (int i = 0; i < 20; ++i) {
    header.tensors.push_back({"model.layers." + std::to_string(i) + ".weight", Dtype::bf16, {3, 4, 5}});
  }
  return header;
}

// Lets `call` have one allocation more each time, until it succeeds; gives how many it needed.
template <typename Call>
long allocations_of(Call call) {
  for (long allowed = 0;; ++allowed) {
    const auto outcome = with_allocations(allowed, call);
    if (outcome.ok()) return allowed;
    EXPECT_TRUE(outcome.fault().is_shortage) << outcome.fault().text;
  }
}

using SafetensorsShortageTest = ShortMemoryTest;

TEST_F(SafetensorsShortageTest, AHeaderThatMemoryIsTooShortForIsNotCalledWrong) {
  const Outcome<WrittenSafetensors> file = write_safetensors(some_header());
  ASSERT_TRUE(file.ok());
  const std::string_view json = std::string_view(file->bytes).substr(kSafetensorsSizeBytes);
  EXPECT_GT(allocations_of([&] { return parse_safetensors(json, file->header.data_bytes()); }), 20);
}

TEST_F(SafetensorsShortageTest, AWriterThatMemoryIsTooShortForSaysSo) {
  const SafetensorsHeader header = some_header();
  std::optional<SafetensorsHeader> given;
  const auto write = [&] {
    const long allowed = std::exchange(allocations_left, kAllAllocations);
    given = header;
    allocations_left = allowed;
    return write_safetensors(std::move(*given));
  };
  EXPECT_GT(allocations_of(write), 20);
}

TEST_F(SafetensorsShortageTest, AFaultThatMemoryIsTooShortForIsAShortage) {
  const auto size = with_allocations(0, [] { return safetensors_header_size({}, 5); });
  ASSERT_FALSE(size.ok());
  EXPECT_TRUE(size.fault().is_shortage);
  EXPECT_EQ(size.fault().text, no_memory().text);
}

}  // namespace
}  // namespace penstock::core
