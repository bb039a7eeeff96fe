// SPDX-License-Identifier: Apache-2.0

#include "tools/run/family.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "stats/process_stats.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr std::string_view kSegment = "/memfd:penstock-stats";
constexpr milliseconds kPauseMax{50};
constexpr unsigned kLooksAtLoading = 64;  // A statically linked program never loads a library.
constexpr unsigned kLookShare = 100;

std::chrono::nanoseconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::string folder_of(pid_t process) { return fmt::format("/proc/{}", process); }

// Looks at each thread, since each has children of its own.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (fs::directory_iterator task(folder_of(process) + "/task", gone), end; !gone && task != end;
       task.increment(gone)) {
    std::istringstream words(text_of_proc(task->path().string() + "/children"));
    for (pid_t child = 0; words >> child;) children.push_back(child);
  }
  return children;
}

// A process's state and start time: the 3rd and the 22nd word of /proc/PID/stat, whose 2nd may contain blanks.
struct Life {
  std::string began;
  bool is_running = false;
};
Life life_of(pid_t process) {
  const std::string stat = text_of_proc(folder_of(process) + "/stat");
  const std::size_t behind_name = stat.rfind(')');
  if (behind_name == std::string::npos) return {};
  std::istringstream words(stat.substr(behind_name + 1));
  std::string word, state;
  words >> state;
  for (unsigned i = 0; i < 19; ++i) words >> word;
  return {word, state != "Z" && state != "X"};
}

void look_at_io(ProcessSeen& seen) {
  const std::string io = text_of_proc(folder_of(seen.pid) + "/io");
  seen.read_call_bytes = std::max(seen.read_call_bytes, number_in(io, "rchar:").value_or(0));
  seen.write_call_bytes = std::max(seen.write_call_bytes, number_in(io, "wchar:").value_or(0));
  seen.storage_bytes = std::max(seen.storage_bytes, number_in(io, "\nread_bytes:").value_or(0));
}

bool is_library(std::string_view path) { return core::last_component(path).find(".so") != path.npos; }
// True for the loader, glibc's or musl's, which the kernel maps with the program.
bool is_loader(std::string_view path) {
  return core::last_component(path).starts_with("ld-") || core::last_component(path).starts_with("ld.");
}

// Looks at a file's size only when it is first seen.
FileSeen* file_seen(ProcessSeen& seen, const std::string& path, const std::string& link) {
  if (is_library(path)) return nullptr;
  if (const auto known = seen.files.find(path); known != seen.files.end()) return &known->second;
  struct stat facts {};
  if (seen.files.size() >= ProcessFamily::kFilesMax || stat(link.c_str(), &facts) != 0) return nullptr;
  const bool is_file = S_ISREG(facts.st_mode) || S_ISBLK(facts.st_mode);
  if (!is_file || (S_ISREG(facts.st_mode) && static_cast<std::uint64_t>(facts.st_size) < ProcessFamily::kLargeFile)) {
    return nullptr;
  }
  FileSeen& file = seen.files[path];
  file.bytes = static_cast<std::uint64_t>(facts.st_size);
  return &file;
}

std::string program_of(pid_t process) {
  std::error_code gone;
  return fs::read_symlink(folder_of(process) + "/exe", gone).string();
}

// Takes nothing from a process that ends or becomes another program meanwhile: perhaps only a part of its mappings was
// shown, and the maker of its libcufile cannot be seen.
void look_at_mappings(ProcessSeen& seen) {
  const std::string program = program_of(seen.pid);
  const std::vector<MappedFile> files = mapped_files_in(text_of_proc(folder_of(seen.pid) + "/maps"));
  const bool is_another = program != seen.program;  // It runs another program now, with other libraries.
  std::vector<CuFileLibrary> libraries = is_another ? std::vector<CuFileLibrary>() : seen.libraries;
  for (const MappedFile& file : files) {
    const auto same = [&](const CuFileLibrary& library) { return library.path == file.path; };
    const bool is_new = std::none_of(libraries.begin(), libraries.end(), same);
    if (is_new && is_cufile(file)) libraries.push_back({file.path, maker_of(seen.pid, file)});
  }
  if (program.empty() || program_of(seen.pid) != program) return;
  seen.program = program;
  seen.libraries = std::move(libraries);
  if (is_another) seen.has_loaded = false;
  for (const MappedFile& file : files) {
    const std::string_view name = core::last_component(file.path);
    seen.has_loaded |= file.is_executable && is_library(file.path) && !is_loader(file.path);
    seen.has_aio |= name == "[aio]";
    seen.has_torch |= name.starts_with("libtorch");
    seen.has_kvikio |= name.starts_with("libkvikio");
    const bool is_data = !file.is_executable && !file.is_deleted;
    if (FileSeen* const large = is_data ? file_seen(seen, file.path, file.path) : nullptr) large->is_mapped = true;
  }
}

