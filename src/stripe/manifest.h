// SPDX-License-Identifier: Apache-2.0

// A manifest, which is a small JSON file, says that several files are one object; the block behind the bytes of each
// member says which object and which member it is. docs/reference/stripe-format.md has both formats. Manifests and
// members may come from strangers: all that is not exactly as it should be is refused with a sentence. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "stripe/layout.h"

namespace penstock::core {

constexpr std::size_t kManifestBytesMax = 256u << 10;
// The trailer's size; it follows the member's bytes, at the next multiple of this.
constexpr std::uint64_t kTrailerBytes = 4096;
constexpr std::size_t kObjectIdDigits = 32;

struct Manifest {
  std::string id;  // The object's unique id, in hexadecimal.
  StripeLayout layout;
  std::vector<std::string> files;  // The absolute paths of the members, in their order.
};

std::string manifest_text(const Manifest& manifest);
// Fails with bad_stripe; `name` is the manifest's name, for the sentence.
Result<Manifest> parse_manifest(std::string_view text, const std::string& name);
// True if a file with this beginning is meant to be a manifest.
bool is_manifest(std::string_view beginning);

// Returns a text padded with zeros to kTrailerBytes.
std::string trailer_of(const Manifest& manifest, std::uint32_t member);
std::uint64_t trailer_offset(const Manifest& manifest, std::uint32_t member);
// Says what is wrong with a member's last block: "it belongs to another object, ...".
std::string trailer_fault(const Manifest& manifest, std::uint32_t member, std::string_view found);

Status bad_stripe(const std::string& sentence);  // Makes a Status; the sentence follows "could not ".

}  // namespace penstock::core
