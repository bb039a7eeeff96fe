// SPDX-License-Identifier: Apache-2.0

// Somebody who connects to a server on this machine, for tests: well-behaved or not.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdlib>
#include <string>

#include "base/unique_fd.h"

namespace penstock::tools {

class HttpClient {
 public:
  // "127.0.0.1:4711"
  explicit HttpClient(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    is_connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
  }

  bool is_connected() const { return is_connected_; }
  // False where nobody listens any more.
  bool say(const std::string& text) const {
    return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // All up to the end of the connection; nothing where it was broken off without a word.
  std::string hear() const {
    std::string text;
    char block[4096];
    for (ssize_t got = 0; (got = ::recv(fd_.get(), block, sizeof block, 0)) > 0;) {
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  core::UniqueFd fd_;
  bool is_connected_ = false;
};

inline std::string ask(const std::string& address, const std::string& path, const std::string& accept = "*/*") {
  const HttpClient client(address);
  (void)client.say("GET " + path + " HTTP/1.1\r\nHost: a\r\nAccept: " + accept + "\r\n\r\n");
  return client.hear();
}

inline std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

}  // namespace penstock::tools
