// SPDX-License-Identifier: Apache-2.0

#include "k8s/scalar.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "k8s/patterns.h"

namespace penstock::tools::k8s {
namespace {

bool is_among(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Parses a decimal number, or by prefix: 0x1F, 0o17, 017, 0b11. Skips underscores.
bool set_integer(Value& value, const std::string& digits) {
  const bool is_negative = digits[0] == '-';
  std::string_view rest = digits;
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  int base = 10;
  if (rest.starts_with("0x") || rest.starts_with("0X")) base = 16;
  else if (rest.starts_with("0b") || rest.starts_with("0B")) base = 2;
  else if (rest.starts_with("0o") || rest.starts_with("0O")) base = 8;
  if (base != 10) rest.remove_prefix(2);
  else if (rest.size() > 1 && rest[0] == '0') base = 8;
  if (rest.empty() || !std::isxdigit(static_cast<unsigned char>(rest[0]))) return false;
  const std::string number = (is_negative ? "-" : "") + std::string(rest);
  char* end = nullptr;
  errno = 0;
  const long long parsed = std::strtoll(number.c_str(), &end, base);
  if (*end != '\0' || errno != 0) return false;
  value.kind = Kind::integer;
  value.integer = parsed;
  return true;
}

// Matches [-+]?[0-9]*.?[0-9]+([eE][-+]?[0-9]+)?, and digits with a trailing dot.
bool looks_like_float(std::string_view word) {
  std::size_t at = word[0] == '-' || word[0] == '+' ? 1 : 0;
  std::size_t digits = 0;
  bool has_point = false;
  for (; at < word.size() && (is_digit(word[at]) || (word[at] == '.' && !has_point)); ++at) {
    if (word[at] == '.') has_point = true;
    else ++digits;
  }
  if (digits == 0) return false;
  if (at == word.size()) return true;
  if (word[at] != 'e' && word[at] != 'E') return false;
  ++at;
  if (at < word.size() && (word[at] == '-' || word[at] == '+')) ++at;
  return at < word.size() && std::all_of(word.begin() + static_cast<std::ptrdiff_t>(at), word.end(), is_digit);
}

bool set_float(Value& value, const std::string& word) {
  if (!looks_like_float(word)) return false;
  const double number = std::strtod(word.c_str(), nullptr);
  value.kind = Kind::number;
  // As JSON it has no decimal point, so that every reader takes it as a whole number.
  constexpr double kExact = 9007199254740992.0;
  if (std::floor(number) == number && std::abs(number) < kExact) {
    value.kind = Kind::integer;
    value.integer = static_cast<std::int64_t>(number);
  }
  return true;
}

}  // namespace

void set_plain(Value& value, const std::string& word) {
  value.text = word;
  value.kind = Kind::text;
  if (is_among(word, {"", "~", "null", "Null", "NULL"})) {
    value.kind = Kind::null;
  } else if (is_among(word, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) {
    value.kind = Kind::boolean;
    value.integer = 1;
  } else if (is_among(word, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    value.kind = Kind::boolean;
  } else if (is_digit(word[0]) || is_among(word.substr(0, 1), {"-", "+", "."})) {
    std::string digits = word;
    std::erase(digits, '_');
    if (digits.empty() || set_integer(value, digits) || set_float(value, digits)) return;
    const std::string_view bare = std::string_view(word).substr(word[0] == '-' || word[0] == '+' ? 1 : 0);
    if (is_among(bare, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})) value.kind = Kind::number;
  }
}

}  // namespace penstock::tools::k8s
