// SPDX-License-Identifier: Apache-2.0

// Manifests as text, valid and hostile, and the values read from them.
#include "k8s/manifest.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::tools::k8s {
namespace {

Manifest read(const std::string& text) { return read_manifest("a.yaml", text); }

std::string fault_of(const std::string& text) {
  const Manifest manifest = read(text);
  if (manifest.faults.empty()) return "";
  const Fault& fault = manifest.faults[0];
  return std::to_string(fault.place.line) + ":" + std::to_string(fault.place.column) + " " + fault.rule + " " +
         fault.sentence;
}

TEST(ManifestTest, ValuesKnowWhereTheyStand) {
  const Manifest manifest = read("# first\nspec:\n  gds:\n    enabled: true\n    version: \"2.29.4\"\n");

  ASSERT_EQ(manifest.documents.size(), 1u);
  const Value& gds = (*manifest.documents[0])["spec.gds"];
  EXPECT_TRUE(gds["enabled"].is_true());
  EXPECT_EQ(gds["version"].text, "2.29.4");
  EXPECT_EQ(gds.member("version")->place.line, 5);
  EXPECT_EQ(gds.member("version")->place.column, 5);
  EXPECT_FALSE(gds["image"].is_there());
}

TEST(ManifestTest, WordsAreWhatKubernetesTakesThemFor) {
  const struct {
    const char* word;
    Kind kind;
  } cases[] = {
      {"on", Kind::boolean},
      {"off", Kind::boolean},
      {"y", Kind::boolean},
      {"yess", Kind::text},
      {"0x10", Kind::integer},
      {"010", Kind::integer},
      {"1_000", Kind::integer},
      {"5.0", Kind::integer},
      {"1.5", Kind::number},
      {".5", Kind::number},
      {"1e3", Kind::integer},
      {".inf", Kind::number},
      {"2.29.4", Kind::text},
      {"1Gi", Kind::text},
      {"~", Kind::null},
      {"", Kind::null},
      {"9223372036854775808", Kind::number},
      {"'5'", Kind::text},
      {"!!str 5", Kind::text},
      {"-", Kind::list},
  };
  for (const auto& one : cases) {
    const Manifest manifest = read(std::string("a:\n  ") + one.word + "\n");
    ASSERT_TRUE(manifest.is_whole) << one.word;
    EXPECT_EQ((*manifest.documents[0])["a"].kind, one.kind) << one.word;
  }
}

TEST(ManifestTest, JsonIsReadAsYamlIs) {
  const Manifest manifest = read("{\n\t\"kind\": \"Pod\",\"spec\":{\"hostPID\":true,\"a\":[1,\"x\\u00e4\\/\"]}}");

  ASSERT_EQ(manifest.documents.size(), 1u);
  const Value& root = *manifest.documents[0];
  EXPECT_TRUE(root["spec.hostPID"].is_true());
  EXPECT_EQ(root["spec.a"].members[1].value->text, "xä/");
}

TEST(ManifestTest, AliasesAndMergesAreFollowed) {
  const Manifest manifest = read("base: &b {image: nvidia-fs, version: 2.29.4}\ngds:\n  <<: *b\n  version: 2.27.3\n");

  const Value& gds = (*manifest.documents[0])["gds"];
  EXPECT_EQ(gds["image"].text, "nvidia-fs");
  EXPECT_EQ(gds["version"].text, "2.27.3");
  EXPECT_TRUE(manifest.faults.empty());
}

TEST(ManifestTest, DocumentsOfAStreamAreToldApartAndEmptyOnesLeftOut) {
  EXPECT_EQ(read("---\n---\nkind: A\n---\n# nothing\n---\nkind: B\n...\n").documents.size(), 2u);
  EXPECT_EQ(read("").documents.size(), 0u);
}

TEST(ManifestTest, TextInABlockIsKnown) {
  const Manifest manifest = read("data:\n  cufile.json: |\n    {}\n  other: '{}'\n");
  const Value& data = (*manifest.documents[0])["data"];
  EXPECT_TRUE(data.member("cufile.json")->value->is_block);
  EXPECT_FALSE(data.member("other")->value->is_block);
}

TEST(ManifestTest, EmptyLinesComeBeforeAnything) {
  const Manifest manifest = read("\n\n---\n\na: |\n  x\n");
  EXPECT_EQ((*manifest.documents[0]).member("a")->place.line, 5);
  EXPECT_TRUE((*manifest.documents[0])["a"].is_block);
}

TEST(ManifestTest, AKeyGivenTwiceIsToldAndTheLastCounts) {
  EXPECT_EQ(fault_of("a: 1\nb: 2\na: 3\n"), "3:1 duplicate_key 'a' is given twice in one map");
  EXPECT_EQ((*read("a: 1\na: 3\n").documents[0])["a"].integer, 3);
}

TEST(ManifestTest, DepthAndNumberOfValuesAreBounded) {
  std::string deep(200, '[');
  EXPECT_EQ(fault_of("a: " + deep + std::string(200, ']')), "1:103 yaml_syntax is nested deeper than 100 levels");
  std::string indented;
  for (int i = 0; i < 300; ++i) indented += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_NE(fault_of(indented).find("deeper than 100"), std::string::npos);

  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += "*a" + std::to_string(i - 1) + ", ";
    bomb += "]\n";
  }
  EXPECT_NE(fault_of(bomb).find("more than 1000000 values, aliases counted"), std::string::npos) << fault_of(bomb);
  EXPECT_NE(fault_of("[" + std::string(1'200'000, ',')), "");
  std::string many = "a:\n";
  for (int i = 0; i < 1'000'001; ++i) many += "- 1\n";
  EXPECT_NE(fault_of(many).find("more than 1000000 values"), std::string::npos) << fault_of(many);
}

TEST(ManifestTest, WhatIsNoTextIsRefusedWithItsPlace) {
  EXPECT_EQ(fault_of(std::string("a: 1\nb: \0", 9)),
            "2:4 unreadable_file has the control character \\x00, and is no text");
  EXPECT_EQ(fault_of("a: \xff\n"), "1:1 unreadable_file is not UTF-8");
  EXPECT_EQ(fault_of(std::string(kManifestBytesMax + 1, ' ')), "1:1 unreadable_file is larger than 8 MiB");
}

TEST(ManifestTest, ASignThatBeginsNothingIsNoEndOfDocuments) {
  EXPECT_EQ(fault_of("a: 1\n---\n, b\n"), "3:1 yaml_syntax is no YAML here");
}

TEST(ManifestTest, BrokenYamlIsTellingAndEndsNothing) {
  for (const char* text :
       {"a: [1", "a: b: c", "\t- x", "a: *b", "&a [*a]", "? [1]: 2", "{[a]: b}", "a: 'x", "- a\nb: c", "<<: 1",
        "%YAML 9.9\n---\na", "a: !!", "\"", "{", "a: |9999999999\n x", "a: \"\\ud83d\""}) {
    const Manifest manifest = read(text);
    EXPECT_TRUE(manifest.is_whole || !manifest.faults.empty()) << text;
  }
  EXPECT_NE(fault_of("kind: A\n---\na: [1\n"), "");
  EXPECT_EQ(read("kind: A\n---\na: [1\n").documents.size(), 1u);
}

}  // namespace
}  // namespace penstock::tools::k8s
