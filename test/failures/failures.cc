// SPDX-License-Identifier: Apache-2.0

// Makes every allocation of a job fail, one in each run, and then each with all that follow it. The job may fail, but
// it must not die, hang, leak, leave files or take wrong bytes for moved, and it must succeed when nothing fails any
// more.
//
//   penstock_failures [--every N | --at NUMBER] [--faulty] FOLDER [JOB...]
//
// With --every only one in N is made to fail, and with --at only that one. --faulty looks at jobs with faults, which it
// must find.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "failures/jobs.h"
#include "failures/memory.h"

namespace {

using namespace penstock::failures;

enum : int { kGood = 0, kThrough = 10, kNotWhole, kDescriptor, kMemory };
constexpr unsigned kPatienceSeconds = 60;
constexpr long kFaultsTold = 20;
constexpr int kRounds = 3;  // What is kept once, such as an open log, is no leak.

struct Failure {
  long number = 0;  // Of the allocation, counted from 0.
  bool more = false;
};

std::set<std::string> descriptors() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // The one that lists them.
    const auto file = std::filesystem::read_symlink(entry, gone);
    if (!gone) found.insert(entry.path().filename().string() + " " + file.string());
  }
  return found;
}

bool are_left_open(const std::set<std::string>& before) {
  bool are_left = false;
  for (const std::string& one : descriptors()) {
    if (before.contains(one) || one.find("/fd") != one.npos) continue;
    std::fprintf(stderr, "failures: descriptor %s was left open\n", one.c_str());
    are_left = true;
  }
  return are_left;
}

void run_once(const Job& job, int fd) {
  try {
    (void)job.run(fd);
  } catch (const std::bad_alloc&) {  // The job's own: it would have got no further.
  }
}

// In a child: returns its exit status.
int suffer(const Job& job, int fd, const Failure& failure) {
  ::alarm(kPatienceSeconds);
  if (job.files_made > 0) ::unsetenv("PENSTOCK_REPORT");  // It remembers the names of all files, and each is new.
  const std::set<std::string> before = descriptors();
  bool is_through = true;  // In every round: what is kept after the first makes fewer in the others.
  long live[kRounds];
  for (long& each : live) {
    refuse_memory(failure.number, failure.more);
    run_once(job, fd);
    is_through = is_through && allocations() <= failure.number;
    refuse_memory(-1, false);
    if (!job.run(fd)) return kNotWhole;
    each = live_allocations();
  }
  if (are_left_open(before)) return kDescriptor;
  if (is_through) return kThrough;
  return live[0] < live[1] && live[1] < live[2] ? kMemory : kGood;
}

std::string fault_of(int status) {
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "it hung" : std::string("it died: ") + ::strsignal(WTERMSIG(status));
  }
  switch (WEXITSTATUS(status)) {
    case kGood:
    case kThrough: return "";
    case kWrongByte: return "bytes were reported as moved that are wrong";
    case kNotWhole: return "the same job failed afterwards, when nothing failed any more";
    case kDescriptor: return "a descriptor was left open";
    case kMemory: return "memory was not freed";
    default: return "it ended with exit status " + std::to_string(WEXITSTATUS(status));
  }
}

class Looker {
 public:
  Looker(std::string folder, long every, long at)
      : folder_(std::move(folder)), every_(every), at_(at), fd_(make_file(folder_)) {}
  bool is_ready() const { return fd_ >= 0; }

  // Returns the faults that were found.
  long look_at(const Job& job) {
    long runs = 0, faults = 0;
    for (const bool more : {false, true}) {
      bool is_through = false;
      for (Failure failure{std::max(at_, 0L), more}; !is_through && faults < kFaultsTold; failure.number += every_) {
        const std::string fault = look_at(job, failure, is_through);
        ++runs;
        if (fault != (job.fault == nullptr || is_through ? "" : job.fault)) {
          std::printf("%s: allocation %ld%s was refused: %s\n", job.name, failure.number,
                      more ? " and all behind it" : "", fault.empty() ? "nothing was found" : fault.c_str());
          ++faults;
        }
        if (at_ >= 0) break;
      }
    }
    std::printf("%s: %ld runs, %ld faults\n", job.name, runs, faults);
    return faults;
  }

 private:
  std::string look_at(const Job& job, const Failure& failure, bool& is_through) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) std::exit(suffer(job, fd_, failure));
    int status = 0;
    if (::waitpid(child, &status, 0) != child) return "it could not be waited for";
    is_through = WIFEXITED(status) && WEXITSTATUS(status) == kThrough;
    const std::string fault = fault_of(status);
    const std::size_t files = tidy();
    const bool is_tidy = job.files_made == 0 ? files == 0 : files % job.files_made == 0;
    return fault.empty() && !is_tidy ? "files were left behind" : fault;
  }

  // Removes what the job has made, and returns how many files it was.
  std::size_t tidy() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) count += std::filesystem::remove(entry);
    return count;
  }

  const std::string folder_;
  const long every_;
  const long at_;  // The only allocation to look at; negative for all.
  const int fd_;
};

}  // namespace

// Nothing here is about power that fails, and a disk takes its time.
extern "C" int fsync(int) { return 0; }

int main(int argc, char** argv) {
  long every = 1, at = -1;
  bool is_faulty = false;
  int next = 1;
  for (; next < argc && std::strncmp(argv[next], "--", 2) == 0; ++next) {
    if (std::strcmp(argv[next], "--faulty") == 0) is_faulty = true;
    else if (std::strcmp(argv[next], "--every") == 0 && next + 1 < argc) every = std::atol(argv[++next]);
    else if (std::strcmp(argv[next], "--at") == 0 && next + 1 < argc) at = std::atol(argv[++next]);
    else every = 0;
  }
  if (every < 1 || next == argc)
    return std::fputs("usage: failures [--every N | --at NUMBER] [--faulty] FOLDER [JOB...]\n", stderr), 2;
  ::setenv("PENSTOCK_DEVICE", "host", 1);
  std::string folder = std::string(argv[next]) + "/failures-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return std::perror("failures: make a folder"), 1;
  const std::string report = folder + ".json";  // It needs memory, too.
  ::setenv("PENSTOCK_REPORT", report.c_str(), 1);
  Looker looker(folder, every, at);
  if (!looker.is_ready()) return std::perror("failures: make a file"), 1;
  long faults = 0;
  for (const Job& job : is_faulty ? faulty_jobs() : jobs()) {
    bool is_meant = next + 1 == argc;
    for (int i = next + 1; i < argc; ++i) is_meant |= std::strcmp(argv[i], job.name) == 0;
    if (is_meant) faults += looker.look_at(job);
  }
  std::filesystem::remove_all(folder);
  ::unlink(report.c_str());
  return faults == 0 ? 0 : 1;
}
