// SPDX-License-Identifier: Apache-2.0

// For tests of `penstock serve`: the node as a running process, others that move bytes, and control groups that look
// like those of a pod.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "fakes/http_client.h"
#include "fakes/prometheus_check.h"
#include "fakes/waiting.h"
#include "penstock/penstock.h"

namespace penstock::tools {

inline void write_five_thousand(int times) {
  std::string name = "/tmp/penstock-node-XXXXXX";  // Every user may write there, wherever TMPDIR points.
  const int fd = ::mkstemp(name.data());
  ::unlink(name.c_str());
  penstock_session* session = nullptr;
  penstock_file* file = nullptr;
  if (penstock_session_open(nullptr, &session).code != 0) ::_exit(3);
  if (penstock_file_register(session, fd, &file).code != 0) ::_exit(4);
  const std::vector<char> bytes(5000, 'x');
  for (int i = 0; i < times; ++i) {
    if (penstock_write(file, bytes.data(), bytes.size(), 0, 0, nullptr).code != 0) ::_exit(5);
  }
}

// In a child, before it works: another user, who may be looked at by their own.
inline void become(unsigned user) {
  if (::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(6);
  ::prctl(PR_SET_DUMPABLE, 1);
}

// In a child, before it becomes a program: what a container runtime does with a list of capabilities.
inline void keep_capabilities(const std::vector<int>& kept) {
  std::array<std::uint32_t, 2> bits{};
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    if (std::find(kept.begin(), kept.end(), capability) == kept.end()) ::prctl(PR_CAPBSET_DROP, capability);
    else bits[static_cast<unsigned>(capability) / 32] |= std::uint32_t{1} << (capability % 32);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct data[2] = {{bits[0], bits[0], 0}, {bits[1], bits[1], 0}};
  if (::syscall(SYS_capset, &header, data) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(7);
}

// A process that has done its work, and lives on until this object goes.
class Worker {
 public:
  explicit Worker(
      const std::function<void()>& work, const std::function<void()>& prepare = [] {}) {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("PENSTOCK_DEVICE", "host", 1);
      prepare();
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      work();
      (void)!::write(ready[1], "r", 1);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char letter = 0;
    EXPECT_EQ(::read(ready[0], &letter, 1), 1) << "the worker did not get ready";
    ::close(ready[0]);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

// A control group as a kubelet makes it for a container of a pod, wherever one can be made here.
class Pod {
 public:
  Pod() {
    static unsigned count = 0;
    const std::string number = std::to_string(::getpid() % 100000 * 100 + static_cast<int>(++count));
    uid_ = "0f3c9a52-7f5c-4d8a-9b1e-" + std::string(12 - number.size(), '0') + number;
    id_ = std::string(64 - number.size(), 'a') + number;
    for (const std::string top : {"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}) {
      if (!std::filesystem::exists(top + "/cgroup.procs")) continue;
      std::error_code error;
      std::filesystem::create_directories(top + "/pod" + uid_ + "/" + id_, error);
      why_not_ = error.message();
      if (error) continue;
      top_ = top;
      return;
    }
  }
  Pod(const Pod&) = delete;
  Pod& operator=(const Pod&) = delete;
  ~Pod() {
    // A group whose last process has just ended is busy for a moment.
    EXPECT_TRUE(top_.empty() || wait_until([&] { return ::rmdir((folder() + "/" + id_).c_str()) == 0; }));
    if (!top_.empty()) ::rmdir(folder().c_str());
  }

  bool is_there() const { return !top_.empty(); }
  std::string why_not() const { return why_not_; }
  void enter() const {
    std::ofstream file(folder() + "/" + id_ + "/cgroup.procs");
    if (!(file << ::getpid() << std::flush)) ::_exit(8);
  }
  std::string series(const std::string& name) const { return name + "{" + labels() + "}"; }
  std::string series(const std::string& name, const std::string& io_mode) const {
    return name + "{" + labels() + "," + io_mode + "}";
  }

 private:
  std::string folder() const { return top_ + "/pod" + uid_; }
  std::string labels() const { return "pod_uid=\"" + uid_ + "\",container_id=\"" + id_ + "\""; }

  std::string top_, uid_, id_, why_not_ = "no control groups are mounted";
};

inline void execute(std::vector<std::string> words) {
  words.insert(words.begin(), PENSTOCK_TOOL);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(PENSTOCK_TOOL, argv.data());
  ::_exit(127);
}

inline std::string text_from(int fd, const std::function<bool(const std::string&)>& is_enough) {
  std::string text;
  char letter = 0;
  while (!is_enough(text) && ::read(fd, &letter, 1) == 1) text += letter;
  return text;
}

struct Finished {
  int exit_code = -1;
  std::string out, err;
};

inline Finished run_tool(const std::vector<std::string>& words) {
  int out[2], err[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC) + ::pipe2(err, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::alarm(60);  // A tool that hangs ends in a signal.
    execute(words);
  }
  ::close(out[1]);
  ::close(err[1]);
  Finished done;
  const auto never = [](const std::string&) { return false; };
  done.out = text_from(out[0], never);
  done.err = text_from(err[0], never);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) done.exit_code = WEXITSTATUS(status);
  ::close(out[0]);
  ::close(err[0]);
  return done;
}

// `penstock serve` at a port of its own, which has looked once.
class Node {
 public:
  explicit Node(
      std::vector<std::string> words = {}, const std::function<void()>& prepare = [] {}) {
    words.insert(words.begin(), {"serve", "--listen", "127.0.0.1:0", "--interval", "1"});
    int err[2];
    EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(err[1], STDERR_FILENO);
      prepare();
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      execute(words);
    }
    ::close(err[1]);
    err_ = err[0];
    const std::string line = text_from(err_, [](const std::string& text) { return text.ends_with('\n'); });
    const std::size_t begin = line.find("http://");
    if (begin == std::string::npos) return;
    address_ = line.substr(begin + 7, line.find('/', begin + 7) - begin - 7);
    EXPECT_TRUE(wait_until([&] { return ask(address_, "/readyz").starts_with("HTTP/1.1 200 "); }));
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    (void)end(SIGTERM);
    ::close(err_);
  }

  bool is_running() const { return !address_.empty(); }
  const std::string& address() const { return address_; }
  // Whether it says so behind its first line, sooner or later.
  bool says(const std::string& text) const {
    said_ = text_from(err_, [&](const std::string& so_far) { return so_far.find(text) != std::string::npos; });
    return said_.find(text) != std::string::npos;
  }
  const std::string& said() const { return said_; }
  void close_log() {
    ::close(err_);
    err_ = -1;
  }
  // Not a number where there is no such series.
  double value(const std::string& series) const {
    const PrometheusPage page = parse_openmetrics(body_of(ask(address_, "/metrics")));
    const auto found = page.values.find(series);
    return found == page.values.end() ? std::nan("") : found->second;
  }
  bool comes_to(const std::string& series, double wanted) const {
    return wait_until([&] { return value(series) == wanted; });
  }
  // The exit code; -1 where the signal killed it.
  int end(int signal_number) {
    if (pid_ == 0) return -1;
    ::kill(pid_, signal_number);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  int err_ = -1;
  std::string address_;
  mutable std::string said_;
};

}  // namespace penstock::tools
