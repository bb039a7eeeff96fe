// SPDX-License-Identifier: Apache-2.0

#include "tools/common/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr std::chrono::milliseconds kSilence{1000};
constexpr std::chrono::milliseconds kInterval{100};

}  // namespace

std::string progress_line(const std::string& label, std::uint64_t bytes, double fraction, double seconds) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  const double rate = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  std::string line = fmt::format("{}: {}  {:.0f}%  {}", label, format_size(bytes), 100 * fraction, format_rate(rate));
  if (fraction > 0) line += fmt::format("  {} left", format_duration(seconds * (1 - fraction) / fraction));
  return line;
}

Progress::Progress(std::string label) : label_(std::move(label)), is_terminal_(error_is_terminal()) {}

Progress::~Progress() {
  if (visible_) print_error("\r\033[K");
}

void Progress::update(std::uint64_t bytes, double fraction) {
  if (!is_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - start_ < kSilence || now - shown_ < kInterval) return;
  shown_ = now;
  visible_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  print_error("\r\033[K{}", progress_line(label_, bytes, fraction, seconds));
}

}  // namespace penstock::tools
