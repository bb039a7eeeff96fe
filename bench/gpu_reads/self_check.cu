// SPDX-License-Identifier: Apache-2.0

// Checks kernels' own reads on a GPU: bytes at every alignment by every group, the file's end, a file that is closed
// while kernels read it, a thread of the library that stands still, a lease that another process ends, a kernel that
// traps, and a context that is destroyed.
#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "common.cuh"

extern char** environ;

namespace {

constexpr std::uint64_t kSize = (std::uint64_t{70} << 20) + 12345;  // Three extents.

int failures = 0;
unsigned part = 1;  // One warp, block or read in so many is run.

void tell(const char* what, bool is_right, const std::string& more = "") {
  std::printf("%-4s %s%s%s\n", is_right ? "ok" : "BAD", what, more.empty() ? "" : ": ", more.c_str());
  std::fflush(stdout);
  failures += is_right ? 0 : 1;
}

__device__ unsigned char byte_at(std::uint64_t place) {
  return static_cast<unsigned char>(word_at(place & ~7ull) >> (place % 8 * 8));
}

// Random places, sizes and destinations. Both of the tasks' numbers are the group's.
template <typename Group>
__device__ unsigned long long read_anywhere(const gpu::File& file, const Group& group, unsigned number, unsigned reads,
                                            unsigned bytes_max, unsigned char* out) {
  unsigned long long wrong = 0;
  for (unsigned i = 0; i < reads; ++i) {
    const std::uint64_t chance = mix(std::uint64_t{number} << 20 | i);
    const std::uint64_t bytes = chance % bytes_max;
    std::uint64_t place = mix(chance) % (file.size() + 5000);
    if (i % 4 == 0) place &= ~15ull;
    if (i % 16 == 1) place = (std::uint64_t{32} << 20) - bytes / 2;  // Across two extents.
    if (i % 16 == 2) file.prefetch(group, place, bytes);
    unsigned char* const to = out + (i % 3 == 0 ? 0 : mix(chance + 1) % 16);
    const gpu::Result result =
        i % 8 == 3 ? file.wait(group, file.read_async(group, place, bytes, to)) : file.read(group, place, bytes, to);
    const std::uint64_t left = place < file.size() ? file.size() - place : 0;
    const std::uint64_t expected = bytes < left ? bytes : left;
    if (result.error == gpu::Error::none && result.bytes != expected) ++wrong;
    group.sync();
    for (std::uint64_t at = group.thread_rank(); at < result.bytes; at += group.size()) {
      wrong += to[at] != byte_at(place + at);
    }
    group.sync();
  }
  return wrong;
}

constexpr unsigned kRoom = 20016;

__global__ void by_warps(gpu::File file, unsigned reads, unsigned char* out, unsigned long long* wrong) {
  const unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const auto bad = read_anywhere(file, gpu::Warp(), number, reads, 20000, out + std::size_t{number} * kRoom);
  if (bad != 0) atomicAdd(wrong, bad);
}
__global__ void by_blocks(gpu::File file, unsigned reads, unsigned char* out, unsigned long long* wrong) {
  const auto bad = read_anywhere(file, gpu::Block(), blockIdx.x, reads, 20000, out + std::size_t{blockIdx.x} * kRoom);
  if (bad != 0) atomicAdd(wrong, bad);
}
__global__ void by_threads(gpu::File file, unsigned reads, unsigned char* out, unsigned long long* wrong) {
  const unsigned number = blockIdx.x * blockDim.x + threadIdx.x;
  const auto bad = read_anywhere(file, gpu::Thread(), number, reads, 200, out + std::size_t{number} * kRoom);
  if (bad != 0) atomicAdd(wrong, bad);
}

void check_bytes(Opened& opened, const char* what, const penstock_gpu_options& options, unsigned reads = 40) {
  Memory<unsigned char> out(std::size_t{2048} * kRoom, true);
  Memory<unsigned long long> wrong(3, false);
  const gpu::File file = opened.open(options);
  reads = std::max(4u, reads / part);
  by_warps<<<256 / part, 128>>>(file, reads, out.get(), wrong.get());
  check(cudaDeviceSynchronize(), "warps");
  by_blocks<<<256 / part, 256>>>(file, reads, out.get(), wrong.get() + 1);
  check(cudaDeviceSynchronize(), "blocks");
  by_threads<<<std::max(1u, 16 / part), 128>>>(file, reads, out.get(), wrong.get() + 2);
  check(cudaDeviceSynchronize(), "threads");
  const penstock_gpu_info info = opened.info();
  char text[300];
  std::snprintf(text, sizeof text,
                "wrong %llu, %llu, %llu; %llu resident, %llu by ring, %llu cached (%llu blocks fetched), %llu failed; "
                "reason %s (%d)",
                wrong[0], wrong[1], wrong[2], (unsigned long long)info.resident_reads,
                (unsigned long long)info.ring_reads, (unsigned long long)info.cached_reads,
                (unsigned long long)info.fetched_blocks, (unsigned long long)info.failed_reads,
                penstock_reason_name(info.reason), info.detail);
  const bool went_so = (options.cache_bytes != 0 ? info.cached_reads
                        : options.ring_only != 0 ? info.ring_reads
                                                 : info.resident_reads) > 0;
  tell(what, wrong[0] + wrong[1] + wrong[2] + info.failed_reads == 0 && went_so, text);
}

// Reads until there is an error.
__global__ void read_until_error(gpu::File file, unsigned char* out, int* errors, unsigned long long* reads) {
  const gpu::Warp warp;
  const unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (unsigned i = 0;; ++i) {
    const auto result = file.read(warp, mix(std::uint64_t{number} << 32 | i) % file.size(), 4096, out + number * 4096);
    if (result.error == gpu::Error::none) continue;
    if (warp.thread_rank() == 0) {
      errors[number] = static_cast<int>(result.error);
      atomicAdd(reads, i);
    }
    return;
  }
}

bool all_are(const Memory<int>& errors, unsigned count, gpu::Error expected) {
  for (unsigned i = 0; i < count; ++i) {
    if (errors[i] != static_cast<int>(expected)) return false;
  }
  return true;
}

void check_close(Opened& opened) {
  const unsigned kWarps = 1024 / part;
  Memory<unsigned char> out(kWarps * 4096, true);
  Memory<int> errors(kWarps, false);
  Memory<unsigned long long> reads(1, false);
  const gpu::File file = opened.open({.slots = 64, .ring_only = 1});
  read_until_error<<<kWarps / 4, 128>>>(file, out.get(), errors.get(), reads.get());
  ::usleep(50'000);
  const double began = now();
  opened.close();
  const double took = now() - began;
  check(cudaDeviceSynchronize(), "kernels of a closed file");
  char text[100];
  std::snprintf(text, sizeof text, "%llu reads before, closing took %.1f ms", reads[0], took * 1e3);
  tell("all that read get an error when the file is closed", all_are(errors, kWarps, gpu::Error::closed), text);
}

int thread_named(const char* name) {
  DIR* const tasks = ::opendir("/proc/self/task");
  int found = 0;
  while (const dirent* const entry = ::readdir(tasks)) {
    std::ifstream comm(std::string("/proc/self/task/") + entry->d_name + "/comm");
    std::string text;
    if (std::getline(comm, text) && text == name) found = std::atoi(entry->d_name);
  }
  ::closedir(tasks);
  return found;
}

// Stops one thread of this process, from a child; false if that is not allowed. Killing the child lets it go on.
pid_t stop_thread(int thread) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  const pid_t child = ::fork();
  if (child == 0) {
    char is_stopped = ::ptrace(PTRACE_SEIZE, thread, 0, 0) == 0 && ::ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0 &&
                      ::waitpid(thread, nullptr, __WALL) == thread;
    (void)!::write(ends[1], &is_stopped, 1);
    for (;;) ::pause();
  }
  char is_stopped = 0;
  (void)!::read(ends[0], &is_stopped, 1);
  ::close(ends[0]);
  ::close(ends[1]);
  if (is_stopped) return child;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return -1;
}

void check_stopped_thread(Opened& opened) {
  constexpr unsigned kWarps = 256;
  Memory<unsigned char> out(kWarps * kRoom, true);
  Memory<int> errors(kWarps, false);
  Memory<unsigned long long> reads(1, false), wrong(1, false);
  const gpu::File file = opened.open({.slots = kWarps, .timeout_ns = 100'000'000, .ring_only = 1});
  const pid_t child = stop_thread(thread_named("penstock-gpu"));
  if (child < 0) return tell("a thread that stands still", true, "SKIPPED, this process may not be traced");
  const double began = now();
  read_until_error<<<kWarps / 4, 128>>>(file, out.get(), errors.get(), reads.get());
  check(cudaDeviceSynchronize(), "kernels without answers");
  char text[100];
  std::snprintf(text, sizeof text, "after %.0f ms, of 100", (now() - began) * 1e3);
  tell("all that wait for a thread that stands still get an error", all_are(errors, kWarps, gpu::Error::timed_out),
       text);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  by_warps<<<kWarps / 4, 128>>>(file, 20, out.get(), wrong.get());
  check(cudaDeviceSynchronize(), "kernels after it went on");
  tell("once it goes on, reads are right again", wrong[0] == 0);
}

// What others do to the file meanwhile: 0 nothing yet, 1 it is being changed, 2 it was changed.
__global__ void watch(gpu::File file, const volatile int* phase, unsigned char* out, unsigned long long* counts) {
  const gpu::Warp warp;
  const unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = warp.thread_rank();
  auto* const words = reinterpret_cast<const std::uint64_t*>(out + number * 4096);
  unsigned long long wrong = 0, reads = 0, late = 0;
  for (unsigned i = 0;; ++i) {
    const int before = __shfl_sync(0xffffffffu, *phase, 0);
    if (before == 3) break;
    __threadfence_system();
    const std::uint64_t place = mix(std::uint64_t{number} << 32 | i) % (file.size() / 4096) * 4096;
    const auto result = file.read(warp, place, 4096, out + number * 4096);
    __threadfence_system();
    const int after = __shfl_sync(0xffffffffu, *phase, 0);
    __syncwarp();
    bool is_bad = result.error != gpu::Error::none || (before == after && before != 1 && result.bytes != 4096);
    for (std::uint64_t at = lane; at < result.bytes / 8; at += 32) {
      const bool is_old = words[at] == word_at(place + 8 * at), is_new = words[at] == word_at(place + 8 * at, 1);
      is_bad |= (after == 0 && !is_old) || (before == 2 && !is_new);
    }
    wrong += __any_sync(0xffffffffu, is_bad);
    reads += 1;
    late += before == 2;
    __syncwarp();
  }
  if (lane != 0) return;
  atomicAdd(counts, wrong);
  atomicAdd(counts + 1, reads);
  atomicAdd(counts + 2, late);
}

// The seconds that this program took for the task, as another process; below 0 if it failed, or after 60 seconds.
double by_another(const char* task, const std::string& path, const char* size = nullptr) {
  const char* const arguments[] = {"gpu_reads", task, path.c_str(), size, nullptr};
  pid_t child = 0;
  const double began = now();
  if (::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments), environ) != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    ::usleep(1000);
    if (now() - began > 60) ::kill(child, SIGKILL);
  }
  return status == 0 ? now() - began : -1;
}

