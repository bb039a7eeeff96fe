// SPDX-License-Identifier: Apache-2.0

#include "tools/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tools/common/cufile_calls.h"
#include "tools/common/explanation.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/log_page.h"
#include "tools/common/machine_root.h"
#include "tools/common/page.h"
#include "tools/common/striped.h"
#include "tools/common/terminal.h"
#include "tools/explain/summary.h"

namespace penstock::tools {
namespace {

constexpr const char* kExplainExamples =
    "Examples:\n"
    "  penstock explain weights.safetensors            how a read into GPU 0 would travel, and why\n"
    "  penstock explain model/                         all files below a folder, as a table\n"
    "  penstock explain weights.safetensors -v         every path, the plan, and what stands in p2pdma's way\n"
    "  penstock explain weights.safetensors --write    the same for a write\n"
    "  penstock explain /dev/nvme0n1 --gpu 1 --json    for a program\n"
    "  penstock explain /data/file --root captured/    on a captured machine, as far as it tells\n"
    "  penstock explain cufile.log                     what a log means: causes and remedies of the lines that are "
    "known\n"
    "  penstock explain cufile.json cufile.log         the same, and whether the log was written with that file\n"
    "Exit code: 0 if any path is usable, 1 if none is or the file cannot be used, 2 wrong usage, 77 if there is no "
    "such GPU; of a log, 0 if a cause was found, 1 if none was.";

struct Options : ExplainSettings {
  std::vector<std::string> files;
  bool verbose = false;
};

ExplainSettings of_file(const Options& options, const std::string& file) {
  ExplainSettings one = options;
  one.file = file;
  return one;
}

// The files to look at, of a folder or pattern with too many only one.
struct Asked {
  std::vector<std::string> files;
  std::map<std::string, std::string> stands_for;  // Such a folder, by its file.
};

Asked asked_of(const std::vector<std::string>& words) {
  Asked asked;
  for (const std::string& word : words) {
    try {
      const std::vector<std::string> files = files_of({word});
      asked.files.insert(asked.files.end(), files.begin(), files.end());
    } catch (const TooManyFiles& many) {
      asked.files.push_back(many.one);
      asked.stands_for[many.one] = word;
    }
  }
  return asked;
}

void print_stand_ins(const Asked& asked) {
  for (const auto& [file, word] : asked.stands_for) {
    Page page;
    page.wrap("", fmt::format("{} has more than {} files: {} stands for those on its file system; a folder within it "
                              "is looked at file by file",
                              word, kFilesMost, file));
    print("{}", page.shown());
  }
}

// Prints the document of one file; for several, one with a list of them.
void print_answers_json(const Options& options, const Session& session, const std::vector<FileAnswer>& answers,
                        const std::vector<StripeNote>& stripes) {
  Json files = Json::array();
  for (const FileAnswer& each : answers) {
    if (each.failure.empty()) files.push_back(explanation_json(of_file(options, each.file), session, each.told));
    else files.push_back({{"file", {{"path", each.file}}}, {"error", each.failure}});
    if (!each.stands_for.empty()) files.back()["stands_for"] = each.stands_for;
  }
  Json objects = Json::array();
  for (const StripeNote& stripe : stripes) {
    objects.push_back({{"manifest", stripe.manifest},
                       {"size", stripe.info.size},
                       {"stripe_bytes", stripe.info.stripe_bytes},
                       {"members", stripe.members}});
  }
  if (!stripes.empty()) print_json({{"files", files}, {"striped", objects}});
  else print_json(files.size() == 1 ? files[0] : Json{{"files", files}});
}

void print_answers_in_full(const Options& options, const Session& session, const std::vector<FileAnswer>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i > 0) print("\n");
    if (answers[i].failure.empty()) print_in_full(of_file(options, answers[i].file), session, answers[i].told);
    else print("not looked at: {}\n", answers[i].failure);
  }
}

void print_summary(const Options& options, const Session& session, const std::vector<FileAnswer>& answers) {
  print("{}", answers.size() == 1 ? summary_of(options, answers[0]) : summary_of(options, answers));
  Page device;
  if (options.memory == "device") device.wrap("", device_line(session.raw(), options.gpu));
  print("{}", device.shown());
}

// The files, and in place of each manifest its members: a read of the object is one of each of them.
std::vector<std::string> with_members(const Session& session, const std::vector<std::string>& files,
                                      std::vector<StripeNote>& stripes) {
  std::vector<std::string> all;
  for (const std::string& file : files) {
    if (!is_striped(file)) {
      all.push_back(file);
      continue;
    }
    stripes.push_back(stripe_note(session, file));
    all.insert(all.end(), stripes.back().members.begin(), stripes.back().members.end());
  }
  return all;
}

