// SPDX-License-Identifier: Apache-2.0

// The request of a client of the node's server. Pure, and takes anything.
#pragma once

#include <string>
#include <string_view>

namespace penstock::tools {

struct HttpRequest {
  std::string path;    // The target's, without a query.
  std::string accept;  // All Accept headers together, or "".
};

struct ParsedRequest {
  int status = 200;  // Else of the answer that says what is wrong with it.
  bool is_head = false;
  HttpRequest request;
};
// `head` is all up to the empty line.
ParsedRequest parse_request(std::string_view head);

// True if an Accept header prefers Prometheus's text format to OpenMetrics.
bool prefers_plain_text(std::string_view accept);

}  // namespace penstock::tools
