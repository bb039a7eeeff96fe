// SPDX-License-Identifier: Apache-2.0

// A code's words say what a finding of that code judges, and name the library's reason for the same. Help and outlooks
// read them.
#pragma once

#include <span>
#include <string_view>

namespace penstock::facts {

struct Code {
  std::string_view name;
  std::string_view about;      // "whether ..."; "" where a reason, a setting or a word of that name says it.
  std::string_view reason;     // The public reason that the library's own path would answer with; "" if there is none.
  std::string_view of_vendor;  // The reason of the path by NVIDIA's library, if it is another one.
};

std::span<const Code> codes();
const Code* code_named(std::string_view name);  // Null if there is nothing to say of it.

}  // namespace penstock::facts
