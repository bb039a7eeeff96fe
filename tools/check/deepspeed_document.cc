// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/printable.h"
#include "settings/counting_reader.h"
#include "settings/words.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kNestingMax = 32;

int line_at(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
}

int column_at(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  return 1 + static_cast<int>(before.size() - (before.rfind('\n') + 1));
}

// Takes the parser's events before a tree is made of them. A false answer ends the parsing.
class Taker {
 public:
  Taker(DeepSpeedDocument& document, std::string_view text, const int& line)
      : document_(document), text_(text), line_(line) {}

  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(std::int64_t) { return value(); }
  bool number_unsigned(std::uint64_t) { return value(); }
  bool number_float(double, const std::string&) { return value(); }
  bool string(std::string&) { return value(); }
  bool binary(std::vector<std::uint8_t>&) { return value(); }
  bool start_object(std::size_t) { return enter(false); }
  bool end_object() { return leave(); }
  bool start_array(std::size_t) { return enter(true); }
  bool end_array() { return leave(); }

  bool key(std::string& name) {
    names_.back() = name;
    if (in_lists_ > 0) return true;  // A list's keys have no names of their own.
    const auto [at, is_new] = document_.lines.emplace(full_name(), line_);
    if (is_new) return true;
    return refuse(fmt::format("\"{}\" is given twice, in line {} too: say it once; DeepSpeed refuses such a file",
                              core::shown(at->first), at->second));
  }

  template <typename Error>
  bool parse_error(std::size_t position, const std::string& token, const Error&) {
    const std::size_t at = position == 0 ? 0 : position - 1;  // The token's last sign.
    document_.line = line_at(text_, at);
    document_.column = column_at(text_, at);
    // DeepSpeed itself takes HJSON; who else reads the same file (Hugging Face, Lightning) takes JSON alone.
    document_.fault = "is not JSON here, at: " + core::shown(token) +
                      "; correct it, and mind that JSON has no comments and no comma before a bracket";
    return false;
  }

 private:
  std::string full_name() const {
    std::string name;
    for (const std::string& one : names_) name += (name.empty() ? "" : ".") + one;
    return name;
  }
  bool refuse(std::string fault) {
    document_.line = line_;
    document_.fault = std::move(fault);
    return false;
  }
  bool value() { return !names_.empty() || refuse("must be one object: { ... }"); }
  bool enter(bool is_list) {
    if (names_.empty() && is_list) return refuse("must be one object: { ... }");
    if (names_.size() == kNestingMax) return refuse(fmt::format("is nested deeper than {} levels", kNestingMax));
    if (is_list || in_lists_ > 0) ++in_lists_;
    names_.emplace_back();
    return true;
  }
  bool leave() {
    if (in_lists_ > 0) --in_lists_;
    names_.pop_back();
    return true;
  }

  DeepSpeedDocument& document_;
  const std::string_view text_;
  const int& line_;
  std::vector<std::string> names_;  // The latest key of each level.
  std::size_t in_lists_ = 0;        // Levels since the outermost list.
};

}  // namespace

DeepSpeedDocument parse_deepspeed(std::string_view text) {
  DeepSpeedDocument document;
  if (text.size() > kDeepSpeedBytesMax) {
    document.fault = "is larger than 1 MiB; no DeepSpeed configuration is";
    return document;
  }
  int line = 1;
  Taker taker(document, text, line);
  const bool is_whole = nlohmann::json::sax_parse(core::CountingReader{text.data(), &line},
                                                  core::CountingReader{text.data() + text.size(), &line}, &taker);
  if (is_whole) document.root = DeepSpeedValue::parse(text, nullptr, false);
  return document;
}

}  // namespace penstock::tools
