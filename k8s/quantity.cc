// SPDX-License-Identifier: Apache-2.0

#include "k8s/quantity.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/number_text.h"
#include "k8s/patterns.h"

namespace penstock::tools::k8s {
namespace {

constexpr long double kMost = 9223372036854775807.0L;
constexpr long kExponentMost = 5000;  // Far beyond what a long double holds.

struct Scale {
  long tens = 0;
  int twos = 0;
};

std::optional<Scale> scale_of(std::string_view suffix) {
  // Suffixes from 10^-9 and 2^10 on, with exponents in steps of 3 and 10.
  constexpr std::string_view kTens = "num kMGTPE", kTwos = "KMGTPE";
  if (suffix.empty()) return Scale{};
  const std::size_t step = kTens.find(suffix[0]);
  if (suffix.size() == 1 && suffix != " " && step != std::string_view::npos)
    return Scale{3 * (static_cast<long>(step) - 3), 0};
  const std::size_t power = kTwos.find(suffix[0]);
  if (suffix.size() == 2 && suffix[1] == 'i' && power != std::string_view::npos) {
    return Scale{0, 10 * (static_cast<int>(power) + 1)};
  }
  if (suffix.size() == 1 || (suffix[0] != 'e' && suffix[0] != 'E')) return {};
  const bool has_plus = suffix[1] == '+';
  suffix.remove_prefix(has_plus ? 2 : 1);
  if (suffix.empty() || !(is_digit(suffix[0]) || (suffix[0] == '-' && !has_plus && suffix.size() > 1))) return {};
  const auto exponent = core::parse_number<std::int64_t>(suffix);
  if (!exponent) return {};
  return Scale{static_cast<long>(std::clamp<std::int64_t>(*exponent, -kExponentMost, kExponentMost)), 0};
}

}  // namespace

std::optional<Quantity> read_quantity(std::string_view text) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const bool is_negative = text.starts_with('-');
  if (has_sign) text.remove_prefix(1);
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string digits(text.substr(0, end));
  const std::size_t point = digits.find('.');
  const long behind = point == std::string::npos ? 0 : static_cast<long>(digits.size() - point) - 1;
  if (point != std::string::npos) digits.erase(point, 1);
  const std::optional<Scale> scale = scale_of(text.substr(end));
  if (!scale || digits.empty() || digits.find('.') != std::string::npos) return {};

  const std::size_t last = digits.find_last_not_of('0');
  const std::size_t zeros = last == std::string::npos ? 0 : digits.size() - last - 1;
  digits.resize(last == std::string::npos ? 0 : last + 1);
  if (digits.empty()) return Quantity{};
  const long tens = scale->tens - behind + static_cast<long>(zeros);
  long double amount = 0;
  for (const char digit : digits) amount = amount * 10 + static_cast<long double>(digit - '0');
  amount = std::ldexp(amount * std::pow(10.0L, static_cast<long double>(tens)), scale->twos);
  const bool is_whole = scale->twos == 0 ? tens >= 0 : std::floor(amount) == amount;
  return Quantity{(is_negative ? -1 : 1) * std::min(amount, kMost), is_whole};
}

std::optional<Quantity> quantity_of(const Value& value) {
  switch (value.kind) {
    case Kind::null: return Quantity{};
    case Kind::integer: return Quantity{static_cast<long double>(value.integer), true};
    case Kind::text: return read_quantity(value.text);
    case Kind::number: {
      std::string digits = value.text;
      std::erase(digits, '_');
      return read_quantity(digits);
    }
    default: return {};
  }
}

bool is_more(const Quantity& a, const Quantity& b) {
  constexpr long double kRounding = 1e-15L;  // Equal amounts may be written differently, such as 1.1Gi.
  return a.amount > b.amount * (1 + kRounding);
}

}  // namespace penstock::tools::k8s
