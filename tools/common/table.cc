// SPDX-License-Identifier: Apache-2.0

#include "tools/common/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::tools {

Table::Table(std::vector<std::string> columns) {
  for (std::string& column : columns) {
    flush_right_.push_back(column.starts_with('>'));
    if (flush_right_.back()) column.erase(0, 1);
  }
  rows_.push_back(std::move(columns));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(flush_right_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i != 0) text += "  ";
    text += flush_right_[i] ? fmt::format("{:>{}}", cells[i], widths[i]) : fmt::format("{:<{}}", cells[i], widths[i]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

Text Table::text() const {
  std::vector<std::size_t> widths(flush_right_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) text += line(row, widths);
  return Text(text);
}

}  // namespace penstock::tools
