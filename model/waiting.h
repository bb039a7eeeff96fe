// SPDX-License-Identifier: Apache-2.0

// The cost of machines at `hour` dollars an hour that wait for so many saves, and what a month is. Pure.
#pragma once

namespace penstock::model {

constexpr double kMonthHours = 730;  // A twelfth of a year.

struct Waiting {
  double hours;
  double money;
};

inline Waiting waiting_of(double save_s, double saves, double hour) {
  const double hours = saves * save_s / 3600;
  return {hours, hours * hour};
}

}  // namespace penstock::model