void look_at_session(ProcessSeen& seen) {
  const auto process = core::stats_of_process(seen.pid);
  if (!process.ok() || process->sessions.empty()) return;
  seen.moved = sums_of(counts_of(process->sessions));
}

void look_at_descriptors(ProcessSeen& seen) {
  bool has_session = false;
  std::error_code gone;
  for (fs::directory_iterator entry(folder_of(seen.pid) + "/fd", gone), end; !gone && entry != end;
       entry.increment(gone)) {
    std::error_code closed;
    const std::string path = fs::read_symlink(entry->path(), closed).string();
    has_session |= path.starts_with(kSegment);
    seen.has_io_uring |= path == "anon_inode:[io_uring]";
    if (!path.starts_with('/') || path.starts_with("/memfd:") || path.starts_with("/dev/shm")) continue;
    FileSeen* const file = file_seen(seen, path, entry->path());
    if (file == nullptr) continue;
    const std::string info = text_of_proc(folder_of(seen.pid) + "/fdinfo/" + entry->path().filename().string());
    unsigned flags = 0;
    (void)std::sscanf(info.c_str(), "pos: %*u flags: %o", &flags);
    file->is_direct |= (flags & O_DIRECT) != 0;
    if ((flags & O_ACCMODE) == O_WRONLY && !file->is_mapped) seen.files.erase(path);
  }
  if (has_session) look_at_session(seen);
}

}  // namespace

ProcessSeen* ProcessFamily::known(pid_t process) {
  Life life = life_of(process);
  if (life.began.empty()) return nullptr;
  const auto found = known_.find(process);
  if (found != known_.end() && found->second.began != life.began) {
    replaced_.push_back(std::move(found->second.seen));
    known_.erase(found);
  }
  if (!known_.contains(process) && known_.size() + replaced_.size() >= kProcessesMax) return nullptr;
  Known& known = known_[process];
  known.began = std::move(life.began);
  known.seen.pid = process;
  known.seen.is_running = life.is_running;
  return &known.seen;
}

void ProcessFamily::look_at(pid_t process) {
  ProcessSeen* const seen = known(process);
  if (seen == nullptr) {
    if (const auto gone = known_.find(process); gone != known_.end()) gone->second.seen.is_running = false;
    return;
  }
  look_at_io(*seen);
  if (!seen->is_running) return;
  seen->command = command_of(process);
  look_at_mappings(*seen);
  look_at_descriptors(*seen);
}

// Descendants of a process that has ended became children of this process (watch()).
void ProcessFamily::look() {
  const std::chrono::nanoseconds start = cpu_time();
  std::vector<pid_t> family = children_of(getpid());
  for (const auto& [process, known] : known_) {
    if (known.seen.is_running) family.push_back(process);
  }
  std::vector<pid_t> all;
  is_loading_ = false;
  for (std::size_t i = 0; i < family.size(); ++i) {
    if (std::find(all.begin(), all.end(), family[i]) != all.end()) continue;
    all.push_back(family[i]);
    look_at(family[i]);
    const auto seen = known_.find(family[i]);
    is_loading_ |= seen != known_.end() && seen->second.seen.is_running && !seen->second.seen.has_loaded;
    for (const pid_t child : children_of(family[i])) family.push_back(child);
  }
  ++looks_;
  took_ = cpu_time() - start;
}

void ProcessFamily::look_at_end_of(pid_t process) {
  if (ProcessSeen* const seen = known(process)) look_at_io(*seen);
}

std::chrono::nanoseconds ProcessFamily::pause() const {
  if (is_loading_ && looks_ < kLooksAtLoading) return milliseconds(1);
  const auto at_first = milliseconds(1) * (1 << std::min(looks_, 10u));
  return std::max<std::chrono::nanoseconds>(std::min<std::chrono::nanoseconds>(at_first, kPauseMax),
                                            took_ * kLookShare);
}

std::vector<ProcessSeen> ProcessFamily::processes() const {
  std::vector<ProcessSeen> all = replaced_;
  for (const auto& [process, known] : known_) all.push_back(known.seen);
  return all;
}

}  // namespace penstock::tools
