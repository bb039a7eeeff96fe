// SPDX-License-Identifier: Apache-2.0

// Runs a command whose system calls fail as it asks for by failures/calls.h, and ends as the command does; with 77
// where that is forbidden.
//
//   penstock_refuse_calls COMMAND...
//
// The kernel stops each call that can fail (seccomp), and this process (ptrace) decides: so calls are seen that no
// function of the C library makes, as io_uring's. A call has only errors here that the kernel can give for it.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "failures/calls.h"

namespace {

using namespace penstock::failures;

constexpr int kShort = -1;  // Not an error: less is moved than was asked for.
constexpr int kStormCalls = 16;

enum class On : std::uint8_t {
  all,
  files,    // Of a descriptor that is no file's, only EINTR.
  names,    // Of a file by its name: who cannot tell whose a descriptor is leaves it open, so that fstat() succeeds.
  copies,   // fcntl() that makes a descriptor.
  created,  // The call is carried out, and fails then.
};

struct Row {
  long call;
  std::vector<int> errors;
  On on = On::all;
  bool lasts = true;  // The first error may be that of a drive, or of a process, that gets nothing any more.
};

const std::vector<Row> kRows = {
    {SYS_openat, {EMFILE, EACCES, EIO, EINTR}},
    {SYS_open, {EMFILE, EACCES, EIO, EINTR}},
    {SYS_openat2, {EMFILE, EACCES, EINTR, EAGAIN, ENOSYS}},
    {SYS_read, {EIO, EINTR, kShort}, On::files},
    {SYS_pread64, {EIO, EINTR, kShort}, On::files},
    {SYS_preadv, {EIO, EINTR}, On::files},
    {SYS_preadv2, {EIO, EINTR, EOPNOTSUPP}, On::files},
    {SYS_write, {EIO, ENOSPC, EINTR, kShort}, On::files},
    {SYS_pwrite64, {EIO, ENOSPC, EINTR, kShort}, On::files},
    {SYS_pwritev, {EIO, ENOSPC, EINTR}, On::files},
    {SYS_pwritev2, {EIO, ENOSPC, EINTR, EOPNOTSUPP}, On::files},
    {SYS_copy_file_range, {EIO, ENOSPC, EINTR, EXDEV}},
    {SYS_fsync, {EIO, ENOSPC, EINTR}},
    {SYS_fdatasync, {EIO, ENOSPC, EINTR}},
    {SYS_sync_file_range, {EIO, ENOSPC}},
    {SYS_fallocate, {ENOSPC, EOPNOTSUPP, EIO, EINTR}},
    {SYS_ftruncate, {EIO, ENOSPC, EINTR}},
    {SYS_newfstatat, {EIO, ENOMEM, EACCES}, On::names},
    {SYS_statx, {EIO, ENOMEM, EACCES}},
    {SYS_statfs, {EIO, EINTR}},
    {SYS_fstatfs, {EIO, EINTR}},
    {SYS_ioctl, {EIO, ENOTTY, EINTR}, On::files},
    {SYS_fgetxattr, {EOPNOTSUPP, EIO}},
    {SYS_getdents64, {EIO}},
    {SYS_readlink, {EIO, EACCES}},
    {SYS_readlinkat, {EIO, EACCES}},
    {SYS_access, {EACCES, EIO}},
    {SYS_faccessat, {EACCES, EIO}},
    {SYS_faccessat2, {EACCES, EIO}},
    {SYS_mkdir, {ENOSPC, EIO}},
    {SYS_mkdirat, {ENOSPC, EIO}},
    {SYS_link, {ENOSPC, EIO}},
    {SYS_linkat, {ENOSPC, EIO}},
    {SYS_symlink, {ENOSPC, EIO}},
    {SYS_symlinkat, {ENOSPC, EIO}},
    {SYS_rename, {ENOSPC, EIO}},
    {SYS_renameat, {ENOSPC, EIO}},
    {SYS_renameat2, {ENOSPC, EIO}},
    {SYS_unlink, {EIO}, On::all, false},
    {SYS_unlinkat, {EIO}, On::all, false},
    {SYS_rmdir, {EIO}, On::all, false},
    {SYS_flock, {ENOLCK, EINTR}},
    {SYS_close, {EIO, EINTR}, On::created, false},
    {SYS_dup, {EMFILE}},
    {SYS_dup3, {EMFILE}},
    {SYS_fcntl, {EMFILE}, On::copies},
    {SYS_mmap, {ENOMEM}},
    {SYS_mremap, {ENOMEM}},
    {SYS_mprotect, {ENOMEM}},
    {SYS_mlock, {ENOMEM}},
    {SYS_mbind, {ENOMEM, EPERM, ENOSYS}},
    {SYS_set_mempolicy, {ENOMEM, EPERM, ENOSYS}},
    {SYS_get_mempolicy, {EPERM, ENOSYS}},
    {SYS_sched_setaffinity, {EINVAL}},
    {SYS_sched_getaffinity, {EINVAL}, On::all, false},  // The set is too small, and a larger one is not.
    {SYS_prlimit64, {EPERM}},
    {SYS_mincore, {EAGAIN}},
    {SYS_madvise, {ENOMEM, EINVAL}},
    {SYS_kcmp, {ENOSYS, EPERM}},
    {SYS_clone, {EAGAIN, ENOMEM}},
    {SYS_clone3, {EAGAIN, ENOMEM}},
    {SYS_eventfd2, {EMFILE, ENOMEM}},
    {SYS_memfd_create, {EMFILE, ENOMEM}},
    {SYS_pipe2, {EMFILE, ENFILE}},
    {SYS_timerfd_create, {EMFILE, ENOMEM}},
    {SYS_epoll_create1, {EMFILE, ENOMEM}},
    {SYS_epoll_ctl, {ENOMEM, ENOSPC}},
    {SYS_inotify_init1, {EMFILE, ENOMEM}},
    {SYS_socket, {EMFILE, ENOBUFS}},
    {SYS_connect, {ECONNREFUSED, EINTR}},
    {SYS_getrandom, {ENOSYS, EINTR}},
    {SYS_poll, {EINTR}, On::all, false},
    {SYS_ppoll, {EINTR}, On::all, false},
    {SYS_epoll_wait, {EINTR}, On::all, false},
    {SYS_epoll_pwait, {EINTR}, On::all, false},
    {SYS_io_uring_setup, {ENOMEM, EMFILE, EPERM, ENOSYS}},
    {SYS_io_uring_register, {ENOMEM, EINVAL}},
    {SYS_io_uring_enter, {EINTR, EAGAIN, EBUSY}, On::all, false},
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  ::_exit(126);
}

sock_filter load_argument(int number) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * number));
}

