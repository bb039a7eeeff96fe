// SPDX-License-Identifier: Apache-2.0

#include "k8s/patterns.h"

#include <algorithm>
#include <iterator>

#include "k8s/quantity.h"

namespace penstock::tools::k8s {
namespace {

bool is_small(char letter) { return letter >= 'a' && letter <= 'z'; }
bool is_alphabetic(char letter) { return is_small(letter) || (letter >= 'A' && letter <= 'Z'); }
bool is_alphanumeric(char letter) { return is_alphabetic(letter) || is_digit(letter); }
bool is_name_letter(char letter) { return is_alphanumeric(letter) || letter == '-'; }
bool is_path_letter(char letter) { return is_name_letter(letter) || letter == '.' || letter == '/'; }

// Removes leading digits; returns how many.
std::size_t take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto size = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(size);
  return size;
}

bool take(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

bool is_quantity(std::string_view text) { return read_quantity(text).has_value(); }

// True for "0", "1h30m", "500ms", and the empty text.
bool is_duration(std::string_view text) {
  if (text == "0") return true;
  for (const std::string_view unit : {"y", "w", "d", "h", "m", "s", "ms"}) {
    std::string_view rest = text;
    if (take_digits(rest) == 0) continue;
    if (unit == "m" && rest.starts_with("ms")) continue;
    if (take(rest, unit)) text = rest;
  }
  return text.empty();
}

bool has_name_letter(std::string_view text) { return std::any_of(text.begin(), text.end(), is_name_letter); }
bool has_path_letter(std::string_view text) { return std::any_of(text.begin(), text.end(), is_path_letter); }
bool is_letters(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_letter);
}
bool is_variable(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char letter) { return is_alphanumeric(letter) || letter == '_'; });
}
bool is_binary_size(std::string_view text) {
  return take_digits(text) > 0 && text.size() == 2 && text[1] == 'i' &&
         std::string_view("EPTGMK").find(text[0]) != std::string_view::npos;
}

constexpr Pattern kPatterns[] = {
    {"quantity", is_quantity, "a quantity such as 500m, 2 or 2Gi"},
    {"duration", is_duration, "a time such as 15s or 1h30m"},
    {"some-letter", has_name_letter, "a name"},
    {"some-letter-of-path", has_path_letter, "a name, with points and slashes between its parts"},
    {"letters", is_letters, "letters, digits and '-' alone"},
    {"variable", is_variable, "letters, digits and '_', and no digit first"},
    {"label", is_label, "small letters, digits and '-', with a letter or digit at either end"},
    {"subdomain", is_subdomain, "small letters, digits, '-' and '.'"},
    {"binary-size", is_binary_size, "a size such as 1Gi"},
};

}  // namespace

const Pattern* pattern_named(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                   [&](const Pattern& pattern) { return pattern.name == name; });
  return found == std::end(kPatterns) ? nullptr : found;
}

bool is_label(std::string_view text) {
  const auto fits = [](char letter) { return is_small(letter) || is_digit(letter) || letter == '-'; };
  return !text.empty() && text.front() != '-' && text.back() != '-' && std::all_of(text.begin(), text.end(), fits);
}

bool is_subdomain(std::string_view text) {
  if (text.empty() || text.size() > 253) return false;
  while (true) {
    const std::size_t point = std::min(text.find('.'), text.size());
    if (!is_label(text.substr(0, point))) return false;
    if (point == text.size()) return true;
    text.remove_prefix(point + 1);
  }
}

bool is_label_value(std::string_view text) {
  const auto fits = [](char letter) { return is_name_letter(letter) || letter == '_' || letter == '.'; };
  if (text.empty()) return true;
  return text.size() <= 63 && is_alphanumeric(text.front()) && is_alphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(), fits);
}

bool is_label_key(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos && !is_subdomain(text.substr(0, slash))) return false;
  const std::string_view name = slash == std::string_view::npos ? text : text.substr(slash + 1);
  return !name.empty() && is_label_value(name);
}

}  // namespace penstock::tools::k8s
