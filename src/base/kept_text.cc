// SPDX-License-Identifier: Apache-2.0

#include "base/kept_text.h"

#include <atomic>
#include <cstring>
#include <string>

#include "base/printable.h"

namespace penstock::core {
namespace {

enum class Slot : unsigned char { free, taken, filled };

struct KeptText {
  std::atomic<Slot> state{Slot::free};
  char text[kKeptTextBytesMax + 1];
};
KeptText kept[kKeptTextsMax];

// Cuts a text, but not within a character of several bytes.
std::string cut(std::string text) {
  if (text.size() <= kKeptTextBytesMax) return text;
  std::size_t size = kKeptTextBytesMax;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  text.resize(size);
  return text;
}

}  // namespace

const char* kept_text(std::string_view text, const char* otherwise) {
  const std::string safe = cut(printable(text));
  for (KeptText& one : kept) {
    Slot state = Slot::free;
    if (one.state.compare_exchange_strong(state, Slot::taken, std::memory_order_acquire)) {
      std::memcpy(one.text, safe.c_str(), safe.size() + 1);
      one.state.store(Slot::filled, std::memory_order_release);
      return one.text;
    }
    if (state == Slot::filled && safe == one.text) return one.text;
  }
  return otherwise;
}

}  // namespace penstock::core
