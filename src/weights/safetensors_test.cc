// SPDX-License-Identifier: Apache-2.0

#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace penstock::core {
namespace {

constexpr std::uint64_t kMany = std::uint64_t{1} << 32;

// An entry of the header.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

// Why a header is refused; empty if it is not.
std::string refusal(const std::string& json, std::uint64_t data_bytes) {
  const Outcome<SafetensorsHeader> header = parse_safetensors(json, data_bytes);
  if (header.ok()) return "";
  EXPECT_FALSE(header.fault().is_shortage);
  return header.fault().text;
}

SafetensorsHeader parsed(const std::string& json, std::uint64_t data_bytes) {
  Outcome<SafetensorsHeader> header = parse_safetensors(json, data_bytes);
  EXPECT_TRUE(header.ok()) << header.fault().text;
  return header.ok() ? *header : SafetensorsHeader{};
}

std::string size_refusal(std::uint64_t said, std::uint64_t file_size) {
  std::array<std::byte, 8> first;
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<std::byte>(said >> 8 * i);
  const Outcome<std::uint64_t> size = safetensors_header_size(first, file_size);
  EXPECT_EQ(size.ok() ? *size : said, said);
  return size.ok() ? "" : size.fault().text;
}

// ---- How long the header is.

TEST(SafetensorsTest, TheSizeOfAHeaderIsTakenUpToItsLimits) {
  EXPECT_EQ(size_refusal(2, 10), "");
  EXPECT_EQ(size_refusal(0x0102, 1 << 20), "");
  EXPECT_EQ(size_refusal(100'000'000, 100'000'008), "");
}

TEST(SafetensorsTest, ASizeThatNoHeaderHasIsRefused) {
  const std::string behind = " bytes, expected 2 to 100000000: is it safetensors?";
  EXPECT_EQ(size_refusal(1, kMany), "the file's first 8 bytes say that its header has 1" + behind);
  EXPECT_EQ(size_refusal(100'000'001, kMany), "the file's first 8 bytes say that its header has 100000001" + behind);
  EXPECT_EQ(size_refusal(~std::uint64_t{0}, kMany),
            "the file's first 8 bytes say that its header has 18446744073709551615" + behind);
}

TEST(SafetensorsTest, AHeaderThatIsLongerThanItsFileIsRefused) {
  EXPECT_EQ(size_refusal(3, 10),
            "the header has 3 bytes behind the first 8, but the file has 10 in all: it is cut off");
}

TEST(SafetensorsTest, AFileWithoutEightBytesIsRefused) {
  const std::array<std::byte, 5> first{};
  EXPECT_EQ(safetensors_header_size(first, 5).fault().text, "the file has 5 bytes, too few for a safetensors header");
}

// ---- Headers that are taken.

TEST(SafetensorsTest, TensorsComeInTheOrderOfTheirOffsets) {
  const SafetensorsHeader header =
      parsed("{" + entry("late", "I8", "[2, 3]", "[8,14]") + "," + entry("early", "F32", "[2,1,1]", "[0,8]") +
                 ", \"__metadata__\": " + "{\"format\":\"pt\",\"by\":\"\"}}   ",
             14);
  const SafetensorsHeader expected = {{{"early", Dtype::f32, {2, 1, 1}, 0, 8}, {"late", Dtype::i8, {2, 3}, 8, 14}},
                                      {{"format", "pt"}, {"by", ""}}};
  EXPECT_EQ(header, expected);
  EXPECT_EQ(header.data_bytes(), 14u);
}

TEST(SafetensorsTest, AHeaderMayNameNothing) {
  EXPECT_EQ(parsed("{}", 0), SafetensorsHeader{});
  EXPECT_EQ(parsed("{\"__metadata__\":{}}", 0), (SafetensorsHeader{{}, {}, true}));
  EXPECT_EQ(parsed("{\"__metadata__\":null}", 0), SafetensorsHeader{});  // Some exporters write this for no metadata.
}

TEST(SafetensorsTest, ATensorWithoutDimensionsHasOneElement) {
  EXPECT_TRUE(parsed("{" + entry("step", "F64", "[]", "[0,8]") + "}", 8).tensors[0].shape.empty());
}

TEST(SafetensorsTest, EmptyTensorsMayShareAnOffsetWithOthers) {
  const SafetensorsHeader header =
      parsed("{" + entry("full", "U8", "[4]", "[0,4]") + "," + entry("b", "F32", "[0,8]", "[0,0]") + "," +
                 entry("a", "I64", "[0]", "[0,0]") + "," + entry("end", "F4", "[0]", "[4,4]") + "}",
             4);
  std::string order;
  for (const SafetensorsTensor& tensor : header.tensors) order += tensor.name + " ";
  EXPECT_EQ(order, "b a full end ");
}

TEST(SafetensorsTest, HoweverManyEmptyTensorsThereAreTheyStayAsInTheFile) {
  std::string json = "{" + entry("full", "U8", "[4]", "[0,4]");
  for (int i = 0; i < 100; ++i) json += "," + entry(std::to_string(i), "U8", "[0]", "[0,0]");
  const SafetensorsHeader header = parsed(json + "}", 4);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(header.tensors[i].name, std::to_string(i));
}

TEST(SafetensorsTest, EveryDtypeIsKnownByItsNameAndSize) {
  for (const DtypeRow& row : kDtypes) {
    const std::string bytes = std::to_string(row.bits);  // 8 elements take as many bytes as one takes bits.
    const std::string json = "{" + entry("x", std::string(row.name), "[2,4]", "[0," + bytes + "]") + "}";
    EXPECT_EQ(parsed(json, row.bits).tensors[0].dtype, row.dtype) << row.name;
  }
}

TEST(SafetensorsTest, NamesAreWhatTheirEscapesMean) {
  const std::string json = "{" + entry(R"(a\"\\\n\u0000\u00e4\ud83d\udf04é)", "U8", "[0]", "[0,0]") + "}";
  EXPECT_EQ(parsed(json, 0).tensors[0].name, std::string("a\"\\\n\0ä🜄é", 13));
}

TEST(SafetensorsTest, BlanksWithinTheJsonAreOfNoMeaning) {
  EXPECT_EQ(parsed("{ \n\t\"a\" : {\r\"shape\":[ ],\"data_offsets\":[0,1], \"dtype\":\"U8\"}\n}", 1).tensors.size(),
            1u);
}

// ---- Sizes and places.

TEST(SafetensorsTest, OffsetsThatHoldOtherThanTheShapeAreRefused) {
  EXPECT_EQ(refusal("{" + entry("a.b", "F32", "[2,2]", "[0,12]") + "}", 12),
            "tensor \"a.b\": data_offsets [0, 12] hold 12 bytes, but F32 of shape [2, 2] has 16");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[]", "[0,0]") + "}", 0),
            "tensor \"a\": data_offsets [0, 0] hold 0 bytes, but U8 of shape [] has 1");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[]", "[1,0]") + "}", 0),
            "tensor \"a\": data_offsets [1, 0] end before they begin");
}

