// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/pagecache_path.h"

#include <linux/magic.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "path/pagecache/pagecache_channel.h"
#include "path/pagecache/pagecache_reasons.h"
#include "path/pagecache/resident_pages.h"
#include "path/paths.h"
#include "path/pipeline/storage_terms.h"

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

// On an H200 machine, 2026-11-21: 4 KiB took 7.8 µs by the CPU's copy and 10.0 out of a registered extent, 64 KiB 18.4
// and 10.4.
constexpr std::uint64_t kQuickByCpuMax = 16u << 10;

// File systems without backing storage: the pages are the file. Others must be notified before a page changes, so they
// refuse to register it for writing.
bool is_memory(std::uint64_t magic) { return magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC; }

// hugetlbfs has no write().
bool is_only_by_pages(const FileFacts& facts) { return facts.file_system_magic == HUGETLBFS_MAGIC; }

bool takes_writes(const FileFacts& facts) {
  return is_memory(facts.file_system_magic) && facts.readable() && facts.writable();
}

// True if every change of a file modifies the mapped pages, or unmaps them. False for network file systems, which check
// with their server on a read; overlayfs, whose file may be replaced under its descriptor; and ZFS, which maps copies.
bool changes_show_in_mappings(std::uint64_t magic) {
  return magic == EXT4_SUPER_MAGIC || magic == XFS_SUPER_MAGIC || magic == BTRFS_SUPER_MAGIC ||
         magic == F2FS_SUPER_MAGIC || is_memory(magic);
}

// How long a change may take after it shows in the file's stamp: a direct write may be in flight, for which drives have
// a timeout of half a minute. For other file systems it is unknown whether the stamp shows all changes.
std::chrono::nanoseconds settles_after(std::uint64_t magic) {
  return magic == EXT4_SUPER_MAGIC ? 60s : magic == TMPFS_MAGIC ? 1s : 0s;
}

CachedFile::Terms terms_of(const File& file) {
  const FileFacts& facts = file.facts();
  return {takes_writes(facts), is_only_by_pages(facts), settles_after(facts.file_system_magic)};
}

}  // namespace

PagecachePath::PagecachePath(FileIo& io, const PagecacheRules& rules)
    : Path(this), io_(io), rules_(rules), cache_(rules.registration) {}

Verdict PagecachePath::judge(File& file, const PointerFacts& memory, Op op) {
  const auto refuse = [](Reason reason, int detail = 0) { return refused(PathId::pagecache, reason, detail); };
  if (!memory.needs_device()) return refuse(Reason::host_memory);
  if (file.facts().denied) return refuse(Reason::denied);
  if (memory.device == nullptr) return refuse(pagecache_reason::no_page_registration);
  if (const Reason reason = refused_by_rules(*memory.device); reason != Reason::none) return refuse(reason);
  const FileFacts& facts = file.facts();
  if (op == Op::write && rules_.strict && !takes_writes(facts)) return refuse(pagecache_reason::reads_only);
  if (facts.type != FileType::regular || !changes_show_in_mappings(facts.file_system_magic)) {
    return refuse(pagecache_reason::file_system_pages);
  }
  if (file.prefers_o_direct()) return refuse(pagecache_reason::opened_direct);
  if (op == Op::read && file.is_read_once()) return refuse(pagecache_reason::read_once);
  if (!can_register(*memory.device)) return refuse(pagecache_reason::no_page_registration);
  if (const int error = cache_.watch().error(); error != 0)
    return refuse(pagecache_reason::no_page_registration, error);
  return usable_with_rings(PathId::pagecache, io_);
}

bool PagecachePath::may_serve(const Device& device) {
  return refused_by_rules(device) == Reason::none && can_register(device) && cache_.watch().error() == 0;
}

Reason PagecachePath::refused_by_rules(const Device& device) const {
  if (device.facts().stand_in && !rules_.on_stand_in) return Reason::stand_in;
  const bool is_off = rules_.registration.bytes_max == 0 || !rules_.page_cache;
  return is_off ? pagecache_reason::registration_cache_off : Reason::none;
}

