// SPDX-License-Identifier: Apache-2.0

// Files of file systems that live in user space: their own call-backs (CUfileFSOps_t) move the bytes, into host memory
// at once, into device memory by way of the host. The cuFile driver keeps one such table while it is open.
#pragma once

#include <cstdint>

#include "cufile.h"
#include "session/handle_table.h"
#include "session/session.h"

namespace penstock::core {

class UserspaceFiles {
 public:
  // Tells these numbers from those of the session's files.
  static bool is_number(std::uint64_t file) { return (file & kMark) != 0; }

  // `handle` is the file system's own name for the file; the table of call-backs stays the caller's.
  Result<std::uint64_t> insert(const void* handle, const CUfileFSOps_t* calls);
  Status remove(std::uint64_t file);  // Waits for its transfers.
  bool contains(std::uint64_t file);
  // As Session::transfer. Holds no lock while the call-backs run; they must not close the driver.
  Outcome transfer(Session& session, const RawRequest& request);

 private:
  static constexpr std::uint64_t kMark = std::uint64_t{1} << 63;

  struct Entry {
    const void* handle = nullptr;
    const CUfileFSOps_t* calls = nullptr;
  };

  Outcome move(Session& session, const Entry& entry, const RawRequest& request);

  HandleTable<Entry> entries_;
};

}  // namespace penstock::core
