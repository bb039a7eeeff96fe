// SPDX-License-Identifier: Apache-2.0

// Makes pages with plots, which need no network: a command's script in plots/page.html, together with the script that
// all of them share and Chart.js. CMake's penstock_page() makes a string of it, with a mark in place of the JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/new_file.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// Throws, with exit code 77, if Chart.js was not there when this was built: `page` is "" then.
void require_plots(std::string_view page);
// The page with the data put in.
std::string page_with(std::string_view page, const Json& data);

// The forms of a result: text or JSON, and optionally a page.
struct OutputOptions {
  bool json = false;
  std::string html;
  bool overwrite = false;
};
void add_output_options(CommandLine& command, OutputOptions& options);

class Output {
 public:
  // Begins the page's file, so that a folder that refuses it shows before anything is measured.
  Output(const OutputOptions& options, std::string_view page);
  // Prints the result. With `is_text_alone` no line says that a page was written.
  void show(const Text& text, const Json& json, bool is_text_alone = false);

 private:
  const OutputOptions options_;
  const std::string_view page_;
  std::optional<TextFile> file_;
};

}  // namespace penstock::tools
