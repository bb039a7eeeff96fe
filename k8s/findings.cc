// SPDX-License-Identifier: Apache-2.0

#include "k8s/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/invariant.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

constexpr std::string_view kComment = "# penstock-lint: ignore ";

std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

template <typename Visit>
void each_line(std::string_view text, Visit visit) {
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end), line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

void Findings::add(const char* rule, const Object& object, Place place, Text text) {
  const Rule* row = find_rule(rule);
  PENSTOCK_INVARIANT(row != nullptr);
  if (place.line == 0) place = {1, 1};
  if (is_ignored(rule, object, place)) {
    ++passed_over_;
    return;
  }
  if (list_.size() == kFindingsMax) {
    ++dropped_;
    return;
  }
  const auto [order, is_new] = order_.emplace(object.manifest, order_.size());
  list_.push_back({order->second,
                   {.rule = row,
                    .severity = text.severity.value_or(row->severity),
                    .file = object.manifest->file,
                    .place = place,
                    .object = object.title(),
                    .sentence = std::move(text.sentence),
                    .remedy = text.remedy.empty() ? row->remedy : std::move(text.remedy)}});
}

void Findings::take_ignores(const Cluster& cluster) {
  for (const Object& file : cluster.files) {
    order_.emplace(file.manifest, order_.size());
    take_comments(file);
  }
  for (const Object& object : cluster.objects) take_annotation(object);
}

std::string Findings::rule_of(std::string_view text, const Object& object, Place place) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view rule = trimmed(text.substr(0, colon));
  const std::string_view reason = trimmed(text.substr(std::min(colon + 1, text.size())));
  if (is_full()) return "";
  if (find_rule(rule) == nullptr) {
    const std::string_view near = rule_near(rule);
    add("ignore_of_nothing", object, place,
        {fmt::format("there is no rule '{}'", core::shown(rule)), near.empty() ? "" : fmt::format("Write {}.", near)});
    return "";
  }
  if (!reason.empty()) return std::string(rule);
  add("ignore_without_reason", object, place, {fmt::format("the comment that ignores {} gives no reason", rule)});
  return "";
}

void Findings::take_annotation(const Object& object) {
  const Member* annotation = object["metadata.annotations"].member(kIgnoreAnnotation);
  if (annotation == nullptr || !annotation->value->is_text()) return;
  each_line(annotation->value->text, [&](std::string_view line, int) {
    if (trimmed(line).empty()) return;
    const std::string rule = rule_of(trimmed(line), object, annotation->place);
    if (!rule.empty()) of_objects_[&object].insert(rule);
  });
}

void Findings::take_comments(const Object& file) {
  if (file.manifest->text.find(kComment) == std::string::npos) return;
  each_line(file.manifest->text, [&](std::string_view text, int line) {
    const std::size_t at = text.find(kComment);
    if (at == std::string_view::npos) return;
    const std::string rule = rule_of(text.substr(at + kComment.size()), file, {line, static_cast<int>(at) + 1});
    const bool is_alone = trimmed(text.substr(0, at)).empty();
    if (!rule.empty()) of_lines_[{file.manifest, is_alone ? line + 1 : line}].insert(rule);
  });
}

bool Findings::is_ignored(std::string_view rule, const Object& object, Place place) const {
  if (ignored_.contains(rule)) return true;
  const auto of_object = of_objects_.find(&object);
  if (of_object != of_objects_.end() && of_object->second.contains(rule)) return true;
  const auto of_line = of_lines_.find({object.manifest, place.line});
  return of_line != of_lines_.end() && of_line->second.contains(rule);
}

std::vector<Finding> Findings::in_order() const {
  std::vector<Entry> sorted = list_;
  const auto key = [](const Entry& one) {
    return std::tuple(one.file, one.finding.place.line, one.finding.place.column,
                      std::string_view(one.finding.rule->id));
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Entry& one, const Entry& other) { return key(one) < key(other); });
  std::vector<Finding> list;
  for (Entry& entry : sorted) list.push_back(std::move(entry.finding));
  return list;
}

std::size_t Findings::count(Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(list_.begin(), list_.end(), [&](const Entry& one) { return one.finding.severity == severity; }));
}

}  // namespace penstock::tools::k8s