// The answer is what cuFile's calls would get, so it is asked of their session: cufile.json may forbid a path, or be
// refused.
int explain_many(const Options& options, const Asked& asked) {
  setenv("CUFILE_LOGFILE_PATH", "/dev/null", 1);  // A question leaves no cufile.log in the folder of who asks.
  const Session session = cufile_session();
  if (options.memory == "device") check_gpu(session.raw(), options.gpu);
  std::vector<FileAnswer> answers;
  std::vector<StripeNote> stripes;
  bool all_usable = true;
  for (const std::string& file : with_members(session, asked.files, stripes)) {
    const auto folder = asked.stands_for.find(file);
    FileAnswer answer{file, "", {}, folder == asked.stands_for.end() ? "" : folder->second};
    try {
      answer.told = look_at(of_file(options, file), session);
    } catch (const Failure& failure) {
      if (asked.files.size() == 1) throw;
      answer.failure = failure.what();
    }
    all_usable = all_usable && answer.failure.empty() && answer.told.chosen() != nullptr;
    answers.push_back(std::move(answer));
  }
  if (options.json) print_answers_json(options, session, answers, stripes);
  else
    for (const StripeNote& stripe : stripes) print("{}\n", stripe.text());
  if (options.json) return all_usable ? kSuccess : kFailed;
  print_stand_ins(asked);
  if (options.verbose) print_answers_in_full(options, session, answers);
  else print_summary(options, session, answers);
  return all_usable ? kSuccess : kFailed;
}

// Where all files are logs, but for one cufile.json that they are held against, explains the logs.
std::optional<int> explain_as_logs(const Options& options) {
  std::vector<std::string> logs = options.files, settings;
  if (logs.size() > 1) {
    const auto is_settings = [](const std::string& file) { return file.ends_with(".json"); };
    std::ranges::copy_if(logs, std::back_inserter(settings), is_settings);
    std::erase_if(logs, is_settings);
  }
  if (settings.size() > 1 || logs.empty() || !std::ranges::all_of(logs, is_log)) return std::nullopt;
  return explain_logs(logs, options.json, settings.empty() ? "" : settings.front());
}

// Whoever asks about a cufile.json rarely means its bytes.
void name_other_question(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename();
  if (!name.starts_with("cufile") || !name.ends_with(".json")) return;
  Page page;
  page.wrap("", fmt::format("What {} sets, and what is wrong in it: 'penstock settings {}'", name, file));
  print("{}", page.shown());
}

int explain_all(const Options& options) {
  if (options.root.empty()) {
    if (const std::optional<int> done = explain_as_logs(options)) return *done;
  }
  if (!options.root.empty()) return explain_captured(options, options.files, options.verbose);
  set_variables(variables_of(options.variables));
  const int exit_code = explain_many(options, asked_of(options.files));
  if (!options.json) name_other_question(options.files.front());
  return exit_code;
}

}  // namespace

void add_explain(CommandLine& command) {
  auto options = std::make_shared<Options>();
  command.option("FILE", options->files, "Files, block devices, folders with all below them, striped objects, or logs")
      .required();
  command.flag("-v,--verbose", options->verbose,
               "Also print every path, the plan, and all that stands in p2pdma's way");
  const Option gpu = command.option("--gpu", options->gpu, "The GPU whose memory takes part").default_shown();
  const Option memory = command.option("--memory", options->memory, "Whose memory takes part: a GPU's or the host's")
                            .one_of({"device", "host"})
                            .default_shown();
  command.flag("--write", options->is_write, "Explain a write; the file is opened for writing, not changed");
  const Option direct = command.flag("--direct", options->direct, "Open the file with O_DIRECT");
  const Option offset = command.size("--offset", options->offset, "Where in the file the request begins [0]");
  const Option size = command.size("--size", options->size, "Bytes of the request [to the file's end, 16M at most]");
  Option root = command.option("--root", options->root, "Read the captured machine in DIR; FILE is a path there")
                    .value_name("DIR");
  command.option("--env", options->variables, "As if the program had this variable of Penstock's or cuFile's as well")
      .value_name("NAME=VALUE")
      .one_value_each();
  // A captured machine tells of every device it had, and no request is planned there.
  for (const Option& option : {gpu, memory, direct, offset, size}) root.excludes(option);
  command.flag("--json", options->json, "Print JSON");
  command.footer(kExplainExamples);
  command.runs([options] { return explain_all(*options); });
}

}  // namespace penstock::tools
