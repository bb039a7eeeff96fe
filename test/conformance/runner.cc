// SPDX-License-Identifier: Apache-2.0

#include "runner.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

namespace conformance {

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int kReportDescriptor = 900;  // Far from what cases open and close.
constexpr int kCannotLoad = 4;

volatile sig_atomic_t told_to_stop = 0;

struct Child {
  const Case* which;
  std::string folder;
  SteadyClock::time_point deadline;
};

std::string with_folder(std::string text, const std::string& folder) {
  for (std::size_t at; (at = text.find("$DIR")) != std::string::npos;) text.replace(at, 4, folder);
  return text;
}

constexpr const char* kUsualJson = R"({
  "logging": {"dir": "$DIR", "level": "ERROR"},
  "properties": {"allow_compat_mode": true}
}
)";

void set_environment(Fixture& fixture, const Setup& setup) {
  std::vector<std::string> names;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    if (text.rfind("CUFILE_", 0) == 0) names.push_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  if (!setup.no_json) {
    fixture.write_text("cufile.json", with_folder(setup.json == nullptr ? kUsualJson : setup.json, fixture.folder()));
    setenv("CUFILE_ENV_PATH_JSON", fixture.path("cufile.json").c_str(), 1);
  }
  for (const auto& [name, value] : setup.environment) {
    setenv(name.c_str(), with_folder(value, fixture.folder()).c_str(), 1);
  }
}

// The first GPU's primary context, where there is a GPU.
void set_up_cuda(Fixture& fixture, const Options& options, Cuda wish) {
  if (!fixture.cuda.load(options.cuda.c_str()) || wish == Cuda::none) return;
  int device = 0;
  Context context = nullptr;
  if (fixture.cuda.cuInit(0) != kCudaSuccess || fixture.cuda.cuDeviceGet(&device, 0) != kCudaSuccess) return;
  if (fixture.cuda.cuDevicePrimaryCtxRetain(&context, device) != kCudaSuccess) return;
  fixture.has_gpu = fixture.cuda.cuCtxPushCurrent_v2(context) == kCudaSuccess;
}

// In a catch clause, or where the library of C++ ends the process.
void tell_what_ended(Fixture& fixture) {
  try {
    throw;
  } catch (const Stop&) {
  } catch (const Absent& absent) {
    fixture.say("absent: %s", absent.name.c_str());
  } catch (const LacksCudaCall& call) {
    fixture.say("skip: CUDA lacks %s", call.name.c_str());
  } catch (const std::exception& error) {
    fixture.say("exception: %s", error.what());
  } catch (...) {
    fixture.say("exception of another kind");
  }
}

// In the child: never returns. Nothing is torn down at the end, as the end is not what most cases are about.
[[noreturn]] void perform(const Case& which, const std::string& folder, const Options& options) {
  setpgid(0, 0);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // What the caller of this program left open is no matter of the case.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  const int report = open((folder + ".outcome").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  dup3(report, kReportDescriptor, O_CLOEXEC);
  close(report);
  const int output = open((folder + ".printed").c_str(), O_CREAT | O_TRUNC | O_RDWR, 0644);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(output);
  static Fixture* current = nullptr;
  Fixture fixture(folder, kReportDescriptor);
  current = &fixture;
  std::set_terminate([] {  // A thread of the case met what ends it.
    tell_what_ended(*current);
    _exit(0);
  });
  if (chdir(folder.c_str()) != 0) _exit(3);
  try {
    set_environment(fixture, which.setup);
    set_up_cuda(fixture, options, which.setup.cuda);
    if (!fixture.load(options.library.c_str())) {
      fixture.say("cannot load the library: %s", dlerror());
      _exit(kCannotLoad);
    }
    which.act(fixture);
  } catch (...) {
    tell_what_ended(fixture);
  }
  _exit(0);
}

Lines read_lines(const std::string& path) {
  Lines lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string name_of_end(int status, bool late) {
  if (late) return "did not end";
  if (WIFSIGNALED(status)) return std::string("killed by SIG") + sigabbrev_np(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "exit status " + std::to_string(WEXITSTATUS(status));
  return "";
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {
    std::string name = options.folder + "/conformance-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder in " + options.folder);
    folder_ = name;
    signal(SIGTERM, [](int) { told_to_stop = 1; });
    signal(SIGINT, [](int) { told_to_stop = 1; });
  }
  ~Runner() { remove(folder_); }

  Outcomes run(const std::vector<Case>& chosen) {
    for (const Case& each : chosen) {
      if (told_to_stop) break;
      while (children_.size() >= options_.jobs) wait_for_one();
      begin(each);
    }
    while (!children_.empty()) wait_for_one();
    return std::move(outcomes_);
  }

 private:
  void begin(const Case& which) {
    const std::string folder = folder_ + "/" + std::to_string(++count_);
    std::filesystem::create_directory(folder);
    const pid_t child = fork();
    if (child == 0) perform(which, folder, options_);
    setpgid(child, child);
    children_[child] = {&which, folder, SteadyClock::now() + std::chrono::seconds(options_.timeout_s)};
  }

  void wait_for_one() {
    for (;;) {
      int status = 0;
      if (told_to_stop) {  // What is under way is told as far as it came.
        for (auto& [pid, child] : children_) child.deadline = SteadyClock::now();
      }
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended > 0 && children_.count(ended) != 0) return finish(ended, status, false);
      for (const auto& [pid, child] : children_) {
        if (SteadyClock::now() < child.deadline) continue;
        const pid_t late = pid;
        kill(-late, SIGKILL);
        waitpid(late, &status, 0);
        return finish(late, status, true);
      }
      usleep(2'000);
    }
  }

  void finish(pid_t pid, int status, bool late) {
    kill(-pid, SIGKILL);  // Whatever the case left behind.
    const Child child = children_.at(pid);
    children_.erase(pid);
    Lines lines = read_lines(child.folder + ".outcome");
    if (late && told_to_stop) return remove(child.folder);  // Not its own fault.
    if (const std::string end = name_of_end(status, late); !end.empty()) lines.push_back(end);
    outcomes_[child.which->name] = std::move(lines);
    if (outcomes_.size() % 100 == 0) fprintf(stderr, "%zu cases done\n", outcomes_.size());
    remove(child.folder);
  }

  static void remove(const std::string& folder) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  const Options& options_;
  std::string folder_;
  int count_ = 0;
  std::map<pid_t, Child> children_;
  Outcomes outcomes_;
};

}  // namespace

Outcomes run(const std::vector<Case>& chosen, const Options& options) { return Runner(options).run(chosen); }

}  // namespace conformance
