// SPDX-License-Identifier: Apache-2.0

// A file as the path dmabuf sees it: the drive that has its bytes, and their places there. A raw drive has them at
// their own offsets; an ordinary file where its extents lie, which a lease holds in place (held_extents.h). Only a
// store's own file is also written (File::note_own_store).
#pragma once

#include <memory>
#include <span>

#include "path/dmabuf/dmabuf_drives.h"
#include "path/dmabuf/extent_map.h"
#include "path/pipeline/self_test.h"
#include "storage/file.h"

namespace penstock::core {

class DmabufFile {
 public:
  struct Opened;

  explicit DmabufFile(DmabufDrive& drive) : drive_(drive) {}
  virtual ~DmabufFile() = default;
  DmabufFile(const DmabufFile&) = delete;
  DmabufFile& operator=(const DmabufFile&) = delete;

  DmabufDrive& drive() const { return drive_; }
  // The bytes stay in place until let_go(), on any thread; a reason if they cannot be held.
  virtual Reason hold() { return Reason::none; }
  virtual void let_go() {}
  // While it is held: writes where a range of whole sectors lies; a reason if the drive may not be read there.
  virtual Reason find(std::uint64_t offset, std::uint64_t size, std::span<DrivePiece> pieces, unsigned& count) const;
  // While it is held: the end of the file. The drive has other bytes behind it.
  virtual std::uint64_t end() const { return UINT64_MAX; }
  // True if a write has to be durable when it completes: the file's own flush may know nothing of it.
  virtual bool is_flushed_by_write() const { return false; }
  // True if what was read or written since hold() where find() said are the file's bytes.
  virtual bool is_intact(std::uint64_t /*offset*/, std::uint64_t /*size*/) { return true; }

 private:
  DmabufDrive& drive_;
};

struct DmabufFile::Opened {
  std::unique_ptr<DmabufFile> file;
  Proof why_not;            // If there is none.
  bool is_passing = false;  // Another try may succeed.
};

DmabufFile::Opened open_raw_drive(File& file, DmabufDrives& drives);
// A regular file on ext4 or XFS, which needs the right to read its drive's node, and to take a lease. `is_written`: it
// is the program's own, which has it open once, and for writing; the node is then opened for writing, too.
DmabufFile::Opened open_file_on_drive(File& file, DmabufDrives& drives, bool is_written);

}  // namespace penstock::core
