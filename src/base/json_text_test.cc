// SPDX-License-Identifier: Apache-2.0

#include "base/json_text.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

TEST(JsonTextTest, WritesObjectsListsAndNumbersOneALine) {
  JsonText json;
  json.open("", '{').add("version", 1).add("node", -1).add("most", UINT64_MAX);
  json.open("files", '[').add("", "/a").add("", "/b").close(']');
  json.open("none", '{').close('}').add_seconds("seconds", 12'000'000'345).close('}');
  EXPECT_EQ(json.text(),
            "{\n\"version\": 1,\n\"node\": -1,\n\"most\": 18446744073709551615,\n"
            "\"files\": [\n\"/a\",\n\"/b\"],\n\"none\": {},\n\"seconds\": 12.000000345}");
}

TEST(JsonTextTest, NamesAndTextsMayHoldAnyBytes) {
  JsonText json;
  json.open("", '{').add("a\"b", "line\n\\ \xff").close('}');
  EXPECT_EQ(json.text(), "{\n\"a\\\"b\": \"line\\n\\\\ \xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace penstock::core
