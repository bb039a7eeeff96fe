// SPDX-License-Identifier: Apache-2.0

#include "tools/common/log_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>

#include "facts/process.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/log_findings.h"
#include "tools/common/machine_root.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr const char* kStandardInput = "standard input";

void print_unknown(const UnknownLines& unknown) {
  Page page;
  for (const std::string& file : unknown.no_text) {
    page.wrap("",
              fmt::format("{} is no text: it has zero bytes, and its lines that are not known are not counted", file));
  }
  if (unknown.count > 0) {
    page.wrap("", fmt::format("{} line{} not known: {}{}", unknown.count, unknown.count == 1 ? "" : "s",
                              fmt::join(unknown.first, ", "), unknown.count > unknown.first.size() ? ", ..." : ""));
  }
  for (const std::string& line : unknown.cut_short) {
    page.wrap("", fmt::format("nothing behind {} was read: {}", line,
                              interrupted() ? "it was interrupted" : "it does not end, or is no text"));
  }
  print("{}", Text(page.text()));
}

const char* allowed(bool is_allowed) { return is_allowed ? "allowed" : "forbidden"; }

// Says that lines of one log contradict each other; "" if none do.
std::string contradiction(const LogAnswer& answer) {
  if (!answer.contrary) return "";
  return fmt::format(
      "{}:{} was written while compatibility mode was {}, and line {} while it was {}: runs with several settings "
      "wrote "
      "this log, so not all of its lines are true of the last one",
      answer.contrary->file, answer.contrary->line, allowed(answer.contrary->is_allowed), answer.compat->line,
      allowed(answer.compat->is_allowed));
}

core::LoadedSettings settings_of(const std::string& file) {
  return facts::read_process(open_machine_root(""), false, {{core::kSettingsFileVariable, file}}).cufile;
}

// The faults of the cufile.json that logs are held against; none where none was named.
std::vector<std::string> faults_of(const std::string& file) {
  std::vector<std::string> faults;
  if (file.empty()) return faults;
  for (const core::Note& note : settings_of(file).notes) {
    const bool is_of_file = note.place == file && note.severity != core::Severity::idle;
    if (is_of_file) faults.push_back(core::describe(note));
  }
  return faults;
}

// Says that the cufile.json that was named, or lies beside a log, is not the one that the log was written with. It is
// "" where nothing shows that.
std::string other_settings(const LogAnswer& answer, const std::string& named) {
  if (!answer.compat || answer.compat->file == kStandardInput) return "";
  const auto& [log, line, is_allowed] = *answer.compat;
  const std::string file = named.empty() ? std::filesystem::path(log).replace_filename("cufile.json").string() : named;
  if (::access(file.c_str(), R_OK) != 0) return "";
  const core::LoadedSettings loaded = settings_of(file);
  if (loaded.must_refuse) return "";  // With it no program opens the driver, so none has written the log.
  const core::Settings& settings = loaded.settings;
  const bool is_allowed_now =
      settings.is_on("properties.allow_compat_mode") || settings.is_on("properties.force_compat_mode");
  if (is_allowed_now == is_allowed) return "";
  return fmt::format(
      "{}:{} was written while compatibility mode was {}, and {} says {}: the log is older than the file, or the "
      "program read another one ({}, /etc/cufile.json) or a variable (CUFILE_ALLOW_COMPAT_MODE)",
      log, line, allowed(is_allowed), file,
      is_allowed_now ? "that it is allowed" : "properties.allow_compat_mode: false", core::kSettingsFileVariable);
}

void print_for_people(const LogAnswer& answer, const std::string& settings) {
  const auto& findings = answer.findings;
  constexpr std::size_t kPeopleSee = 100;
  Page of_settings;
  for (const std::string& fault : faults_of(settings)) of_settings.wrap("", fault);
  if (!of_settings.text().empty()) print("{}\n", of_settings.shown());
  if (findings.empty()) print("none of the causes that are known here\n");
  for (const LogFinding& each : std::span(findings).first(std::min(kPeopleSee, findings.size()))) {
    Page page;
    page.wrap("", fmt::format("{}:{}: {}", each.file, each.line, each.text));
    page.wrap("  means   ", fmt::format("{} [{}]", each.meaning, each.cause));
    if (!each.remedy.empty()) page.wrap("  remedy  ", each.remedy);
    page.wrap("  source  ",
              fmt::format("{}{}", each.source, each.count > 1 ? fmt::format("; in {} lines", each.count) : ""));
    print("{}\n", Text(page.text()));
  }
  if (findings.size() > kPeopleSee) print("and {} more; --json lists them\n\n", findings.size() - kPeopleSee);
  Page page;
  for (const std::string& said : {contradiction(answer), other_settings(answer, settings)}) {
    if (!said.empty()) page.wrap("", said);
  }
  print("{}", Text(page.text()));
  print_unknown(answer.unknown);
}

void print_for_programs(const LogAnswer& answer, const std::string& settings) {
  const UnknownLines& unknown = answer.unknown;
  Json rows = Json::array();
  for (const LogFinding& each : answer.findings) {
    rows.push_back({{"cause", each.cause},
                    {"file", each.file},
                    {"line", each.line},
                    {"lines", each.count},
                    {"text", printable(each.text)},
                    {"meaning", each.meaning},
                    {"remedy", each.remedy},
                    {"source", each.source}});
  }
  print_json({{"schema", 1},
              {"findings", rows},
              {"lines_not_known", {{"count", unknown.count}, {"first", unknown.first}}},
              {"no_text", unknown.no_text},
              {"cut_short", unknown.cut_short},
              {"contradiction", or_null(contradiction(answer))},
              {"other_settings", or_null(other_settings(answer, settings))},
              {"settings_faults", faults_of(settings)}});
}

using OpenLog = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
OpenLog open_log(const std::string& file) { return {std::fopen(file.c_str(), "re"), &std::fclose}; }

}  // namespace

bool is_log(const std::string& file) {
  struct stat facts = {};
  if (stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  const OpenLog log = open_log(file);
  std::string head(4096, ' ');
  head.resize(log == nullptr ? 0 : std::fread(head.data(), 1, head.size(), log.get()));
  if (head.empty() || head.find('\0') != std::string::npos) return false;
  return file.ends_with(".log") || head.find("[pid=") != std::string::npos;
}

int explain_logs(const std::vector<std::string>& files, bool is_json, const std::string& settings) {
  if (!settings.empty()) (void)open_file(settings, O_RDONLY);
  LogAnswer answer;
  for (const std::string& file : files) {
    if (file == "-") {
      read_log(stdin, kStandardInput, answer);
      continue;
    }
    const OpenLog log = open_log(file);
    if (log == nullptr) throw Failure(fmt::format("{}: it cannot be opened: {}", file, std::strerror(errno)), kUsage);
    read_log(log.get(), file, answer);
  }
  (is_json ? print_for_programs : print_for_people)(answer, settings);
  return answer.findings.empty() ? kFailed : kSuccess;
}

}  // namespace penstock::tools
