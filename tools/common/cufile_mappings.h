// SPDX-License-Identifier: Apache-2.0

// Finds the libcufile that a process has mapped, from /proc: Penstock's, NVIDIA's, or none. `penstock run` proves with
// it which one the process got; `penstock stats` uses it too. It only looks, and skips processes that this user may not
// look at.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools {

// A file of /proc/PID/maps. Each stands once, in the order of addresses. Paths are as the process sees them, which may
// be in another mount namespace.
struct MappedFile {
  std::string path;
  bool is_executable = false;  // Some of it can be executed: a program or a library.
  bool is_deleted = false;
};
std::vector<MappedFile> mapped_files_in(std::string_view maps);

enum class Maker { penstock, other, unknown };  // It is unknown if the file is gone or may not be read.

struct CuFileLibrary {
  std::string path;
  Maker maker = Maker::unknown;
};
// True if its name begins with libcufile.so.
bool is_cufile(const MappedFile& file);
// Reads the file, through the process's own root directory.
Maker maker_of(pid_t process, const MappedFile& file);

// Nothing if the process is gone, or this user may not look at it.
std::optional<std::vector<CuFileLibrary>> cufile_libraries_of(pid_t process);

// The text to follow the name of a process that has no session: "has NVIDIA's libcufile, /usr/...: start it with
// 'penstock run' to have Penstock's".
std::string sentence_of(const std::vector<CuFileLibrary>& libraries);

// "penstock", "other", "unknown"
const char* maker_name(Maker maker);

// The whole text of a file in /proc, or "".
std::string text_of_proc(const std::string& path);
// The number behind a label in such a text, and blanks; nothing if there is none.
std::optional<std::uint64_t> number_in(std::string_view text, std::string_view label, int base = 10);
// The process's own name (comm).
std::string command_of(pid_t process);

// A process that has mapped a libcufile. Processes are in the order of their numbers; one look at all has a time limit.
struct ProcessWithCuFile {
  pid_t pid = 0;
  std::string command;
  std::vector<CuFileLibrary> libraries;
};
std::vector<ProcessWithCuFile> processes_with_cufile();

}  // namespace penstock::tools
