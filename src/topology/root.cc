// SPDX-License-Identifier: Apache-2.0

#include "topology/root.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/missing_call.h"
#include "base/unique_folder.h"
#include "topology/text.h"

namespace penstock::core {
namespace {

constexpr int kOpenFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

bool is_type(int fd, mode_t type) {
  struct stat facts;
  return ::fstat(fd, &facts) == 0 && (facts.st_mode & S_IFMT) == type;
}

// Returns -1 on failure, 0 at the end.
ssize_t read_some(int fd, char* data, std::size_t size) {
  ssize_t got;
  do {
    got = ::read(fd, data, size);
  } while (got < 0 && errno == EINTR);
  return got;
}

std::string read_link(int fd) {
  char target[PATH_MAX];
  const ssize_t size = ::readlinkat(fd, "", target, sizeof target);
  return size <= 0 ? std::string() : std::string(target, static_cast<std::size_t>(size));
}

// Puts the components of `path` in front of the pending ones; the next one is at the back.
void push_components(std::vector<std::string>& pending, std::string_view path) {
  const std::vector<std::string_view> components = split(path, '/');
  pending.insert(pending.end(), components.rbegin(), components.rend());
}

}  // namespace

// A walk along a path: one descriptor (O_PATH) and one name for each level below the root.
struct Root::Walk {
  std::vector<UniqueFd> levels;
  std::vector<std::string> names;

