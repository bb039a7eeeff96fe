// SPDX-License-Identifier: Apache-2.0

// Texts that live as long as the process, for a Status that names a value: its step is a pointer that is never freed.
// Bounded, since a program may fail in new ways for ever. Takes no lock, so a child that was forked meanwhile can go
// on.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::core {

constexpr std::size_t kKeptTextsMax = 64;
constexpr std::size_t kKeptTextBytesMax = 300;

// `text` made fit for a terminal (printable.h), at most so long; the same one where it was kept before. `otherwise`, a
// literal, where there is no room for one more.
const char* kept_text(std::string_view text, const char* otherwise);

}  // namespace penstock::core
