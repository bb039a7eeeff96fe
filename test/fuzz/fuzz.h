// SPDX-License-Identifier: Apache-2.0

// What the fuzzers share: decisions out of an input's bytes, and a check that ends the process where it does not hold.
// An input that ran out of bytes decides for zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#define FUZZ_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : penstock::fuzz::check_failed(#condition, __FILE__, __LINE__))

namespace penstock::fuzz {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  std::abort();
}

class Decisions {
 public:
  Decisions(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool over() const { return rest_.empty(); }
  std::span<const std::uint8_t> rest() const { return rest_; }

  template <typename T>
  T number() {
    T value{};
    const std::size_t size = std::min(sizeof value, rest_.size());
    if (size > 0) std::memcpy(&value, rest_.data(), size);
    rest_ = rest_.subspan(size);
    return value;
  }
  // 0 to count - 1.
  std::uint32_t below(std::uint32_t count) {
    const std::uint32_t value = count <= 256 ? number<std::uint8_t>() : number<std::uint32_t>();
    return value % count;
  }
  bool yes() { return below(2) == 1; }
  template <typename T, std::size_t N>
  T one_of(const T (&values)[N]) {
    return values[below(N)];
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace penstock::fuzz
