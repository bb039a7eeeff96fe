// SPDX-License-Identifier: Apache-2.0

// Makes every allocation of a job fail, one in each run, and then each with all that follow it; with --calls every
// system call, by each error that it can give. The job may fail, but it must not die, hang, leak, leave files or take
// wrong bytes for moved, and it must succeed when nothing fails any more.
//
//   [penstock_refuse_calls] penstock_failures [--calls] [--every N | --at NUMBER] [--part I/N] [--faulty] FOLDER
//   [JOB...] penstock_failures --list
//
// With --every only one in N is made to fail, and with --at only that one. With --part every N-th of them is, from the
// I-th on, as another process takes the others. --faulty looks at jobs with faults, which it must find. --list prints
// the names of the jobs.
#include <sys/mman.h>
#include <sys/syscall.h>
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

#include "failures/bytes.h"
#include "failures/calls.h"
#include "failures/jobs.h"
#include "failures/memory.h"

namespace {

using namespace penstock::failures;

enum : int { kGood = 0, kNotWhole = 10, kDescriptor, kMemory };
constexpr unsigned kPatienceSeconds = 60;
constexpr long kFaultsTold = 20;
constexpr int kRounds = 3;  // What is kept once, such as an open log, is no leak.

bool is_of_calls = false;

struct Failure {
  long number = 0;     // Of the allocation or call, counted from 0.
  unsigned error = 0;  // A call's.
  bool more = false;
};

// What a child tells of its last round.
struct Told {
  bool is_through;  // The job made fewer of them.
  RefusedCall refused;
};
Told* told = nullptr;

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

void refuse(const Failure& failure) {
  if (!is_of_calls) refuse_memory(failure.number, failure.more);
  else if (!refuse_call(failure.number, failure.error, failure.more)) {
    std::fprintf(stderr, "failures: --calls needs penstock_refuse_calls before it\n");
    std::exit(2);
  }
}

// In every round: what is kept after the first makes fewer in the others.
void end_refusals(const Failure& failure) {
  const RefusedCall refused = is_of_calls ? end_of_refused_calls() : RefusedCall{};
  const bool is_through = is_of_calls ? refused.call < 0 : allocations() <= failure.number;
  refuse_memory(-1, false);
  told->is_through = told->is_through && is_through;
  if (refused.call >= 0) told->refused = refused;
}

// In a child: returns its exit status.
int suffer(const Job& job, int fd, const Failure& failure) {
  ::alarm(kPatienceSeconds);
  if (job.files_made > 0) ::unsetenv("PENSTOCK_REPORT");  // It remembers the names of all files, and each is new.
  const std::set<std::string> before = descriptors();
  long live[kRounds];
  for (long& each : live) {
    refuse(failure);
    run_once(job, fd);
    end_refusals(failure);
    if (!job.run(fd)) return kNotWhole;
    each = live_allocations();
  }
  if (are_left_open(before)) return kDescriptor;
  if (told->is_through) return kGood;
  return live[0] < live[1] && live[1] < live[2] ? kMemory : kGood;
}

std::string fault_of(int status) {
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "it hung" : std::string("it died: ") + ::strsignal(WTERMSIG(status));
  }
  switch (WEXITSTATUS(status)) {
    case kGood: return "";
    case kWrongByte: return "bytes were reported as moved that are wrong";
    case kNotWhole: return "the same job failed afterwards, when nothing failed any more";
    case kDescriptor: return "a descriptor was left open";
    case kMemory: return "memory was not freed";
    default: return "it ended with exit status " + std::to_string(WEXITSTATUS(status));
  }
}

// Which of the allocations or calls are made to fail.
struct Numbers {
  long every = 1;
  long at = -1;  // The only one; negative for all.
  long part = 0, parts = 1;
};

class Looker {
 public:
  Looker(std::string folder, const Numbers& numbers)
      : folder_(std::move(folder)), numbers_(numbers), fd_(make_file(folder_)) {}
  bool is_ready() const { return fd_ >= 0; }

  // Returns the faults that were found.
  long look_at(const Job& job) {
    runs_ = faults_ = 0;
    for (const bool more : {false, true}) {
      if (more && is_of_calls && job.fault != nullptr) break;  // Its fault needs calls that succeed.
      *told = {};
      const auto& [every, at, part, parts] = numbers_;
      for (long number = std::max(at, part * every); !told->is_through && faults_ < kFaultsTold;
           number += every * parts) {
        // One in so many of the calls has one in so many of its errors.
        unsigned error = static_cast<unsigned>(every > 1 ? number / every : 0);
        do look_at(job, {number, error, more});
        while (every == 1 && ++error < told->refused.errors);
        if (at >= 0) break;
      }
    }
    std::printf("%s: %ld runs, %ld faults\n", job.name, runs_, faults_);
    return faults_;
  }

