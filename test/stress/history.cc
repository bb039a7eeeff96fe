// SPDX-License-Identifier: Apache-2.0

#include "stress/history.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace penstock::stress {
namespace {

constexpr std::uint64_t kWord = 8;

std::byte byte_of(std::uint64_t word, std::uint64_t position) {
  return static_cast<std::byte>(word >> (8 * (position % kWord)));
}

std::uint64_t word_start(std::uint64_t position) { return position / kWord * kWord; }

}  // namespace

// Little-endian, as the machines are that this runs on: place in the low half, file in the highest byte.
std::uint64_t stamp(std::uint8_t file, std::uint32_t change, std::uint64_t position) {
  return std::uint64_t{file} << 56 | std::uint64_t{change & 0xffffff} << 32 | (position / kWord & 0xffffffff);
}

void stamp_range(std::span<std::byte> memory, std::uint8_t file, std::uint32_t change, std::uint64_t position) {
  for (std::size_t done = 0; done < memory.size();) {
    const std::uint64_t at = position + done;
    std::uint64_t word = stamp(file, change, at);
    const std::size_t skipped = at % kWord;
    // Whole words, which differ in their place alone.
    for (; skipped == 0 && memory.size() - done >= kWord; done += kWord, ++word)
      std::memcpy(memory.data() + done, &word, kWord);
    if (done != at - position) continue;
    const std::size_t count = std::min<std::size_t>(kWord - skipped, memory.size() - done);
    std::memcpy(memory.data() + done, reinterpret_cast<const std::byte*>(&word) + skipped, count);
    done += count;
  }
}

// ---- Changes -------------------------------------------------------------------------------------------------------

std::uint32_t History::begin(Change change) {
  forget_old();
  change.number = ++begun_;
  changes_.push_back(change);
  return change.number;
}

std::uint32_t History::begin_write(std::uint64_t first, std::uint64_t end) {
  const std::uint64_t before = size();
  const std::lock_guard lock(mutex_);
  return begin({0, Kind::write, true, first, end, std::max(before, end)});
}

std::uint32_t History::begin_hole(std::uint64_t first, std::uint64_t end) {
  const std::uint64_t before = size();
  const std::lock_guard lock(mutex_);
  return begin({0, Kind::zero, true, first, end, before});
}

std::uint32_t History::begin_resize(std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  return begin({0, Kind::zero, true, size, kEverything, size});
}

void History::end(bool succeeded) {
  const std::lock_guard lock(mutex_);
  changes_.back().certain = succeeded;
  ended_ = begun_;
}

std::uint64_t History::size() const {
  const std::lock_guard lock(mutex_);
  return changes_.empty() ? 0 : changes_.back().size;
}

std::size_t History::length() const {
  const std::lock_guard lock(mutex_);
  return changes_.size();
}

// What lies behind a resize to zero that every read under way, and to come, began after.
void History::forget_old() {
  const std::uint32_t oldest = reading_.empty() ? ended_ : *reading_.begin();
  const auto covers = [&](const Change& change) {
    return change.number <= oldest && change.certain && change.first == 0 && change.end == kEverything;
  };
  const auto last = std::find_if(changes_.rbegin(), changes_.rend(), covers);
  if (last != changes_.rend()) changes_.erase(changes_.begin(), std::prev(last.base()));
}

// ---- Reads ---------------------------------------------------------------------------------------------------------

std::uint32_t History::begin_read() {
  const std::lock_guard lock(mutex_);
  reading_.insert(ended_);
  return ended_;
}

bool History::was_resized(std::uint32_t ended) const {
  const std::lock_guard lock(mutex_);
  const Sizes possible = sizes(ended);
  return possible.least != possible.most;
}

History::Sizes History::sizes(std::uint32_t ended) const {
  Sizes possible{kEverything, 0};
  const auto may_be = [&](std::uint64_t size) {
    possible = {std::min(possible.least, size), std::max(possible.most, size)};
  };
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    may_be(change->size);
    if (change->number <= ended && change->certain) return possible;
  }
  may_be(0);
  return possible;
}

