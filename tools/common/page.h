// SPDX-License-Identifier: Apache-2.0

// A page of text for people, at most a hundred columns wide.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/common/machine.h"

namespace penstock::tools {

constexpr std::size_t kColumns = 100;

inline std::string cut(std::string_view text, std::size_t width) {
  if (text.size() <= width) return printable(text);
  return printable(text.substr(0, width - 3)) + "...";
}

// Lines of at most kColumns; the later lines of a long text stand under its first.
class Page {
 public:
  void section(const std::string& title) { text_ += (text_.empty() ? "" : "\n") + title + "\n"; }
  void row(std::string_view label, const std::string& value) { wrap(fmt::format("  {:<16}", label), value); }
  void wrap(const std::string& head, std::string_view value) {
    const std::string safe = printable(value);
    std::string line = head;
    std::string_view rest = safe;
    bool is_empty = true;
    while (!rest.empty()) {
      const std::size_t space = rest.find(' ');
      const std::string_view word = rest.substr(0, space);
      rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
      if (!is_empty && line.size() + 1 + word.size() > kColumns) {
        finish(line);
        line.assign(head.size(), ' ');
        is_empty = true;
      }
      line.append(is_empty ? "" : " ").append(word);
      is_empty = false;
    }
    finish(line);
  }
  const std::string& text() const { return text_; }

 private:
  void finish(std::string& line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }
  std::string text_;
};

}  // namespace penstock::tools
