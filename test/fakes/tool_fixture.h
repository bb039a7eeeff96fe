// SPDX-License-Identifier: Apache-2.0

// The built tool from outside, for tests: a folder of its own to work in, its output, its exit code, and what it
// leaves on disk. Runs with host memory standing in for a GPU, so that results are the same everywhere.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fakes/waiting.h"

namespace penstock::tools {

namespace fs = std::filesystem;

inline constexpr std::chrono::seconds kPatience{900};

inline std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Finished {
  int exit_code = -1;  // -1: ended by a signal.
  int signal_number = 0;
  std::string out;
  std::string err;
};

class Tool : public testing::Test {
 protected:
  Tool() {
    std::string name = fs::current_path() / "penstock-tool-XXXXXX";
    root_ = mkdtemp(name.data());
    fs::create_directory(root_ / "work");
  }
  ~Tool() override { fs::remove_all(root_); }

  fs::path path(const std::string& name) const { return root_ / "work" / name; }

  // The tool itself, or one of the links beside it.
  void call_it(const std::string& name) { name_ = name; }
  std::string program_path() const { return fs::path(PENSTOCK_TOOL).parent_path() / name_; }

  // Starts the tool in the work folder. `prepare` runs in the child.
  pid_t start(
      std::vector<std::string> arguments, const std::function<void()>& prepare = [] {}) {
    const pid_t child = fork();
    if (child != 0) return child;
    const auto redirect = [&](int number, const fs::path& target) {
      dup2(open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), number);
    };
    redirect(STDOUT_FILENO, root_ / "out");
    redirect(STDERR_FILENO, root_ / "err");
    setenv("PENSTOCK_DEVICE", "host", 1);
    for (const char* developers : {"PENSTOCK_JOBS", "PENSTOCK_NO_INSTALL", "PENSTOCK_FUZZ_SECONDS"})
      unsetenv(developers);
    if (chdir(path("").c_str()) != 0) _exit(126);
    prepare();
    const std::string program = program_path();
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(127);
  }

  Finished wait(pid_t child) {
    int status = 0;
    if (!wait_until([&] { return waitpid(child, &status, WNOHANG) != 0; })) {
      ADD_FAILURE() << "the tool hangs";
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    Finished finished{-1, 0, text_of(root_ / "out"), text_of(root_ / "err")};
    if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) finished.signal_number = WTERMSIG(status);
    return finished;
  }

  Finished run(
      const std::vector<std::string>& arguments, const std::function<void()>& prepare = [] {}) {
    return wait(start(arguments, prepare));
  }

  std::string make(const std::string& name, std::size_t size) {
    std::mt19937_64 random(size);
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; i += 97) bytes[i] = static_cast<char>(random());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return bytes;
  }

  // Whether the tool has a file of the work folder open, beside the test's own `data`, and something in it.
  bool is_making_a_file(pid_t child) const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(child) + "/fd", error)) {
      const std::string target = fs::read_symlink(entry, error).string();
      if (!target.starts_with(path("").string()) || target == path("data")) continue;
      if (const auto size = fs::file_size(entry, error); !error && size > 0) return true;
    }
    return false;
  }

  // Runs the tool, and does something to it while it makes the file `copy`; again, if it was over before.
  Finished run_disturbed(
      const std::vector<std::string>& arguments, const std::function<void(pid_t)>& disturb,
      const std::function<void()>& prepare = [] {}) {
    for (;;) {
      const pid_t child = start(arguments, prepare);
      EXPECT_TRUE(wait_until([&] { return is_making_a_file(child) || is_over(child); }));
      disturb(child);
      const Finished done = wait(child);
      if (done.exit_code != 0) return done;
      fs::remove(path("copy"));
    }
  }

  // Whether the child has ended; it can be waited for still.
  static bool is_over(pid_t child) {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child;
  }

  // Whether the tool has begun to write to the file, whose size and space it may have settled before.
  bool has_bytes(const std::string& name) const {
    return text_of(path(name)).find_first_not_of('\0') != std::string::npos;
  }

  std::vector<std::string> folder() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(""))) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path root_;

 private:
  std::string name_ = fs::path(PENSTOCK_TOOL).filename();
};

}  // namespace penstock::tools
