// SPDX-License-Identifier: Apache-2.0

// The files and the callers' memory that a channel has registered with its ring, which then moves chunks at less cost.
// A few of each; the others are moved without. One thread at a time uses it; allocates nothing once made.
#pragma once

#include <vector>

#include "path/path.h"
#include "storage/ring.h"

namespace penstock::core {

class RingRegistrations {
 public:
  RingRegistrations();

  // Returns the number of the file's descriptor in the ring, which it registers at first; -1 if it has none.
  int number_of(Ring& ring, std::uint64_t file_id, IoMode io_mode, int fd);
  // Registers the memory of the program's buffer around a request's, if there is one and it is not registered.
  void keep_memory(Ring& ring, const ChannelFacts& channel_facts);

  // The ring is null if none was opened; then nothing is registered. `file_id` 0: all files.
  void forget_file(Ring* ring, std::uint64_t file_id);
  // Once some memory is gone, there may be room for memory that the kernel refused before.
  void forget_memory(Ring* ring, std::byte* kept);

 private:
  struct FixedFile {
    std::uint64_t file_id = 0;
    IoMode io_mode = IoMode::buffered;
    int number = -1;
  };

  struct Kept {
    std::byte* memory = nullptr;  // The same as ChannelFacts::buffer.
    bool is_registered = false;   // False if the ring refused it.
  };

  std::vector<FixedFile> files_;
  std::vector<Kept> kept_;
};

}  // namespace penstock::core
