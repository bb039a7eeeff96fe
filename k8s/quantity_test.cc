// SPDX-License-Identifier: Apache-2.0

#include "k8s/quantity.h"

#include <gtest/gtest.h>

#include <string>

#include "k8s/helm_template.h"

namespace penstock::tools::k8s {
namespace {

TEST(QuantityTest, WhatAServerTakesIsOneAndNothingElseIs) {
  for (const char* text :
       {"0",    "1",  "+1",  "-1",  "1.",   ".5",   "1.5Gi", "500m", "100n",  "2u",
        "3k",   "4M", "1e3", "1E3", "1e+3", "1e-3", "1E",    "1Ei",  "0.000", "9999999999999999999999Ei",
        "1e308"}) {
    EXPECT_TRUE(read_quantity(text).has_value()) << text;
  }
  for (const char* text : {"",      ".",    "-",    "+",     "1 ",    " 1",  "1 Gi", "1e",   "1e308Ki",
                           "1e1.5", "1e+",  "1e-",  "1e+-1", "1K",    "1g",  "1GB",  "1Gib", "1ki",
                           "1mi",   "0x10", "1..5", "1.5.1", "1_000", "one", "--1",  "1e3k", "1e99999999999999999999",
                           "NaN",   "inf"}) {
    EXPECT_FALSE(read_quantity(text).has_value()) << text;
  }
}

TEST(QuantityTest, AmountsAreComparedHoweverTheyAreWritten) {
  const auto amount = [](const char* text) { return *read_quantity(text); };
  for (const auto& [one, other] : {std::pair{"0.1", "100m"},
                                   {"1Gi", "1073741824"},
                                   {"1.5Gi", "1536Mi"},
                                   {"1e3", "1k"},
                                   {"1100u", "1.1m"},
                                   {"1e30", "1e40"}}) {
    EXPECT_FALSE(is_more(amount(one), amount(other))) << one;
    EXPECT_FALSE(is_more(amount(other), amount(one))) << one;
  }
  EXPECT_TRUE(is_more(amount("1Gi"), amount("1G")));
  EXPECT_TRUE(is_more(amount("1001m"), amount("1")));
  EXPECT_LT(amount("-1m").amount, 0);
  EXPECT_EQ(amount("-0").amount, 0);
}

TEST(QuantityTest, WhatCanBeCountedIsWhole) {
  for (const char* text : {"1", "1.0", "1000m", "1e2", "1.5k", "1.5Gi", "0", "0.5Ki"}) {
    EXPECT_TRUE(read_quantity(text)->is_whole) << text;
  }
  for (const char* text : {"1.5", "500m", "1e-1", "0.1Ki", "1e-400", "1n"}) {
    EXPECT_FALSE(read_quantity(text)->is_whole) << text;
  }
}

bool is_template(const std::string& text) { return is_helm_template(read_manifest("file.yaml", text)); }

TEST(HelmTemplateTest, ATemplateIsTextWithWholeActions) {
  EXPECT_TRUE(is_template("{{- if .Values.gds }}\nkind: A\n{{- end }}\n"));
  EXPECT_TRUE(is_template("{{/* a comment */}}\nkind: {{ .Values.kind | quote }}\n"));
  EXPECT_TRUE(is_template("a: {{ .a }}\nb: {{ include \"b\" $ | nindent 4 }}\n"));
  EXPECT_FALSE(is_template("kind: Pod\nspec: [1\n")) << "no action";
  EXPECT_FALSE(is_template("kind: Pod\nspec: [1 {{\n")) << "one that ends nowhere";
  EXPECT_FALSE(is_template("kind: {{ .Values.kind }}\nspec: [1\n")) << "no YAML without it either";
  EXPECT_FALSE(is_template("a: {{ }}\n: {{%}}}\n"));
  EXPECT_FALSE(is_template(std::string("\x01\x02{{ .a }}\xff", 12))) << "no text";
}

}  // namespace
}  // namespace penstock::tools::k8s
