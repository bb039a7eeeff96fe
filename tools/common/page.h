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
#include "tools/common/wrapping.h"

namespace penstock::tools {

inline std::string cut(std::string_view text, std::size_t width) {
  if (text.size() <= width) return printable(text);
  return printable(text.substr(0, width - 3)) + "...";
}

// The text, which a terminal's line or table cuts at a width. It is whole elsewhere: programs and files have no edge.
inline std::string cell(std::string_view text, std::size_t width) {
  return output_is_terminal() ? cut(text, width) : printable(text);
}

// Collects lines; later lines of a long text are indented under its first one.
class Page {
 public:
  void section(const std::string& title) {
    text_ += text_.empty() ? "" : "\n";
    wrap("", title);
  }
  void row(std::string_view label, const std::string& value) { wrap(fmt::format("  {:<16}", label), value); }
  // Adds one line, which a terminal cuts at its width. It is whole elsewhere.
  void line(const std::string& head, std::string_view value) {
    last_ = text_.size();
    const std::size_t room = columns_ - std::min(columns_ - 3, head.size());
    text_ += wrapped_line(head + cell(value, room), head.size(), std::string_view::npos);
  }
  void wrap(const std::string& head, std::string_view value) {
    last_ = text_.size();
    text_ += wrapped_line(head + printable(value), head.size(), columns_);
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
  const std::size_t columns_ = output_columns();
  std::string text_;
  std::size_t last_ = 0;  // The offset at which the text that was added last begins.
  std::vector<Painted> painted_;
};

}  // namespace penstock::tools