bool PagecachePath::can_register(const Device& device) {
  std::atomic<std::uint8_t>& known = can_register_[static_cast<unsigned>(device.facts().ordinal) % kDevicesMax];
  if (known.load(std::memory_order_relaxed) == 0) {
    const DevicePages* const pages = device.pages();
    known.store(pages != nullptr && pages->can_register_pages() ? 2 : 1);
  }
  return known.load(std::memory_order_relaxed) == 2;
}

// A single request makes three system calls where a CPU copy makes one (8 threads, one 4 KiB read at a time: 437 and
// 549 thousand a second). In a queue this holds only while the file may still be changing: then checking the page takes
// a system call that waits for other threads' checks, 3.8 us for each of eight (one H100, 16 CPUs, 2026-11-25).
bool PagecachePath::is_quicker_by_cpu(const File& file, Op op, std::uint64_t size) const {
  const bool has_a_choice = op == Op::read || !is_only_by_pages(file.facts());
  return size <= kQuickByCpuMax && has_a_choice && !rules_.strict && !rules_.registration.at_once;
}

Shape PagecachePath::shape(const RoutedRequest& request) {
  Shape shaped = shape_staged(request, request.io_mode);
  shaped.channel_facts.registers_first = may_have_to_wait(request);
  return shaped;
}

// Some requests must register missing extents first.
bool PagecachePath::may_have_to_wait(const RoutedRequest& request) const {
  const CachedFile::Terms terms = terms_of(*request.file);
  if (!cache_.at_once(terms, request.op) || !takes_note_of(request, terms)) return false;
  const CachedFile* const cached = cache_.find(*request.file, *request.facts.device);
  return cached == nullptr || !cached->is_registered(request.file_offset, request.size);
}

// While the file's pages are not worth registering, registered extents are still used, and the rest is bounced.
void PagecachePath::before_move(RoutedRequest& request) {
  const CachedFile::Terms terms = terms_of(*request.file);
  if (!takes_note_of(request, terms)) return;
  const bool is_large = request.mode == SubmitMode::many;
  const bool is_tiny = !is_large && is_quicker_by_cpu(*request.file, request.op, request.size);
  if (is_tiny && request.mode != SubmitMode::queued) return;
  CachedFile& cached = *cache_.find_or_make(*request.file, *request.facts.device, terms);
  const FileRange range{request.op, request.file_offset, request.size};
  if (request.mode == SubmitMode::on_stream) return before_move_on_stream(cached, range);
  Shape& shape = request.shape;
  shape.learns = true;
  shape.channel_facts = {.file_state = &cached};
  if (is_tiny && ExtentWatch::is_settled(cached, range)) return;
  // No CPU copies the bytes.
  if (request.mode == SubmitMode::alone && cached.is_registered(request.file_offset, request.size))
    shape.tune_threads = false;
  const auto wanted = cache_.want(cached, range, request.mode);
  if (is_tiny && !cache_.is_turn_to_look()) shape.channel_facts = {};
  if (wanted == RegistrationCache::Wanted::no) return;
  shape = shape_staged(request, IoMode::buffered);
  shape.channel_facts = {.file_state = &cached,
                         .registers_first = !cached.is_registered(request.file_offset, request.size)};
  if (is_large) shape.limits.chunk_max = PagecacheChannel::kChunkMax;
  shape.threads_max = 1;
  shape.tune_threads = false;
  shape.first_time = wanted == RegistrationCache::Wanted::all_anew;
  shape.learns = true;
}

bool PagecachePath::takes_note_of(const RoutedRequest& request, const CachedFile::Terms& terms) {
  return (request.op == Op::read || terms.writable) && request.facts.device != nullptr;
}

// A stream's request counts as small: the cache's thread registers its pages if they are worth it.
void PagecachePath::before_move_on_stream(CachedFile& cached, const FileRange& range) {
  const bool must = cache_.want(cached, range, SubmitMode::queued) != RegistrationCache::Wanted::no;
  if (!must || cached.is_registered(range.offset, range.size)) return;
  const auto [first, last] = Extent::range_of(range.offset, range.size);
  cache_.order(cached, first, last);
}

