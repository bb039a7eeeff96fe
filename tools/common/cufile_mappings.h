// SPDX-License-Identifier: Apache-2.0

// The libcufile that a process has mapped, as /proc tells: ours or NVIDIA's, or none. For `penstock run`, which proves
// which one won, and for `penstock stats`. Only looks, and tells nothing of processes that are not ours to look at.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools {

// The files of /proc/PID/maps, each once, in the order of addresses. Names are the process's own, which may live in
// another mount namespace.
struct MappedFile {
  std::string path;
  bool is_executable = false;  // Some of it: a program or a library.
  bool is_deleted = false;
};
std::vector<MappedFile> mapped_files_in(std::string_view maps);

enum class Maker { penstock, other, unknown };  // unknown: the file is gone, or may not be read.

struct CuFileLibrary {
  std::string path;
  Maker maker = Maker::unknown;
};
// By its name, libcufile.so...
bool is_cufile(const MappedFile& file);
// Reads the file, through the process's own root.
Maker maker_of(pid_t process, const MappedFile& file);

// Nothing where the process is gone, or not ours to look at.
std::optional<std::vector<CuFileLibrary>> cufile_libraries_of(pid_t process);

// "has NVIDIA's libcufile, /usr/...: start it with 'penstock run' to have Penstock's": goes on after the name of a
// process without a session.
std::string sentence_of(const std::vector<CuFileLibrary>& libraries);

// "penstock", "other", "unknown"
const char* maker_name(Maker maker);

// All text of a file in /proc, or "".
std::string text_of_proc(const std::string& path);
// The process's own name (comm).
std::string command_of(pid_t process);

// Processes with a libcufile, in the order of their numbers. One look has a limit of time.
struct ProcessWithCuFile {
  pid_t pid = 0;
  std::string command;
  std::vector<CuFileLibrary> libraries;
};
std::vector<ProcessWithCuFile> processes_with_cufile();

}  // namespace penstock::tools
