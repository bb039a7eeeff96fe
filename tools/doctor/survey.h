// SPDX-License-Identifier: Apache-2.0

// Surveys the load to come: its files, which parts of them are in the page cache, and where they lie. It measures
// nothing.
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

constexpr std::uint64_t kPieceSize = std::uint64_t{64} << 20;  // The largest request.

// One thing to load, opened: a file, or the striped object of a manifest, whose bytes lie in a file on each of several
// drives. Calls of the kernel (which bytes are cached, read(2)) go to the files that hold the bytes.
class Source {
 public:
  // Throws a Failure if it cannot be opened, or if a member of the object is not what it should be.
  explicit Source(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return layout_.size; }
  bool is_object() const { return is_object_; }
  // The file itself, or the members of the object.
  const std::vector<OpenFile>& files() const { return files_; }
  std::uint64_t bytes_in(std::size_t file) const { return layout_.member_bytes(static_cast<std::uint32_t>(file)); }

  // Opens it with the library.
  File open_in(const Session& session) const;
  // Reads with read(2), as a program would. Reads less than asked for only at the end.
  std::size_t read(std::span<std::byte> bytes, std::uint64_t offset) const;

  // The bytes that are cached; size 0: to the end. Nothing if the kernel does not report them.
  std::optional<std::uint64_t> cached(std::uint64_t offset = 0, std::uint64_t size = 0) const;
  void warm(std::uint64_t offset, std::uint64_t size) const;
  void forget(std::uint64_t offset, std::uint64_t size) const;

 private:
  using Visit = std::function<void(const OpenFile& file, std::uint64_t offset, std::uint64_t size)>;
  // Calls `visit` once for each file that holds a part of the range; such a part is always one range of the file.
  void each_part(std::uint64_t offset, std::uint64_t size, const Visit& visit) const;

  std::string path_;
  bool is_object_ = false;
  std::vector<OpenFile> files_;
  core::StripeLayout layout_;  // A file has one member.
};

// Leaves out files that are members of an object in the list: they would count twice.
std::vector<std::string> without_members(const std::vector<std::string>& files);

// One request of a load: a part of one file.
struct Piece {
  std::size_t shard = 0;  // The index of the file.
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t cached = 0;  // The bytes of it that were cached when it was surveyed.
};

struct Shard {
  std::string path;
  std::uint64_t size = 0;
  std::optional<std::uint64_t> cached;  // Bytes in the page cache; nothing if the kernel does not report them.
  std::vector<std::string> members;     // The members of the striped object whose manifest `path` is; a file has none.
};

// A file system that holds some of the files, explained by the largest of them.
struct Place {
  std::string file;
  std::uint64_t bytes = 0;  // The bytes of all files there.
  Explanation told;
};

// A PCI device under the storage, or the GPU itself.
struct Bus {
  std::string name;  // "nvme0n1", "GPU 0"
  core::PciDevice device;
  std::string relation;  // The way from a drive to the GPU: "below one switch", ...; "" if either is not seen.
};

struct Survey {
  std::vector<Shard> shards;
  // Pieces that are wholly cached or wholly uncached, in the order of a load. If these have less than half of the
  // bytes, smaller pieces that mostly are.
  std::vector<Piece> cached, uncached;
  std::uint64_t bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t allocated = 0;  // The part of the bytes that is not in holes.
  bool is_residency_known = true;
  std::vector<Place> places;
  std::vector<Bus> buses;
  std::string device;  // "device: GPU 0, ..."
  Json device_facts;
  bool has_gpu = false;  // True if no host memory stands in for it.
  std::uint64_t memory_available = 0;
  unsigned cpus = 1;      // The CPUs of the machine.
  double cpu_limit = 1;   // The CPU time that this process may use, in CPUs.
  bool is_quota = false;  // A quota sets this limit, not the CPU set.
};

// Surveys files. The session must have opened the GPU. Throws Failure if a file cannot be read: a load would fail, too.
Survey look_over(const std::vector<std::string>& files, const Session& session, unsigned gpu);
// Surveys a folder into which files are to be written.
Survey look_at_folder(const std::string& folder, const Session& session, unsigned gpu);

void find_pieces(Survey& survey);  // It sorts the pieces of the survey's shards; look_over() has done it.

// Takes the first `count` uncached pieces, which were read, out of the page cache again, and also what the kernel has
// read ahead of the next piece (if that is partly cached, it stays). Waits at most a second for reads still under way.
void restore_page_cache(const Survey& survey, std::size_t count);

}  // namespace penstock::tools
