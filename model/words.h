// SPDX-License-Identifier: Apache-2.0

// Formats numbers for people, in tables and sentences: the only place where models convert numbers to text. Pure.
#pragma once

#include <string>

namespace penstock::model {

std::string size_in_words(double bytes);        // "64 KiB" for round binary sizes, else "140 GB", "0.5 B"
std::string time_in_words(double seconds);      // "2.35 us", "344.0 ms", "30.62 s", "3 h 48 min"
std::string rate_in_words(double bytes_per_s);  // "14 GB/s"
std::string count_in_words(double value);       // "65536", "0.2312", "70 billion"

}  // namespace penstock::model