// Lends only from the first extent: a caller that wants more calls again.
std::span<const std::byte> PagecachePath::lend(const RoutedRequest& request) {
  if (request.op == Op::write || is_quicker_by_cpu(*request.file, request.op, request.size)) return {};
  CachedFile* const cached = cache_.find(*request.file, *request.facts.device);
  if (cached == nullptr) return {};
  const std::uint64_t left = Extent::kBytes - request.file_offset % Extent::kBytes;
  return cache_.lend(*cached, {request.op, request.file_offset, std::min(request.size, left)});
}

// A page that the kernel replaced before is found by looking at each; a moment later it may be replaced again, unless a
// lease keeps writers out.
void PagecachePath::keep(File& file, Device& device, const Kept& kept, ResidentPages& pages) {
  CachedFile& cached = *cache_.find_or_make(file, device, terms_of(file));
  if (cache_.watch().error() != 0) return;
  for (std::uint64_t begin = 0; begin < kept.size; begin += Extent::kBytes) {
    const std::uint64_t bytes = std::min(kept.size - begin, Extent::kBytes);
    if (bytes > kept.bytes_max - pages.bytes()) return;
    for (unsigned tries = 0; tries < 2 && !pages.add(cache_, cached, begin, bytes); ++tries) {
    }
  }
}

void PagecachePath::learn(const Timing& timing) {
  const auto [bytes, request, wall_ns, cpu_ns, bounced, first_time] = timing;
  if (bounced) cache_.costs().learn_bounce(request, bytes, wall_ns, cpu_ns);
  else if (first_time) cache_.costs().learn_first_fetch(request, bytes, wall_ns);
  else cache_.costs().learn_fetch(request, bytes, wall_ns);
}

// Only existing bytes of the file can be written through its pages.
bool PagecachePath::is_within(File& file, const Chunk& chunk) {
  if (!takes_writes(file.facts())) return false;
  const Result<std::uint64_t> size = file.size();
  return size.ok() && chunk.file_offset + chunk.size <= *size;
}

Reason PagecachePath::ineligible(const RoutedRequest& request, const Chunk& chunk) {
  if (request.op == Op::write && !is_within(*request.file, chunk)) return pagecache_reason::reads_only;
  const auto* const cached = static_cast<const CachedFile*>(request.shape.channel_facts.file_state);
  if (cached == nullptr || chunk.io_mode == IoMode::o_direct || chunk.size > PagecacheChannel::kChunkMax)
    return pagecache_reason::extent_not_registered;
  const auto [first, last] = Extent::range_of(chunk.file_offset, chunk.size);
  for (std::uint64_t index = first; index <= last; ++index) {
    const Extent* const extent = cached->find(index);
    const bool is_registered = extent != nullptr && extent->state() == Extent::State::registered;
    if (extent == nullptr || (!is_registered && !request.shape.channel_facts.registers_first))
      return pagecache_reason::extent_not_registered;
    if (request.op == Op::write && is_registered && !extent->writable()) return pagecache_reason::reads_only;
  }
  return Reason::none;
}

// The memory of the bounced part.
std::uint64_t PagecachePath::channel_bytes(const ChannelOptions& options) const {
  return rules_.strict ? 0 : options.depth * options.chunk_max;
}

Result<std::unique_ptr<Channel>> PagecachePath::open_channel(const ChannelOptions& options) {
  Result<std::unique_ptr<Channel>> preferred = PagecacheChannel::open(cache_, options);
  if (!preferred.ok()) return preferred.status();
  PreferredTerms& terms = *this;
  return std::unique_ptr<Channel>(
      std::make_unique<FallbackChannel>(terms, io_, std::move(*preferred), options, rules_.strict));
}

std::unique_ptr<Path> make_pagecache_path(const PathEnvironment& environment) {
  const PathSettings& settings = environment.settings;
  const bool required = settings.require == PathId::pagecache;
  const PagecacheRules rules{.registration = {.bytes_max = settings.registration_cache_bytes,
                                              .cpu_weight = settings.cpu_weight,
                                              .at_once = required || settings.register_at_once},
                             .strict = required,
                             .on_stand_in = required || settings.paths_named,
                             .page_cache = settings.page_cache};
  return std::make_unique<PagecachePath>(environment.storage, rules);
}

Reason pagecache_outlook(const PathSettings&) { return Reason::none; }

}  // namespace penstock::core
