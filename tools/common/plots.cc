// SPDX-License-Identifier: Apache-2.0

#include "tools/common/plots.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <utility>

#include "tools/common/failure.h"

namespace penstock::tools {

void require_plots(std::string_view page) {
  if (!page.empty()) return;
  throw Failure(
      "--html: this build has no plots: Chart.js (Debian's package libjs-chart.js) was not there when it was built; "
      "--json has the same numbers",
      kNotApplicable);
}

namespace {

// A "<" inside a script element could end the element.
std::string script_of(const Json& data) {
  std::string text;
  for (const char letter : data.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    text += letter == '<' ? std::string("\\u003c") : std::string(1, letter);
  }
  return text;
}

// When, where, by which version and by which command a page is made.
Json made_now() {
  std::string command;
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(words, word, '\0');) {
    if (command.empty()) word.erase(0, word.rfind('/') + 1);
    const bool is_plain = !word.empty() && word.find_first_of(" \t\n'\"$&|;<>()*?`\\") == std::string::npos;
    command += (command.empty() ? "" : " ") + (is_plain ? word : "'" + word + "'");
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return {{"date", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))},
          {"host", host},
          {"version", penstock_version()},
          {"command", command}};
}

}  // namespace

std::string page_with(std::string_view page, const Json& data) {
  require_plots(page);
  std::string whole(page);
  // From the end, since a mark that is within the data is no mark.
  for (const auto& [mark, text] : {std::pair("@MADE@", script_of(made_now())), std::pair("@DATA@", script_of(data))})
    whole.replace(whole.find(mark), std::string_view(mark).size(), text);
  return whole;
}

void add_output_options(CommandLine& command, OutputOptions& options) {
  command.option("--html", options.html, "Also write a page with pictures to PAGE; it needs no network")
      .value_name("PAGE");
  command.flag("--overwrite", options.overwrite, "Replace PAGE if it exists");
  command.flag("--json", options.json, "Print JSON");
}

Output::Output(const OutputOptions& options, std::string_view page) : options_(options), page_(page) {
  if (options.html.empty()) return;
  require_plots(page);
  file_.emplace(options.html, options.overwrite);
}

void Output::show(const Text& text, const Json& json, bool is_text_alone) {
  if (options_.json) print_json(json);
  else if (is_text_alone) print_document(text);
  else print("{}", text);
  if (!file_) return;
  file_->publish(page_with(page_, json));
  if (!options_.json && !is_text_alone) print("page: {}\n", options_.html);
}

}  // namespace penstock::tools
