// SPDX-License-Identifier: Apache-2.0

#include "stripe/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/kept_text.h"
#include "base/printable.h"

namespace penstock::core {
namespace {

using Json = nlohmann::json;

constexpr const char* kVersionKey = "penstock_stripe";
constexpr std::uint64_t kVersion = 1;
constexpr std::string_view kTrailerStart = "penstock stripe member 1\nobject ";
constexpr std::size_t kPathBytesMax = 4095;

bool is_id(std::string_view text) {
  return text.size() == kObjectIdDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_path(const std::string& text) {
  return text.starts_with('/') && text.size() <= kPathBytesMax && text.find('\0') == std::string::npos;
}

std::uint64_t number_at(const Json& json, const char* key, std::string& fault) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_number_unsigned()) return found->get<std::uint64_t>();
  if (fault.empty()) fault = std::string(key) + " must be a whole number";
  return 0;
}

// Reads the members. Returns the fault as a sentence, or "".
std::string take_members(const Json& json, Manifest& manifest) {
  const auto found = json.find("members");
  if (found == json.end() || !found->is_array()) return "members must be a list of files";
  if (found->empty() || found->size() > StripeLayout::kMembersMax) {
    return "it names " + std::to_string(found->size()) + " members, expected 1 to " +
           std::to_string(StripeLayout::kMembersMax);
  }
  for (const Json& member : *found) {
    const auto* const text = member.get_ptr<const std::string*>();
    if (text == nullptr || !is_path(*text)) return "each of its members must be an absolute path";
    if (std::find(manifest.files.begin(), manifest.files.end(), *text) != manifest.files.end()) {
      return "it names member " + printable(*text) + " twice";
    }
    manifest.files.push_back(*text);
  }
  return "";
}

std::string take(const Json& json, Manifest& manifest) {
  if (!json.is_object()) return "it is not a whole JSON object: it is cut off, or no manifest";
  std::string fault;
  const std::uint64_t version = number_at(json, kVersionKey, fault);
  if (fault.empty() && version != kVersion) {
    return "its format is " + std::to_string(version) + ", and this version of Penstock knows 1";
  }
  manifest.layout.size = number_at(json, "size", fault);
  manifest.layout.stripe_bytes = number_at(json, "stripe_bytes", fault);
  if (!fault.empty()) return fault;
  const auto id = json.find("object");
  const auto* const text = id == json.end() ? nullptr : id->get_ptr<const std::string*>();
  if (text == nullptr || !is_id(*text)) return "object must be 32 hexadecimal digits";
  manifest.id = *text;
  if (fault = take_members(json, manifest); !fault.empty()) return fault;
  manifest.layout.members = static_cast<std::uint32_t>(manifest.files.size());
  if (manifest.layout.is_sane()) return "";
  return "size must be at most 2^60, and stripe_bytes a multiple of 65536 up to 1 GiB";
}

}  // namespace

Status bad_stripe(const std::string& sentence) {
  return failure(Code::bad_stripe,
                 kept_text(sentence, "use the striped object: a part of it is not what it should be"));
}

std::string manifest_text(const Manifest& manifest) {
  const auto line = [](const char* key, const Json& value) {
    return std::string(" \"") + key + "\": " + value.dump(-1, ' ', false, Json::error_handler_t::replace) + ",\n";
  };
  std::string text = std::string("{\"") + kVersionKey + "\": " + std::to_string(kVersion) + ",\n";
  text += line("object", manifest.id) + line("size", manifest.layout.size);
  text += line("stripe_bytes", manifest.layout.stripe_bytes) + " \"members\": [";
  const char* between = "\n  ";
  for (const std::string& file : manifest.files) {
    text += between + Json(file).dump(-1, ' ', false, Json::error_handler_t::replace);
    between = ",\n  ";
  }
  return text + "\n ]}\n";
}

bool is_manifest(std::string_view beginning) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto skip = [&] { beginning.remove_prefix(std::min(beginning.find_first_not_of(kBlanks), beginning.size())); };
  skip();
  if (!beginning.starts_with('{')) return false;
  beginning.remove_prefix(1);
  skip();
  return beginning.starts_with(std::string("\"") + kVersionKey + "\"");
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& name) {
  Manifest manifest;
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  const std::string fault = take(json, manifest);
  if (fault.empty()) return manifest;
  return bad_stripe("open the striped object " + printable(name) + ": " + fault);
}

std::uint64_t trailer_offset(const Manifest& manifest, std::uint32_t member) {
  return (manifest.layout.member_bytes(member) + kTrailerBytes - 1) / kTrailerBytes * kTrailerBytes;
}

std::string trailer_of(const Manifest& manifest, std::uint32_t member) {
  std::string text(kTrailerStart);
  text += manifest.id + "\nmember " + std::to_string(member) + " of " + std::to_string(manifest.layout.members);
  text += "\nsize " + std::to_string(manifest.layout.size);
  text += "\nstripe_bytes " + std::to_string(manifest.layout.stripe_bytes) + "\n";
  text.resize(kTrailerBytes, '\0');
  return text;
}

std::string trailer_fault(const Manifest& manifest, std::uint32_t member, std::string_view found) {
  if (!found.starts_with(kTrailerStart))
    return "it does not end as a member does: it was overwritten or never finished";
  const std::string_view id = found.substr(kTrailerStart.size(), kObjectIdDigits);
  if (id != manifest.id) return "it belongs to another object, " + printable(id) + " instead of " + manifest.id;
  for (std::uint32_t other = 0; other < manifest.layout.members; ++other) {
    if (other != member && found == trailer_of(manifest, other)) {
      return "it is member " + std::to_string(other) + " of the object, in the place of member " +
             std::to_string(member);
    }
  }
  return "its object size and stripe size differ from those in the manifest";
}

}  // namespace penstock::core
