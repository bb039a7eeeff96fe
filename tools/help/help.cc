// SPDX-License-Identifier: Apache-2.0

#include "tools/help/help.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "core/p2pdma_needs.h"
#include "facts/codes.h"
#include "facts/environment.h"
#include "facts/finding.h"
#include "model/pcie/pcie_constants.h"
#include "penstock/penstock.hpp"
#include "tools/common/failure.h"
#include "tools/common/nearest.h"
#include "tools/common/page.h"
#include "tools/help/closest.h"
#include "tools/help/words.h"
#include "topology/text.h"

#define PENSTOCK_CUFILE_WITHOUT_CUDA  // Only its numbers and names are needed.
#include "cufile.h"

namespace penstock::tools {
namespace {

constexpr const char* kHelpExamples =
    "Examples:\n"
    "  penstock help bench             the options of a command\n"
    "  penstock help stand_in          what a reason means, and what to do\n"
    "  penstock help PENSTOCK_POLICY   a setting: its value, what it takes\n"
    "  penstock help 5030              an error of cuFile; also by its name, and errors of the system (EIO)\n"
    "  penstock help binds             a word of what the tools print\n"
    "  penstock help p2pdma refused: iommu_translating    a line of a log: the reason in it\n"
    "  penstock help why is my checkpoint slow    a question: the word that fits it best\n"
    "  penstock help words             the list of such words; also 'paths', 'reasons' and 'rows'\n"
    "Exit code: 0 explained, 2 there is no such word.";

struct CufileError {
  const char* name;
  int number;
  const char* sentence;
};
constexpr CufileError kCufileErrors[] = {
#define CUFILE_OP(name, number, sentence) {#name, number, sentence},
    CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
};

const char* path_in_words(int path) {
  switch (path) {
    case PENSTOCK_PATH_P2PDMA:
      return "the drive's DMA engine reaches the GPU's memory by Linux's P2PDMA; no CPU, no host memory";
    case PENSTOCK_PATH_DMABUF:
      return "a raw drive's DMA engine reaches GPU memory that its driver exports as a dma-buf; no CPU, no host memory";
    case PENSTOCK_PATH_PAGECACHE: return "the GPU's DMA engine reads the file's pages in the page cache";
    case PENSTOCK_PATH_NVFS: return "the module nvidia-fs, called without NVIDIA's library, where it serves the file";
    case PENSTOCK_PATH_VENDOR: return "NVIDIA's library moves the bytes, where its module nvidia-fs serves the file";
    case PENSTOCK_PATH_BOUNCE: return "storage to pinned host memory to the GPU, overlapped";
    case PENSTOCK_PATH_HOST: return "storage straight into host memory; no GPU takes part";
    case PENSTOCK_PATH_NULL:
      return "moves no bytes, to measure what the library itself costs; taken only if it is named";
    default: return "the file system in user space moves the bytes by its own calls";
  }
}

// Returns what the path needs of the machine. It is empty where the path's sentence says all.
std::string needs_of_path(int path) {
  switch (path) {
    case PENSTOCK_PATH_P2PDMA:
      return fmt::format(
          "an NVMe drive, or md raid of such, with ext4 or XFS; Linux {} or later, but not {}, with "
          "CONFIG_PCI_P2PDMA; a way between drive and GPU that no ACS redirects and no IOMMU translates. Of an "
          "NVIDIA GPU: the open driver {} or later, from Linux {} on {} or later, all of its memory in BAR 1 "
          "(RMForceStaticBar1), PENSTOCK_NVIDIA_EXPORT=on",
          text_of(core::kP2pdmaKernel), text_of(core::kP2pdmaKernelFaulty), text_of(core::kP2pdmaDriver),
          text_of(core::kP2pdmaKernelOfNewPages), text_of(core::kP2pdmaDriverOfNewPages));
    case PENSTOCK_PATH_DMABUF:
      return "a Linux whose io_uring takes dma-bufs as buffers (none up to 7.3); an NVIDIA GPU with the open driver; "
             "a raw NVMe drive or a partition of one; no IOMMU that translates; PENSTOCK_DMABUF=on. To read files on "
             "ext4 or "
             "XFS on such a drive also PENSTOCK_DMABUF_FILES=on, and the right to read the drive's node, with which "
             "the process can read every file on it";
    case PENSTOCK_PATH_PAGECACHE:
      return "an NVIDIA GPU whose driver registers read-only memory; a file on ext4, XFS, Btrfs, F2FS, tmpfs or "
             "hugetlbfs, opened without O_DIRECT, whose bytes are in the page cache; writes on the last two alone";
    case PENSTOCK_PATH_NVFS:
      return "the module nvidia-fs, a storage driver that has registered with it, blocks of 4096 bytes, and "
             "PENSTOCK_NVFS=on or auto";
    case PENSTOCK_PATH_VENDOR:
      return "NVIDIA's libcufile.so.0, the module nvidia-fs, and a storage driver that has registered with it";
    case PENSTOCK_PATH_BOUNCE: return "a GPU and its driver; without one, host memory stands in";
    default: return "";
  }
}

std::vector<std::string> names_of_paths() {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < penstock_path_count(); ++i) {
    names.emplace_back(penstock_path_name(static_cast<std::int32_t>(i)));
  }
  return names;
}

std::vector<std::string> names_of_reasons() {
  std::vector<std::string> names;
  for (const std::int32_t reason : facts::all_reasons()) names.emplace_back(penstock_reason_name(reason));
  return names;
}

bool add_word(Page& page, std::string_view word) {
  const auto is_it = [&](const Word& each) { return word == each.word; };
  const auto* const found = std::find_if(std::begin(kWords), std::end(kWords), is_it);
  if (found == std::end(kWords)) return false;
  page.wrap(fmt::format("{}: ", word), found->sentence);
  for (const char* line : found->more) {
    if (line != nullptr) page.wrap("  ", line);
  }
  return true;
}

std::string_view meant_by(std::string_view word) {
  const auto is_it = [&](const OtherWord& each) { return strcasecmp(std::string(word).c_str(), each.word) == 0; };
  const auto* const found = std::find_if(std::begin(kOtherWords), std::end(kOtherWords), is_it);
  return found == std::end(kOtherWords) ? word : found->meant;
}

// Lists everything that a user can ask about, a line for each: "words", "paths", "reasons" or "rows".
bool add_list(Page& page, std::string_view word) {
  const auto add = [&](std::string_view name, std::string_view sentence) {
    page.line(fmt::format("{:<24} ", name), sentence);
  };
  if (word == "words") {
    for (const Word& each : kWords) add(each.word, each.sentence);
  } else if (word == "paths") {
    for (const std::string& name : names_of_paths()) add(name, path_in_words(*path_by_name(name)));
  } else if (word == "reasons") {
    for (const std::int32_t reason : facts::all_reasons()) {
      add(penstock_reason_name(reason), penstock_reason_sentence(reason));
    }
  } else if (word == "rows") {
    for (const facts::Code& code : facts::codes()) add(code.name, code.about);
  }
  if (page.text().empty()) return false;
  if (output_is_terminal()) page.wrap("", "'penstock help NAME' tells all of one.");
  return true;
}

bool add_path(Page& page, std::string_view word) {
  const auto path = path_by_name(std::string(word));
  if (!path) return false;
  page.wrap(fmt::format("{} (a path): ", word), path_in_words(*path));
  if (const std::string needs = needs_of_path(*path); !needs.empty()) {
    page.wrap("  ", fmt::format("It needs {}.", needs));
  }
  page.wrap("  ", "'penstock check' says what this machine lacks of it, 'penstock explain FILE' the same for a file.");
  const std::string reason = fmt::format("{}_off", word);
  if (facts::reason_named(reason)) {
    page.wrap("  ", fmt::format("A setting can leave it out: 'penstock help {}' says which.", reason));
  }
  return true;
}

bool add_reason(Page& page, std::string_view word) {
  const std::optional<std::int32_t> reason = facts::reason_named(word);
  if (!reason) return false;
  page.wrap(fmt::format("{} (a reason): ", word), penstock_reason_sentence(*reason));
  const std::string_view remedy = penstock_reason_remedy(*reason);
  if (!remedy.empty()) page.wrap("  -> ", facts::as_sentence(std::string(remedy)));
  std::set<std::string_view> rows;  // Several codes have one name, each for another layer.
  for (const facts::Code& code : facts::codes()) {
    const bool is_it = code.reason == word || code.of_vendor == word;
    if (is_it && rows.insert(code.name).second)
      page.wrap("  ", fmt::format("Where it is so, the row {} of 'penstock check --all' says it.", code.name));
  }
  return true;
}

bool add_reason_of_line(Page& page, std::string_view line) {
  const std::optional<std::int32_t> reason = facts::reason_in(line);
  return reason && add_reason(page, penstock_reason_name(*reason));
}

// Says what a code of check's and explain's judges, and by which reason the library says the same.
bool add_code(Page& page, std::string_view word) {
  const facts::Code* const code = facts::code_named(word);
  if (code == nullptr || code->about.empty()) return false;
  page.wrap(fmt::format("{} (a row of check): ", word), code->about);
  for (const std::string_view reason : {code->reason, code->of_vendor}) {
    if (!reason.empty()) page.wrap("  ", fmt::format("The library's reason for it is {}.", reason));
  }
  page.wrap("  ", "'penstock check --all' has the row, with what is to be done.");
  return true;
}

// Explains a number of penstock-model's, by the name that its notes and tables have.
bool add_constant(Page& page, std::string_view word) {
  for (const model::ConstantFacts& one : model::all_constant_facts()) {
    if (word != one.name) continue;
    const std::string unit = one.unit == "1" ? "" : fmt::format(" {}", one.unit);
    const std::string range = one.low < one.high ? fmt::format(" ({:g} to {:g})", one.low, one.high) : "";
    page.wrap(fmt::format("{} (a constant of penstock-model): ", word),
              fmt::format("{:g}{}{}, {}", one.value, unit, range, one.source));
    page.wrap("  ", fmt::format("'penstock-model constants' lists all; its option --set {}=VALUE gives another value.",
                                word));
    return true;
  }
  return false;
}

// Finds an error by its name or its number, which programs print with either sign.
bool add_cufile_error(Page& page, std::string_view word) {
  const std::optional<int> number = core::parse_number<int>(word);
  for (const CufileError& error : kCufileErrors) {
    if (error.number == 0 || (word != error.name && number != error.number && number != -error.number)) continue;
    page.wrap(fmt::format("{} ({}, an error of cuFile): ", error.name, error.number), error.sentence);
    for (const ErrorCause& each : kErrorCauses) {
      if (each.number != error.number) continue;
      page.wrap("  ", each.cause);
      page.wrap("  -> ", each.remedy);
    }
    page.wrap("  ",
              "Of a call that failed, the log named by CUFILE_LOGFILE_PATH has the step, the cause and the remedy.");
    return true;
  }
  return false;
}

bool add_errno(Page& page, std::string_view word) {
  constexpr int kErrnoMost = 200;
  const std::optional<int> number = core::parse_number<int>(word);
  for (int error = 1; error < kErrnoMost; ++error) {
    const char* const name = strerrorname_np(error);
    if (name == nullptr || (word != name && number != error && number != -error)) continue;
    page.wrap(fmt::format("{} ({}, an error of the system): ", name, error), strerrordesc_np(error));
    return true;
  }
  return false;
}

void add_all(Topics& topics, const std::vector<std::string>& names) {
  for (const std::string& name : names) topics.emplace_back(name, "");
}

// Collects all that can be asked about besides commands.
Topics other_topics() {
  Topics topics;
  for (const Word& each : kWords) topics.emplace_back(each.word, each.sentence);
  for (const std::string& name : names_of_paths()) topics.emplace_back(name, path_in_words(*path_by_name(name)));
  for (const facts::Code& code : facts::codes()) topics.emplace_back(code.name, code.about);
  for (const OtherWord& each : kOtherWords) topics.emplace_back(each.word, "");
  add_all(topics, {"words", "paths", "reasons", "rows"});
  add_all(topics, names_of_reasons());
  add_all(topics, facts::setting_names());
  for (const CufileError& error : kCufileErrors) topics.emplace_back(error.name, "");
  for (const model::ConstantFacts& one : model::all_constant_facts()) topics.emplace_back(one.name, "");
  return topics;
}

// Finds topics of a question, by the names that people have for them, and by all that is told of them. A line of a log,
// which has a colon, asks nothing.
std::vector<std::string> topics_of(const std::string& question, const Topics& topics) {
  if (question.find(':') != std::string::npos) return {};
  std::vector<Entry> entries;
  for (const auto& [name, sentence] : topics) entries.push_back({std::string(meant_by(name)), name, sentence});
  for (const Word& each : kWords) {
    for (const char* line : each.more) entries.push_back({each.word, each.word, line == nullptr ? "" : line});
  }
  return closest_topics(question, entries);
}

// Proposes names, and where none is near, the topics that are told in a sentence with this word.
[[noreturn]] void refuse_word(const std::string& word, const Topics& topics, const std::vector<std::string>& fitting) {
  std::vector<std::string> names, telling;
  std::set<std::string_view> known;  // A row of check and a reason may have one name.
  for (const auto& [name, sentence] : topics) {
    if (known.insert(name).second) names.push_back(name);
    if (contains(sentence, word)) telling.push_back(name);
  }
  const bool is_line = word.find(' ') != std::string::npos;
  std::string meant = proposal_or_variable(word, names);
  if (meant.empty() && !fitting.empty()) meant = fmt::format("; did you mean '{}'?", fmt::join(fitting, "' or '"));
  if (meant.empty() && !telling.empty()) meant = fmt::format("; it is a matter of '{}'", fmt::join(telling, "', '"));
  throw Failure(
      fmt::format("'{}' is no command, path, reason, setting, variable, error or word of the tools{}{}", word, meant,
                  !meant.empty() ? ""
                  : is_line      ? "; if it is a log's, 'penstock explain FILE.log' knows the causes of many such lines"
                                 : "; if lint said it, 'penstock-k8s lint --rules' tells what it means"),
      kUsage);
}

// Answers a question in a person's own words, or refuses it.
Text entry_for(const std::string& question, const Topics& commands) {
  Topics topics = other_topics();
  topics.insert(topics.end(), commands.begin(), commands.end());
  const std::vector<std::string> fitting = topics_of(question, topics);
  const std::string topic = fitting.size() == 1 ? fitting.front() : "";
  if (const auto text = topic_text(topic)) return *text;
  for (const auto& [name, sentence] : commands) {
    if (name != topic) continue;
    Page page;
    page.wrap(fmt::format("{} (a command): ", name), fmt::format("{}; 'penstock help {}' has more", sentence, name));
    return Text(page.text());
  }
  refuse_word(question, topics, fitting);
}

}  // namespace

void add_help(CommandLine& command, Topics commands) {
  auto words = std::make_shared<std::vector<std::string>>();
  command
      .option("WORD", *words,
              "A command, path, reason, setting, variable, error or word of the tools; a line of a log that names a "
              "reason; or a question")
      .required();
  command.footer(kHelpExamples);
  command.runs([words, commands = std::move(commands)] {
    const std::string word = fmt::format("{}", fmt::join(*words, " "));
    std::optional<Text> text = topic_text(word);
    if (!text) text = entry_for(word, commands);
    print("{}", *text);
    return kSuccess;
  });
}

std::optional<Text> topic_text(std::string_view asked) {
  const std::string_view word = meant_by(asked);
  Page page;
  const bool is_known = add_list(page, word) || add_path(page, word) || add_reason(page, word) ||
                        add_code(page, word) || add_constant(page, word) || add_cufile_error(page, word) ||
                        add_errno(page, word) || add_word(page, word) || add_reason_of_line(page, word);
  return is_known ? std::optional(Text(page.text())) : std::nullopt;
}

}  // namespace penstock::tools
