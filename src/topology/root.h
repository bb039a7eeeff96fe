// SPDX-License-Identifier: Apache-2.0

// A directory tree that holds /proc, /sys and the rest: the machine itself, or the few files of a captured machine.
//
// Everything in topology/ reads through a Root, so the same code runs on both. A tree is not trusted: links are
// resolved inside the root (absolute ones too) and never lead out, only regular files are opened, and sizes, entries,
// links and depth have limits. A file that is missing, unreadable or absurd reads as absent; only open() can fail. It
// writes nothing and caches nothing. Const and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

class Root {
 public:
  // Links are kept inside the root by openat2 (kernel), or step by step in user space (steps). Where openat2 is
  // missing, kernel does the same as steps.
  enum class Resolver : std::uint8_t { kernel, steps };

  static constexpr std::size_t kReadBytesMax = 64 << 10;
  static constexpr std::size_t kLineBytesMax = 1024;
  static constexpr std::size_t kEntriesMax = 16384;
  static constexpr unsigned kLinksMax = 40;
  static constexpr unsigned kDepthMax = 64;

  // "" and "/" are the machine itself. Fails with the errno of a directory that cannot be opened.
  static Result<Root> open(const std::string& directory, Resolver resolver = Resolver::kernel);

  bool is_machine() const { return is_machine_; }

  // Reads up to size_max bytes of a regular file.
  std::optional<std::string> read(std::string_view path, std::size_t size_max = kReadBytesMax) const;
  // The first line without surrounding blanks, or "".
  std::string read_line(std::string_view path) const;
  // The first line as a decimal number, or a hexadecimal one after "0x".
  std::optional<std::int64_t> read_number(std::string_view path) const;
  // True if one of the needles (of at most 64 bytes) occurs in the first size_max bytes; false also if the file cannot
  // be read.
  bool contains(std::string_view path, std::span<const std::string_view> needles, std::size_t size_max) const;

  // The lines in the first size_max bytes in which one of the needles occurs, at most lines_max, each cut to
  // kLineBytesMax. Nothing if the file cannot be read.
  std::vector<std::string> lines_with(std::string_view path, std::span<const std::string_view> needles,
                                      std::size_t size_max, std::size_t lines_max) const;

  bool exists(std::string_view path) const;
  // Sorted names, at most kEntriesMax, without "." and "..".
  std::vector<std::string> list(std::string_view path) const;
  // The last component of a link's target, which need not exist. "" if there is no link.
  std::string link_name(std::string_view path) const;
  // The path with all links resolved, from the root on ("/sys/devices/..."); "" if it leads nowhere.
  std::string real_path(std::string_view path) const;

 private:
  struct Walk;
  Root(UniqueFd fd, bool is_machine, Resolver resolver)
      : fd_(std::move(fd)), is_machine_(is_machine), resolver_(resolver) {}

  std::optional<Walk> walk(std::string_view path, bool follow_last) const;
  UniqueFd open_by_kernel(std::string_view path, int flags, bool& refused) const;
  UniqueFd open_by_steps(std::string_view path, int flags) const;
  UniqueFd open_file(std::string_view path, mode_t type) const;

  UniqueFd fd_;
  bool is_machine_ = false;
  Resolver resolver_ = Resolver::kernel;
};

}  // namespace penstock::core
