// SPDX-License-Identifier: Apache-2.0

#include "base/memory_room.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/unique_fd.h"

namespace penstock::core {
namespace {

struct Text {
  char bytes[8192];
  std::size_t size = 0;
  std::string_view view() const { return {bytes, size}; }
};

bool read_text(const char* root, const char* name, Text& text) {
  char path[512];
  if (std::snprintf(path, sizeof path, "%s%s", root, name) >= static_cast<int>(sizeof path)) return false;
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  const ssize_t got = ::read(fd.get(), text.bytes, sizeof text.bytes);
  text.size = got > 0 ? static_cast<std::size_t>(got) : 0;
  return got > 0;
}

std::optional<std::uint64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// Finds a number in text of the form "Name: 123 kB" or "name 123".
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return number_at(text.substr(at + name.size()));
  }
  return std::nullopt;
}

// Lowers the limit to that in the group's own file, if the process sees its group as the root, as in containers.
void confine(const char* root, MemoryRoom& room) {
  Text text;
  if (!read_text(root, "/sys/fs/cgroup/memory.max", text)) return;
  const std::optional<std::uint64_t> limit = number_at(text.view());
  if (!limit || !read_text(root, "/sys/fs/cgroup/memory.current", text)) return;
  std::uint64_t used = number_at(text.view()).value_or(0);
  if (read_text(root, "/sys/fs/cgroup/memory.stat", text)) {
    // The kernel reclaims inactive page cache by itself.
    used -= std::min(used, number_after(text.view(), "inactive_file ").value_or(0));
  }
  room.total = room.total == 0 ? *limit : std::min(room.total, *limit);
  room.available = std::min(room.available, *limit - std::min(*limit, used));
}

}  // namespace

MemoryRoom memory_room(const char* root) {
  MemoryRoom room;
  Text text;
  if (!read_text(root, "/proc/meminfo", text)) return room;
  room.total = number_after(text.view(), "MemTotal:").value_or(0) * 1024;
  room.available = number_after(text.view(), "MemAvailable:").value_or(0) * 1024;
  confine(root, room);
  return room;
}

}  // namespace penstock::core
