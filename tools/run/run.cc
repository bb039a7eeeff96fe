// SPDX-License-Identifier: Apache-2.0

// penstock run: runs a program with our libcufile in front of NVIDIA's, and proves which of the two it used. The
// program is started with our library in LD_PRELOAD, so that our calls come first even if the program names NVIDIA's
// library by its path, as PyTorch's wheels do and LD_LIBRARY_PATH cannot change. If nothing is to be reported at the
// end, the program replaces this process; otherwise this process watches it through /proc, and the program's processes
// write reports into a folder made for them (PENSTOCK_REPORT).
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/new_file.h"
#include "base/unique_fd.h"
#include "facts/process.h"
#include "tools/common/command_line.h"
#include "tools/common/cufile_mappings.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/new_file.h"
#include "tools/common/nvidia_fs_page.h"
#include "tools/common/terminal.h"
#include "tools/run/account.h"
#include "tools/run/family.h"
#include "tools/run/launch.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStderr = "stderr";
constexpr const char* kCufileVersion = "PENSTOCK_CUFILE_VERSION";
constexpr std::size_t kReportBytesMax = 1 << 20;
constexpr int kPassedOn[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};

constexpr const char* kRunExamples =
    "Examples:\n"
    "  penstock run python train.py                 in front of whatever libcufile the program brings\n"
    "  penstock run --report python train.py        and report at the end what went through it, or what did not\n"
    "  penstock run --report=load.json python train.py    the same as JSON, in a file\n"
    "  penstock run --which python train.py         only say which libcufile its processes had mapped\n"
    "  penstock run --library /opt/lib/libcufile.so.0 -- fio --ioengine=libcufile job.fio\n"
    "Options of penstock come before PROGRAM. The library is put in front by LD_PRELOAD, which reaches all that the "
    "program starts, but no statically linked program and none that is set-user-id. The output of the program stays as "
    "it is: what is said of the library goes to stderr, before the program or with reports when all has ended.\n"
    "Exit code: the program's; 128 and the signal's number where a signal ended it; 127 where there is no such "
    "program, 126 where it cannot be started; 1 failed, 2 wrong usage.";

struct RunOptions {
  std::vector<std::string> words;  // The program and its arguments.
  std::string library;
  std::string report;  // "stderr", or a file's name.
  std::string cufile;  // The version of cuFile whose answers are given, or "".
  bool which = false;
};

// The folder for reports of the program's processes. It is removed with this object.
class ReportFolder {
 public:
  explicit ReportFolder(bool json) : suffix_(json ? ".json" : ".txt") {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / (std::string(core::kRunFolder) + "XXXXXX")).string();
    if (error || mkdtemp(name.data()) == nullptr) fail_errno(name, "make a folder for reports");
    folder_ = name;
  }
  ~ReportFolder() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  std::string setting() const { return (folder_ / ("%p" + suffix_)).string(); }

  std::map<pid_t, std::string> reports() const { return files(suffix_); }
  // The path of Penstock's library in each process that loaded it.
  std::map<pid_t, std::string> marks() const {
    std::map<pid_t, std::string> all = files(core::kLoadedMark);
    std::erase_if(all, [](const auto& mark) { return mark.second.empty(); });  // Its process was killed, or no room.
    std::error_code ignored;
    for (auto& [pid, path] : all) path = fs::weakly_canonical(path, ignored).string();
    return all;
  }

 private:
  std::map<pid_t, std::string> files(const std::string& suffix) const {
    std::map<pid_t, std::string> all;
    std::error_code error;
    for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
      const auto pid = core::parse_number<pid_t>(entry->path().stem().string());
      if (!pid || entry->path().extension() != suffix) continue;
      try {
        all[*pid] = read_bounded(entry->path(), kReportBytesMax);
      } catch (const Failure& failure) {
        print_error("penstock run: {}\n", failure.what());
      }
    }
    return all;
  }

  fs::path folder_;
  const std::string suffix_;
};

// ---- The program, watched

// Returns when the child has become the program, or has said why it could not: before that its mappings are those of
// this process and say nothing about the program.
pid_t start(const RunOptions& settings, const fs::path& library, const std::string& report, const sigset_t& before) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure(fmt::format("a pipe could not be made: {}", std::strerror(errno)));
  const core::UniqueFd there(ends[0]);
  core::UniqueFd here(ends[1]);
  const pid_t child = fork();
  if (child < 0) throw Failure(fmt::format("a process could not be started: {}", std::strerror(errno)));
  if (child > 0) {
    here.reset();
    char nothing = 0;
    while (read(there.get(), &nothing, 1) < 0 && errno == EINTR) {
    }
    return child;
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  try {
    put_in_front(library);
    if (!report.empty()) setenv(core::kReportVariable, report.c_str(), 1);
    become(settings.words);
  } catch (const Failure& failure) {
    print_error("penstock run: {}\n", failure.what());
    _exit(failure.exit_code());
  }
}

// True if the program has ended. Orphans among its processes are then children of this process, which reaps them.
bool has_ended(pid_t program, ProcessFamily& family) {
  for (;;) {
    siginfo_t facts{};
    if (waitid(P_ALL, 0, &facts, WEXITED | WNOWAIT | WNOHANG) != 0 || facts.si_pid == 0) return false;
    family.look_at_end_of(facts.si_pid);
    if (facts.si_pid == program) return true;
    (void)waitpid(facts.si_pid, nullptr, 0);
  }
}

// Passes on a signal that was sent to this process alone; Ctrl-C and Ctrl-\ already reach all programs on the terminal.
void pass_on(pid_t child, const siginfo_t& signal_facts) {
  const bool is_terminals = signal_facts.si_code == SI_KERNEL;
  for (const int passed : kPassedOn) {
    if (signal_facts.si_signo == passed && !is_terminals) kill(child, passed);
  }
}