std::vector<History::Piece> History::pieces(std::uint32_t ended, std::uint64_t first, std::uint64_t end) const {
  std::vector<std::uint64_t> borders{first, end};
  for (const Change& change : changes_) {
    for (const std::uint64_t border : {change.first, change.end}) {
      if (border > first && border < end) borders.push_back(border);
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<Piece> found;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) found.push_back({borders[i], borders[i + 1], {}, false});
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    for (Piece& piece : found) {
      if (piece.settled || change->first >= piece.end || change->end <= piece.first) continue;
      piece.legal.push_back(change->kind == Kind::write ? change->number : 0);
      piece.settled = change->number <= ended && change->certain;
    }
  }
  for (Piece& piece : found) {
    if (!piece.settled) piece.legal.push_back(0);  // Before the first change there was nothing.
  }
  return found;
}

std::optional<std::string> History::end_read(std::uint32_t ended, std::uint64_t position, std::uint64_t wanted,
                                             std::span<const std::byte> got, bool whole) {
  std::vector<Piece> possible;
  Sizes size{};
  {
    const std::lock_guard lock(mutex_);
    reading_.erase(reading_.find(ended));
    size = sizes(ended);
    possible = pieces(ended, position, position + got.size());
  }
  const auto count_for = [&](std::uint64_t bytes) { return std::min(wanted, bytes > position ? bytes - position : 0); };
  if (got.size() > count_for(size.most) || (whole && got.size() < count_for(size.least))) {
    char text[200];
    std::snprintf(text, sizeof text,
                  "file %u: a read of %" PRIu64 " at %" PRIu64 " moved %zu bytes, of a file of %" PRIu64 " to %" PRIu64,
                  file_, wanted, position, got.size(), size.least, size.most);
    return text;
  }
  for (const Piece& piece : possible) {
    if (std::optional<std::string> fault = check(piece, position, got)) return fault;
  }
  return std::nullopt;
}

std::optional<std::string> History::check(const Piece& piece, std::uint64_t position,
                                          std::span<const std::byte> got) const {
  for (std::uint64_t word = word_start(piece.first); word < piece.end; word += kWord) {
    if (std::optional<std::string> fault = check_word(piece, word, position, got)) return fault;
  }
  return std::nullopt;
}

// Whole words are compared as such. At the ends of pieces, and where a word was read while it was being written, bytes
// are compared each for itself: the kernel copies memory in no unit that it would promise.
std::optional<std::string> History::check_word(const Piece& piece, std::uint64_t word, std::uint64_t position,
                                               std::span<const std::byte> got) const {
  const std::uint64_t first = std::max(word, piece.first), end = std::min(word + kWord, piece.end);
  if (end - first == kWord) {
    std::uint64_t value = 0;
    std::memcpy(&value, got.data() + (word - position), kWord);
    for (const std::uint32_t change : piece.legal) {
      if (value == (change == 0 ? 0 : stamp(file_, change, word))) return std::nullopt;
    }
  }
  for (std::uint64_t at = first; at < end; ++at) {
    if (!is_legal(piece, at, got[at - position])) return fault_at(piece, at, position, got);
  }
  return std::nullopt;
}

bool History::is_legal(const Piece& piece, std::uint64_t at, std::byte value) const {
  return std::any_of(piece.legal.begin(), piece.legal.end(), [&](std::uint32_t change) {
    return value == (change == 0 ? std::byte{} : byte_of(stamp(file_, change, at), at));
  });
}

std::string History::fault_at(const Piece& piece, std::uint64_t at, std::uint64_t position,
                              std::span<const std::byte> got) const {
  std::byte bytes[kWord] = {};
  const std::uint64_t start = std::max(word_start(at), position);
  const std::uint64_t end = std::min(word_start(at) + kWord, position + got.size());
  std::memcpy(bytes + start % kWord, got.data() + (start - position), end - start);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, kWord);
  char text[300];
  std::snprintf(text, sizeof text,
                "file %u, byte %" PRIu64 " (%zu bytes from %" PRIu64 "): found %016" PRIx64
                " (file %u, change %u, place %" PRIu64 "), legal were the changes",
                file_, at, got.size(), position, value, static_cast<unsigned>(value >> 56),
                static_cast<unsigned>(value >> 32 & 0xffffff), (value & 0xffffffff) * kWord);
  std::string fault = text;
  for (const std::uint32_t change : piece.legal) fault += " " + (change == 0 ? "zeros" : std::to_string(change));
  return fault;
}

}  // namespace penstock::stress
