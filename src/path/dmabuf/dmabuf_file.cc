// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_file.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/invariant.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/dmabuf/held_extents.h"
#include "path/reasons.h"

namespace penstock::core {
namespace {

// The causes that have a reason of their own. With any other, the range itself is unfit, or its place is not known for
// sure.
constexpr std::pair<ExtentCause, Reason> kReasons[] = {{ExtentCause::none, Reason::none},
                                                       {ExtentCause::hole, reason_of(Obstacle::holes)},
                                                       {ExtentCause::unwritten, reason_of(Obstacle::unwritten_extents)},
                                                       {ExtentCause::misaligned, reason_of(Obstacle::misaligned)},
                                                       {ExtentCause::encrypted, reason_of(Obstacle::encrypted)},
                                                       {ExtentCause::verity, reason_of(Obstacle::verity)},
                                                       {ExtentCause::compressed, reason_of(Obstacle::compressed)},
                                                       {ExtentCause::journaled, reason_of(Obstacle::data_journal)},
                                                       {ExtentCause::not_a_file, dmabuf_reason::file_system},
                                                       {ExtentCause::file_system, dmabuf_reason::file_system},
                                                       {ExtentCause::realtime, dmabuf_reason::file_system},
                                                       {ExtentCause::dax, dmabuf_reason::file_system},
                                                       {ExtentCause::drive_node, dmabuf_reason::drive_node},
                                                       {ExtentCause::not_readable, dmabuf_reason::no_lease},
                                                       {ExtentCause::lease_denied, dmabuf_reason::no_lease},
                                                       {ExtentCause::no_lease, dmabuf_reason::no_lease},
                                                       {ExtentCause::inherited, dmabuf_reason::no_lease},
                                                       {ExtentCause::descriptor_lost, dmabuf_reason::no_lease},
                                                       {ExtentCause::no_helper, dmabuf_reason::no_lease},
                                                       {ExtentCause::writers, dmabuf_reason::written},
                                                       {ExtentCause::cached, dmabuf_reason::written},
                                                       {ExtentCause::asked_back, dmabuf_reason::written},
                                                       {ExtentCause::lease_lost, dmabuf_reason::written}};

Reason reason_of_cause(ExtentCause cause) {
  for (const auto& [known, reason] : kReasons) {
    if (known == cause) return reason;
  }
  return dmabuf_reason::extents;
}

bool may_pass(ExtentCause cause) {
  constexpr ExtentCause kPassing[] = {ExtentCause::writers,         ExtentCause::cached,
                                      ExtentCause::asked_back,      ExtentCause::inline_data,
                                      ExtentCause::extents_unknown, ExtentCause::too_many_extents};
  return std::find(std::begin(kPassing), std::end(kPassing), cause) != std::end(kPassing);
}

class FileOnDrive final : public DmabufFile {
 public:
  FileOnDrive(DmabufDrive& drive, std::unique_ptr<HeldExtents> extents)
      : DmabufFile(drive), extents_(std::move(extents)) {}
  bool is_flushed_by_write() const override { return true; }

  Reason hold() override { return reason_of_cause(extents_->hold()); }
  void let_go() override { extents_->let_go(); }
  Reason find(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces, unsigned& count) const override {
    const ExtentMap::Found found = extents_->map(offset, size, pieces);
    count = found.count;
    return reason_of_cause(found.cause);
  }
  std::uint64_t end() const override { return extents_->file_size(); }
  bool is_intact(std::uint64_t offset, std::uint64_t size) override {
    return extents_->is_intact(offset, size) == ExtentCause::none;
  }

 private:
  const std::unique_ptr<HeldExtents> extents_;
};

}  // namespace

Reason DmabufFile::find(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces, unsigned& count) const {
  PENSTOCK_INVARIANT(!pieces.empty());
  pieces[0] = {offset, size};
  count = 1;
  return Reason::none;
}

DmabufFile::Opened open_raw_drive(File& file, DmabufDrives& drives) {
  const Result<DmabufDrive*> drive = drives.of_block_device(file);
  if (!drive.ok()) {
    const bool is_readable = file.facts().readable();
    return {nullptr,
            {is_readable ? reason_of(Obstacle::no_direct_descriptor) : dmabuf_reason::write_only, drive.status().code}};
  }
  return {std::make_unique<DmabufFile>(**drive), {}};
}

DmabufFile::Opened open_file_on_drive(File& file, DmabufDrives& drives, bool is_written) {
  const Result<DmabufDrive*> drive =
      drives.of_file_system(file.facts().file_system_device, is_written ? O_RDWR : O_RDONLY);
  HeldExtents::Opened opened = HeldExtents::open(file, drive.ok() ? (*drive)->fd() : -1, {.is_written = is_written});
  if (opened.extents == nullptr) {
    return {nullptr, {reason_of_cause(opened.cause), opened.error}, may_pass(opened.cause)};
  }
  if (!drive.ok()) return {nullptr, {dmabuf_reason::drive_node, drive.status().code}};
  return {std::make_unique<FileOnDrive>(**drive, std::move(opened.extents)), {}};
}

}  // namespace penstock::core
