// SPDX-License-Identifier: Apache-2.0

// One thing to load, opened: a file, or the striped object of a manifest, which is one object in a file on each of
// several drives. What is asked of the kernel (what is cached, read(2)) is asked of the files that have the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"
#include "stripe/layout.h"
#include "tools/common/files.h"

namespace penstock::tools {

class Source {
 public:
  // Throws a Failure for what cannot be opened, and for an object of which a member is not what it should be.
  explicit Source(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return layout_.size; }
  bool is_object() const { return is_object_; }
  // The file itself, or the members of the object.
  const std::vector<OpenFile>& files() const { return files_; }
  std::uint64_t bytes_in(std::size_t file) const { return layout_.member_bytes(static_cast<std::uint32_t>(file)); }

  // For the library.
  File open_in(const Session& session) const;
  // read(2), as a program would. Less than asked for at the end alone.
  std::size_t read(std::span<std::byte> bytes, std::uint64_t offset) const;

  // size 0: to the end. Nothing where the kernel does not tell.
  std::optional<std::uint64_t> cached(std::uint64_t offset = 0, std::uint64_t size = 0) const;
  void warm(std::uint64_t offset, std::uint64_t size) const;
  void forget(std::uint64_t offset, std::uint64_t size) const;

 private:
  using Visit = std::function<void(const OpenFile& file, std::uint64_t offset, std::uint64_t size)>;
  // What each file has of a range is one range of its own.
  void each_part(std::uint64_t offset, std::uint64_t size, const Visit& visit) const;

  std::string path_;
  bool is_object_ = false;
  std::vector<OpenFile> files_;
  core::StripeLayout layout_;  // Of a file: one member.
};

// Without those that are members of an object that is among them: they would count twice.
std::vector<std::string> without_members(const std::vector<std::string>& files);

}  // namespace penstock::tools