TEST(SafetensorsTest, ASmallElementMustNotEndWithinAByte) {
  EXPECT_EQ(refusal("{" + entry("a", "F4", "[3]", "[0,2]") + "}", 2),
            "tensor \"a\": F4 of shape [3] ends within a byte");
  EXPECT_EQ(refusal("{" + entry("a", "F6_E2M3", "[2]", "[0,2]") + "}", 2),
            "tensor \"a\": F6_E2M3 of shape [2] ends within a byte");
  EXPECT_EQ(refusal("{" + entry("a", "F6_E3M2", "[4]", "[0,3]") + "}", 3), "");
}

TEST(SafetensorsTest, AShapeThatOverflowsIsRefused) {
  const std::string behind = " has more bits than 64 bits can count";
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0),
            "tensor \"a\": U8 of shape [4294967296, 4294967296]" + behind);
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[2305843009213693952]", "[0,0]") + "}", 0),
            "tensor \"a\": U8 of shape [2305843009213693952]" + behind);
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4294967296,4294967296,0]", "[0,0]") + "}", 0),
            "tensor \"a\": U8 of shape [4294967296, 4294967296, 0]" + behind);
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[0,4294967296,4294967296]", "[0,0]") + "}", 0), "");
}

TEST(SafetensorsTest, AHoleIsRefused) {
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4]", "[4,8]") + "}", 8),
            "tensor \"a\": data_offsets [4, 8] leave a hole: expected to begin at 0, where the data begins");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[0]", "[5,5]") + "}", 5),
            "tensor \"b\": data_offsets [5, 5] leave a hole: expected to begin at 4, where tensor \"a\" ends");
}

TEST(SafetensorsTest, AnOverlapIsRefused) {
  EXPECT_EQ(refusal("{" + entry("b", "U8", "[4]", "[3,7]") + "," + entry("a", "U8", "[4]", "[0,4]") + "}", 7),
            "tensor \"b\": data_offsets [3, 7] overlap those of tensor \"a\", which ends at 4");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[0,4]") + "}", 4),
            "tensor \"b\": data_offsets [0, 4] overlap those of tensor \"a\", which ends at 4");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[0]", "[2,2]") + "}", 4),
            "tensor \"b\": data_offsets [2, 2] overlap those of tensor \"a\", which ends at 4");
}

