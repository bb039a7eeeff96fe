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
  // Inside a script element "<" could end it.
  std::string text;
  for (const char letter : data.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    text += letter == '<' ? std::string("\\u003c") : std::string(1, letter);
  }
  constexpr std::string_view kMark = "@DATA@";
  std::string whole(page);
  return whole.replace(whole.find(kMark), kMark.size(), text);
}

}  // namespace penstock::tools
