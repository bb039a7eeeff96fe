// SPDX-License-Identifier: Apache-2.0

// Builds one finding. At its end one of pass(), warn(), fail() and so on is called once, and adds it to
// the other findings.
#pragma once

#include <string>
#include <utility>

#include "facts/finding.h"

namespace penstock::facts {

class Judgement {
 public:
  Judgement(Findings& rows, const char* code, std::string subject = "", Layer layer = Layer::drivers) : rows_(rows) {
    row_.layer = layer;
    row_.code = code;
    row_.subject = std::move(subject);
  }
  // Names the document that says so; not called if this machine itself shows it.
  void by(std::string source) { row_.source = std::move(source); }
  // Names the storage under a folder, or the folders on a drive.
  void at(std::string where) { row_.where = std::move(where); }
  // Names a finding that this one may follow from. The first one named that fails counts; without a subject, any
  // finding with that code.
  void may_follow(std::string code, std::string subject = "") {
    row_.may_follow_from.push_back({std::move(code), std::move(subject)});
  }
  void reach(Reach reach) { row_.reach = reach; }
  // The paths that must not be taken if this fails, and those that are then in doubt.
  void closes(PathSet paths) { row_.closes = paths; }
  void doubts(PathSet paths) { row_.doubts = paths; }
  void needs_other_hardware() { row_.is_of_hardware = true; }

  void pass(std::string sentence) { add(State::pass, std::move(sentence), ""); }
  void warn(std::string sentence, std::string remedy) { add(State::warn, std::move(sentence), std::move(remedy)); }
  void fail(std::string sentence, std::string remedy) { add(State::fail, std::move(sentence), std::move(remedy)); }
  // A need of one direct path is no fault while the other direct path is open.
  void fail_unless(bool is_other_open, const std::string& other, const std::string& sentence, std::string remedy) {
    if (is_other_open) not_applicable(sentence + "; " + other + " may serve instead");
    else fail(sentence, std::move(remedy));
  }
  void unknown(std::string sentence, std::string remedy = "") {
    add(State::unknown, std::move(sentence), std::move(remedy));
  }
  void not_applicable(std::string sentence, std::string remedy = "") {
    add(State::not_applicable, std::move(sentence), std::move(remedy));
  }

 private:
  void add(State state, std::string sentence, std::string remedy) {
    row_.state = state;
    row_.sentence = std::move(sentence);
    row_.remedy = as_sentence(std::move(remedy));
    rows_.push_back(std::move(row_));
  }

  Findings& rows_;
  Finding row_;
};

}  // namespace penstock::facts
