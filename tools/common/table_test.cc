// SPDX-License-Identifier: Apache-2.0

#include "tools/common/table.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({"path", ">GB/s", "reason"});
  table.add({"bounce", "12.50", ""});
  table.add({"host", "3.1", "host_memory"});
  EXPECT_EQ(table.text().string(),
            "path     GB/s  reason\n"
            "bounce  12.50\n"
            "host      3.1  host_memory\n");
}

TEST(Table, MissingCellsAreEmpty) {
  Table table({"a", "b"});
  table.add({"1"});
  EXPECT_EQ(table.text().string(), "a  b\n1\n");
}

TEST(Table, ACellIsOfItsRowWhateverItHolds) {
  Table table({"name", ">n"});
  table.add({"a\n\x1b[2J", "1"});
  EXPECT_EQ(table.text().string(), "name          n\na\\x0a\\x1b[2J  1\n");
}

}  // namespace
}  // namespace penstock::tools
