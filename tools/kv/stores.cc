// SPDX-License-Identifier: Apache-2.0

#include "tools/kv/stores.h"

#include <optional>

#include "kv/store_view.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kPagesMost = 16'384;  // 64 MiB, unless one chunk is larger.
constexpr std::size_t kChunksMost = 256;

std::uint64_t pages_of(const kv::Chunk& chunk) { return (chunk.bytes + kv::kHeaderBytes - 1) / kv::kHeaderBytes; }

// The number of first chunks that make a batch, and the pages that they take.
std::pair<std::size_t, std::uint64_t> batch_of(std::span<const kv::Chunk> chunks) {
  std::size_t count = 1;
  std::uint64_t pages = pages_of(chunks[0]);
  while (count < chunks.size() && count < kChunksMost && pages + pages_of(chunks[count]) <= kPagesMost) {
    pages += pages_of(chunks[count++]);
  }
  return {count, pages};
}

}  // namespace

void for_each_batch(const std::string& label, std::span<const kv::Chunk> chunks,
                    const std::function<void(std::span<const ReadChunk>)>& read) {
  Progress progress(label);
  std::uint64_t all = 0, done = 0, room = 0;
  for (const kv::Chunk& chunk : chunks) all += chunk.bytes;
  std::optional<kv::Pages> memory;
  while (!chunks.empty()) {
    throw_if_interrupted();
    const auto [count, pages] = batch_of(chunks);
    if (!memory || pages > room) memory.emplace(room = pages);
    std::vector<ReadChunk> batch;
    std::uint64_t page = 0;
    for (const kv::Chunk& chunk : chunks.first(count)) {
      batch.push_back({&chunk, {(*memory)[page].data(), chunk.bytes}});
      page += pages_of(chunk);
      done += chunk.bytes;
    }
    read(batch);
    progress.update(done, all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all));
    chunks = chunks.subspan(count);
  }
}

kv::Library own_library() {
  return {penstock_file_register, penstock_file_close,  penstock_file_sync,    penstock_transfer,
          penstock_queue_open,    penstock_queue_close, penstock_queue_submit, penstock_queue_reap,
          penstock_crc32c_vector, penstock_path_count,  penstock_report_bytes, penstock_file_advise};
}

Status status_of(const core::Status& status) {
  return penstock_status{static_cast<std::int16_t>(status.domain), status.driver, status.code, status.step};
}

Session open_host_session() {
  SessionSettings choice;
  choice.device = "host";
  return open_session(choice);
}

}  // namespace penstock::tools
