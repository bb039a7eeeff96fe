// SPDX-License-Identifier: Apache-2.0

// Numbers as people write and read them: sizes in binary units, rates in decimal GB/s. Pure; every sub-command uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::tools {

// Reads "4096", "4k", "1M", "2G", "64KiB": binary multiples, at most 2^63-1. Nothing for anything else, also for "KB"
// and "MB", since half of all readers would take them for thousands.
std::optional<std::uint64_t> parse_size(std::string_view text);

std::string size_argument(std::uint64_t bytes);    // The text that parse_size() reads: "64M", "1500".
std::string format_size(std::uint64_t bytes);      // "1.50 GiB", "4 KiB", "17 B"
std::string format_rate(double bytes_per_second);  // "3.21 GB/s"
std::string format_duration(double seconds);       // "850 us", "1.25 s", "2 min 5 s"

double gigabytes(std::uint64_t bytes);  // Decimal: 10^9.
double gibibytes(std::uint64_t bytes);  // Binary: 2^30.

}  // namespace penstock::tools
