// SPDX-License-Identifier: Apache-2.0

// Parses the request of a client of the node's server. Pure, and safe for any input.
#pragma once

#include <string>
#include <string_view>

namespace penstock::tools {

struct HttpRequest {
  std::string path;    // The path of the target, without its query.
  std::string accept;  // All Accept headers together, or "".
};

struct ParsedRequest {
  int status = 200;  // The status of the answer that says what is wrong with it, if not 200.
  bool is_head = false;
  HttpRequest request;
};
// `head` is everything up to the empty line.
ParsedRequest parse_request(std::string_view head);

// True if an Accept header prefers Prometheus's text format to OpenMetrics.
bool prefers_plain_text(std::string_view accept);

}  // namespace penstock::tools