void check_lost_context(const std::string& path, const char* task, const char* what) {
  const double took = by_another(task, path);
  tell(what, took >= 0, "in " + std::to_string(took) + " s");
}

// Without a lease it must go wrong, or the check shows nothing.
void check_change(const std::string& path, bool has_lease, std::uint64_t cache_bytes = 0) {
  const unsigned kWarps = 256 / part;
  write_file(path, kSize);
  Opened opened(path);
  const int writer = has_lease ? -1 : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  Memory<unsigned char> out(kWarps * 4096, true);
  Memory<int> phase(1, false);
  Memory<unsigned long long> counts(3, false);
  const gpu::File file = opened.open({.threads = 2, .may_be_stale = 1, .cache_bytes = cache_bytes});
  watch<<<kWarps / 4, 128>>>(file, phase.get(), out.get(), counts.get());
  ::usleep(100'000);
  __atomic_store_n(phase.get(), 1, __ATOMIC_SEQ_CST);
  const double took = by_another("--rewrite", path, std::to_string(kSize).c_str());
  __atomic_store_n(phase.get(), 2, __ATOMIC_SEQ_CST);
  ::usleep(200'000);
  __atomic_store_n(phase.get(), 3, __ATOMIC_SEQ_CST);
  check(cudaDeviceSynchronize(), "kernels that watch");
  const penstock_gpu_info info = opened.info();
  if (writer >= 0) ::close(writer);
  char text[300];
  std::snprintf(text, sizeof text,
                "%llu wrong of %llu reads, %llu behind the change, which took %.0f ms; %llu repeated; reason %s",
                counts[0], counts[1], counts[2], took * 1e3, (unsigned long long)info.repeated_reads,
                penstock_reason_name(info.reason));
  if (has_lease) {
    // Reads went by the ring while the lease was away; it may have been taken again since.
    const bool is_good = counts[0] == 0 && counts[2] > 0 && took >= 0 && info.ring_reads > 0;
    tell(cache_bytes > 0 ? "the same through the cache"
                         : "another process truncates and writes the file, under the lease",
         is_good && (cache_bytes > 0 ? info.cached_reads : info.resident_reads) > 0, text);
  } else {
    tell("the same without a lease goes wrong, as it must", counts[0] > 0 && took >= 0, text);
  }
}

}  // namespace

bool check_reads(const std::string& path, bool is_small) {
  part = is_small ? 64 : 1;
  write_file(path, kSize);
  {
    Opened opened(path);
    check_bytes(opened, "resident", {});
    check_bytes(opened, "ring", {.threads = 4, .ring_only = 1});
    check_bytes(opened, "ring of 4 slots", {.threads = 2, .slots = 4, .slot_bytes = 512, .ring_only = 1}, 6);
    check_bytes(opened, "one extent resident, the others by ring", {.resident_bytes = std::uint64_t{33} << 20});
    check_bytes(opened, "cached, of pages", {.cache_bytes = std::uint64_t{16} << 20});
    check_bytes(opened, "cached, by ring, and too small",
                {.threads = 4, .slot_bytes = 1024, .ring_only = 1, .cache_bytes = 1u << 20});
    check_close(opened);
    if (!is_small) check_stopped_thread(opened);
  }
  {
    Opened opened(path, O_DIRECT);  // So that nothing comes out of the page cache.
    check_bytes(opened, "ring, from storage", {.threads = 16, .ring_only = 1}, 8);
  }
  if (!is_small) {
    check_lost_context(path, "--trap", "a kernel that traps leaves nobody waiting");
    check_lost_context(path, "--reset", "a context that is destroyed leaves nobody waiting");
  }
  check_change(path, true);
  check_change(path, true, std::uint64_t{32} << 20);
  check_change(path, false);
  std::printf(failures == 0 ? "all checks passed\n" : "%d CHECKS FAILED\n", failures);
  return failures == 0;
}