  int parent(int root) const { return levels.size() < 2 ? root : levels[levels.size() - 2].get(); }
  int last(int root) const { return levels.empty() ? root : levels.back().get(); }
};

Result<Root> Root::open(const std::string& directory, Resolver resolver) {
  const bool is_machine = directory.empty() || directory == "/";
  UniqueFd fd(::open(is_machine ? "/" : directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return os_failure(errno, "open the root directory");
  return Root(std::move(fd), is_machine, resolver);
}

// Resolves in user space; links are read, never followed: ".." stops at the root, and absolute links start there.
std::optional<Root::Walk> Root::walk(std::string_view path, bool follow_last) const {
  Walk walk;
  std::vector<std::string> pending;
  push_components(pending, path);
  unsigned links = 0;
  while (!pending.empty()) {
    const std::string name = std::move(pending.back());
    pending.pop_back();
    if (name == ".") continue;
    if (name == "..") {
      if (!walk.levels.empty()) {
        walk.levels.pop_back();
        walk.names.pop_back();
      }
      continue;
    }
    if (walk.levels.size() == kDepthMax || pending.size() > 2 * kDepthMax) return std::nullopt;
    UniqueFd next(::openat(walk.last(fd_.get()), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) return std::nullopt;
    if (is_type(next.get(), S_IFLNK) && (follow_last || !pending.empty())) {
      const std::string target = read_link(next.get());
      if (target.empty() || ++links > kLinksMax) return std::nullopt;
      if (target.front() == '/') walk = Walk{};
      push_components(pending, target);
      continue;
    }
    walk.levels.push_back(std::move(next));
    walk.names.push_back(name);
  }
  return walk;
}

UniqueFd Root::open_by_steps(std::string_view path, int flags) const {
  const std::optional<Walk> found = walk(path, true);
  if (!found) return UniqueFd();
  const char* name = found->names.empty() ? "." : found->names.back().c_str();
  return UniqueFd(::openat(found->parent(fd_.get()), name, flags | O_NOFOLLOW));
}

// Sets `refused` if openat2 itself is not usable: an old kernel, or a seccomp filter.
UniqueFd Root::open_by_kernel(std::string_view path, int flags, bool& refused) const {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const std::string name(path);
  const long fd = ::syscall(SYS_openat2, fd_.get(), name.c_str(), &how, sizeof how);
  // EAGAIN means that a rename elsewhere raced with a "..", so the kernel could not be sure that it stayed inside.
  refused = fd < 0 && (is_call_missing(errno) || errno == EAGAIN);
  return UniqueFd(static_cast<int>(fd));
}

// Checks the type before it opens, because opening a pipe may block and opening a device may have side effects.
UniqueFd Root::open_file(std::string_view path, mode_t type) const {
  const auto open_once = [&](int flags) {
    bool refused = resolver_ == Resolver::steps;
    UniqueFd fd;
    if (!refused) fd = open_by_kernel(path, flags, refused);
    if (refused) fd = open_by_steps(path, flags);
    return fd;
  };
  const UniqueFd look = open_once(O_PATH | O_CLOEXEC);
  if (!look.valid() || !is_type(look.get(), type)) return UniqueFd();
  UniqueFd fd = open_once(kOpenFlags);
  if (!fd.valid() || !is_type(fd.get(), type)) return UniqueFd();
  return fd;
}

std::optional<std::string> Root::read(std::string_view path, std::size_t size_max) const {
  const UniqueFd fd = open_file(path, S_IFREG);
  if (!fd.valid()) return std::nullopt;
  std::string text;
  char block[16 << 10];
  while (text.size() < size_max) {
    const ssize_t got = read_some(fd.get(), block, std::min(sizeof block, size_max - text.size()));
    if (got < 0 && text.empty()) return std::nullopt;
    if (got <= 0) break;
    text.append(block, static_cast<std::size_t>(got));
  }
  return text;
}

std::string Root::read_line(std::string_view path) const {
  const std::optional<std::string> text = read(path, 4096);
  if (!text) return {};
  std::string_view rest = *text;
  return std::string(trim(take_until(rest, '\n')));
}

std::optional<std::int64_t> Root::read_number(std::string_view path) const {
  const std::string line = read_line(path);
  if (line.starts_with("0x")) return parse_number<std::int64_t>(std::string_view(line).substr(2), 16);
  return parse_number<std::int64_t>(line);
}

bool Root::contains(std::string_view path, std::span<const std::string_view> needles, std::size_t size_max) const {
  // The end of a block is kept for the next one, so that a needle cut in two is found.
  constexpr std::size_t kTail = 64;
  const UniqueFd fd = open_file(path, S_IFREG);
  if (!fd.valid()) return false;
  std::string window;
  char block[64 << 10];
  for (std::size_t total = 0; total < size_max;) {
    const ssize_t got = read_some(fd.get(), block, sizeof block);
    if (got <= 0) break;
    total += static_cast<std::size_t>(got);
    window.append(block, static_cast<std::size_t>(got));
    for (const std::string_view needle : needles) {
      if (window.find(needle) != std::string::npos) return true;
    }
    if (window.size() > kTail) window.erase(0, window.size() - kTail);
  }
  return false;
}

std::vector<std::string> Root::lines_with(std::string_view path, std::span<const std::string_view> needles,
                                          std::size_t size_max, std::size_t lines_max) const {
  std::vector<std::string> lines;
  const UniqueFd fd = open_file(path, S_IFREG);
  if (!fd.valid()) return lines;
  std::string line;
  const auto end_line = [&] {
    const auto occurs = [&](std::string_view needle) { return line.find(needle) != std::string::npos; };
    if (std::any_of(needles.begin(), needles.end(), occurs)) lines.push_back(line);
    line.clear();
  };
  char block[64 << 10];
  for (std::size_t total = 0; total < size_max && lines.size() < lines_max;) {
    const ssize_t got = read_some(fd.get(), block, std::min(sizeof block, size_max - total));
    if (got <= 0) break;
    total += static_cast<std::size_t>(got);
    std::string_view rest(block, static_cast<std::size_t>(got));
    while (!rest.empty() && lines.size() < lines_max) {
      const std::size_t end = rest.find('\n');
      const std::string_view piece = rest.substr(0, end);
      line.append(piece.substr(0, kLineBytesMax - std::min(line.size(), kLineBytesMax)));
      if (end == std::string_view::npos) break;
      end_line();
      rest.remove_prefix(end + 1);
    }
  }
  if (lines.size() < lines_max) end_line();
  return lines;
}

bool Root::exists(std::string_view path) const { return walk(path, true).has_value(); }

std::vector<std::string> Root::list(std::string_view path) const {
  std::vector<std::string> names;
  UniqueFd fd = open_file(path, S_IFDIR);
  if (!fd.valid()) return names;
  const UniqueFolder directory(::fdopendir(fd.get()));
  if (directory == nullptr) return names;
  (void)fd.release();  // The directory stream owns it from here on.
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == kEntriesMax) break;
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Root::link_name(std::string_view path) const {
  const std::optional<Walk> found = walk(path, false);
  if (!found || found->levels.empty() || !is_type(found->levels.back().get(), S_IFLNK)) return {};
  return std::string(last_component(read_link(found->levels.back().get())));
}

std::string Root::real_path(std::string_view path) const {
  const std::optional<Walk> found = walk(path, true);
  if (!found) return {};
  std::string real;
  for (const std::string& name : found->names) real.append("/").append(name);
  return real.empty() ? "/" : real;
}

}  // namespace penstock::core
