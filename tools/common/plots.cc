// SPDX-License-Identifier: Apache-2.0

#include "tools/common/plots.h"

#include "tools/common/failure.h"

namespace penstock::tools {

void require_plots(std::string_view page) {
  if (!page.empty()) return;
  throw Failure(
      "--html: this build has no plots: Chart.js (Debian's package libjs-chart.js) was not there when it was built; "
      "--json has the same numbers",
      kNotApplicable);
}

std::string page_with(std::string_view page, const Json& data) {
  require_plots(page);
  // A "<" inside a script element could end the element.
  std::string text;
  for (const char letter : data.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    text += letter == '<' ? std::string("\\u003c") : std::string(1, letter);
  }
  constexpr std::string_view kMark = "@DATA@";
  std::string whole(page);
  return whole.replace(whole.find(kMark), kMark.size(), text);
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
