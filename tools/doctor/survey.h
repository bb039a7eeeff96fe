// SPDX-License-Identifier: Apache-2.0

// The load to come: its files, which parts of them are in the page cache, and where they lie. Nothing is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "facts/machine.h"
#include "penstock/penstock.hpp"
#include "stripe/layout.h"
#include "tools/common/explanation.h"
#include "tools/common/files.h"

namespace penstock::tools {

constexpr std::uint64_t kPieceSize = std::uint64_t{64} << 20;  // The most for one request.

// One thing to load, opened: a file, or the striped object of a manifest, which is one object in a file on each of
// several drives. Questions to the kernel (which bytes are cached, read(2)) go to the files that have the bytes.
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
  // A file's part of a range is one range of its own.
  void each_part(std::uint64_t offset, std::uint64_t size, const Visit& visit) const;

  std::string path_;
  bool is_object_ = false;
  std::vector<OpenFile> files_;
  core::StripeLayout layout_;  // A file has one member.
};

// Without those that are members of an object that is among them: they would count twice.
std::vector<std::string> without_members(const std::vector<std::string>& files);

// One request of a load: a part of one file.
struct Piece {
  std::size_t shard = 0;  // The file's number.
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t cached = 0;  // Bytes of it, when it was looked at.
};

struct Shard {
  std::string path;
  std::uint64_t size = 0;
  std::optional<std::uint64_t> cached;  // Bytes in the page cache; nothing where the kernel does not tell.
  std::vector<std::string> members;     // A striped object's, whose manifest the path is; a file has none.
};

// A file system that holds some of the files, seen through the largest of these.
struct Place {
  std::string file;
  std::uint64_t bytes = 0;  // All files' there.
  Explanation told;
};

// A PCI device under the storage, or the GPU itself.
struct Bus {
  std::string name;  // "nvme0n1", "GPU 0"
  core::PciDevice device;
  std::string relation;  // A drive's, to the GPU: "below one switch", ...; "" if either is not seen.
};

struct Survey {
  std::vector<Shard> shards;
  // Pieces that are wholly the one or the other, in the order of a load; small ones, and mostly, where none is wholly.
  std::vector<Piece> cached, uncached;
  std::uint64_t bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t allocated = 0;  // The part of the bytes that is not holes.
  bool is_residency_known = true;
  std::vector<Place> places;
  std::vector<Bus> buses;
  std::string device;  // "device: GPU 0, ..."
  Json device_facts;
  bool has_gpu = false;  // No host memory stands in for it.
  std::uint64_t memory_available = 0;
  unsigned cpus = 1;      // The machine's.
  double cpu_limit = 1;   // Their time that this process may use, in CPUs,
  bool is_quota = false;  // limited by a quota, not by its CPU set.
};

// The session must have the GPU. Files that cannot be read are Failures: a load would fail, too.
Survey look_over(const std::vector<std::string>& files, const Session& session, unsigned gpu);
// The same for a folder into which files are to be written.
Survey look_at_folder(const std::string& folder, const Session& session, unsigned gpu);

// Takes the first `count` uncached pieces, which were read, out of the page cache again, and of the next one what the
// kernel has read ahead (of a piece that is cached in part it stays). Waits a second at most for what is still being
// read.
void restore_page_cache(const Survey& survey, std::size_t count);

}  // namespace penstock::tools