// Waits for the program. Returns its status as waitpid() has it.
int watch(pid_t child, ProcessFamily& family, const sigset_t& signals) {
  while (!has_ended(child, family)) {
    family.look();
    const auto pause = family.pause();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(pause);
    const timespec time{seconds.count(), (pause - seconds).count()};
    siginfo_t facts{};
    if (sigtimedwait(&signals, &facts, &time) > 0) pass_on(child, facts);
  }
  family.look();  // Looks at the processes that still run.
  int status = 0;
  (void)waitpid(child, &status, 0);
  return status;
}

Account watch_program(const RunOptions& settings, const fs::path& library, const std::string& report) {
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int passed : kPassedOn) sigaddset(&signals, passed);
  sigprocmask(SIG_BLOCK, &signals, &before);
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1);  // Keeps daemons in sight.
  const core::NvidiaFsStats counted = this_machines_nvidia_fs();
  const auto began = std::chrono::steady_clock::now();
  const pid_t child = start(settings, library, report, before);
  ProcessFamily family;
  const int status = watch(child, family, signals);
  Account account{.words = settings.words, .library = fs::canonical(library).string()};
  account.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  account.signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  account.exit_code = WIFSIGNALED(status) ? 128 + account.signal_number : WEXITSTATUS(status);
  account.processes = family.processes();
  account.nvidia_fs = growth_of(counted, this_machines_nvidia_fs());
  return account;
}

// ---- Answers

bool asks_for_json(const RunOptions& settings) { return settings.report.ends_with(".json"); }

// Writes the report. If the file that was asked for cannot be written, the report goes to stderr, so it is not lost.
void tell(const std::string& text, const RunOptions& settings) {
  if (settings.report != kStderr) {
    const core::Status status = core::publish_private_file(settings.report, text);
    if (status.ok()) return;
    print_error("penstock run: {}: the report could not be written: {}\n", settings.report, core::describe(status));
  }
  print_error("{}", Text(text));
}

// Checks this before the program runs for hours. The file that it makes is removed.
void check_writable(const RunOptions& settings) {
  if (settings.report != kStderr) const NewFile probe(settings.report, 0);
}

int run_and_report(const RunOptions& settings, const fs::path& library, const std::string& out_of_reach) {
  check_writable(settings);
  const ReportFolder folder(asks_for_json(settings));
  Account account = watch_program(settings, library, folder.setting());
  account.out_of_reach = out_of_reach;
  account.reports = folder.reports();
  account.loaded = folder.marks();
  tell(asks_for_json(settings)
           ? account_json(account).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
           : account_text(account),
       settings);
  return account.exit_code;
}

// Says which library was used. If cuFile was used, the library's own report shows it, which no look can miss, unless
// the user sends that report elsewhere.
int run_and_say_which(const RunOptions& settings, const fs::path& library, const std::string& out_of_reach) {
  const char* const taken = core::process_environment(core::kReportVariable);
  const bool is_taken = taken != nullptr && *taken != '\0';
  const ReportFolder folder(true);
  Account account = watch_program(settings, library, is_taken ? "" : folder.setting());
  account.out_of_reach = out_of_reach;
  account.reports = folder.reports();
  account.loaded = folder.marks();
  print_error("{}", Text(which_text(account)));
  return account.exit_code;
}

// The program replaces this process, so only what was done can be said, and not yet which library it used.
std::string in_front_text(const fs::path& library) {
  const std::string path = fs::canonical(library).string();
  const bool is_ours = maker_of(getpid(), {.path = path}) == Maker::penstock;
  return fmt::format("penstock run: {}{} is in front of any other; --which proves at the end that it was used\n", path,
                     is_ours ? ", which is Penstock's," : "");
}

int run_program(const RunOptions& settings) {
  if (settings.words.empty()) throw Failure("no program was given; see 'penstock run --help'", kUsage);
  const fs::path library = library_for(settings.library);
  if (!settings.cufile.empty()) setenv(kCufileVersion, settings.cufile.c_str(), 1);
  const std::string path = program_path(settings.words[0]);
  if (path.empty()) throw Failure(settings.words[0] + ": there is no such program", kNotFound);
  const std::string out_of_reach = why_out_of_reach(path);
  if (!out_of_reach.empty()) print_error("penstock run: {}\n", out_of_reach);
  if (!settings.report.empty()) return run_and_report(settings, library, out_of_reach);
  if (settings.which) return run_and_say_which(settings, library, out_of_reach);
  if (out_of_reach.empty()) print_error("{}", Text(in_front_text(library)));
  put_in_front(library);
  become(settings.words);
}

}  // namespace

void add_run(CommandLine& command) {
  auto settings = std::make_shared<RunOptions>();
  command.flag_or_value(
      "--report", kStderr, settings->report,
      "Report at the end what went through cuFile, by which paths and why, or how the program read files instead; "
      "--report=FILE writes the report into a file, as JSON if its name ends in .json");
  command.flag("--which", settings->which, "Say at the end which libcufile the program's processes had mapped");
  command.option("--library", settings->library, "The libcufile.so.0 to put in front [the one installed beside]")
      .value_name("FILE");
  command
      .option("--cufile", settings->cufile,
              "The version of cuFile that the program was built for; with 1.20 the answers and statistics of 1.19 and "
              "1.20 [1.15]")
      .one_of({"1.15", "1.20"});
  command.takes_program(settings->words);
  command.footer(kRunExamples);
  command.runs([settings] { return run_program(*settings); });
}

}  // namespace penstock::tools
