// SPDX-License-Identifier: Apache-2.0

// What follows from what among the rows. Pure.
#include <algorithm>
#include <string_view>

#include "tools/validate/row.h"

namespace penstock::tools::validate {
namespace {

constexpr unsigned kStepsMax = 8;

const Row* failed_row(const Rows& rows, const RowName& name, const Row& but) {
  const auto is_it = [&](const Row& row) {
    return &row != &but && row.state == State::fail && row.code == name.code &&
           (name.subject.empty() || row.subject == name.subject);
  };
  const auto found = std::find_if(rows.begin(), rows.end(), is_it);
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

void settle_causes(Rows& rows) {
  for (Row& row : rows) {
    if (row.state == State::pass) continue;
    for (const RowName& name : row.may_follow_from) {
      const Row* const cause = failed_row(rows, name, row);
      if (cause == nullptr) continue;
      row.follows_from = cause->name();
      break;
    }
  }
}

const Row& cause_of(const Rows& rows, const Row& row) {
  const Row* cause = &row;
  for (unsigned step = 0; step < kStepsMax && cause->follows_from; ++step) {
    const Row* const next = failed_row(rows, *cause->follows_from, *cause);
    if (next == nullptr) break;
    cause = next;
  }
  return *cause;
}

}  // namespace penstock::tools::validate