 private:
  void look_at(const Job& job, const Failure& failure) {
    const std::string fault = run(job, failure);
    ++runs_;
    if (fault == (job.fault == nullptr || told->is_through ? "" : job.fault)) return;
    ++faults_;
    std::printf("%s: ", job.name);
    if (is_of_calls) std::printf("error %u of system call %ld (%ld", failure.error, failure.number, told->refused.call);
    else std::printf("allocation %ld (refused", failure.number);
    std::printf("%s): %s\n", failure.more ? ", and all behind it" : "", fault.empty() ? "nothing" : fault.c_str());
  }

  std::string run(const Job& job, const Failure& failure) {
    std::fflush(stdout);
    *told = {true, {}};
    const pid_t child = ::fork();
    if (child == 0) std::exit(suffer(job, fd_, failure));
    int status = 0;
    if (::waitpid(child, &status, 0) != child) return "it could not be waited for";
    const std::string fault = fault_of(status);
    if (!fault.empty()) told->is_through = false;
    const std::size_t files = tidy();
    const bool is_tidy = job.files_made == 0 ? files == 0 : files % job.files_made == 0;
    const long call = told->refused.call;
    const bool can_tidy = call != SYS_unlink && call != SYS_unlinkat && call != SYS_rmdir;
    return fault.empty() && !is_tidy && can_tidy ? "files were left behind" : fault;
  }

  // Removes what the job has made, and returns how many files it was.
  std::size_t tidy() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) count += std::filesystem::remove(entry);
    return count;
  }

  const std::string folder_;
  const Numbers numbers_;
  const int fd_;
  long runs_ = 0, faults_ = 0;
};

int list() {
  for (const Job& job : jobs()) std::printf("%s\n", job.name);
  return 0;
}

int usage() {
  std::fputs("usage: failures [--calls] [--every N | --at NUMBER] [--part I/N] [--faulty] FOLDER [JOB...]\n", stderr);
  return 2;
}

}  // namespace

// Nothing here is about power that fails, and a disk takes its time.
extern "C" int fsync(int fd) { return is_of_calls ? static_cast<int>(::syscall(SYS_fsync, fd)) : 0; }

int main(int argc, char** argv) {
  Numbers numbers;
  bool is_faulty = false;
  int next = 1;
  for (; next < argc && std::strncmp(argv[next], "--", 2) == 0; ++next) {
    const char* const value = next + 1 < argc ? argv[next + 1] : "";
    if (std::strcmp(argv[next], "--faulty") == 0) is_faulty = true;
    else if (std::strcmp(argv[next], "--calls") == 0) is_of_calls = true;
    else if (std::strcmp(argv[next], "--list") == 0) return list();
    else if (std::strcmp(argv[next], "--every") == 0) numbers.every = std::atol(value), ++next;
    else if (std::strcmp(argv[next], "--at") == 0) numbers.at = std::atol(value), ++next;
    else if (std::sscanf(value, "%ld/%ld", &numbers.part, &numbers.parts) == 2) ++next;
    else numbers.every = 0;
  }
  if (numbers.every < 1 || numbers.parts < 1 || next >= argc) return usage();
  ::setenv("PENSTOCK_DEVICE", "host", 1);
  std::string folder = std::string(argv[next]) + "/failures-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return std::perror("failures: make a folder"), 1;
  const std::string report = folder + ".json";  // It needs memory, too.
  ::setenv("PENSTOCK_REPORT", report.c_str(), 1);
  told = static_cast<Told*>(::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Looker looker(folder, numbers);
  if (!looker.is_ready()) return std::perror("failures: make a file"), 1;
  long faults = 0;
  for (const Job& job : is_faulty ? faulty_jobs() : jobs()) {
    bool is_meant = next + 1 == argc;
    for (int i = next + 1; i < argc; ++i) is_meant |= std::strcmp(argv[i], job.name) == 0;
    if (is_meant) faults += looker.look_at(job);
  }
  for (const char* const made : {"", ".kv"}) std::filesystem::remove_all(folder + made);
  ::unlink(report.c_str());
  return faults == 0 ? 0 : 1;
}
