// SPDX-License-Identifier: Apache-2.0

// Gives the text to a JSON parser that sends events, and knows the number of the line that the parser has reached.
#pragma once

#include <cstddef>
#include <iterator>

namespace penstock::core {

struct CountingReader {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  int* line = nullptr;

  reference operator*() const { return *at; }
  CountingReader& operator++() {
    if (*at++ == '\n') ++*line;
    return *this;
  }
  CountingReader operator++(int) {
    const CountingReader before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingReader& a, const CountingReader& b) { return a.at == b.at; }
};

}  // namespace penstock::core
