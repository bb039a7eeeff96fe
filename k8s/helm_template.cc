// SPDX-License-Identifier: Apache-2.0

#include "k8s/helm_template.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>

namespace penstock::tools::k8s {
namespace {

bool is_word_letter(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }

// Returns "if .Values.gds" for "{{- if .Values.gds }}".
std::string_view without_trimming(std::string_view action) {
  if (action.starts_with('-')) action.remove_prefix(1);
  const std::size_t begin = std::min(action.find_first_not_of(" \t\r\n"), action.size());
  return action.substr(begin);
}

bool is_action(std::string_view action) {
  if (action.empty()) return false;
  return is_word_letter(action[0]) || std::string_view(".$\"`(/").find(action[0]) != std::string_view::npos;
}

bool has_lines_of_its_own(std::string_view action) {
  constexpr std::string_view kWords[] = {"if",    "else",     "end",     "range",  "with", "define",
                                         "block", "template", "include", "toYaml", "tpl",  "/*"};
  const auto* const end = std::find_if_not(action.begin(), action.end(), is_word_letter);
  const auto size = static_cast<std::size_t>(end - action.begin());
  const std::string_view word = size == 0 ? action.substr(0, 2) : action.substr(0, size);
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

}  // namespace

bool is_helm_template(const Manifest& manifest) {
  const bool is_text = std::none_of(manifest.faults.begin(), manifest.faults.end(), [](const Fault& fault) {
    return std::string_view(fault.rule) == "unreadable_file";
  });
  std::string_view rest = manifest.text;
  if (!is_text || rest.find("{{") == std::string_view::npos) return false;
  std::string filled;  // The text with each action replaced by a word.
  bool has_lines = false;
  for (std::size_t begin = rest.find("{{"); begin != std::string_view::npos; begin = rest.find("{{")) {
    filled += rest.substr(0, begin);
    rest.remove_prefix(begin + 2);
    const std::size_t end = rest.find("}}");
    if (end == std::string_view::npos) return false;
    const std::string_view action = without_trimming(rest.substr(0, end));
    if (!is_action(action)) return false;
    has_lines = has_lines || has_lines_of_its_own(action);
    filled += "x";
    rest.remove_prefix(end + 2);
  }
  filled += rest;
  return has_lines || read_manifest(manifest.file, filled).is_whole;
}

}  // namespace penstock::tools::k8s
