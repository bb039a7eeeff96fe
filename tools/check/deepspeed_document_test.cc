// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed_document.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::tools {
namespace {

struct Fault {
  std::string fault;
  int line = 0;
  int column = 0;
};
Fault fault_of(const std::string& text) {
  const DeepSpeedDocument document = parse_deepspeed(text);
  EXPECT_TRUE(document.root.is_null()) << text;
  return {document.fault, document.line, document.column};
}

TEST(DeepSpeedDocumentTest, AFileThatIsNotJsonIsToldByLineAndColumn) {
  const Fault comment = fault_of("{\"a\": 1,\n  // faster\n  \"b\": 2}");
  EXPECT_NE(comment.fault.find("JSON has no comments"), std::string::npos) << comment.fault;
  EXPECT_EQ(comment.line, 2);
  EXPECT_EQ(comment.column, 3);
  for (const char* text : {"", "{", "{\"a\": }", "{\"a\": 1,}", "{} {}", "\xff\xfe", "{\"a\": NaN}"}) {
    EXPECT_NE(fault_of(text).fault.find("is not JSON"), std::string::npos) << text;
  }
}

TEST(DeepSpeedDocumentTest, AKeyThatIsGivenTwiceIsRefusedWithBothLines) {
  const Fault twice = fault_of("{\"aio\": {\"use_gds\": true,\n\"use_gds\": false}}");
  EXPECT_NE(twice.fault.find("\"aio.use_gds\" is given twice, in line 1 too"), std::string::npos) << twice.fault;
  EXPECT_EQ(twice.line, 2);
  EXPECT_EQ(parse_deepspeed("{\"a\": {\"c\": 1}, \"b\": {\"c\": 1}, \"d\": [{\"c\": 1}, {\"c\": 1}]}").fault, "");
}

TEST(DeepSpeedDocumentTest, WhatIsNoObjectTooDeepOrTooLargeIsRefused) {
  for (const char* text : {"[]", "1", "null", "\"aio\""})
    EXPECT_NE(fault_of(text).fault.find("one object"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_NE(fault_of(deep).fault.find("nested deeper"), std::string::npos);
  EXPECT_NE(fault_of(std::string(100000, '[')).fault, "");
  EXPECT_NE(fault_of("{\"a\":" + std::string(100000, '[')).fault.find("nested deeper"), std::string::npos);
  EXPECT_NE(fault_of(std::string(kDeepSpeedBytesMax + 1, ' ')).fault.find("larger than 1 MiB"), std::string::npos);
}

}  // namespace
}  // namespace penstock::tools
