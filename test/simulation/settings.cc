// SPDX-License-Identifier: Apache-2.0

#include "penstock/penstock.hpp"
#include "simulation/dmabufs.h"
#include "simulation/files.h"
#include "simulation/gpu.h"
#include "simulation/nvfs.h"
#include "simulation/peers.h"
#include "simulation/requests.h"
#include "simulation/vendor.h"

namespace penstock::simulation {
namespace {

// One of the values, for a setting.
const char* draw_of(Random& random, std::initializer_list<const char*> values) {
  return values.begin()[random.below(values.size())];
}

bool requires_a_path = false;  // A session has settings that require one.

}  // namespace

void draw_settings(Random& random, const std::function<void(const char* name, const char* value)>& set) {
  set("device", gpu().is_there() ? "cuda" : peers().is_there() ? "p2pmem" : "host");
  const bool has_nvfs = gpu().is_there() && nvfs().is_there();
  const bool has_dmabufs = gpu().is_there() && dmabufs().is_there(),
             has_vendor = gpu().is_there() && vendor().is_there();
  const bool wants_nvfs = has_nvfs && !has_vendor && !random.one_in(4);
  const bool wants_peers = peers().is_there() && !random.one_in(4);
  const char* const direct = peers().is_there()                                 ? "p2pdma,bounce,host"
                             : has_vendor && !(has_dmabufs && random.one_in(2)) ? "vendor,bounce,host"
                                                                                : "dmabuf,bounce,host";
  const char* const paths = draw_of(
      random,
      {"auto", has_dmabufs || has_vendor || peers().is_there() ? direct : "bounce,host", "pagecache,bounce,host"});
  set("paths", wants_nvfs ? "auto" : wants_peers ? direct : paths);
  if (has_nvfs) set("nvfs", "on"), set("scratch", nvfs().scratch().c_str());
  if (has_dmabufs) set("dmabuf", "true"), set("scratch", dmabufs().scratch().c_str());
  if (peers().is_there()) set("scratch", peers().scratch().c_str());
  if (has_vendor) set("vendor", draw_of(random, {"auto", "force"})), set("vendor_library", Vendor::library());
  set("policy", draw_of(random, {"throughput", "balanced", "cpu"}));
  set("workers", draw_of(random, {"1", "2", "4"}));
  set("chunk_kib", draw_of(random, {"64", "128", "4096"}));
  set("bounce_mib", draw_of(random, {"1", "2", "16"}));
  set("io_uring", draw_of(random, {"auto", "auto", "auto", "off"}));
  const char* const direct_io = draw_of(random, {"auto", "always", "never"});
  set("direct_io", wants_nvfs || wants_peers ? "auto" : direct_io);
  // Pages are hardly ever worth registering for so few requests: then they are registered at once.
  const bool must_use_pages = gpu().is_there() && !wants_nvfs && random.one_in(3);
  if (must_use_pages) set("paths", "pagecache,bounce,host"), set("require", "pagecache"), requires_a_path = true;
  set("registration_cache_mib", draw_of(random, {must_use_pages ? "2" : "0", "1", "64"}));
}

bool may_refuse_for_want_of_a_path() { return requires_a_path; }

penstock_status open_session(Random& random, penstock_session** session) {
  Config config;
  draw_settings(random, [&](const char* name, const char* value) { config.set(name, value); });
  if (!config.status().ok()) scheduler().fail("a setting is not taken");
  return penstock_session_open(config.raw(), session);
}

void draw_weather(Random& random) {
  constexpr unsigned kRates[] = {0, 100, 20, 5};
  const bool is_fair = random.one_in(6);  // Nothing goes wrong.
  for (unsigned& one_in : disk().weather) one_in = is_fair ? 0 : kRates[random.below(4)];
  // Behind one such error nvidia-fs is not asked any more.
  if (nvfs().is_there() && !random.one_in(4)) disk().weather[static_cast<std::size_t>(Fault::broken)] = 0;
}

}  // namespace penstock::simulation
