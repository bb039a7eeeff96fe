// penstock explain: the facts of a file and the verdict of every path on it.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_explain(CLI::App& app, int& exit_code);

}  // namespace penstock::tools
