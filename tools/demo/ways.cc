// SPDX-License-Identifier: Apache-2.0

#include "tools/demo/ways.h"

#include "tools/common/arena.h"
#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

class Finder {
 public:
  explicit Finder(const FileInfo& info) : has_direct_io_(info.direct_offset_align != 0) {
    if (!has_direct_io_) found_.missing.push_back({"O_DIRECT", "", "this file cannot do direct I/O", ""});
  }

  // better: the verdict that stands in the way of a better path, if there is one.
  void add(const Verdict& read, const Verdict& write, const Verdict* better, bool host_memory) {
    if (read.usable == 0) return miss(read.path_name(), read);
    if (write.usable == 0) miss(std::string(read.path_name()) + " write", write);
    DemoWay way;
    way.path = read.path_name();
    way.session.paths = way.session.require = way.path;
    way.host_memory = host_memory;
    way.can_write = write.usable != 0;
    if (better != nullptr) way.reason = better->reason;
    if (better != nullptr) way.refused_path = better->path;
    if (read.path == PENSTOCK_PATH_BOUNCE || read.path == PENSTOCK_PATH_HOST) return add_variants(way, read);
    found_.ways.push_back(way);
  }

  DemoWays found() && { return std::move(found_); }

 private:
  void miss(const std::string& what, const Verdict& verdict) {
    found_.missing.push_back({what, verdict.reason_name(), verdict.sentence(), verdict.remedy()});
  }

  // Storage can be reached with and without io_uring, through the page cache and around it.
  void add_variants(DemoWay way, const Verdict& verdict) {
    const bool has_ring =
        verdict.reason != PENSTOCK_REASON_IO_URING_FORBIDDEN && verdict.reason != PENSTOCK_REASON_IO_URING_OFF;
    if (!has_ring) miss(way.path + " with io_uring", verdict);
    for (const bool ring : {true, false}) {
      if (ring && !has_ring) continue;
      for (const bool direct : {true, false}) {
        if (direct && !has_direct_io_) continue;
        way.session.io_uring = ring ? "auto" : "off";
        way.session.direct_io = direct ? "always" : "never";
        way.how = std::string(ring ? "io_uring" : "preadv2") + (direct ? ", O_DIRECT" : ", buffered");
        found_.ways.push_back(way);
      }
    }
  }

  bool has_direct_io_;
  DemoWays found_;
};

}  // namespace

DemoWays find_ways(const File& file, unsigned gpu) {
  Finder finder(require(file.info(), "demo file"));
  const Arena host = Arena::on_host(4096);
  for (const bool host_memory : {false, true}) {
    const void* base = host_memory ? host.data() : nullptr;
    const auto reads = require(file.explain({PENSTOCK_READ, gpu, base}), "explain");
    const auto writes = require(file.explain({PENSTOCK_WRITE, gpu, base}), "explain");
    const Verdict* better = nullptr;
    for (std::size_t i = 0; i < reads.size() && i < writes.size(); ++i) {
      // The host path is asked about host memory, the others about the device's.
      if (reads[i].path != PENSTOCK_PATH_NULL && (reads[i].path == PENSTOCK_PATH_HOST) == host_memory) {
        finder.add(reads[i], writes[i], better, host_memory);
      }
      if (better == nullptr && reads[i].usable == 0) better = &reads[i];
    }
  }
  return std::move(finder).found();
}

}  // namespace penstock::tools
