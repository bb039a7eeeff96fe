// SPDX-License-Identifier: Apache-2.0

#include "stripe/manifest.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/kept_text.h"
#include "base/printable.h"

namespace penstock::core {
namespace {

constexpr const char* kVersionKey = "penstock_stripe";
constexpr std::uint64_t kVersion = 1;
constexpr const char* kNotWhole = "it is not a whole JSON object: it is cut off, or no manifest";
constexpr std::string_view kTrailerStart = "penstock stripe member 1\nobject ";
constexpr std::size_t kPathBytesMax = 4095;

bool is_id(std::string_view text) {
  return text.size() == kObjectIdDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_path(const std::string& text) {
  return text.starts_with('/') && text.size() <= kPathBytesMax && text.find('\0') == std::string::npos;
}

// Receives the parser's events; base/json_text.h says why there is no tree. Unknown keys are passed over with all that
// is in them, and of a key that is given twice the later one counts.
class Taker {
 public:
  // Returns the fault of what was taken as a sentence, or "".
  std::string give(Manifest& manifest);

  // ---- The parser's events. A return of false ends the parsing.
  bool null() { return other_value(); }
  bool boolean(bool) { return other_value(); }
  bool number_integer(std::int64_t) { return other_value(); }
  bool number_float(double, const std::string&) { return other_value(); }
  bool binary(std::vector<std::uint8_t>&) { return other_value(); }
  bool number_unsigned(std::uint64_t value) {
    if (depth_ != 1) return other_value();
    numbers_[key_] = value;
    return true;
  }
  bool string(std::string& value) {
    if (is_member()) members_.push_back(std::move(value));
    else if (depth_ == 1) texts_[key_] = std::move(value);
    return depth_ > 0;
  }
  bool key(std::string& name) {
    if (depth_ != 1) return true;
    key_ = std::move(name);
    numbers_.erase(key_);
    texts_.erase(key_);
    if (key_ == kMembersKey) has_members_ = false;
    return true;
  }
  bool start_object(std::size_t) { return deeper(); }
  bool end_object() { return --depth_, true; }
  bool start_array(std::size_t) {
    if (depth_ == 0) return false;
    if (depth_ == 1 && key_ == kMembersKey) {
      has_members_ = are_texts_ = true;
      members_.clear();
    }
    return deeper();
  }
  bool end_array() { return --depth_, true; }
  template <typename Error>
  bool parse_error(std::size_t, const std::string&, const Error&) {
    return false;
  }

 private:
  static constexpr const char* kMembersKey = "members";

  bool is_member() const { return depth_ == 2 && key_ == kMembersKey && has_members_; }
  bool other_value() {
    if (is_member()) are_texts_ = false;
    return depth_ > 0;
  }
  bool deeper() {
    if (is_member()) are_texts_ = false;
    return ++depth_, true;
  }
  std::uint64_t number(const char* key, std::string& fault) const;
  std::string give_members(Manifest& manifest);

  std::size_t depth_ = 0;
  std::string key_;  // The latest of the manifest itself.
  std::map<std::string, std::uint64_t> numbers_;
  std::map<std::string, std::string> texts_;
  std::vector<std::string> members_;
  bool has_members_ = false;
  bool are_texts_ = true;  // All of the members.
};

std::uint64_t Taker::number(const char* key, std::string& fault) const {
  const auto found = numbers_.find(key);
  if (found != numbers_.end()) return found->second;
  if (fault.empty()) fault = std::string(key) + " must be a whole number";
  return 0;
}

std::string Taker::give_members(Manifest& manifest) {
  if (!has_members_) return "members must be a list of files";
  if (!are_texts_) return "each of its members must be an absolute path";
  if (members_.empty() || members_.size() > StripeLayout::kMembersMax) {
    return "it names " + std::to_string(members_.size()) + " members, expected 1 to " +
           std::to_string(StripeLayout::kMembersMax);
  }
  for (std::string& member : members_) {
    if (!is_path(member)) return "each of its members must be an absolute path";
    if (std::find(manifest.files.begin(), manifest.files.end(), member) != manifest.files.end()) {
      return "it names member " + printable(member) + " twice";
    }
    manifest.files.push_back(std::move(member));
  }
  return "";
}

std::string Taker::give(Manifest& manifest) {
  std::string fault;
  const std::uint64_t version = number(kVersionKey, fault);
  if (fault.empty() && version != kVersion) {
    return "its format is " + std::to_string(version) + ", and this version of Penstock knows 1";
  }
  manifest.layout.size = number("size", fault);
  manifest.layout.stripe_bytes = number("stripe_bytes", fault);
  if (!fault.empty()) return fault;
  manifest.id = texts_["object"];
  if (!is_id(manifest.id)) return "object must be 32 hexadecimal digits";
  if (fault = give_members(manifest); !fault.empty()) return fault;
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
  JsonText json;
  json.open("", '{').add(kVersionKey, kVersion).add("object", manifest.id).add("size", manifest.layout.size);
  json.add("stripe_bytes", manifest.layout.stripe_bytes).open("members", '[');
  for (const std::string& file : manifest.files) json.add("", file);
  return json.close(']').close('}').text() + "\n";
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
  Taker taker;
  const bool is_whole = nlohmann::json::sax_parse(text.begin(), text.end(), &taker);
  const std::string fault = is_whole ? taker.give(manifest) : kNotWhole;
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
