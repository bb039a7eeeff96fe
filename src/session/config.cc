// SPDX-License-Identifier: Apache-2.0

#include "session/config.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/align.h"
#include "base/cpus.h"
#include "base/edit_distance.h"
#include "base/memory_room.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBounceBytesMin = std::uint64_t{1} << 20;
constexpr std::uint64_t kBounceBytesMax = std::uint64_t{64} << 30;
constexpr std::uint64_t kChunkBytesMin = 64u << 10;
constexpr std::uint64_t kChunkBytesMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kWorkersMax = 256;
constexpr std::uint64_t kKeptBytesMax = std::uint64_t{1} << 44;
// Pages that are kept cannot be given back to the machine until they are let go.
constexpr std::uint64_t kKeptPart = 4;
// Eight copy out of the page cache as fast as a PCIe 5.0 x16 link takes it: on an H200 machine 47.6 GB/s at 0.16 CPU
// seconds a GB, against 48.2 at 0.23 with sixteen.
constexpr unsigned kWorkersDefaultMax = 8;
// Commas between names; every name known, none twice, at least one.
bool parse_paths(std::string_view text, std::vector<PathId>& list) {
  list.clear();
  while (true) {
    const std::size_t comma = text.find(',');
    const std::optional<PathId> path = path_named(text.substr(0, comma));
    if (!path || traits_of(*path).userspace || std::find(list.begin(), list.end(), *path) != list.end()) return false;
    list.push_back(*path);
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

bool parse_number(std::string_view text, std::uint64_t unit, std::uint64_t& value) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number > UINT64_MAX / unit) return false;
  value = number * unit;
  return true;
}

template <typename T>
struct Word {
  std::string_view name;
  T value;
};

template <typename T, std::size_t N>
bool parse_word(std::string_view text, const Word<T> (&words)[N], T& value) {
  for (const Word<T>& word : words) {
    if (text == word.name) {
      value = word.value;
      return true;
    }
  }
  return false;
}

constexpr Word<DirectIo> kDirectWords[] = {
    {"auto", DirectIo::automatic}, {"always", DirectIo::always}, {"never", DirectIo::never}};
constexpr Word<Policy> kPolicyWords[] = {
    {"throughput", Policy::throughput}, {"balanced", Policy::balanced}, {"cpu", Policy::cpu}};
constexpr Word<bool> kSwitchWords[] = {{"on", true}, {"off", false}};
constexpr Word<VendorUse> kVendorWords[] = {
    {"auto", VendorUse::automatic}, {"force", VendorUse::force}, {"off", VendorUse::off}};
constexpr Word<bool> kUringWords[] = {{"auto", true}, {"off", false}};

Status number_from(std::uint64_t wish, const char* variable, std::uint64_t unit, std::uint64_t low, std::uint64_t high,
                   const char* step, std::uint64_t& value) {
  if (wish != 0) value = wish;
  else if (variable != nullptr && !parse_number(variable, unit, value)) return failure(Code::bad_setting, step);
  return value < low || value > high ? failure(Code::bad_setting, step) : success();
}

const char* first_said(const char* wish, const char* variable) { return wish != nullptr ? wish : variable; }

unsigned default_workers(Environment environment) {
  return std::min(fair_share_of_cpus("", allowed_cpus(), ranks_on_host(environment)), kWorkersDefaultMax);
}

Status read_numbers(Config& config, const ConfigWishes& wishes, Environment environment) {
  Status status = number_from(
      wishes.bounce_bytes, environment("PENSTOCK_RING_MIB"), 1u << 20, kBounceBytesMin, kBounceBytesMax,
      "understand the bounce buffers' size (ring_bytes; PENSTOCK_RING_MIB: 1 to 65536)", config.bounce_bytes);
  if (!status.ok()) return status;
  status =
      number_from(wishes.chunk_bytes, environment("PENSTOCK_CHUNK_KIB"), 1u << 10, kChunkBytesMin, kChunkBytesMax,
                  "understand the chunk size (chunk_bytes; PENSTOCK_CHUNK_KIB: 64 to 1048576)", config.chunk_bytes);
  if (!status.ok()) return status;
  config.chunk_bytes = align_down(config.chunk_bytes, kChunkBytesMin);
  config.kept_bytes = memory_room().total / kKeptPart;
  status =
      number_from(0, environment("PENSTOCK_KEPT_MIB"), 1u << 20, 0, kKeptBytesMax,
                  "understand how much of files may be kept (PENSTOCK_KEPT_MIB: 0 to 16777216)", config.kept_bytes);
  if (!status.ok()) return status;
  std::uint64_t workers = default_workers(environment);
  status = number_from(wishes.workers, environment("PENSTOCK_WORKERS"), 1, 1, kWorkersMax,
                       "understand the number of workers (workers; PENSTOCK_WORKERS: 1 to 256)", workers);
  config.workers = static_cast<unsigned>(workers);
  return status;
}

// As a step that failed.
const char* understanding_devices() {
  static const auto* const step =
      new std::string(std::string("understand the devices (device, PENSTOCK_DEVICE: ") + provider_choices() + ")");
  return step->c_str();
}

