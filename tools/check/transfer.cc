// SPDX-License-Identifier: Apache-2.0

#include "tools/check/transfer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "facts/judgement.h"
#include "facts/outlook.h"
#include "tools/common/arena.h"
#include "tools/common/content.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/new_file.h"
#include "tools/common/units.h"

namespace penstock::tools::validate {
namespace {

Json report_json(const Report& report, std::uint64_t direct_path_bytes) {
  Json json = path_json(report.path, report.reason, report.refused_path);
  json.update({{"bytes", report.bytes},
               {"direct_path_bytes", direct_path_bytes},
               {"direct_io_bytes", report.direct_bytes},
               {"page_cache_bytes", report.cached_bytes}});
  return json;
}

std::string path_text(const Report& report) { return path_sentence(report.path, report.reason, report.refused_path); }

std::string both_ways_text(const Report& written, const Report& read) {
  const std::string bytes = format_size(kTransferBytes), there = path_text(written), back = path_text(read);
  if (there == back) return fmt::format("{} written and read back, every byte right, by {}", bytes, there);
  return fmt::format("{} written by {}; read back, every byte right, by {}", bytes, there, back);
}

// A transfer to a folder's storage and back. Failures are thrown, and name the file.
class Transfer {
 public:
  Transfer(const Session& session, const std::string& folder, unsigned gpu)
      : session_(session), path_(folder + "/penstock-validate"),
        arena_(Arena::on_device(session.raw(), gpu, kTransferBytes)), scratch_(kTransferBytes) {
    new_file_.emplace(path_, 0);
    if (nvidia_library_may_serve(require(session.file(new_file_->fd()), path_), gpu)) new_file_.emplace(path_, 0, true);
    lay_out();
  }

  // Moves the bytes. The file's blocks are written once before, so that neither the file's growth nor the first write
  // to a block counts.
  void run() {
    const File file = require(session_.file(new_file_->fd()), path_);
    std::uint64_t seeds[2];  // Not by std::random_device, which asks for glibc 2.36 with GCC 12.
    if (::getrandom(seeds, sizeof seeds, 0) != sizeof seeds) fail_errno(path_, "choose the bytes to write");
    write(file, RandomContent(seeds[0]));
    const RandomContent content(seeds[1]);
    written_ = write(file, content);
    compare_with_kernel(content);
    read_ = read(file, content);
  }
  const Report& written() const { return written_; }
  const Report& read() const { return read_; }

 private:
  void lay_out() const {
    const int fd = new_file_->fd();
    const auto size = static_cast<off_t>(kTransferBytes);
    if (ftruncate(fd, size) != 0) fail_errno(path_, "set the file's size");
    if (fallocate(fd, 0, 0, size) != 0 && errno != EOPNOTSUPP && errno != EINTR) fail_errno(path_, "reserve space");
  }

  Report checked(const Outcome& outcome, const char* what) const {
    require(outcome.status, path_);
    if (outcome.report.bytes == kTransferBytes) return outcome.report;
    throw Failure(fmt::format("{}: {} of {} bytes were {}", path_, outcome.report.bytes, kTransferBytes, what));
  }

  Report write(const File& file, const Content& content) {
    throw_if_interrupted();
    content.fill(scratch_, 0);
    arena_.upload(0, scratch_);
    const Report report = checked(file.write(arena_.data(), kTransferBytes, 0), "written");
    if (fsync(new_file_->fd()) != 0) fail_errno(path_, "flush the file");
    return report;
  }

  Report read(const File& file, const Content& content) {
    throw_if_interrupted();
    posix_fadvise(new_file_->fd(), 0, 0, POSIX_FADV_DONTNEED);  // Makes the bytes come from the storage.
    std::fill(scratch_.begin(), scratch_.end(), std::byte{0xa5});
    arena_.upload(0, scratch_);
    const Report report = checked(file.read(arena_.data(), kTransferBytes, 0), "read");
    arena_.download(0, scratch_);
    compare(content, "came back wrong");
    return report;
  }

