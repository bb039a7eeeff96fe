// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/align.h"
#include "weights/safetensors.h"

namespace penstock::core {
namespace {

WrittenSafetensors written(SafetensorsHeader header, std::uint64_t alignment = 8) {
  Outcome<WrittenSafetensors> outcome = write_safetensors(std::move(header), alignment);
  EXPECT_TRUE(outcome.ok()) << outcome.fault().text;
  return outcome.ok() ? std::move(*outcome) : WrittenSafetensors{};
}

std::string refusal(SafetensorsHeader header, std::uint64_t alignment = 8) {
  const Outcome<WrittenSafetensors> outcome = write_safetensors(std::move(header), alignment);
  return outcome.ok() ? "" : outcome.fault().text;
}

std::string json_of(const WrittenSafetensors& file) { return file.bytes.substr(8); }

// Reads the header of a file with these bytes and this much data.
SafetensorsHeader read_back(const WrittenSafetensors& file) {
  const std::uint64_t data_bytes = file.header.data_bytes();
  const auto size =
      safetensors_header_size(std::as_bytes(std::span(file.bytes).first(8)), file.bytes.size() + data_bytes);
  EXPECT_TRUE(size.ok() && *size == file.bytes.size() - 8);
  Outcome<SafetensorsHeader> header = parse_safetensors(json_of(file), data_bytes);
  EXPECT_TRUE(header.ok()) << header.fault().text;
  return header.ok() ? *header : SafetensorsHeader{};
}

TEST(SafetensorsWriteTest, TensorsFollowEachOtherInTheOrderGiven) {
  const WrittenSafetensors file =
      written({{{"w", Dtype::bf16, {2, 3}}, {"none", Dtype::f32, {0}}, {"b", Dtype::u8, {}}},
               {{"format", "pt"}, {"step", "7"}}});
  EXPECT_EQ(json_of(file), R"({"__metadata__":{"format":"pt","step":"7"},)"
                           R"("w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                           R"("none":{"dtype":"F32","shape":[0],"data_offsets":[12,12]},)"
                           R"("b":{"dtype":"U8","shape":[],"data_offsets":[12,13]}})"
                           "     ");
  EXPECT_EQ(file.header.data_bytes(), 13u);
  EXPECT_EQ(read_back(file), file.header);
}

TEST(SafetensorsWriteTest, AHeaderOfNothingIsWritten) {
  const WrittenSafetensors file = written({});
  EXPECT_EQ(file.bytes, std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_EQ(read_back(file), SafetensorsHeader{});
}

TEST(SafetensorsWriteTest, TheDataBeginsAtAMultipleOfTheAlignment) {
  for (std::size_t length = 0; length < 40; ++length) {
    for (const std::uint64_t alignment : {8, 16, 4096}) {
      const WrittenSafetensors file = written({{{std::string(length, 'n'), Dtype::f32, {4}}}}, alignment);
      EXPECT_TRUE(is_aligned(file.bytes.size(), alignment));
      EXPECT_LT(file.bytes.size(), 150 + alignment);
      EXPECT_EQ(read_back(file), file.header);
    }
  }
}

TEST(SafetensorsWriteTest, AnAlignmentThatCannotBeIsRefused) {
  for (const std::uint64_t alignment : {0, 4, 12, 4097}) {
    EXPECT_EQ(refusal({}, alignment), "alignment " + std::to_string(alignment) + ": expected a power of two from 8");
  }
}

TEST(SafetensorsWriteTest, AHeaderThatWouldBeTooLongIsRefused) {
  const std::string behind = " bytes, expected at most 100000000";
  EXPECT_EQ(refusal({}, std::uint64_t{1} << 27), "the header would have 134217720" + behind);
  EXPECT_EQ(refusal({}, std::uint64_t{1} << 63), "the header would have 9223372036854775800" + behind);
}

TEST(SafetensorsWriteTest, TextsOfEveryKindReadBackTheSame) {
  std::string controls;
  for (char letter = 0; letter < ' '; ++letter) controls += letter;
  const SafetensorsHeader header = {{{"", Dtype::u8, {1}},
                                     {"\"quoted\" \\ {}[]:,/", Dtype::u8, {1}},
                                     {controls + "\x7f\u0080\u2028", Dtype::u8, {1}},
                                     {"Gewässer 模型 🜄 \uffff", Dtype::u8, {1}}},
                                    {{"__metadata__", ""}, {controls, "\"\n模型"}}};
  const WrittenSafetensors file = written(header);
  const SafetensorsHeader found = read_back(file);
  ASSERT_EQ(found.tensors.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found.tensors[i].name, header.tensors[i].name);
  EXPECT_EQ(found.metadata, header.metadata);
}

TEST(SafetensorsWriteTest, EmptyMetadataAreToldFromNone) {
  for (const bool has_empty : {false, true}) {
    EXPECT_EQ(read_back(written({{}, {}, has_empty})).has_empty_metadata, has_empty);
  }
}

TEST(SafetensorsWriteTest, EveryDtypeReadsBackTheSame) {
  SafetensorsHeader header;
  for (const DtypeRow& row : kDtypes) header.tensors.push_back({std::string(row.name), row.dtype, {4, 1, 2}});
  const WrittenSafetensors file = written(header);
  EXPECT_EQ(read_back(file), file.header);
  for (const SafetensorsTensor& tensor : file.header.tensors) {
    EXPECT_EQ(tensor.end - tensor.begin, bits_of(tensor.dtype)) << tensor.name;
    EXPECT_EQ(dtype_named(tensor.name), tensor.dtype);
  }
}

TEST(SafetensorsWriteTest, WhatNoReaderTakesIsRefused) {
  EXPECT_EQ(refusal({{{"a", Dtype::u8, {1}}, {"b", Dtype::u8, {1}}, {"a", Dtype::u8, {1}}}}),
            "tensor \"a\" is given twice");
  EXPECT_EQ(refusal({{}, {{"k", "1"}, {"k", "2"}}}), "__metadata__: \"k\" is given twice");
  EXPECT_EQ(refusal({{{"__metadata__", Dtype::u8, {1}}}}),
            "tensor \"__metadata__\": its name is the name of what is no tensor");
  EXPECT_EQ(refusal({{{"a", Dtype::f4, {5}}}}), "tensor \"a\": F4 of shape [5] ends within a byte");
}

TEST(SafetensorsWriteTest, WhatIsNotUtf8IsRefused) {
  EXPECT_EQ(refusal({{{"\xff", Dtype::u8, {1}}}}), "tensor \"\\xff\": its name is not UTF-8");
  EXPECT_EQ(refusal({{}, {{"\xff", "v"}}}), "__metadata__: \"\\xff\" is not UTF-8");
  EXPECT_EQ(refusal({{}, {{"k", "\xff"}}}), "__metadata__: \"k\": its text is not UTF-8");
}

TEST(SafetensorsWriteTest, TensorsThatAreTooLargeTogetherAreRefused) {
  SafetensorsHeader header;
  for (int i = 0; i < 8; ++i) header.tensors.push_back({std::to_string(i), Dtype::u8, {(std::uint64_t{1} << 61) - 1}});
  EXPECT_EQ(refusal(header), "");
  header.tensors.push_back({"8", Dtype::u8, {8}});
  EXPECT_EQ(refusal(header), "tensor \"8\": with those before it, more bytes than 64 bits can count");
}

TEST(SafetensorsWriteTest, TheStockOrderIsByTypeDownwardsThenByName) {
  std::vector<SafetensorsTensor> tensors = {{"b", Dtype::f32, {}}, {"a", Dtype::boolean, {}}, {"a2", Dtype::f32, {}},
                                            {"é", Dtype::f32, {}}, {"z", Dtype::u64, {}},     {"a10", Dtype::f32, {}},
                                            {"Z", Dtype::f32, {}}, {"q", Dtype::f4, {}},      {"h", Dtype::bf16, {}}};
  sort_as_stock(tensors);
  std::string order;
  for (const SafetensorsTensor& tensor : tensors) order += tensor.name + " ";
  EXPECT_EQ(order, "z Z a10 a2 b é h q a ");
}

}  // namespace
}  // namespace penstock::core
