// SPDX-License-Identifier: Apache-2.0

// Fails each allocation of a call in turn: the result reports a shortage, and nothing is thrown.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>

#include "weights/safetensors.h"

namespace {

constexpr long kNever = -1;
long allocations_left = kNever;  // The test has one thread.

void* allocate(std::size_t size) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(std::max<std::size_t>(size, 1));
}

}  // namespace

// These replace those of the whole program. Not inlined: GCC would warn of free() for what it saw come from new.
void* operator new(std::size_t size) {
  void* const memory = allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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
    allocations_left = allowed;
    const auto outcome = call();
    allocations_left = kNever;
    if (outcome.ok()) return allowed;
    EXPECT_TRUE(outcome.fault().is_shortage) << outcome.fault().text;
  }
}

class SafetensorsShortageTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own allocation functions are in use";
#endif
  }
};

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
    const long allowed = std::exchange(allocations_left, kNever);
    given = header;
    allocations_left = allowed;
    return write_safetensors(std::move(*given));
  };
  EXPECT_GT(allocations_of(write), 20);
}

TEST_F(SafetensorsShortageTest, AFaultThatMemoryIsTooShortForIsAShortage) {
  allocations_left = 0;
  const Outcome<std::uint64_t> size = safetensors_header_size({}, 5);
  allocations_left = kNever;
  ASSERT_FALSE(size.ok());
  EXPECT_TRUE(size.fault().is_shortage);
  EXPECT_EQ(size.fault().text, no_memory().text);
}

}  // namespace
}  // namespace penstock::core
