// SPDX-License-Identifier: Apache-2.0

// Many files are rewritten, cut, punched, replaced and evicted while kernels read them, out of registered pages or
// through a cache. Under the lease no read gives a word of another version than those that its file had meanwhile.
// Without it reads go wrong, which shows that this would see it.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "common.cuh"

namespace {

constexpr unsigned kFiles = 32, kWarpsOfFile = 8;
constexpr std::uint64_t kWords = 16384, kBytes = kWords * 8;

// What its file may have: versions from `oldest`, which was written as a whole, to `newest`.
struct alignas(64) Versions {
  unsigned oldest, newest;
};
struct Watched {
  gpu::Layout value;  // Of a gpu::File.
};

__global__ void __launch_bounds__(256, 2)
    watch_all(const Watched* files, const Versions* versions, const unsigned* is_over, unsigned char* out,
              unsigned long long* counts) {
  const gpu::Warp warp;
  const unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = warp.thread_rank();
  const gpu::File file(files[number / kWarpsOfFile].value);
  const Versions& own = versions[number / kWarpsOfFile];
  auto* const words = reinterpret_cast<const std::uint64_t*>(out + number * 4096);
  unsigned long long wrong = 0, reads = 0;
  for (; __shfl_sync(0xffffffffu, gpu::detail::acquire(is_over), 0) == 0; ++reads) {
    const std::uint64_t first = mix(std::uint64_t{number} << 32 | reads) % (kWords / 512) * 512;
    const unsigned oldest = __shfl_sync(0xffffffffu, gpu::detail::acquire(&own.oldest), 0);
    const gpu::Result result = file.read(warp, first * 8, 4096, out + number * 4096);
    __threadfence_system();
    const unsigned newest = __shfl_sync(0xffffffffu, gpu::detail::acquire(&own.newest), 0);
    const unsigned later = __shfl_sync(0xffffffffu, gpu::detail::acquire(&own.oldest), 0);
    const bool is_still = oldest == newest && later == oldest;
    bool is_bad = result.error != gpu::Error::none || (is_still && result.bytes != 4096);
    for (std::uint64_t at = lane; at < result.bytes / 8; at += 32) {
      const auto version = static_cast<unsigned>(words[at]);
      if (words[at] == 0 && !is_still) continue;  // A hole, or what follows a cut.
      is_bad |= words[at] >> 32 != first + at || version < oldest || version > newest;
    }
    wrong += __any_sync(0xffffffffu, is_bad) ? 1 : 0;
    __syncwarp();
  }
  if (lane != 0) return;
  atomicAdd(counts, wrong);
  atomicAdd(counts + 1, reads);
}

void write_version(int fd, unsigned version) {
  std::vector<std::uint64_t> words(kWords);
  for (std::uint64_t i = 0; i < kWords; ++i) words[i] = i << 32 | version;
  if (::pwrite(fd, words.data(), kBytes, 0) != static_cast<ssize_t>(kBytes)) fail("write", "a file of the races");
}

// The name is another file's for a moment; the open file stays what it is.
void replace(const std::string& path) {
  const std::string fresh = path + ".new", kept = path + ".kept";
  ::close(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (::link(path.c_str(), kept.c_str()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0 ||
      ::rename(kept.c_str(), path.c_str()) != 0) {
    fail("replace", path.c_str());
  }
}

struct Changes {
  std::atomic<unsigned> left;
  std::atomic<unsigned> all{0}, delayed{0};  // Those that a lease has made wait.
};

// Pages that are cut away stay with the ring: a file without a cache is mostly written in place.
void change(const std::string& path, bool has_cache, std::minstd_rand& random, Versions& versions, Changes& changes) {
  const auto kind = random() % (has_cache ? 6 : 100);
  if (kind == 0) return replace(path);
  const unsigned version = versions.newest + 1;
  const double began = now();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool was_delayed = now() - began > 0.003;
  if (fd < 0) fail("open for writing", path.c_str());
  changes.delayed += was_delayed ? 1 : 0;
  __atomic_store_n(&versions.newest, version, __ATOMIC_SEQ_CST);
  if (kind == 1 && ::ftruncate(fd, static_cast<off_t>(random() % 2 * 4096)) != 0) fail("cut", path.c_str());
  if (kind == 2) (void)::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes);
  write_version(fd, version);
  if (kind == 3) (void)(::fdatasync(fd) != 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0);
  ::close(fd);
  __atomic_store_n(&versions.oldest, version, __ATOMIC_SEQ_CST);
  if (!was_delayed) ::usleep(3000);
}

struct Round {
  unsigned long long wrong, reads, repeated, by_ring;
};

// Opens all files, and has them read and changed until so many changes were made.
Round run_round(const std::string& path, bool has_lease, Changes& changes) {
  std::vector<std::string> paths;
  std::vector<int> writers;
  std::vector<std::unique_ptr<Opened>> opened;
  Memory<Watched> watched(kFiles, false);
  Memory<Versions> versions(kFiles, false);
  Memory<unsigned> is_over(1, false);
  Memory<unsigned char> out(std::size_t{kFiles} * kWarpsOfFile * 4096, true);
  Memory<unsigned long long> counts(2, false);
  for (unsigned i = 0; i < kFiles; ++i) {
    paths.push_back(path + "." + std::to_string(i));
    const int writer = ::open(paths[i].c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    write_version(writer, 0);
    if (has_lease) ::close(writer);
    else writers.push_back(writer);
    opened.push_back(std::make_unique<Opened>(paths[i]));
    const std::uint64_t cache = i % 2 == 0 ? 0 : 2 * kBytes;
    const gpu::File file = opened[i]->open({.slots = 16, .may_be_stale = has_lease ? 0u : 1u, .cache_bytes = cache});
    std::memcpy(&watched[i].value, &file, sizeof watched[i].value);
  }
  watch_all<<<kFiles * kWarpsOfFile / 8, 256>>>(watched.get(), versions.get(), is_over.get(), out.get(), counts.get());
  std::vector<std::thread> changers;
  for (unsigned i = 0; i < kFiles; ++i) {
    changers.emplace_back([&, i] {
      std::minstd_rand random(i + 1);
      while (changes.left.load() > 0 && changes.left.fetch_sub(1) <= 1u << 30) {
        change(paths[i], i % 2 == 1, random, versions[i], changes);
        ++changes.all;
      }
    });
  }
  for (std::thread& each : changers) each.join();
  __atomic_store_n(is_over.get(), 1u, __ATOMIC_SEQ_CST);
  check(cudaDeviceSynchronize(), "kernels that watch");
  Round round{counts[0], counts[1], 0, 0};
  for (unsigned i = 0; i < kFiles; ++i) {
    round.repeated += opened[i]->info().repeated_reads;
    round.by_ring += opened[i]->info().ring_reads;
    opened[i].reset();
    ::unlink(paths[i].c_str());
  }
  for (const int writer : writers) ::close(writer);
  return round;
}

}  // namespace

bool run_races(const std::string& path, unsigned wanted) {
  bool is_right = true;
  for (const bool has_lease : {true, false}) {
    constexpr unsigned kOfRound = 20000;  // A file opened once takes its lease 62 times.
    const unsigned all = has_lease ? wanted : std::min(wanted, 1000u);
    Changes changes;
    Round sum{};
    const double began = now();
    for (unsigned done = 0; done < all; done += kOfRound) {
      changes.left = std::min(kOfRound, all - done);
      const unsigned delayed = changes.delayed;
      const unsigned of_round = std::min(kOfRound, all - done);
      const Round round = run_round(path, has_lease, changes);
      // So many changes take longer than a lease stays away: each file's has to be waited for a second time.
      if (has_lease && of_round >= 100 * kFiles && changes.delayed - delayed <= kFiles) {
        std::printf("NO LEASE WAS TAKEN AGAIN\n");
        is_right = false;
      }
      sum = {sum.wrong + round.wrong, sum.reads + round.reads, sum.repeated + round.repeated,
             sum.by_ring + round.by_ring};
    }
    std::printf("%s: %u changes, of which %u waited for a lease; %llu reads, %llu by ring, %llu repeated, %llu wrong; "
                "%.1f s\n",
                has_lease ? "under the lease" : "without a lease", changes.all.load(), changes.delayed.load(),
                sum.reads, sum.by_ring, sum.repeated, sum.wrong, now() - began);
    std::fflush(stdout);
    is_right &= has_lease ? sum.wrong == 0 && changes.delayed > 0 : sum.wrong > 0;
  }
  std::printf(is_right ? "no read was wrong that a lease protects\n" : "WRONG READS, OR NONE WITHOUT A LEASE\n");
  return is_right;
}