TEST(SafetensorsTest, DataThatIsShorterOrLongerThanTheTensorsIsRefused) {
  const std::string json = "{" + entry("a", "U8", "[4]", "[0,4]") + "}";
  EXPECT_EQ(refusal(json, 3), "tensor \"a\", the last one, ends at 4, but the file has 3 bytes of data");
  EXPECT_EQ(refusal(json, 5), "tensor \"a\", the last one, ends at 4, but the file has 5 bytes of data");
  EXPECT_EQ(refusal("{}", 1), "the header names no tensor, but the file has 1 bytes of data");
}

// ---- Entries that are refused.

TEST(SafetensorsTest, AnUnknownDtypeIsRefusedWithThoseThatAreKnown) {
  EXPECT_EQ(refusal("{" + entry("a", "f32", "[]", "[0,4]") + "}", 4),
            "tensor \"a\": dtype \"f32\" is none of BOOL, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E5M2, F8_E4M3, F8_E8M0, "
            "F8_E4M3FNUZ, F8_E5M2FNUZ, I16, U16, F16, BF16, I32, U32, F32, C64, F64, I64, U64");
}

TEST(SafetensorsTest, AShapeHoldsNothingButWholeNumbers) {
  const std::string before = "tensor \"a\": shape: expected whole numbers from 0 to 2^64 - 1, found ";
  const std::pair<std::string, std::string> cases[] = {{"-1", "-1"},
                                                       {"-0", "-0"},
                                                       {"1.0", "1.0"},
                                                       {"1e0", "1e0"},
                                                       {"18446744073709551616", ""},
                                                       {"[1]", "a list"},
                                                       {"{}", "an object"},
                                                       {"\"1\"", "the text \"1\""},
                                                       {"true", "true"},
                                                       {"null", "null"}};
  for (const auto& [value, found] : cases) {
    EXPECT_EQ(refusal("{" + entry("a", "U8", "[" + value + "]", "[0,1]") + "}", 1),
              before + (found.empty() ? value : found));
  }
}

TEST(SafetensorsTest, OffsetsAreTwoWholeNumbers) {
  const std::string before = "tensor \"a\": data_offsets: expected two whole numbers from 0 to 2^64 - 1, found ";
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[0]", "[]") + "}", 0), before + "only 0");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[0]", "[0]") + "}", 0), before + "only 1");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[0]", "[0,0,7]") + "}", 0), before + "a third, 7");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[0]", "[0,-3]") + "}", 0), before + "-3");
}

TEST(SafetensorsTest, AValueOfAnotherKindIsRefused) {
  EXPECT_EQ(refusal("{" + entry("a", "U8", "3", "[0,0]") + "}", 0),
            "tensor \"a\": shape: expected a list of whole numbers, found 3");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[0]", "\"x\"") + "}", 0),
            "tensor \"a\": data_offsets: expected a list of whole numbers, found the text \"x\"");
  EXPECT_EQ(refusal(R"({"a":{"dtype":["U8"]}})", 0), "tensor \"a\": dtype: expected a text, found a list");
  EXPECT_EQ(refusal(R"({"a":{"dtype":{}}})", 0), "tensor \"a\": dtype: expected a text, found an object");
  EXPECT_EQ(refusal(R"({"a":null})", 0),
            "tensor \"a\": expected an object with dtype, shape and data_offsets, found null");
  EXPECT_EQ(refusal(R"({"a":[[[]]]})", 0),
            "tensor \"a\": expected an object with dtype, shape and data_offsets, found a list");
}

TEST(SafetensorsTest, AnEntryHasItsThreeKeysOnceEach) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", 0), "tensor \"a\": shape is missing");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[0]}})", 0), "tensor \"a\": data_offsets is missing");
  EXPECT_EQ(refusal(R"({"a":{}})", 0), "tensor \"a\": dtype is missing");
  EXPECT_EQ(refusal(R"({"a":{"shape":[0],"shape":[0]}})", 0), "tensor \"a\": shape is given twice");
  EXPECT_EQ(refusal(R"({"a":{"strides":[1]}})", 0),
            "tensor \"a\": unknown key \"strides\", expected dtype, shape and data_offsets alone");
}

TEST(SafetensorsTest, WhatTheEntryBeforeHadIsForgotten) {
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4]", "[0,4]") + R"(,"b":{"dtype":"U8","data_offsets":[4,8]}})", 8),
            "tensor \"b\": shape is missing");
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[]", "[4,5]") + "}", 5), "");
}