// Lets calls go on that have no errors here; a stop is what takes time.
std::vector<sock_filter> spared(const Row& row) {
  const sock_filter go_on = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  if (row.on == On::names) return {load_argument(3), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 0, 1), go_on};
  if (row.on == On::copies)
    return {load_argument(1), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD, 2, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 1, 0), go_on};
  return {};
}

void stop_calls() {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const Row& row : kRows) {
    const std::vector<sock_filter> spares = spared(row);
    const auto over = static_cast<unsigned char>(spares.size() + 1);
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(row.call), 0, over));
    filter.insert(filter.end(), spares.begin(), spares.end());
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("refuse_calls: no new privileges");
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) die("refuse_calls: seccomp");
}

class Refuser {
 public:
  explicit Refuser(pid_t command) : command_(command) {}

  // A call was stopped. True if its end has to be stopped, too.
  bool on_call(pid_t thread) {
    if (::ptrace(PTRACE_GETREGS, thread, nullptr, &registers_) != 0) return false;  // It was killed meanwhile.
    const auto call = static_cast<long>(registers_.orig_rax);
    const int first = static_cast<int>(registers_.rdi);
    if (call == SYS_close && first <= kBeginMark && first >= kCountMark) {
      if (first == kBeginMark) begin(thread);
      answer(thread, first == kEndMark ? end() : first == kCountMark ? count_ : 0);
      return false;
    }
    const Row& row = *std::find_if(kRows.begin(), kRows.end(), [&](const Row& one) { return one.call == call; });
    // The command that has a child ask goes on beside it, to wait for it: its calls succeed, and do not count.
    const bool is_asked_of = by_ != 0 && (thread != command_ || by_ == command_);
    const int error = is_asked_of ? error_of(thread, row) : 0;
    if (error > 0 && row.on == On::created) return late_[thread] = error, true;
    if (error > 0) answer(thread, -error);
    else if (error == kShort) set_size(thread, registers_.rdx / 2 / unit() * unit());
    else if (call == SYS_fsync || call == SYS_fdatasync) answer(thread, 0);  // Nothing here is about power that fails.
    return false;
  }

  void on_end_of_call(pid_t thread) {
    if (::ptrace(PTRACE_GETREGS, thread, nullptr, &registers_) != 0) return;
    registers_.rax = static_cast<unsigned long long>(-late_[thread]);
    (void)::ptrace(PTRACE_SETREGS, thread, nullptr, &registers_);
  }

  void on_death(pid_t thread) {
    if (thread == by_) by_ = 0;
  }

 private:
  void begin(pid_t thread) {
    by_ = thread;
    number_ = static_cast<long>(registers_.rsi);
    choice_ = static_cast<std::size_t>(registers_.rdx);
    more_ = (registers_.r10 & kMore) != 0;
    spares_memory_ = (registers_.r10 & kSparesMemory) != 0;
    count_ = 0;
    failed_ = nullptr;
  }

