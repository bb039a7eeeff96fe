// SPDX-License-Identifier: Apache-2.0

#include "topology/kernel_symbols.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock::core {
namespace {

constexpr std::size_t kSymbolLinesMax = 1024;

bool is_sign_of_p2pdma(std::string_view line) {
  const auto occurs = [&](std::string_view sign) { return line.find(sign) != std::string_view::npos; };
  return std::any_of(std::begin(kP2pdmaSigns), std::end(kP2pdmaSigns), occurs);
}

}  // namespace

KernelSymbols read_kernel_symbols(const Root& root) {
  constexpr std::string_view kNeedles[] = {kP2pdmaSigns[0], kP2pdmaSigns[1], kHookEnd, kScsiHook};
  KernelSymbols symbols;
  symbols.has_functions = lists_functions(root);
  for (std::string& line : root.lines_with(kKernelSymbolsFile, kNeedles, kKernelSymbolsBytesMax, kSymbolLinesMax)) {
    if (is_sign_of_p2pdma(line)) symbols.has_p2pdma = true;
    else symbols.hooks.push_back(std::move(line));
  }
  return symbols;
}

Tristate lists_functions(const Root& root) {
  constexpr std::string_view kFunctions[] = {" T ", " t "};
  if (!root.exists(kKernelSymbolsFile)) return Tristate::unknown;
  return root.contains(kKernelSymbolsFile, kFunctions, kKernelSymbolsBytesMax) ? Tristate::yes : Tristate::no;
}

}  // namespace penstock::core
