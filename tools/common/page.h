// SPDX-License-Identifier: Apache-2.0

// A page of text for people, as wide as their terminal.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/terminal.h"

namespace penstock::tools {

inline std::string cut(std::string_view text, std::size_t width) {
  if (text.size() <= width) return printable(text);
  return printable(text.substr(0, width - 3)) + "...";
}

// Collects lines; later lines of a long text are indented under its first one.
class Page {
 public:
  void section(const std::string& title) {
    text_ += text_.empty() ? "" : "\n";
    wrap("", title);
  }
  void row(std::string_view label, const std::string& value) { wrap(fmt::format("  {:<16}", label), value); }
  // Adds one line, which is cut at the terminal's width.
  void line(const std::string& head, std::string_view value) {
    wrap(head, cut(value, columns_ - std::min(columns_ - 3, head.size())));
  }
  void wrap(const std::string& head, std::string_view value) {
    last_ = text_.size();
    const std::string safe = printable(value);
    std::string line = head;
    std::string_view rest = safe;
    bool is_empty = true;
    while (!rest.empty()) {
      const std::size_t space = rest.find(' ');
      const std::string_view word = rest.substr(0, space);
      rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
      if (!is_empty && line.size() + 1 + word.size() > columns_) {
        finish(line);
        line.assign(head.size(), ' ');
        is_empty = true;
      }
      line.append(is_empty ? "" : " ").append(word);
      is_empty = false;
    }
    finish(line);
  }
  // Adds whole lines, such as a table's.
  void lines(std::string_view safe) { text_ += safe; }
  // Colours these words in the text that was added last.
  void paint(Color color, std::string_view words) {
    const std::size_t at = text_.find(printable(words), last_);
    if (at != std::string::npos) painted_.push_back({at, printable(words).size(), color});
  }
  Text shown() const {
    Text text;
    std::size_t done = 0;
    for (const Painted& each : painted_) {
      text += Text(std::string_view(text_).substr(done, each.at - done));
      text += Text::painted(each.color, std::string_view(text_).substr(each.at, each.size));
      done = each.at + each.size;
    }
    text += Text(std::string_view(text_).substr(done));
    return text;
  }
  const std::string& text() const { return text_; }

 private:
  struct Painted {
    std::size_t at, size;
    Color color;
  };
  void finish(std::string& line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }
  const std::size_t columns_ = output_columns();
  std::string text_;
  std::size_t last_ = 0;  // The offset at which the text that was added last begins.
  std::vector<Painted> painted_;
};

}  // namespace penstock::tools
