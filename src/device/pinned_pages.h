// What registering a file's pages is for the stand-in: the pages themselves are held, as a driver holds them, and
// copies fetch from these pages and not through the mapping. So a page that was truncated away still gives its old
// bytes here, as it would to a GPU's DMA engine, and code that does not notice fails its tests.
//
// Pipes hold the pages (vmsplice), a mebibyte each; /proc/sys/fs/pipe-user-pages-soft says how many a user may have.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

class PinnedPages {
 public:
  // Memory that begins at a page. Fails where the pages cannot be held: behind a file's end, or more than a pipe takes.
  Status add(const std::byte* memory, std::size_t size);
  void remove(const std::byte* memory);
  // Copies from held pages; false where the range is not held as a whole, and then nothing was copied.
  bool copy(void* to, const void* from, std::size_t size);

 private:
  struct Pipe {
    UniqueFd out;
    UniqueFd in;
  };
  struct Held {
    std::size_t size = 0;
    std::vector<Pipe> pipes;
    std::mutex mutex;
  };
  static Status open_pipe(Pipe& pipe);
  static Status fill(Pipe& pipe, const std::byte* memory, std::size_t size);
  static bool copy_from(const Pipe& pipe, char* to, std::size_t offset, std::size_t size);

  std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<Held>> held_;  // By base.
};

}  // namespace penstock::core
