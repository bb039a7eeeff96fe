// SPDX-License-Identifier: Apache-2.0

// The findings of a lint, without those that its user ignores. Pure.
//
// A finding is ignored if its rule is named by --ignore, by its object's annotation penstock.io/lint-ignore, "RULE:
// reason" with a line for each rule, or by a comment "# penstock-lint: ignore RULE: reason" in its line or the one
// before. Annotation and comment need a reason.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/objects.h"
#include "k8s/rules.h"
#include "tools/common/severity.h"

namespace penstock::tools::k8s {

constexpr std::size_t kFindingsMax = 2000;
constexpr const char* kIgnoreAnnotation = "penstock.io/lint-ignore";

struct Finding {
  const Rule* rule = nullptr;
  Severity severity = Severity::note;
  std::string file;
  Place place;
  std::string object;    // "DaemonSet reader"; "" for the file as a whole.
  std::string sentence;  // Begins with the fault.
  std::string remedy;
};

class Findings {
 public:
  explicit Findings(std::set<std::string, std::less<>> ignored = {}) : ignored_(std::move(ignored)) {}

  struct Text {
    std::string sentence;
    std::string remedy = "";                // "": the rule's remedy.
    std::optional<Severity> severity = {};  // None: the rule's severity.
  };
  void add(const char* rule, const Object& object, Place place, Text text);

  // Reads the cluster's ignore annotations and comments. Call it before any finding is added.
  void take_ignores(const Cluster& cluster);

  std::vector<Finding> in_order() const;  // Sorted by file in input order, then line, column and rule.
  std::size_t count(Severity severity) const;
  std::size_t passed_over() const { return passed_over_; }
  bool is_full() const { return list_.size() == kFindingsMax; }
  std::size_t dropped() const { return dropped_; }  // Beyond kFindingsMax.

 private:
  void take_annotation(const Object& object);
  void take_comments(const Object& file);
  // The rule that "RULE: reason" names; reports a fault in it, and then returns "".
  std::string rule_of(std::string_view text, const Object& object, Place place);
  bool is_ignored(std::string_view rule, const Object& object, Place place) const;

  std::set<std::string, std::less<>> ignored_;
  std::map<const Object*, std::set<std::string, std::less<>>> of_objects_;
  std::map<std::pair<const Manifest*, int>, std::set<std::string, std::less<>>> of_lines_;
  std::map<const Manifest*, std::size_t> order_;
  struct Entry {
    std::size_t file = 0;
    Finding finding;
  };
  std::vector<Entry> list_;
  std::size_t passed_over_ = 0;
  std::size_t dropped_ = 0;
};

}  // namespace penstock::tools::k8s
