// SPDX-License-Identifier: Apache-2.0

#include "tools/run/launch.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "base/unique_fd.h"
#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "libcufile.so.0";

fs::path beside_the_tool() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::set<std::string> places;
  for (const char* way : {PENSTOCK_CUFILE_FROM_BIN, "../lib"}) {
    const fs::path library = (folder / way / kName).lexically_normal();
    if (!error && fs::exists(library, error)) return library;
    places.insert(library.parent_path().string());
  }
  throw Failure(
      fmt::format("cannot find Penstock's {}, which this tool expects in {}: install the package penstock-cufile, or "
                  "name the file with --library; `python -m penstock run` uses the one of the Python package",
                  kName, fmt::join(places, " or ")));
}

// True if the file, a program for this machine, asks for the dynamic loader. Nothing if it is no program but a script.
std::optional<bool> is_dynamic(const std::string& path) {
  const core::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr header{};
  if (!fd.valid() || pread(fd.get(), &header, sizeof header, 0) != sizeof header) return std::nullopt;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return std::nullopt;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof part);
    if (pread(fd.get(), &part, sizeof part, at) != sizeof part) return std::nullopt;
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

}  // namespace

fs::path library_for(const std::string& named) {
  if (named.empty()) return beside_the_tool();
  std::error_code error;
  const fs::path library = fs::canonical(named, error);
  if (error || !fs::is_regular_file(library, error)) {
    throw Failure(named + ": --library takes a file, Penstock's libcufile.so.0");
  }
  return library;
}

void put_in_front(const std::string& library) {
  if (library.find_first_of(" :") != std::string::npos) {
    throw Failure(library + ": LD_PRELOAD takes no path with a blank or a colon; install the library elsewhere");
  }
  const char* before = getenv("LD_PRELOAD");
  const std::string all = before == nullptr || *before == '\0' ? library : library + " " + before;
  setenv("LD_PRELOAD", all.c_str(), 1);
}

std::string program_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = getenv("PATH");
  std::string_view folders = path == nullptr ? "/bin:/usr/bin" : path;
  while (true) {
    const std::size_t colon = std::min(folders.find(':'), folders.size());
    const std::string_view folder = folders.substr(0, colon);
    const std::string candidate = (folder.empty() ? "." : std::string(folder)) + "/" + name;
    struct stat facts {};
    if (stat(candidate.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    if (colon == folders.size()) return "";
    folders.remove_prefix(colon + 1);
  }
}

std::string why_out_of_reach(const std::string& program) {
  struct stat facts {};
  const bool is_there = stat(program.c_str(), &facts) == 0;
  const bool changes_user = is_there && (facts.st_mode & S_ISUID) != 0 && facts.st_uid != getuid();
  const bool changes_group = is_there && (facts.st_mode & S_ISGID) != 0 && facts.st_gid != getgid();
  if (changes_user || changes_group) {
    return program +
           " is set-user-id or set-group-id: the loader ignores LD_PRELOAD, so Penstock's library is not in front";
  }
  if (is_dynamic(program) == false) {
    return program + " is statically linked: it loads no library, so Penstock's is not in front";
  }
  return "";
}

void become(const std::vector<std::string>& words) {
  signal(SIGXFSZ, SIG_DFL);  // main() ignores this signal.
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  throw Failure(fmt::format("{}: {}", words[0], error == ENOENT ? "there is no such program" : std::strerror(error)),
                error == ENOENT ? kNotFound : kNotStarted);
}

}  // namespace penstock::tools
