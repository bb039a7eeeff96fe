// SPDX-License-Identifier: Apache-2.0

#include "engine/router.h"

#include <algorithm>

#include "base/align.h"
#include "base/page_size.h"

namespace penstock::core {
namespace {

// A read this large from a buffered descriptor checks if the data is in the page cache, and goes around the cache if it
// is not. For smaller reads the page cache's own read-ahead does better.
constexpr std::uint64_t kProbeBytesMin = 1u << 20;

// Paths that use a caller's pinned memory like any host memory, or that move nothing anyway.
bool stages_by_itself(const PathTraits& path) { return path.host_memory || path.userspace || path.pretends; }

// The same paths, and those whose own bounce buffers a caller's pinned memory can replace.
bool can_stage(const PathTraits& path) { return path.posix || stages_by_itself(path); }

}  // namespace

Router::Router(const EngineRules& rules, const PathEnvironment& environment)
    : rules_(rules), staging_path_(make_staging_path(environment)) {
  for (const PathId path : rules.paths) paths_.push_back(make_path(path, environment));
  for (const PathRow& row : kPaths) {
    if (row.traits.userspace) userspace_paths_.push_back(make_path(row.id, environment));
  }
}

// A path that a stream's request cannot use is not asked. It might make its self-test first, which frees memory of the
// device: CUDA's driver waits for all streams then, and this one waits for the request.
Verdict Router::judge(const Flight& flight, std::size_t index) const {
  const RoutedRequest& request = flight.request;
  const Paths& paths = paths_for(*request.file);
  const bool is_left_out = flight.memory_is_staging && &paths == &paths_ && !can_stage(traits_of(rules_.paths[index]));
  return is_left_out ? refused(rules_.paths[index], Reason::on_stream)
                     : paths[index]->judge(*request.file, request.facts, request.op);
}

Status Router::choose(Flight& flight) const {
  RoutedRequest& request = flight.request;
  Report& report = flight.report;
  const Paths& paths = paths_for(*request.file);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Verdict verdict = judge(flight, i);
    if (!verdict.usable) {
      if (report.refused < 0) {
        report.refused = static_cast<int>(verdict.path);
        report.reason = verdict.reason;
      }
      continue;
    }
    if (rules_.require && *rules_.require != verdict.path) continue;
    if (flight.required && *flight.required != verdict.path) continue;
    // The report keeps path and reason of the whole way.
    const bool by_itself = !flight.memory_is_staging || stages_by_itself(traits_of(verdict.path));
    flight.path = by_itself ? paths[i].get() : staging_path_.get();
    report.path = verdict.path;
    report.path_reason = verdict.reason;
    request.prefer_cached = rules_.direct_io == DirectIo::automatic && request.op == Op::read &&
                            !request.file->prefers_o_direct() && !traits_of(verdict.path).direct;
    return success();
  }
  return failure(Code::path_refused, transfer_step(request.op));
}

IoMode Router::wanted_io_mode(const RoutedRequest& request) const {
  if (rules_.cached_unaligned_writes && request.op == Op::write &&
      !is_aligned(request.file_offset | request.size, page_size())) {
    return IoMode::buffered;
  }
  if (rules_.direct_io == DirectIo::always) return IoMode::o_direct;
  if (rules_.direct_io == DirectIo::never) return IoMode::buffered;
  if (request.file->prefers_o_direct()) return IoMode::o_direct;
  return request.op == Op::read && request.size >= kProbeBytesMin ? IoMode::o_direct : IoMode::buffered;
}

void Router::shape(Flight& flight, SubmitMode mode, std::uint64_t chunk_max) const {
  RoutedRequest& request = flight.request;
  request.mode = mode;
  request.io_mode = wanted_io_mode(request);
  request.chunk_max = chunk_max;
  request.shape = flight.path->shape(request);
}

void Router::before_move(Flight& flight) {
  if (PathHooks* const hooks = flight.path->hooks()) hooks->before_move(flight.request);
  const Limits& limits = flight.request.shape.limits;
  if (flight.request.op == Op::read && !limits.staged && limits.file_align > 1) end_with_file(flight.request);
}

std::span<const std::byte> Router::lend(const Flight& flight) {
  PathHooks* const hooks = flight.path->hooks();
  return hooks == nullptr ? std::span<const std::byte>() : hooks->lend(flight.request);
}

// A direct read of the file's last block fills the whole block, and so would write behind the bytes that the read
// returns. Only our own memory allows that. In other memory, the last piece is read through the page cache, up to the
// file's end. A request that lies before the end that the file had a moment ago is left as it is; if the file was cut
// since, the kernel fills the block.
void Router::end_with_file(RoutedRequest& request) {
  if (request.file_offset < request.file_end && request.size <= request.file_end - request.file_offset) return;
  const Result<std::uint64_t> end = request.file->size();
  if (end.ok()) request.size = std::min(request.size, *end > request.file_offset ? *end - request.file_offset : 0);
}

bool Router::is_listed(PathId path) const {
  return std::find(rules_.paths.begin(), rules_.paths.end(), path) != rules_.paths.end();
}

unsigned Router::judge_all(File& file, const PointerFacts& memory, Op op, Verdict (&verdicts)[kPathCount]) const {
  unsigned count = 0;
  for (const auto& path : paths_for(file)) verdicts[count++] = path->judge(file, memory, op);
  if (file.userspace() != nullptr) return count;
  for (const PathRow& row : kPaths) {
    // Nobody misses a path that moves nothing, or that serves other files.
    if (row.traits.by_default() && !is_listed(row.id)) verdicts[count++] = refused(row.id, Reason::not_listed);
  }
  return count;
}

Path* Router::fallback_of(const Device& device) const {
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const PathId id = rules_.paths[i];
    const bool is_meant = traits_of(id).compat && (!rules_.require || *rules_.require == id);
    if (is_meant && paths_[i]->may_serve(device)) return paths_[i].get();
  }
  return nullptr;
}

void Router::forget_file(File& file) {
  for (const auto& path : paths_for(file)) path->forget_file(file);
}

void Router::add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size) {
  for (const auto& path : paths_) {
    if (PathHooks* const hooks = path->hooks()) hooks->add_buffer(memory, base, size);
  }
}

void Router::remove_buffer(std::uint64_t base) {
  for (const auto& path : paths_) {
    if (PathHooks* const hooks = path->hooks()) hooks->remove_buffer(base);
  }
}

}  // namespace penstock::core
