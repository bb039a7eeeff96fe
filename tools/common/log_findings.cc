// SPDX-License-Identifier: Apache-2.0

#include "tools/common/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "facts/finding.h"
#include "penstock/penstock.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/log_causes.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kPieceMost = std::size_t{64} << 10;  // A longer line is searched in pieces.
constexpr std::size_t kLineMost = std::size_t{16} << 20;   // A longer line ends the reading; so do bytes of no text.
constexpr std::size_t kShown = 200;
constexpr std::size_t kUnknownShown = 8;

bool speaks(const LogCause& cause, std::string_view lower) {
  return std::all_of(cause.words.begin(), cause.words.end(),
                     [&](const char* word) { return word == nullptr || lower.find(word) != std::string_view::npos; });
}

// The reason of Penstock's that a line names, as a cause.
const LogCause* reason_of(std::string_view line) {
  static const std::map<std::int32_t, LogCause> causes = [] {
    std::map<std::int32_t, LogCause> all;
    for (const std::int32_t reason : facts::all_reasons()) {
      all[reason] = {penstock_reason_name(reason),
                     {},
                     penstock_reason_sentence(reason),
                     penstock_reason_remedy(reason),
                     "a reason of Penstock's, docs/reference/reasons.md"};
    }
    return all;
  }();
  const std::optional<std::int32_t> reason = facts::reason_in(line);
  return reason ? &causes.at(*reason) : nullptr;
}

// A line of Penstock's own log (base/log.cc), such as "... [pid=7 tid=7] ERROR  driver.cc:96 could not open the driver
// ...". NVIDIA's library has no ".cc" behind the name of a source.
struct OwnLine {
  core::LogLevel level = core::LogLevel::error;
  std::string_view text;
};
std::optional<OwnLine> own_line(std::string_view line) {
  constexpr std::string_view kPid = "[pid=", kSource = ".cc:";
  const std::size_t pid = line.find(kPid);
  const std::size_t head = pid == std::string_view::npos ? pid : line.find("] ", pid);
  if (head == std::string_view::npos) return std::nullopt;
  line.remove_prefix(head + 2);
  const auto level = core::log_level_named(line.substr(0, line.find(' ')));
  const std::size_t source = line.find(kSource), text = line.find(' ', std::min(source, line.size()));
  if (!level || text == std::string_view::npos) return std::nullopt;
  return OwnLine{*level, line.substr(text + 1)};
}

// The line says its cause, and what to do behind a semicolon, as describe() of base/status.h makes it.
LogFinding finding_of(const OwnLine& line) {
  const std::size_t end = std::min(line.text.find("; "), line.text.size());
  const std::string_view remedy = line.text.substr(std::min(end + 2, line.text.size()));
  return {.cause = "penstock_log",
          .meaning = core::printable(line.text.substr(0, end)),
          .remedy = core::printable(remedy),
          .source = "Penstock's own log"};
}

// True for a line that shows that compatibility mode was allowed, false for the contrary. Penstock's own lines ask for
// what is off; "compat mode off" is cuFile's text of the error 5049.
std::optional<bool> shows_compat(const LogCause* cause, std::string_view line) {
  for (const char* const off : {"set allow_compat_mode to true", "compat mode off"}) {
    if (line.find(off) != std::string_view::npos) return false;
  }
  if (cause != nullptr && cause->id == std::string_view("compat_mode")) return true;
  return std::nullopt;
}

LogFinding finding_of(const LogCause& cause) {
  return {.cause = cause.id, .meaning = cause.meaning, .remedy = cause.remedy, .source = cause.source};
}

class LogReader {
 public:
  LogReader(const std::string& file, LogAnswer& answer)
      : file_(file), answer_(answer), unknown_(answer.unknown), before_(answer.unknown) {}

  // Takes a line, or a piece of a long one. False where no more of the file is worth reading.
  bool take(std::string_view line) {
    has_zeros_ = has_zeros_ || line.find('\0') != std::string_view::npos;
    if (has_zeros_) bytes_of_no_text_ += line.size();
    const bool is_end = line.ends_with('\n');
    line_bytes_ += line.size();
    const bool is_enough = !is_end && line_bytes_ >= kLineMost;
    if (is_enough || bytes_of_no_text_ >= kLineMost || interrupted()) {
      unknown_.cut_short.push_back(fmt::format("{}:{}", file_, number_));
      return false;
    }
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    const LogCause* const cause = cause_of(line);
    const std::optional<OwnLine> own = own_line(line);
    if (const auto is_allowed = shows_compat(cause, line)) take_compat(*is_allowed);
    if (cause != nullptr) add(finding_of(*cause), line);
    else if (!own) take_unknown(line);
    else if (own->level <= core::LogLevel::warn) add(finding_of(*own), line);
    if (is_end) {
      ++number_;
      line_bytes_ = 0;
    }
    return true;
  }

  void end() {
    if (!has_zeros_) return;
    unknown_.count = before_.count;
    unknown_.first = before_.first;
    unknown_.no_text.push_back(file_);
  }

 private:
  void add(LogFinding finding, std::string_view line) {
    const bool is_own = finding.cause == "penstock_log";
    const auto [found, is_new] =
        answer_.places.try_emplace(finding.cause + (is_own ? finding.meaning : ""), answer_.findings.size());
    if (!is_new) {
      ++answer_.findings[found->second].count;
      return;
    }
    finding.file = file_;
    finding.line = number_;
    finding.count = 1;
    finding.text = line.substr(0, kShown);
    answer_.findings.push_back(std::move(finding));
  }

  void take_compat(bool is_allowed) {
    std::optional<LogAnswer::CompatLine>& last = answer_.compat;
    if (!last || last->file != file_) answer_.contrary.reset();
    else if (last->is_allowed != is_allowed) answer_.contrary = last;
    last = {file_, number_, is_allowed};
  }

  // Pieces of one line count once.
  void take_unknown(std::string_view line) {
    if (line.find_first_not_of(" \t") == std::string_view::npos || number_ == last_unknown_) return;
    last_unknown_ = number_;
    if (++unknown_.count <= kUnknownShown) unknown_.first.push_back(fmt::format("{}:{}", file_, number_));
  }

  const std::string& file_;
  LogAnswer& answer_;
  UnknownLines& unknown_;
  const UnknownLines before_;
  std::size_t number_ = 1;
  std::size_t last_unknown_ = 0;
  std::size_t line_bytes_ = 0;  // The part of the line that was read.
  std::size_t bytes_of_no_text_ = 0;
  bool has_zeros_ = false;
};

// Reads a line with its end, or 64 KiB of it; false at the end of the log.
bool read_piece(std::FILE* log, std::string& piece) {
  piece.clear();
  for (int letter = 0; piece.size() < kPieceMost && (letter = std::getc(log)) != EOF;) {
    piece.push_back(static_cast<char>(letter));
    if (letter == '\n') break;
  }
  return !piece.empty();
}

}  // namespace

const LogCause* cause_of(std::string_view line) {
  std::string lower(line);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* found = std::find_if(std::begin(kLogCauses), std::end(kLogCauses),
                                   [&](const LogCause& cause) { return speaks(cause, lower); });
  return found == std::end(kLogCauses) ? reason_of(line) : found;
}

void read_log(std::FILE* log, const std::string& file, LogAnswer& answer) {
  LogReader reader(file, answer);
  for (std::string piece; read_piece(log, piece) && reader.take(piece);) {
  }
  if (std::ferror(log) != 0) {
    throw Failure(fmt::format("{}: it cannot be read: {}", file, std::strerror(errno)), kUsage);
  }
  reader.end();
}

}  // namespace penstock::tools
