// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/http_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/status.h"
#include "tools/common/failure.h"
#include "tools/common/terminal.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWaitForDescriptors = 100;            // Milliseconds.
constexpr std::size_t kIgnoredBytesMax = 64 << 10;  // The most that a client may send behind its request.

[[noreturn]] void refuse(const std::string& address, const std::string& why, int exit_code = kFailed) {
  throw Failure(fmt::format("--listen {}: {}", printable(address), why), exit_code);
}

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Takes numeric addresses only: names would need the network before there is anything to serve.
Addresses resolve(const std::string& address) {
  const std::size_t colon = std::min(address.rfind(':'), address.size());
  std::string host = address.substr(0, colon);
  const auto port =
      core::parse_number<std::uint16_t>(std::string_view(address).substr(std::min(colon + 1, address.size())));
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = is_bracketed ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (host.empty() || !port || ::getaddrinfo(host.c_str(), std::to_string(*port).c_str(), &hints, &found) != 0) {
    refuse(address, "expected an address of this machine and a port: 127.0.0.1:9760, 0.0.0.0:9760 or [::]:9760",
           kUsage);
  }
  return Addresses(found);
}

core::UniqueFd listen_at(const std::string& address) {
  const Addresses where = resolve(address);
  core::UniqueFd fd(::socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (fd.valid()) (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd.valid() || ::bind(fd.get(), where->ai_addr, where->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    refuse(address, core::describe(core::os_failure(errno, "listen there")));
  }
  return fd;
}

const char* phrase_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
  }
  return "Error";
}

HttpResponse complaint(int status) {
  return {.status = status, .body = std::make_shared<const std::string>(std::string(phrase_of(status)) + "\n")};
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

struct HttpServer::Connection {
  enum class State { reading, writing, closing, ended };

  core::UniqueFd fd;
  Clock::time_point end;  // The time at which it is closed, done or not.
  State state = State::reading;
  std::string text;                         // The request, then the head of the answer.
  std::shared_ptr<const std::string> body;  // The body of the answer. Null for a HEAD.
  std::size_t done = 0;  // The bytes of head and body that were written; then bytes that are ignored.
};

HttpServer::HttpServer(const std::string& address, Answer answer, std::chrono::milliseconds patience)
    : listening_(listen_at(address)), answer_(std::move(answer)), patience_(patience) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::address() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* const any = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(listening_.get(), any, &size) != 0 ||
      ::getnameinfo(any, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  return own.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

void HttpServer::serve_until_readable(int stop_fd) {
  while (true) {
    // Accepts no connection while there is no descriptor for one.
    std::vector<pollfd> polled = {{stop_fd, POLLIN, 0}, {is_short_ ? -1 : listening_.get(), POLLIN, 0}};
    for (const auto& each : connections_) {
      const bool writes = each->state == Connection::State::writing;
      polled.push_back({each->fd.get(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
    }
    (void)::poll(polled.data(), polled.size(), milliseconds_to_wait());
    if (polled[0].revents != 0) return;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (polled[i + 2].revents != 0) serve(*connections_[i]);
    }
    const Clock::time_point now = Clock::now();
    std::erase_if(connections_,
                  [&](const auto& each) { return each->state == Connection::State::ended || each->end <= now; });
    is_short_ = false;
    if (polled[1].revents != 0) accept_all();
  }
}

int HttpServer::milliseconds_to_wait() const {
  if (is_short_) return kWaitForDescriptors;
  if (connections_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(connections_[0]->end - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, patience_.count()));
}

// Accepts at most as many as there are places, so that clients that are being served are not starved.
void HttpServer::accept_all() {
  for (std::size_t i = 0; i < kConnectionsMax; ++i) {
    core::UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const bool is_short = !fd.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
    // The kernel looks for a descriptor first: only the first accept() after poll() is sure to mean a client.
    is_short_ = is_short && i == 0;
    if (!fd.valid() && !is_short_) return;
    if (!connections_.empty() && (is_short_ || connections_.size() == kConnectionsMax)) {
      connections_.erase(connections_.begin());
    }
    if (is_short_) return;
    connections_.push_back(std::make_unique<Connection>(Connection{std::move(fd), Clock::now() + patience_}));
  }
}

void HttpServer::serve(Connection& connection) {
  switch (connection.state) {
    case Connection::State::reading: return read_head(connection);
    case Connection::State::writing: return write_answer(connection);
    case Connection::State::closing: return ignore_the_rest(connection);
    case Connection::State::ended: return;
  }
}

void HttpServer::read_head(Connection& connection) {
  char block[2048];
  const ssize_t got = ::recv(connection.fd.get(), block, sizeof block, 0);
  if (got < 0 && would_block()) return;
  if (got <= 0) {
    connection.state = Connection::State::ended;
    return;
  }
  connection.text.append(block, static_cast<std::size_t>(got));
  const std::size_t end = std::min(connection.text.find("\r\n\r\n"), connection.text.find("\n\n"));
  if (end != std::string::npos) {
    begin_answer(connection, parse_request(std::string_view(connection.text).substr(0, end)));
  } else if (connection.text.size() > kHeadBytesMax) {
    begin_answer(connection, {.status = 431});
  }
}

void HttpServer::begin_answer(Connection& connection, const ParsedRequest& parsed) {
  const HttpResponse response = parsed.status == 200 ? answer_(parsed.request) : complaint(parsed.status);
  connection.text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Cache-Control: no-store\r\nConnection: "
      "close\r\n\r\n",
      response.status, phrase_of(response.status), response.type, response.body->size(),
      response.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (!parsed.is_head) connection.body = response.body;
  connection.state = Connection::State::writing;
  write_answer(connection);
}

void HttpServer::write_answer(Connection& connection) {
  while (true) {
    const std::size_t head = connection.text.size();
    const std::size_t all = head + (connection.body != nullptr ? connection.body->size() : 0);
    if (connection.done == all) break;
    const std::string_view rest = connection.done < head
                                      ? std::string_view(connection.text).substr(connection.done)
                                      : std::string_view(*connection.body).substr(connection.done - head);
    const ssize_t put = ::send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (put < 0 && would_block()) return;
    if (put <= 0) {
      connection.state = Connection::State::ended;
      return;
    }
    connection.done += static_cast<std::size_t>(put);
  }
  (void)::shutdown(connection.fd.get(), SHUT_WR);
  connection.body.reset();
  connection.done = 0;
  connection.state = Connection::State::closing;
}

// Closing a connection with unread bytes could destroy the answer before the client reads it.
void HttpServer::ignore_the_rest(Connection& connection) {
  char block[4096];
  const ssize_t got = ::recv(connection.fd.get(), block, sizeof block, 0);
  if (got < 0 && would_block()) return;
  connection.done += got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got <= 0 || connection.done > kIgnoredBytesMax) connection.state = Connection::State::ended;
}

}  // namespace penstock::tools