  // Compares the file through the kernel as well, so that the library's reads are not the only witness of its writes.
  void compare_with_kernel(const Content& content) {
    posix_fadvise(new_file_->fd(), 0, 0, POSIX_FADV_DONTNEED);
    if (read_at(new_file_->fd(), path_, scratch_, 0) < kTransferBytes) {
      throw Failure(path_ + ": the file is shorter than what was written to it");
    }
    compare(content, "is wrong in the file");
  }

  void compare(const Content& content, const char* what) const {
    if (const auto at = content.first_difference(scratch_, 0)) {
      throw Failure(fmt::format("{}: the byte at offset {} {}", path_, *at, what));
    }
  }

  const Session& session_;
  const std::string path_;
  std::optional<NewFile> new_file_;
  Arena arena_;
  std::vector<std::byte> scratch_;
  Report written_{}, read_{};
};

class TransferLayer {
 public:
  TransferLayer(unsigned gpu, facts::Findings& rows, Details& details)
      : session_(open_session({})), gpu_(gpu), rows_(rows), details_(details) {
    check_gpu(session_.raw(), gpu);
    is_stand_in_ = require(session_.device(gpu), "session").stand_in != 0;
  }

  void judge(const std::string& folder) {
    facts::Judgement row(rows_, "transfer", folder, facts::Layer::transfer);
    try {
      Transfer transfer(session_, folder, gpu_);
      transfer.run();
      const Report& written = transfer.written();
      const Report& read = transfer.read();
      details_[folder] = {{"write", report_json(written, direct_bytes(written))},
                          {"read", report_json(read, direct_bytes(read))}};
      row.pass(both_ways_text(written, read));
      judge_path(folder, direct_bytes(read) < kTransferBytes ? read : written);
    } catch (const Failure& failure) {
      if (interrupted()) throw;
      row.fail(failure.what(),
               "Make sure that the folder exists and can be written to, and try 'penstock bench --every-path --dir'.");
    }
  }

 private:
  std::uint64_t direct_bytes(const Report& report) const {
    std::uint64_t bytes = 0;
    for (int path = 0; path < static_cast<int>(penstock_path_count()); ++path) {
      if (facts::is_direct_path(path)) bytes += report.bytes_by(path);
    }
    return bytes;
  }

  // Judges by the report of the worse direction.
  void judge_path(const std::string& folder, const Report& report) {
    facts::Judgement row(rows_, "transfer_path", folder, facts::Layer::transfer);
    if (direct_bytes(report) == kTransferBytes) {
      return row.pass(fmt::format("every byte by {}, from GPU memory and into it", penstock_path_name(report.path)));
    }
    if (is_stand_in_) {
      return row.not_applicable("host memory stood in for a GPU, so that no direct path could be shown");
    }
    row.may_follow("path");
    row.fail("the bytes took no direct path: " + path_text(report), penstock_reason_remedy(report.reason));
  }

  const Session session_;
  const unsigned gpu_;
  facts::Findings& rows_;
  Details& details_;
  bool is_stand_in_ = false;
};

}  // namespace

void judge_transfers(const std::vector<std::string>& folders, unsigned gpu, facts::Findings& rows, Details& details) {
  std::optional<TransferLayer> layer;
  try {
    layer.emplace(gpu, rows, details);
  } catch (const Failure& failure) {
    facts::Judgement row(rows, "transfer", "", facts::Layer::transfer);
    const auto says_it = [&](const facts::Finding& one) {
      return std::string_view(one.code) == "settings" && one.sentence.ends_with(failure.what());
    };
    if (std::any_of(rows.begin(), rows.end(), says_it)) row.may_follow("settings");
    return row.fail(
        failure.what(),
        "Correct the setting or device that it names; 'penstock check' shows the GPUs and the settings in force.");
  }
  for (const std::string& folder : folders) layer->judge(folder);
}

}  // namespace penstock::tools::validate
