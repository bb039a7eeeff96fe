// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/http_request.h"

#include <algorithm>
#include <vector>

#include "topology/text.h"

namespace penstock::tools {
namespace {

using core::split;
using core::take_until;
using core::trim;

bool equal_but_for_case(std::string_view one, std::string_view two) {
  const auto lower = [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter; };
  return std::equal(one.begin(), one.end(), two.begin(), two.end(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

// Reads "0.5" as thousandths: 500. A wrong number counts as none.
int thousandths(std::string_view text) {
  constexpr int kAll = 1000;
  const std::string_view whole = trim(take_until(text, '.'));
  if (whole == "1") return kAll;
  if (whole != "0") return kAll;
  int value = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const bool is_digit = i < text.size() && text[i] >= '0' && text[i] <= '9';
    value = value * 10 + (is_digit ? text[i] - '0' : 0);
  }
  return value;
}

struct Preference {
  int weight = 0;  // In thousandths.
  bool is_named = false;
};

// Notes how much the client prefers `type`, from one media range of its header.
void weigh(std::string_view range, std::string_view type, Preference& preference) {
  const std::string_view name = trim(take_until(range, ';'));
  const bool is_named = equal_but_for_case(name, type);
  const bool is_any = name == "*/*" || equal_but_for_case(name, std::string(type.substr(0, type.find('/'))) + "/*");
  if (!is_named && (!is_any || preference.is_named)) return;
  int weight = 1000;
  while (!range.empty()) {
    std::string_view parameter = take_until(range, ';');
    if (equal_but_for_case(trim(take_until(parameter, '=')), "q")) weight = thousandths(trim(parameter));
  }
  preference = {is_named && preference.is_named ? std::max(weight, preference.weight) : weight, is_named};
}

}  // namespace

ParsedRequest parse_request(std::string_view head) {
  ParsedRequest parsed;
  const std::vector<std::string_view> words = split(trim(take_until(head, '\n')), ' ');
  if (words.size() != 3 || !words[2].starts_with("HTTP/1.") || !words[1].starts_with('/')) return {.status = 400};
  parsed.is_head = words[0] == "HEAD";
  if (words[0] != "GET" && !parsed.is_head) return {.status = 405};
  parsed.request.path = std::string(words[1].substr(0, words[1].find('?')));
  while (!head.empty()) {
    std::string_view line = take_until(head, '\n');
    if (!equal_but_for_case(trim(take_until(line, ':')), "accept")) continue;
    parsed.request.accept.append(parsed.request.accept.empty() ? "" : ",").append(trim(line));
  }
  return parsed;
}

bool prefers_plain_text(std::string_view accept) {
  Preference plain, open;
  while (!accept.empty()) {
    const std::string_view range = take_until(accept, ',');
    weigh(range, "text/plain", plain);
    weigh(range, "application/openmetrics-text", open);
  }
  return plain.weight > open.weight;
}

}  // namespace penstock::tools
