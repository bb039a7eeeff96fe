// SPDX-License-Identifier: Apache-2.0

// Answers GET and HEAD from any client, one request a connection, on one thread. No client can hold it up: a connection
// has a few seconds and a few KiB for its request, and if all places are taken, a new connection takes the place of the
// oldest one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tools/serve/http_request.h"

namespace penstock::tools {

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;
};

class HttpServer {
 public:
  static constexpr std::size_t kConnectionsMax = 64;
  static constexpr std::size_t kHeadBytesMax = 8192;
  static constexpr std::chrono::milliseconds kPatience{10'000};

  using Answer = std::function<HttpResponse(const HttpRequest&)>;

  // Listens at "127.0.0.1:9760" or "[::]:9760"; with port 0 at any free port. Throws a Failure.
  HttpServer(const std::string& address, Answer answer, std::chrono::milliseconds patience = kPatience);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // Contains the port that it got.
  void serve_until_readable(int stop_fd);

 private:
  struct Connection;

  void accept_all();
  int milliseconds_to_wait() const;
  void serve(Connection& connection);
  void read_head(Connection& connection);
  void begin_answer(Connection& connection, const ParsedRequest& parsed);
  void write_answer(Connection& connection);
  void ignore_the_rest(Connection& connection);

  core::UniqueFd listening_;
  const Answer answer_;
  const std::chrono::milliseconds patience_;
  std::vector<std::unique_ptr<Connection>> connections_;  // Oldest first.
  bool is_short_ = false;                                 // Descriptors or memory are too short for another connection.
};

}  // namespace penstock::tools
