// SPDX-License-Identifier: Apache-2.0

// What a client of the node's server asks for. Pure, and takes anything.
#pragma once

#include <string>
#include <string_view>

namespace penstock::tools {

struct HttpRequest {
  std::string path;    // Of the target, without a query.
  std::string accept;  // What all Accept headers say; "" where there is none.
};

struct ParsedRequest {
  int status = 200;  // Else of the answer that says what is wrong with it.
  bool is_head = false;
  HttpRequest request;
};
// `head` is all up to the empty line.
ParsedRequest parse_request(std::string_view head);

// Whether an Accept header prefers Prometheus's text format to OpenMetrics.
bool prefers_plain_text(std::string_view accept);

}  // namespace penstock::tools
