// SPDX-License-Identifier: Apache-2.0

#include "session/config.h"

#include <unistd.h>

#include <algorithm>

#include "base/invariant.h"
#include "settings/settings.h"

namespace penstock::core {
namespace {

template <typename T>
struct Word {
  std::string_view name;
  T value;
};

// Finds the meaning of a word; the table of settings accepts no other words.
template <typename T, std::size_t N>
T meaning_of(const std::string& text, const Word<T> (&words)[N]) {
  for (const Word<T>& word : words) {
    if (text == word.name) return word.value;
  }
  PENSTOCK_INVARIANT(false);
  return {};
}

constexpr Word<DirectIo> kDirectWords[] = {
    {"auto", DirectIo::automatic}, {"always", DirectIo::always}, {"never", DirectIo::never}};
constexpr Word<Policy> kPolicyWords[] = {
    {"throughput", Policy::throughput}, {"balanced", Policy::balanced}, {"cpu", Policy::cpu}};
constexpr Word<VendorUse> kVendorWords[] = {
    {"auto", VendorUse::automatic}, {"force", VendorUse::force}, {"off", VendorUse::off}};
constexpr Word<NvfsUse> kNvfsWords[] = {
    {"off", NvfsUse::off}, {"auto", NvfsUse::automatic}, {"on", NvfsUse::on}, {"standin", NvfsUse::stand_in}};
constexpr Word<bool> kUringWords[] = {{"auto", true}, {"off", false}};

// True for "auto", which means all paths that move bytes for every file.
bool means_all(const Texts& paths) { return paths.size() == 1 && paths.front() == "auto"; }

std::vector<PathId> paths_of(const Settings& settings) {
  std::vector<PathId> paths;
  if (means_all(settings.texts("penstock.paths"))) {
    for (const PathRow& row : kPaths) {
      if (row.traits.by_default()) paths.push_back(row.id);
    }
  } else {
    for (const std::string& name : settings.texts("penstock.paths")) paths.push_back(path_named(name).value());
  }
  return paths;
}

// The named devices; empty for "auto", which means all devices.
ProviderList devices_of(const Settings& settings) {
  ProviderList devices;
  for (const std::string& name : settings.texts("penstock.device")) {
    if (const Provider* const provider = provider_named(name)) devices.push_back(provider);
  }
  return devices;
}

// How many seconds of waiting one CPU second is worth.
double cpu_weight(Policy policy) {
  if (policy == Policy::throughput) return 0.02;
  return policy == Policy::cpu ? 4 : 0.1;
}

const char* policy_name(Policy policy) {
  return std::ranges::find(kPolicyWords, policy, &Word<Policy>::value)->name.data();
}

}  // namespace

// Under policy throughput the CPU's time weighs nothing, so a file that is read once is not registered: many threads
// read it faster (on an H200 machine 51 GB/s, and 47 while registering).
PathSettings path_settings(const Config& config) {
  return {.require = config.require,
          .paths_named = config.paths_said,
          .direct_io = config.direct_io != DirectIo::never,
          .page_cache = config.direct_io != DirectIo::always,
          .offers_memory = may_map_memory(config.devices, config.nvidia_export),
          .registration_cache_bytes = config.registration_cache_bytes,
          .register_at_once = config.register_at_once,
          .cpu_weight = config.policy == Policy::throughput ? 0 : cpu_weight(config.policy),
          .vendor = config.vendor,
          .vendor_library = config.vendor_library,
          .nvfs = config.nvfs,
          .nvfs_kernel = config.nvfs_kernel,
          .dmabuf = config.dmabuf,
          .dmabuf_files = config.dmabuf_files,
          .dmabuf_write = config.dmabuf_write,
          .scratch = config.scratch,
          .root = config.root};
}

bool threads_spin(const Config& config) {
  constexpr long kCpusMin = 4;
  return config.policy != Policy::cpu && ::sysconf(_SC_NPROCESSORS_ONLN) >= kCpusMin;
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
          .policy = policy_name(config.policy),
          .threads_spin = threads_spin(config),
          .placement = config.placement};
}

Config make_config(const Settings& settings) {
  const auto number = [&](Setting setting) { return static_cast<std::uint64_t>(settings.number(setting)); };
  Config config;
  config.bounce_bytes = number("penstock.bounce_mib") << 20;
  config.chunk_bytes = number("penstock.chunk_kib") << 10;
  config.workers = static_cast<unsigned>(number("penstock.workers"));
  config.devices = devices_of(settings);
  config.paths = paths_of(settings);
  config.paths_said = !means_all(settings.texts("penstock.paths"));
  config.require = path_named(settings.text("penstock.require"));
  config.direct_io = meaning_of(settings.text("penstock.direct_io"), kDirectWords);
  config.policy = meaning_of(settings.text("penstock.policy"), kPolicyWords);
  config.registration_cache_bytes = number("penstock.registration_cache_mib") << 20;
  config.io_uring = meaning_of(settings.text("penstock.io_uring"), kUringWords);
  config.nvidia_export = settings.is_on("penstock.nvidia_export");
  config.vendor = meaning_of(settings.text("penstock.vendor"), kVendorWords);
  config.placement = parse_placement(settings.text("penstock.placement")).value();
  config.vendor_library = settings.text("penstock.vendor_library");
  config.nvfs = meaning_of(settings.text("penstock.nvfs"), kNvfsWords);
  config.dmabuf = settings.is_on("penstock.dmabuf");
  config.dmabuf_files = settings.is_on("penstock.dmabuf_files");
  config.dmabuf_write = settings.is_on("penstock.dmabuf_write");
  config.scratch = settings.text("penstock.scratch");
  return config;
}

}  // namespace penstock::core
