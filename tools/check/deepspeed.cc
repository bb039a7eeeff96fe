// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/program.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

using Words = std::vector<std::string>;

std::vector<char*> pointers(Words& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

// -P keeps Python from taking a folder "penstock" in the working directory for the package.
bool has_package(const std::string& python) {
  Words words = {python, "-P", "-c", "import penstock.deepspeed"};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = 0;
  const bool runs = posix_spawnp(&child, python.c_str(), &quiet, nullptr, pointers(words).data(), environ) == 0;
  posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  return runs && waitpid(child, &status, 0) == child && status == 0;
}

// A wheel puts Python beside this program; otherwise the first Python on PATH is taken.
std::string python_with_package() {
  const std::string beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "python3";
  for (const std::string& python : {beside, std::string("python3")}) {
    if (has_package(python)) return python;
  }
  throw Failure(
      "check --deepspeed is now 'python -m penstock check --deepspeed', and neither the python3 beside this program "
      "nor the one on PATH has the package penstock: 'pip install penstock' in an environment, or Debian's package "
      "python3-penstock, brings it",
      kNotApplicable);
}

}  // namespace

void check_deepspeed(const std::string& file, bool json) {
  Words words = {python_with_package(), "-P", "-m", "penstock", "check", "--deepspeed=" + file};
  if (json) words.emplace_back("--json");
  report_new_name("penstock", "check --deepspeed", "python -m penstock check --deepspeed");
  sigset_t none;
  sigemptyset(&none);
  // The thread in which this program reads its signals ends with exec().
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  execvp(words[0].c_str(), pointers(words).data());
  fail_errno(words[0], "run the program");
}

}  // namespace penstock::tools
