// SPDX-License-Identifier: Apache-2.0

// What `penstock bench` was asked for. Values only.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::tools {

struct BenchSettings {
  std::string file;
  std::string operation = "read";  // read, write, randread, randwrite
  std::uint64_t block_size = 1 << 20;
  std::uint64_t size = 0;  // 0: to the end of the file.
  std::uint64_t offset = 0;
  unsigned threads = 1;
  unsigned depth = 16;
  double seconds = 0;  // 0: the whole size once.
  bool direct = false;
  bool buffered = false;
  unsigned gpu = 0;
  std::string memory = "device";
  std::string device;
  bool register_memory = false;
  bool verify = false;
  std::uint64_t seed = 1;
  std::string require;
  bool create = false;
  bool overwrite = false;
  bool drop_cache = false;
  bool warm = false;
  bool json = false;
  std::string versus;  // Another cuFile library: a comparison with it, and nothing of the above but file, size, device.
  unsigned pairs = 5;

  bool is_write() const { return operation.ends_with("write"); }
  bool is_random() const { return operation.starts_with("rand"); }
  bool on_device() const { return memory == "device"; }
};

}  // namespace penstock::tools
