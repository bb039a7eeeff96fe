// SPDX-License-Identifier: Apache-2.0

// Pages with plots, which need no network: a command's script in plots/page.html, with what all of them share and
// Chart.js. penstock_page() of CMake makes a string of it, with a mark where the JSON goes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/new_file.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// Throws, with exit code 77, where Chart.js was not there when this was built: the page is "" then.
void require_plots(std::string_view page);
// The page with the data in it.
std::string page_with(std::string_view page, const Json& data);

// The forms of a result: text or JSON, and besides a page.
struct OutputOptions {
  bool json = false;
  std::string html;
  bool overwrite = false;
};
void add_output_options(CommandLine& command, OutputOptions& options);

class Output {
 public:
  // Begins the page's file: a folder that refuses it shows before anything is measured.
  Output(const OutputOptions& options, std::string_view page);
  // is_text_alone: no line tells of the page.
  void show(const Text& text, const Json& json, bool is_text_alone = false);

 private:
  const OutputOptions options_;
  const std::string_view page_;
  std::optional<TextFile> file_;
};

}  // namespace penstock::tools
