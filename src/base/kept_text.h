// SPDX-License-Identifier: Apache-2.0

// Texts that live as long as the process, for a Status that names a value: its step is a pointer that is never freed.
// Their number is limited, since a program may fail in new ways for ever. Takes no lock, so that a child forked
// meanwhile can continue.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::core {

constexpr std::size_t kKeptTextsMax = 64;
constexpr std::size_t kKeptTextBytesMax = 300;

// Keeps `text`, made fit for a terminal (printable.h) and cut to the limit; returns the earlier copy if there is one.
// Returns `otherwise`, a literal, if there is no room for one more.
const char* kept_text(std::string_view text, const char* otherwise);

}  // namespace penstock::core
