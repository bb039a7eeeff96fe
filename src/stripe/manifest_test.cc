// SPDX-License-Identifier: Apache-2.0

#include "stripe/manifest.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

constexpr const char* kId = "0123456789abcdef0123456789abcdef";

Manifest object_of_three() {
  return {kId, {1'000'000, 65536, 3}, {"/mnt/a/x.0of3", "/mnt/b/\"x\" \n.1of3", "/mnt/c/x.2of3"}};
}

std::string fault_of(std::string text) {
  const Result<Manifest> parsed = parse_manifest(text, "/data/x");
  return parsed.ok() ? "" : describe(parsed.status());
}

std::string changed(std::string_view from, std::string_view to) {
  std::string text = manifest_text(object_of_three());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ManifestTest, WhatIsWrittenIsRead) {
  const Manifest written = object_of_three();
  const Result<Manifest> read = parse_manifest(manifest_text(written), "x");
  ASSERT_TRUE(read.ok()) << describe(read.status());
  EXPECT_EQ(read->id, written.id);
  EXPECT_EQ(read->files, written.files);
  EXPECT_EQ(read->layout.size, written.layout.size);
  EXPECT_EQ(read->layout.stripe_bytes, written.layout.stripe_bytes);
  EXPECT_EQ(read->layout.members, 3u);
  EXPECT_TRUE(is_manifest(manifest_text(written)));
}

TEST(ManifestTest, OneThatIsCutOffAnywhereIsRefused) {
  const std::string text = manifest_text(object_of_three());
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    EXPECT_NE(fault_of(text.substr(0, size)).find("cut off"), std::string::npos) << size;
  }
}

TEST(ManifestTest, WhatIsWrongIsSaidWithTheNameOfTheManifest) {
  EXPECT_NE(fault_of("{}").find("could not open the striped object /data/x: penstock_stripe must be a whole number"),
            std::string::npos)
      << fault_of("{}");
  EXPECT_NE(fault_of(changed("stripe\": 1,", "stripe\": 2,")).find("this version of Penstock knows 1"),
            std::string::npos);
  EXPECT_NE(fault_of(changed("1000000", "-1")).find("size must be a whole number"), std::string::npos);
  EXPECT_NE(fault_of(changed("1000000", "18446744073709551615")).find("at most 2^60"), std::string::npos);
  EXPECT_NE(fault_of(changed("65536", "65537")).find("a multiple of 65536"), std::string::npos);
  EXPECT_NE(fault_of(changed("65536", "0")).find("a multiple of 65536"), std::string::npos);
  EXPECT_NE(fault_of(changed(kId, "0123")).find("32 hexadecimal digits"), std::string::npos);
  EXPECT_NE(fault_of(changed("/mnt/a/x.0of3", "../x")).find("an absolute path"), std::string::npos);
  EXPECT_NE(fault_of(changed("/mnt/a/x.0of3", "/mnt/a\\u0000b")).find("an absolute path"), std::string::npos);
  EXPECT_NE(fault_of(changed("/mnt/a/x.0of3", "/mnt/c/x.2of3")).find("twice"), std::string::npos);
  EXPECT_NE(fault_of("[1]").find("no manifest"), std::string::npos);
  EXPECT_NE(fault_of(std::string(100'000, '[')).find("no manifest"), std::string::npos);
}

TEST(ManifestTest, OnlyWhatBeginsAsAManifestIsMeantAsOne) {
  EXPECT_TRUE(is_manifest(" {\n \"penstock_stripe\" : 9"));
  for (const char* text : {"", "{", "penstock_stripe", "{\"a\": \"penstock_stripe\"}", "[{\"penstock_stripe\""}) {
    EXPECT_FALSE(is_manifest(text)) << text;
  }
}

TEST(ManifestTest, AMembersLastBlockSaysWhatIsWrongWithIt) {
  const Manifest object = object_of_three();
  Manifest other = object;
  other.id[0] = 'f';
  Manifest larger = object;
  larger.layout.size += 1;
  const auto fault = [&](const std::string& found) { return trailer_fault(object, 1, found); };
  EXPECT_EQ(trailer_of(object, 1).size(), kTrailerBytes);
  EXPECT_NE(fault(trailer_of(other, 1)).find("another object, f123"), std::string::npos);
  EXPECT_NE(fault(trailer_of(object, 2)).find("member 2 of the object, in the place of member 1"), std::string::npos);
  EXPECT_NE(fault(trailer_of(larger, 1)).find("differ from those in the manifest"), std::string::npos);
  EXPECT_NE(fault(std::string(kTrailerBytes, '\0')).find("never finished"), std::string::npos);
  EXPECT_NE(fault("").find("never finished"), std::string::npos);
}

}  // namespace
}  // namespace penstock::core