TEST(SafetensorsTest, ATensorThatIsNamedTwiceIsRefusedHoweverItIsWritten) {
  EXPECT_EQ(refusal("{" + entry("a", "U8", "[0]", "[0,0]") + "," + entry("b", "U8", "[0]", "[0,0]") + "," +
                        entry("\\u0061", "U8", "[0]", "[0,0]") + "}",
                    0),
            "tensor \"a\" is given twice");
}

TEST(SafetensorsTest, MetadataIsTextsByDifferentNames) {
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":"1","a":"1"}})", 0), "__metadata__: \"a\" is given twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "__metadata__ is given twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":1}})", 0), "__metadata__: \"a\": expected a text, found 1");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":{}}})", 0), "__metadata__: \"a\": expected a text, found an object");
  EXPECT_EQ(refusal(R"({"__metadata__":null,"__metadata__":{}})", 0), "__metadata__ is given twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":null}})", 0), "__metadata__: \"a\": expected a text, found null");
}

// ---- Texts that are refused.

TEST(SafetensorsTest, AHeaderBeginsWithABraceAndEndsWithOneOrSpaces) {
  EXPECT_EQ(refusal("", 0), "the header begins with \"\", expected \"{\"");
  EXPECT_EQ(refusal(" {}", 0), "the header begins with \" \", expected \"{\"");
  EXPECT_EQ(refusal("[]", 0), "the header begins with \"[\", expected \"{\"");
  EXPECT_EQ(refusal("\xef\xbb\xbf{}", 0), "the header begins with \"\\xef\", expected \"{\"");
  EXPECT_EQ(refusal("{} \n ", 0), "behind the header's JSON stands \"\\x0a\", expected spaces alone");
  EXPECT_EQ(refusal("{}\t", 0), "behind the header's JSON stands \"\\x09\", expected spaces alone");
}

TEST(SafetensorsTest, WhatIsNotJsonIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal("{", 0), "the header is not JSON in UTF-8 at its byte 2, near \"{\"");
  EXPECT_EQ(refusal("{}{}", 0), "the header is not JSON in UTF-8 at its byte 3, near \"{}{\"");
  EXPECT_EQ(refusal("{\"a\":nil}", 0), "the header is not JSON in UTF-8 at its byte 7, near \"\"a\":ni\"");
  EXPECT_NE(refusal("{" + entry("a", "U8", "[0,]", "[0,0]") + "}", 0), "");
  EXPECT_NE(refusal("{" + entry("a", "U8", "[0]", "[0,0]") + ",}", 0), "");
  EXPECT_NE(refusal("{} // ", 0), "");
}

TEST(SafetensorsTest, AZeroDoesNotHideWhatStandsBehindIt) {
  EXPECT_EQ(refusal(std::string("{}\0garbage}", 11), 0), "the header is not JSON in UTF-8 at its byte 3: a zero");
}

TEST(SafetensorsTest, ANameThatIsNotUtf8IsRefused) {
  for (const char* name : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\\ud800", "\\udf04\\ud83d"}) {
    EXPECT_NE(refusal("{" + entry(name, "U8", "[0]", "[0,0]") + "}", 0).find("is not JSON in UTF-8"),
              std::string::npos);
  }
}

TEST(SafetensorsTest, AHeaderThatNestsWithoutEndIsRefusedAtOnce) {
  EXPECT_EQ(refusal(R"({"a":{"shape":)" + std::string(1'000'000, '['), 0),
            "tensor \"a\": shape: expected whole numbers from 0 to 2^64 - 1, found a list");
}

TEST(SafetensorsTest, NamesInMessagesAreHarmlessAndCutBetweenLetters) {
  std::string many = "x";
  while (many.size() < 1000) many += "é";
  EXPECT_EQ(refusal("{\"\\u001b[2J" + many + "\":3}", 0),
            "tensor \"\\x1b[2J" + many.substr(0, 95) +
                "...\": expected an object with dtype, shape and data_offsets, found 3");
  std::string dimensions = "[1";
  for (int i = 0; i < 1000; ++i) dimensions += ",1";
  EXPECT_EQ(refusal("{" + entry("a", "U8", dimensions + "]", "[0,2]") + "}", 2),
            "tensor \"a\": data_offsets [0, 2] hold 2 bytes, but U8 of shape [1, 1, 1, 1, 1, 1, 1, 1, ...] has 1");
}

}  // namespace
}  // namespace penstock::core
