// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/verify.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tools/common/arena.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kProbeSize = 4096;
constexpr std::uint64_t kWindow = std::uint64_t{4} << 20;

bool holds_content(int fd, const Extent& extent, const Content& content) {
  // Aligned, because the descriptor may have O_DIRECT.
  alignas(kProbeSize) std::byte bytes[2 * kProbeSize];
  const std::uint64_t start = extent.offset / kProbeSize * kProbeSize;
  const ssize_t count = pread(fd, bytes, sizeof bytes, static_cast<off_t>(start));
  const std::uint64_t skip = extent.offset - start;
  if (count <= static_cast<ssize_t>(skip)) return false;
  const std::uint64_t found = static_cast<std::uint64_t>(count) - skip;
  const std::uint64_t size = std::min<std::uint64_t>({extent.size, kProbeSize, found});
  return !content.first_difference(std::span(bytes).subspan(skip, size), extent.offset);
}

class Reader {
 public:
  explicit Reader(const Job& job)
      : job_(job), size_(std::max(kWindow, block_size_of(job))),
        arena_(job.host_memory ? Arena::on_host(size_) : Arena::on_device(job.session->raw(), job.gpu, size_)),
        host_(size_) {}

  std::uint64_t window() const { return size_; }

  void compare(const Extent& extent) {
    const Outcome outcome =
        job_.files[0].file->read(arena_.data(), extent.size, static_cast<std::int64_t>(extent.offset));
    require(outcome.status, fmt::format("{}: read back at offset {}", job_.files[0].path, extent.offset));
    const auto bytes = std::span(host_).first(outcome.report.bytes);
    arena_.download(0, bytes);
    const auto difference = job_.content->first_difference(bytes, extent.offset);
    if (!difference && bytes.size() == extent.size) return;
    throw Failure(fmt::format("{}: verify: the byte at offset {} is {}", job_.files[0].path,
                              extent.offset + difference.value_or(bytes.size()), difference ? "wrong" : "missing"));
  }

 private:
  const Job& job_;
  std::uint64_t size_;
  Arena arena_;
  std::vector<std::byte> host_;
};

}  // namespace

void require_content(int fd, const std::string& path, const Range& range, const Content& content, std::uint64_t seed) {
  const std::uint64_t last = range.block_count() - 1;
  for (const std::uint64_t index : {std::uint64_t{0}, last / 2, last}) {
    if (holds_content(fd, range.block(index), content)) return;
  }
  throw Failure(
      fmt::format("{}: not written by 'penstock bench --rw write --verify --seed {}', so there is nothing to "
                  "compare with; write it that way first",
                  path, seed));
}

std::uint64_t read_back(const Job& job) {
  Reader reader(job);
  Progress progress("verify");
  std::uint64_t total = 0;
  const std::uint64_t blocks = job.files[0].range.block_count();
  for (std::uint64_t index = 0; index < blocks; ++index) {
    if (!job.written->test(index)) continue;
    // Neighbouring blocks are read in one go, up to the size of the window.
    Extent extent = job.files[0].range.block(index);
    while (index + 1 < blocks && job.written->test(index + 1)) {
      const Extent next = job.files[0].range.block(index + 1);
      if (extent.size + next.size > reader.window()) break;
      extent.size += next.size;
      ++index;
    }
    reader.compare(extent);
    total += extent.size;
    throw_if_interrupted();
    progress.update(total, static_cast<double>(index + 1) / static_cast<double>(blocks));
  }
  return total;
}

}  // namespace penstock::tools
