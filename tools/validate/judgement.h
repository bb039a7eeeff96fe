// SPDX-License-Identifier: Apache-2.0

// One row in the making: it is added to the others with the verdict, which is said once.
#pragma once

#include <string>
#include <utility>

#include "tools/validate/row.h"

namespace penstock::tools::validate {

class Judgement {
 public:
  Judgement(Rows& rows, Layer layer, const char* code, std::string subject) : rows_(rows) {
    row_.layer = layer;
    row_.code = code;
    row_.subject = std::move(subject);
  }
  // Who says so, where it is not this machine itself.
  void by(std::string source) { row_.source = std::move(source); }
  void with(Json details) { row_.details = std::move(details); }

  void pass(std::string sentence) { add(State::pass, std::move(sentence), ""); }
  void fail(std::string sentence, std::string remedy) { add(State::fail, std::move(sentence), std::move(remedy)); }
  // What only concerns one direct path is no fault where the other one is open.
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
    row_.remedy = std::move(remedy);
    rows_.push_back(std::move(row_));
  }

  Rows& rows_;
  Row row_;
};

}  // namespace penstock::tools::validate