  long end() {
    by_ = 0;
    return failed_ == nullptr ? 0 : failed_->call * 16 + static_cast<long>(errors_);
  }

  // 0 if the call is to be carried out.
  int error_of(pid_t thread, const Row& row) {
    if (!can_fail(thread, row)) return 0;
    const long number = count_++;
    if (number == number_) {
      const std::vector<int> errors = errors_for(row, more_);
      failed_ = &row;
      errors_ = errors.size();
      error_ = errors[choice_ % errors_];
      storm_ = kStormCalls;
      return error_;
    }
    if (number < number_ || !more_) return 0;
    if (!passes(*failed_, error_)) return row.lasts ? row.errors.front() : 0;
    const std::vector<int> errors = errors_for(row, false);
    const bool is_alike = &row == failed_ && std::find(errors.begin(), errors.end(), error_) != errors.end();
    return is_alike && --storm_ > 0 ? error_ : 0;
  }

  bool can_fail(pid_t thread, const Row& row) const {
    if (spares_memory_ && (row.call == SYS_mmap || row.call == SYS_mremap || row.call == SYS_mprotect)) return false;
    return row.on != On::files || is_file(thread);
  }

  static bool passes(const Row& row, int error) { return error == EINTR || error == kShort || !row.lasts; }

  // With `more`, of the errors that last only the one that the calls behind it have.
  std::vector<int> errors_for(const Row& row, bool more) const {
    std::vector<int> errors;
    for (const int error : row.errors) {
      if (error == kShort && registers_.rdx / 2 < unit()) continue;
      if (!more || errors.empty() || passes(row, error)) errors.push_back(error);
    }
    return errors;
  }

  bool is_file(pid_t thread) const {
    const std::string link =
        "/proc/" + std::to_string(thread) + "/fd/" + std::to_string(static_cast<int>(registers_.rdi));
    char name[16] = {};
    return ::readlink(link.c_str(), name, sizeof name) > 0 && name[0] == '/' && std::strncmp(name, "/memfd:", 7) != 0;
  }

  // What is around the page cache stays whole sectors.
  unsigned long long unit() const { return registers_.rdx % 512 == 0 ? 4096 : 1; }

  void set_size(pid_t thread, unsigned long long size) {
    registers_.rdx = size;
    (void)::ptrace(PTRACE_SETREGS, thread, nullptr, &registers_);
  }

  void answer(pid_t thread, long result) {
    registers_.orig_rax = ~0ULL;  // No call.
    registers_.rax = static_cast<unsigned long long>(result);
    (void)::ptrace(PTRACE_SETREGS, thread, nullptr, &registers_);
  }

  const pid_t command_;
  user_regs_struct registers_{};
  pid_t by_ = 0;  // Who asked for failures; 0: nobody does now.
  long number_ = 0, count_ = 0;
  std::size_t choice_ = 0, errors_ = 0;
  bool more_ = false, spares_memory_ = false;
  const Row* failed_ = nullptr;
  int error_ = 0, storm_ = 0;
  std::map<pid_t, int> late_;  // Of calls that are carried out.
};

int watch(pid_t command) {
  Refuser refuser(command);
  while (true) {
    int status = 0;
    const pid_t thread = ::waitpid(-1, &status, __WALL);
    if (thread < 0 && errno == EINTR) continue;
    if (thread < 0) die("refuse_calls: wait");
    if (!WIFSTOPPED(status)) {
      refuser.on_death(thread);
      if (thread != command) continue;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    const int event = status >> 16;
    auto go_on = PTRACE_CONT;
    int signal = event != 0 ? 0 : WSTOPSIG(status);
    if (event == PTRACE_EVENT_SECCOMP && refuser.on_call(thread)) go_on = PTRACE_SYSCALL;
    if (signal == (SIGTRAP | 0x80)) refuser.on_end_of_call(thread), signal = 0;
    (void)::ptrace(go_on, thread, nullptr, static_cast<long>(signal));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("usage: refuse_calls COMMAND...\n", stderr), 2;
  int gate[2];
  if (::pipe2(gate, O_CLOEXEC) != 0) die("refuse_calls: pipe");
  const pid_t command = ::fork();
  if (command == 0) {
    char go = 0;
    ::close(gate[1]);
    if (::read(gate[0], &go, 1) != 1) ::_exit(126);
    stop_calls();
    ::execvp(argv[1], argv + 1);
    die(argv[1]);
  }
  const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                       PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
  if (command < 0) die("refuse_calls: fork");
  if (::ptrace(PTRACE_SEIZE, command, nullptr, options) != 0) {
    std::perror("refuse_calls: this machine forbids ptrace");
    return 77;
  }
  if (::write(gate[1], "", 1) != 1) die("refuse_calls: write");
  return watch(command);
}
