// SPDX-License-Identifier: Apache-2.0

// The stand-in's registration of a file's pages. It holds the pages themselves, as a driver does, and copies use these
// pages and not the mapping. So a page that was truncated away still gives its old bytes here, as it would to a GPU's
// DMA engine, and code that does not notice fails its tests.
//
// Pipes hold pages that are only read (vmsplice), a mebibyte each; /proc/sys/fs/pipe-user-pages-soft says how many a
// user may have. Pages that are also written to are the registered memory of an io_uring.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "storage/ring.h"

namespace penstock::core {

class PinnedPages {
 public:
  // Holds memory that begins at a page. Fails if the pages cannot be held: behind a file's end, more than a pipe takes,
  // or writable ones without io_uring.
  Status add(const std::byte* memory, std::size_t size, bool writable);
  void remove(const std::byte* memory);
  // Copies from held pages; false, with nothing copied, if not the whole range is held.
  bool fetch(void* to, const void* from, std::size_t size);
  // Copies into held pages, which must be writable.
  bool put(void* to, const void* from, std::size_t size);

 private:
  struct Pipe {
    UniqueFd out;
    UniqueFd in;
  };
  struct Held {
    std::size_t size = 0;
    std::vector<Pipe> pipes;
    std::unique_ptr<Ring> ring;  // Holds writable pages.
    UniqueFd between;            // A file through which bytes of writable pages are moved.
    Mutex mutex;                 // Held for one transfer at a time.
  };
  struct Found {
    std::shared_ptr<Held> held;
    std::size_t offset = 0;
  };
  Found find(const void* memory, std::size_t size);
  static Status hold_for_writing(Held& held, const std::byte* memory);
  static bool move(Held& held, Op op, std::byte* page, std::size_t size) REQUIRES(held.mutex);
  static Status open_pipe(Pipe& pipe);
  static Status fill(Pipe& pipe, const std::byte* memory, std::size_t size);
  static bool copy_from(const Pipe& pipe, char* to, std::size_t offset, std::size_t size);

  Mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<Held>> held_ GUARDED_BY(mutex_);  // By base address.
};

}  // namespace penstock::core
