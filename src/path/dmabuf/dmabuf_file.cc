// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_file.h"

#include "base/invariant.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/dmabuf/held_extents.h"
#include "path/reasons.h"

namespace penstock::core {
namespace {

Reason reason_of_cause(ExtentCause cause) {
  switch (cause) {
    case ExtentCause::none: return Reason::none;
    case ExtentCause::hole: return reason_of(Obstacle::holes);
    case ExtentCause::unwritten: return reason_of(Obstacle::unwritten_extents);
    case ExtentCause::misaligned: return reason_of(Obstacle::misaligned);
    case ExtentCause::encrypted: return reason_of(Obstacle::encrypted);
    case ExtentCause::verity: return reason_of(Obstacle::verity);
    case ExtentCause::compressed: return reason_of(Obstacle::compressed);
    case ExtentCause::journaled: return reason_of(Obstacle::data_journal);
    case ExtentCause::not_a_file:
    case ExtentCause::file_system:
    case ExtentCause::no_drive:
    case ExtentCause::realtime:
    case ExtentCause::dax: return dmabuf_reason::file_system;
    case ExtentCause::drive_node: return dmabuf_reason::drive_node;
    case ExtentCause::not_readable:
    case ExtentCause::lease_denied:
    case ExtentCause::no_lease:
    case ExtentCause::inherited:
    case ExtentCause::descriptor_lost:
    case ExtentCause::no_helper: return dmabuf_reason::no_lease;
    case ExtentCause::writers:
    case ExtentCause::cached:
    case ExtentCause::asked_back:
    case ExtentCause::lease_lost: return dmabuf_reason::written;
    default: return dmabuf_reason::extents;  // The range itself is unfit, or its place is not known for sure.
  }
}

bool may_pass(ExtentCause cause) {
  return cause == ExtentCause::writers || cause == ExtentCause::cached || cause == ExtentCause::asked_back ||
         cause == ExtentCause::inline_data || cause == ExtentCause::extents_unknown ||
         cause == ExtentCause::too_many_extents;
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
