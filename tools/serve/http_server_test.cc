// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/http_server.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fakes/http_client.h"
#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

constexpr std::chrono::milliseconds kShort{50};

// A server that answers in a thread of its own until it goes.
class RunningServer {
 public:
  explicit RunningServer(std::chrono::milliseconds patience = HttpServer::kPatience, std::string body = "hello\n")
      : body_(std::make_shared<const std::string>(std::move(body))),
        server_(
            "127.0.0.1:0",
            [this](const HttpRequest& request) {
              return HttpResponse{.status = request.path == "/" ? 200 : 404, .body = body_};
            },
            patience),
        stop_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { server_.serve_until_readable(stop_.get()); }) {}
  ~RunningServer() {
    (void)::eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  std::string address() const { return server_.address(); }

 private:
  std::shared_ptr<const std::string> body_;
  HttpServer server_;
  core::UniqueFd stop_;
  std::thread thread_;
};

TEST(HttpServerTest, AnswersAndCloses) {
  const RunningServer server;

  const std::string answer = ask(server.address(), "/");

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("\r\nContent-Length: 6\r\n"), std::string::npos) << answer;
  EXPECT_EQ(body_of(answer), "hello\n");
  EXPECT_TRUE(ask(server.address(), "/x").starts_with("HTTP/1.1 404 Not Found\r\n"));
}

TEST(HttpServerTest, HeadIsAnsweredWithoutABody) {
  const RunningServer server;
  const HttpClient client(server.address());
  client.say("HEAD / HTTP/1.1\r\n\r\n");

  const std::string answer = client.hear();

  EXPECT_NE(answer.find("\r\nContent-Length: 6\r\n"), std::string::npos) << answer;
  EXPECT_EQ(body_of(answer), "");
}

TEST(HttpServerTest, ALongAnswerArrivesWhole) {
  const std::string body(20 << 20, 'x');
  const RunningServer server(HttpServer::kPatience, body);

  EXPECT_EQ(body_of(ask(server.address(), "/")), body);
}

TEST(HttpServerTest, ARequestMayComeByteByByte) {
  const RunningServer server;
  const HttpClient client(server.address());
  for (const char letter : std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n")) ASSERT_TRUE(client.say({letter}));

  EXPECT_EQ(body_of(client.hear()), "hello\n");
}

TEST(HttpServerTest, WhatIsNoRequestGetsAnErrorAndTheNextOneAnAnswer) {
  const RunningServer server;
  for (const auto& [said, status] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense\r\n\r\n", "400 Bad Request"},
           {"DELETE / HTTP/1.1\r\n\r\n", "405 Method Not Allowed"},
           {"GET / HTTP/1.1\r\nX: " + std::string(20000, 'x') + "\r\n\r\n", "431 Request Header Fields Too Large"}}) {
    const HttpClient client(server.address());
    client.say(said);
    EXPECT_TRUE(client.hear().starts_with("HTTP/1.1 " + status)) << status;
  }
  EXPECT_EQ(body_of(ask(server.address(), "/")), "hello\n");
}

TEST(HttpServerTest, WhoSaysNothingIsLeftAloneAfterAWhile) {
  const RunningServer server(kShort);
  const HttpClient silent(server.address());
  const HttpClient slow(server.address());
  slow.say("GET / HT");

  EXPECT_EQ(silent.hear(), "");
  EXPECT_EQ(slow.hear(), "");
}

TEST(HttpServerTest, WhoDoesNotListenIsLeftAloneAfterAWhile) {
  const std::string body(20 << 20, 'x');
  const RunningServer server(kShort, body);
  const HttpClient deaf(server.address());
  deaf.say("GET / HTTP/1.1\r\n\r\n");
  const HttpClient later(server.address());

  EXPECT_EQ(later.hear(), "");  // By now the deaf one's time is over.
  EXPECT_LT(deaf.hear().size(), body.size());
}

TEST(HttpServerTest, ManyWhoSayNothingKeepNobodyOut) {
  const RunningServer server;
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (std::size_t i = 0; i < 3 * HttpServer::kConnectionsMax; ++i) {
    silent.push_back(std::make_unique<HttpClient>(server.address()));
    ASSERT_TRUE(silent.back()->is_connected());
    silent.back()->say("GET / HTTP/1.1\r\n");
  }

  EXPECT_EQ(body_of(ask(server.address(), "/")), "hello\n");
}

TEST(HttpServerTest, WhereThereIsNoDescriptorTheOldestGivesItsOwn) {
  const RunningServer server;
  const HttpClient silent(server.address());
  ASSERT_EQ(body_of(ask(server.address(), "/")), "hello\n");  // By now the silent one was taken in, too.
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{256, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::vector<core::UniqueFd> all;
  for (int fd = ::dup(STDERR_FILENO); fd >= 0; fd = ::dup(STDERR_FILENO)) all.emplace_back(fd);
  all.pop_back();  // For the client.

  EXPECT_EQ(body_of(ask(server.address(), "/")), "hello\n");
  EXPECT_EQ(silent.hear(), "");
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(HttpServerTest, WhatIsNoAddressIsRefusedWithARemedy) {
  for (const char* const address :
       {"", ":", "9760", ":9760", "localhost:9760", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
        "127.0.0.1:-1", "::1:9760", "[::1]", "[]:1", "300.0.0.1:1"}) {
    try {
      const HttpServer server(address, [](const HttpRequest&) { return HttpResponse{}; });
      ADD_FAILURE() << address;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.exit_code(), kUsage) << address;
      EXPECT_NE(std::string(failure.what()).find("[::]:9760"), std::string::npos) << failure.what();
    }
  }
}

TEST(HttpServerTest, APortThatIsTakenIsNamed) {
  const RunningServer server;
  try {
    const HttpServer second(server.address(), [](const HttpRequest&) { return HttpResponse{}; });
    ADD_FAILURE() << "two listen at one port";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), kFailed);
    EXPECT_NE(std::string(failure.what()).find(server.address()), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace penstock::tools
