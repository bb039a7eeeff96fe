// SPDX-License-Identifier: Apache-2.0

#include "tools/common/cufile_mappings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "base/unique_fd.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibrary = "libcufile.so";
constexpr std::string_view kDeleted = " (deleted)";
// A symbol that every libcufile of Penstock exports, and no other maker's.
constexpr std::string_view kOurCall = "penstock_cufile_session";
constexpr off_t kLibraryBytesMax = 64 << 20;
constexpr std::chrono::seconds kLookMax{2};

// Reads a line of maps, "7f00-7f01 r-xp 00000000 08:01 42   /opt/lib/x.so". Nothing if no file is mapped there.
std::optional<MappedFile> file_of_line(std::string_view line) {
  const std::size_t slash = line.find('/'), blank = line.find(' ');
  if (slash == std::string_view::npos || blank == std::string_view::npos) return std::nullopt;
  MappedFile file{.path = std::string(line.substr(slash)),
                  .is_executable = line.substr(blank, 5).find('x') != line.npos};
  file.is_deleted = file.path.ends_with(kDeleted);
  if (file.is_deleted) file.path.resize(file.path.size() - kDeleted.size());
  return file;
}

bool holds_our_call(int fd, off_t size) {
  std::string text(1 << 20, '\0');
  for (off_t at = 0; at < size;) {
    const ssize_t got = pread(fd, text.data(), text.size(), at);
    if (got <= 0) return false;
    const std::string_view part(text.data(), static_cast<std::size_t>(got));
    if (part.find(kOurCall) != std::string_view::npos) return true;
    // The name may lie across two parts.
    at += std::max<off_t>(got - static_cast<off_t>(kOurCall.size()), 1);
  }
  return false;
}

}  // namespace

// Does without std::ifstream, which throws if the process ends while its file is read.
std::string text_of_proc(const std::string& path) {
  const core::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[1 << 14];
  for (ssize_t got = 1; fd.valid() && got > 0;) {
    got = read(fd.get(), part, sizeof part);
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

std::optional<std::uint64_t> number_in(std::string_view text, std::string_view label, int base) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = std::min(text.find_first_not_of(" \t", at + label.size()), text.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number, base);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

std::string command_of(pid_t process) {
  std::string name = text_of_proc(fmt::format("/proc/{}/comm", process));
  if (name.ends_with('\n')) name.pop_back();
  for (char& letter : name) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return name;
}

std::vector<MappedFile> mapped_files_in(std::string_view maps) {
  std::vector<MappedFile> files;
  for (std::size_t at = 0; at < maps.size();) {
    const std::size_t end = std::min(maps.find('\n', at), maps.size());
    std::optional<MappedFile> file = file_of_line(maps.substr(at, end - at));
    at = end + 1;
    if (!file) continue;
    const auto same = [&](const MappedFile& known) { return known.path == file->path; };
    // Mappings of one file mostly stand one after another.
    if (!files.empty() && same(files.back())) files.back().is_executable |= file->is_executable;
    else if (const auto known = std::find_if(files.begin(), files.end(), same); known == files.end())
      files.push_back(std::move(*file));
    else known->is_executable |= file->is_executable;
  }
  return files;
}

Maker maker_of(pid_t process, const MappedFile& file) {
  if (file.is_deleted) return Maker::unknown;
  const std::string path = fmt::format("/proc/{}/root{}", process, file.path);
  const core::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  if (!fd.valid() || fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return Maker::unknown;
  if (holds_our_call(fd.get(), std::min(facts.st_size, kLibraryBytesMax))) return Maker::penstock;
  return facts.st_size > kLibraryBytesMax ? Maker::unknown : Maker::other;  // The rest was not looked at.
}

bool is_cufile(const MappedFile& file) { return core::last_component(file.path).starts_with(kLibrary); }

std::optional<std::vector<CuFileLibrary>> cufile_libraries_of(pid_t process) {
  const std::string maps = text_of_proc(fmt::format("/proc/{}/maps", process));
  if (maps.empty()) return std::nullopt;
  std::vector<CuFileLibrary> libraries;
  for (const MappedFile& file : mapped_files_in(maps)) {
    if (is_cufile(file)) libraries.push_back({file.path, maker_of(process, file)});
  }
  return libraries;
}

const char* maker_name(Maker maker) {
  switch (maker) {
    case Maker::penstock: return "penstock";
    case Maker::other: return "other";
    case Maker::unknown: break;
  }
  return "unknown";
}

std::string sentence_of(const std::vector<CuFileLibrary>& libraries) {
  const auto of = [&](Maker maker) {
    return std::find_if(libraries.begin(), libraries.end(), [&](auto& library) { return library.maker == maker; });
  };
  const auto ours = of(Maker::penstock), others = of(Maker::other), unknown = of(Maker::unknown);
  if (ours != libraries.end()) {
    return fmt::format(
        "has Penstock's libcufile, {}, and no session of it open: cuFile was not called yet, or not by "
        "this process{}",
        ours->path, others == libraries.end() ? "" : "; it has mapped " + others->path + " besides");
  }
  if (others != libraries.end()) {
    return fmt::format("has another libcufile, {}: start it with 'penstock run -- PROGRAM' to have Penstock's in front",
                       others->path);
  }
  if (unknown != libraries.end()) {
    return fmt::format(
        "has a libcufile, {}, whose maker cannot be seen, since the file is gone or may not be read; it "
        "has no Penstock session open",
        unknown->path);
  }
  return "has no libcufile: it reads files by itself; 'penstock run --report -- PROGRAM' says with what, and what "
         "would "
         "use cuFile instead";
}

std::vector<ProcessWithCuFile> processes_with_cufile() {
  const auto deadline = std::chrono::steady_clock::now() + kLookMax;
  std::vector<ProcessWithCuFile> found;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc", gone), end; !gone && entry != end; entry.increment(gone)) {
    if (std::chrono::steady_clock::now() > deadline) break;
    const auto pid = core::parse_number<pid_t>(entry->path().filename().native());
    if (!pid) continue;
    const auto libraries = cufile_libraries_of(*pid);
    if (libraries && !libraries->empty()) found.push_back({*pid, command_of(*pid), *libraries});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return found;
}

}  // namespace penstock::tools
