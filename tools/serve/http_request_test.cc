// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/http_request.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace penstock::tools {
namespace {

TEST(HttpRequestTest, ThePathAndWhatIsAcceptedAreRead) {
  const ParsedRequest parsed =
      parse_request("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: text/plain\r\naccept:*/*");

  EXPECT_EQ(parsed.status, 200);
  EXPECT_FALSE(parsed.is_head);
  EXPECT_EQ(parsed.request.path, "/metrics");
  EXPECT_EQ(parsed.request.accept, "text/plain,*/*");
}

TEST(HttpRequestTest, HeadIsAskedByItsName) { EXPECT_TRUE(parse_request("HEAD / HTTP/1.0").is_head); }

TEST(HttpRequestTest, OtherMethodsAreNotAllowed) {
  for (const char* const head : {"POST /metrics HTTP/1.1", "get / HTTP/1.1", "OPTIONS / HTTP/1.1"}) {
    EXPECT_EQ(parse_request(head).status, 405) << head;
  }
}

TEST(HttpRequestTest, WhatIsNoRequestIsRefused) {
  for (const std::string head : {"", "\r\n", "GET", "GET /", "GET / HTTP/2", "GET metrics HTTP/1.1", "GET / x HTTP/1.1",
                                 "\x16\x03\x01\x02", "PRI * HTTP/2.0", "GET http://a/ HTTP/1.1"}) {
    EXPECT_EQ(parse_request(head).status, 400) << head;
  }
}

TEST(HttpRequestTest, PrometheusGetsWhatItPrefers) {
  EXPECT_FALSE(
      prefers_plain_text("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                         "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,"
                         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"));
  EXPECT_TRUE(prefers_plain_text("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  EXPECT_TRUE(prefers_plain_text("application/openmetrics-text; q=0.3, text/plain; q=0.9"));
  EXPECT_TRUE(prefers_plain_text("TEXT/PLAIN"));
  EXPECT_TRUE(prefers_plain_text("text/*"));
}

TEST(HttpRequestTest, WhoDoesNotCareGetsOpenMetrics) {
  for (const char* const accept : {"", "*/*", "application/json", ",,;;q=", "text/plain;q=0", "text/plain;q=0.000",
                                   "application/*", "application/openmetrics-text"}) {
    EXPECT_FALSE(prefers_plain_text(accept)) << accept;
  }
}

TEST(HttpRequestTest, AnyBytesAreTaken) {
  const std::string kLetters("GET/ HTP1.accept:*;q=,\r\n\0\xff", 25);
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? "GET / HTTP/1.1\r\nAccept: " : "";
    for (std::size_t j = random() % 60; j > 0; --j) text += kLetters[random() % kLetters.size()];
    const ParsedRequest parsed = parse_request(text);
    EXPECT_TRUE(parsed.status == 200 || parsed.status == 400 || parsed.status == 405);
    (void)prefers_plain_text(text);
  }
}

}  // namespace
}  // namespace penstock::tools