Status read_words(Config& config, const ConfigWishes& wishes, Environment environment) {
  if (const char* word = first_said(wishes.device, environment("PENSTOCK_DEVICE"));
      word != nullptr && !parse_providers(word, config.devices)) {
    return failure(Code::bad_setting, understanding_devices());
  }
  if (const char* word = first_said(wishes.direct_io, environment("PENSTOCK_DIRECT_IO"));
      word != nullptr && !parse_word(word, kDirectWords, config.direct_io)) {
    return failure(Code::bad_setting, "understand direct I/O (direct_io, PENSTOCK_DIRECT_IO: auto, always or never)");
  }
  if (const char* word = first_said(wishes.io_uring, environment("PENSTOCK_IO_URING"));
      word != nullptr && !parse_word(word, kUringWords, config.io_uring)) {
    return failure(Code::bad_setting, "understand io_uring (io_uring, PENSTOCK_IO_URING: auto or off)");
  }
  if (const char* word = environment("PENSTOCK_POLICY");
      word != nullptr && !parse_word(word, kPolicyWords, config.policy)) {
    return failure(Code::bad_setting, "understand the policy (PENSTOCK_POLICY: throughput, balanced or cpu)");
  }
  if (const char* word = environment("PENSTOCK_NVIDIA_EXPORT");
      word != nullptr && !parse_word(word, kSwitchWords, config.nvidia_export)) {
    return failure(Code::bad_setting, "understand the export of GPU memory (PENSTOCK_NVIDIA_EXPORT: on or off)");
  }
  if (const char* word = environment("PENSTOCK_VENDOR");
      word != nullptr && !parse_word(word, kVendorWords, config.vendor)) {
    return failure(Code::bad_setting, "understand the use of NVIDIA's library (PENSTOCK_VENDOR: auto, force or off)");
  }
  if (const char* path = environment("PENSTOCK_VENDOR_LIBRARY"); path != nullptr && path[0] != '\0') {
    // By a name alone the loader would find ours.
    if (path[0] != '/') {
      return failure(Code::bad_setting, "understand NVIDIA's library (PENSTOCK_VENDOR_LIBRARY: an absolute path)");
    }
    config.vendor_library = path;
  }
  return success();
}

Status read_paths(Config& config, const ConfigWishes& wishes, Environment environment) {
  for (const PathRow& row : kPaths) {
    if (!row.traits.pretends && !row.traits.userspace) config.paths.push_back(row.id);
  }
  const char* const names = first_said(wishes.paths, environment("PENSTOCK_PATHS"));
  config.paths_said = names != nullptr;
  if (names != nullptr && !parse_paths(names, config.paths)) {
    return failure(Code::bad_setting,
                   "understand the list of paths (paths; PENSTOCK_PATHS: some of "
                   "p2pdma,pagecache,vendor,bounce,host,null, with commas)");
  }
  const char* name = first_said(wishes.require, environment("PENSTOCK_REQUIRE"));
  if (name == nullptr || name[0] == '\0') return success();
  config.require = path_named(name);
  if (!config.require)
    return failure(
        Code::bad_setting,
        "understand the required path (require; PENSTOCK_REQUIRE: p2pdma, pagecache, vendor, bounce, host or null)");
  return success();
}

// What a CPU second is worth, in seconds of waiting.
double cpu_weight(Policy policy) {
  switch (policy) {
    case Policy::throughput: return 0.02;
    case Policy::cpu: return 4;
    case Policy::balanced: break;
  }
  return 0.1;
}

const char* policy_name(Policy policy) {
  for (const Word<Policy>& word : kPolicyWords) {
    if (word.value == policy) return word.name.data();
  }
  return "";
}

}  // namespace

// Where nothing but time counts, many threads are the quickest way to read a file once (on an H200 machine 51 GB/s, and
// 47 while registering).
PathSettings path_settings(const Config& config) {
  return {.require = config.require,
          .paths_named = config.paths_said,
          .direct_io = config.direct_io != DirectIo::never,
          .page_cache = config.direct_io != DirectIo::always,
          .offers_memory = may_map_memory(config.devices, config.nvidia_export),
          .kept_bytes = config.kept_bytes,
          .keep_at_once = config.keep_at_once,
          .cpu_weight = config.policy == Policy::throughput ? 0 : cpu_weight(config.policy),
          .vendor = config.vendor,
          .vendor_library = config.vendor_library,
          .scratch = config.scratch};
}

EngineRules engine_rules(const Config& config) {
  return {.paths = config.paths,
          .require = config.require,
          .direct_io = config.direct_io,
          .cached_unaligned_writes = config.cached_unaligned_writes,
          .bounce_bytes = config.bounce_bytes,
          .chunk_bytes = config.chunk_bytes,
          .operation_max = config.operation_max,
          .workers = config.workers,
          .threads_max = config.threads_max,
          .share_min = config.share_min,
          .cpu_weight = cpu_weight(config.policy),
          .policy = policy_name(config.policy)};
}

Status check_variables(const char* const* variables) {
  constexpr std::string_view kPrefix = "PENSTOCK_", kRequire = "PENSTOCK_REQUIRE";
  constexpr std::size_t kSlipsMax = 3;
  for (; *variables != nullptr; ++variables) {
    const std::string_view entry(*variables);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || name == kRequire || name.size() > 2 * kRequire.size()) continue;
    if (edit_distance(name, kRequire) > kSlipsMax) continue;
    return failure(Code::bad_setting, "tell whether a variable of nearly that name was meant to be PENSTOCK_REQUIRE");
  }
  return success();
}

Result<Config> make_config(const ConfigWishes& wishes, Environment environment) {
  Config config;
  if (const Status status = read_numbers(config, wishes, environment); !status.ok()) return status;
  if (const Status status = read_words(config, wishes, environment); !status.ok()) return status;
  if (const Status status = read_paths(config, wishes, environment); !status.ok()) return status;
  if (const char* scratch = environment("PENSTOCK_SCRATCH")) config.scratch = scratch;
  return config;
}

}  // namespace penstock::core
