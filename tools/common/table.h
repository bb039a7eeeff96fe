// SPDX-License-Identifier: Apache-2.0

// Aligns rows of text in columns. Pure. Cells may hold any bytes.
#pragma once

#include <string>
#include <vector>

#include "tools/common/terminal.h"

namespace penstock::tools {

class Table {
 public:
  // Takes the names of the columns; a column whose name begins with '>' is aligned to the right.
  explicit Table(std::vector<std::string> columns);
  void add(std::vector<std::string> cells);  // One for each column.
  Text text() const;                         // A line for the names and one for each row; no trailing blanks.

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<bool> flush_right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock::tools
