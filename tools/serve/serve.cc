// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "tools/common/failure.h"
#include "tools/common/terminal.h"
#include "tools/serve/http_server.h"
#include "tools/serve/problem_detector.h"
#include "tools/serve/watch.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock serve                                       metrics of this machine at 127.0.0.1:9760/metrics\n"
    "  penstock serve --listen 0.0.0.0:9760 --host /host    in a pod, with the host's /proc and /sys below /host\n"
    "  penstock serve --textfile /var/lib/node_exporter --listen none    for node_exporter\n"
    "  penstock serve --once                                what the open sessions have moved so far, on stdout\n"
    "  penstock serve --problem-detector p2pdma             one answer for node-problem-detector\n"
    "It ends at SIGTERM or Ctrl-C. Exit code: 0 ended by a signal or --once, 1 failed, 2 wrong usage. With "
    "--problem-detector: 0 "
    "the path is available, 1 it is not, 2 that is unknown.";

constexpr const char* kDefaultListen = "127.0.0.1:9760";
constexpr const char* kListenNowhere = "none";
constexpr double kIntervalMin = 1;
constexpr double kIntervalMax = 3600;
constexpr std::chrono::milliseconds kTimeToStop{500};
constexpr const char* kOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr const char* kPlainText = "text/plain; version=0.0.4; charset=utf-8";

struct ServeSettings {
  std::string listen = kDefaultListen;
  std::string host = "/";
  double interval = 15;
  std::string textfile;
  std::string nfd;
  bool once = false;
  std::string problem_detector;  // A path; "" for a process that keeps running.
};

HttpResponse say(int status, const char* text) {
  return {.status = status, .body = std::make_shared<const std::string>(text)};
}

HttpResponse metrics(const Watch& watch, const HttpRequest& request) {
  const std::optional<Pages> pages = watch.pages();
  if (!pages) return say(503, "the first look at the node has not ended yet\n");
  if (prefers_plain_text(request.accept)) return {.type = kPlainText, .body = pages->prometheus};
  return {.type = kOpenMetrics, .body = pages->openmetrics};
}

HttpResponse answer(const Watch& watch, const HttpRequest& request) {
  if (request.path == "/metrics") return metrics(watch, request);
  if (request.path == "/healthz") return watch.is_looking() ? say(200, "ok\n") : say(503, "a look at the node hangs\n");
  if (request.path == "/readyz") return watch.pages() ? say(200, "ok\n") : say(503, "not yet looked at the node\n");
  return say(404, "there are /metrics, /healthz and /readyz\n");
}

// Returns a descriptor that becomes readable when the process shall end. Without a handler, a signal would not end the
// first process of a container.
core::UniqueFd catch_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal_number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal_number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  core::UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!fd.valid()) fail_errno("penstock serve", "wait for signals");
  return fd;
}

void wait_for_signal(int signals) {
  signalfd_siginfo info;
  while (::read(signals, &info, sizeof info) < 0 && errno == EINTR) {
  }
}

void check(const ServeSettings& settings) {
  if (!(settings.interval >= kIntervalMin && settings.interval <= kIntervalMax)) {
    throw Failure(fmt::format("--interval {}: expected 1 to 3600 seconds", settings.interval), kUsage);
  }
  if (settings.listen == kListenNowhere && settings.textfile.empty() && settings.nfd.empty()) {
    throw Failure("--listen none leaves nothing to do; add --textfile DIR or --nfd DIR", kUsage);
  }
}

int run_serve(const ServeSettings& settings) {
  if (!settings.problem_detector.empty()) return run_problem_detector(settings.host, settings.problem_detector);
  const std::chrono::milliseconds interval(static_cast<std::int64_t>(settings.interval * 1000));
  if (settings.once) {
    Watch watch({settings.host, interval, settings.textfile, settings.nfd, true});
    print_document(Text(*watch.look_once().prometheus));
    return watch.has_written_all() ? kSuccess : kFailed;
  }
  check(settings);
  const core::UniqueFd signals = catch_signals();
  ::signal(SIGPIPE, SIG_IGN);  // The watch goes on if the reader of its log is gone.
  const auto watch = std::make_unique<Watch>(WatchSettings{settings.host, interval, settings.textfile, settings.nfd});
  std::optional<HttpServer> server;
  if (settings.listen != kListenNowhere) {
    server.emplace(settings.listen, [&](const HttpRequest& request) { return answer(*watch, request); });
    print_error("penstock serve: http://{}/metrics\n", server->address());
  }
  watch->start();
  if (server) server->serve_until_readable(signals.get());
  else wait_for_signal(signals.get());
  if (!watch->stop_within(kTimeToStop)) ::_exit(kSuccess);
  return kSuccess;
}

}  // namespace

void add_serve(CommandLine& command) {
  auto settings = std::make_shared<ServeSettings>();
  const Option listen =
      command.option("--listen", settings->listen, "Where to serve /metrics, /healthz and /readyz; none: nowhere")
          .value_name("ADDRESS:PORT")
          .default_shown();
  command.option("--host", settings->host, "The folder that the node's proc and sys are mounted in")
      .value_name("DIR")
      .default_shown();
  const Option interval = command.option("--interval", settings->interval, "Time from one look at the node to the next")
                              .value_name("SECONDS")
                              .default_shown();
  command.option("--textfile", settings->textfile, "Write DIR/penstock.prom after each look, for node_exporter")
      .value_name("DIR");
  command.option("--nfd", settings->nfd, "Write the feature file DIR/penstock after each look, for node labels")
      .value_name("DIR");
  Option once =
      command.flag("--once", settings->once, "Look once, print the metrics in the text format of Prometheus, and end");
  once.excludes(listen).excludes(interval);
  const Option detector = command
                              .option("--problem-detector", settings->problem_detector,
                                      "Say whether the node offers PATH, as a plugin of node-problem-detector, and end")
                              .value_name("PATH");
  once.excludes(detector);
  command.footer(kExamples);
  command.runs([settings] { return run_serve(*settings); });
}

}  // namespace penstock::tools
