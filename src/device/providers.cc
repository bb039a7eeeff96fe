// SPDX-License-Identifier: Apache-2.0

#include "device/providers.h"

#include <algorithm>
#include <utility>

#include "device/cuda/cuda_device.h"
#include "device/host/host_device.h"
#include "device/mixed_devices.h"
#include "device/p2pmem/peer_device.h"

namespace penstock::core {
namespace {

using Opened = Result<std::unique_ptr<DeviceSet>>;

constexpr Provider kProviders[] = {
    {.name = "cuda",
     .what = "NVIDIA GPUs",
     .unasked = Unasked::opened,
     .driver = kCudaDriver,
     .may_map_memory = [](const DeviceTerms& terms) { return terms.export_memory; },
     .open = [](const DeviceTerms& terms, std::string& why_not) -> Opened {
       Result<std::unique_ptr<CudaDeviceSet>> set = CudaDeviceSet::open(&why_not, cuda::kDriverLibrary, terms);
       if (!set.ok()) return set.status();
       return std::unique_ptr<DeviceSet>(std::move(*set));
     }},
    {.name = "host",
     .what = "host memory standing in for a GPU",
     .unasked = Unasked::stand_in,
     .may_map_memory = [](const DeviceTerms&) { return false; },
     .open = [](const DeviceTerms& terms, std::string&) -> Opened {
       return std::unique_ptr<DeviceSet>(std::make_unique<HostDeviceSet>(terms));
     }},
    {.name = "p2pmem",
     .what = "memory that PCI devices offer",
     .may_map_memory = [](const DeviceTerms&) { return true; },
     .open = [](const DeviceTerms& terms, std::string&) -> Opened { return PeerDeviceSet::open(terms); }},
};

void append(std::string& list, const char* separator, const std::string& what) {
  if (!list.empty() && !what.empty()) list += separator;
  list += what;
}

// Collects devices as they are opened, one provider after the other.
class Opening {
 public:
  explicit Opening(bool export_memory) : export_memory_(export_memory) {}

  Status add(const Provider& provider) {
    const DeviceTerms terms{.kind = provider.name, .first_ordinal = count_, .export_memory = export_memory_};
    std::string why_not;
    Opened set = provider.open(terms, why_not);
    if (!set.ok()) {
      append(why_not_, "; ", why_not.empty() ? describe(set.status()) : why_not);
      return set.status();
    }
    count_ += (*set)->count();
    has_gpu_ = has_gpu_ || provider.unasked == Unasked::opened;
    append(kinds_, ",", provider.name);
    append(whats_, " and ", provider.what);
    sets_.push_back(std::move(*set));
    return sets_.size() > 1 && count_ > kDevicesMax ? failure(Code::limit, "open so many devices") : success();
  }
  bool is_empty() const { return sets_.empty(); }

  OpenedDevices result(bool asked) {
    std::string why_no_gpu = asked ? "the configuration asks for " + whats_ : why_not_;
    if (has_gpu_) why_no_gpu.clear();
    std::unique_ptr<DeviceSet> devices =
        sets_.size() == 1 ? std::move(sets_.front()) : std::make_unique<MixedDevices>(std::move(sets_));
    return {std::move(devices), kinds_, why_no_gpu};
  }

 private:
  const bool export_memory_;
  std::vector<std::unique_ptr<DeviceSet>> sets_;
  unsigned count_ = 0;
  bool has_gpu_ = false;
  std::string kinds_, whats_, why_not_;
};

}  // namespace

std::span<const Provider> providers() { return kProviders; }

const Provider* provider_named(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kProviders), std::end(kProviders),
                                         [&](const Provider& provider) { return name == provider.name; });
  return found == std::end(kProviders) ? nullptr : found;
}

const char* driver_of(const Status& status) {
  for (const Provider& provider : kProviders) {
    if (status.domain == Domain::driver && provider.driver == status.driver) return provider.name;
  }
  return "";
}

bool may_map_memory(const ProviderList& wanted, bool export_memory) {
  return std::any_of(std::begin(kProviders), std::end(kProviders), [&](const Provider& provider) {
    const bool is_listed = std::find(wanted.begin(), wanted.end(), &provider) != wanted.end();
    const bool is_opened = wanted.empty() ? provider.unasked == Unasked::opened : is_listed;
    return is_opened && provider.may_map_memory({.kind = provider.name, .export_memory = export_memory});
  });
}

Result<OpenedDevices> open_devices(const ProviderList& wanted, bool export_memory, std::span<const Provider> all) {
  Opening opening(export_memory);
  for (const Provider* const provider : wanted) {
    if (const Status status = opening.add(*provider); !status.ok()) return status;
  }
  for (const Unasked kind : {Unasked::opened, Unasked::stand_in}) {
    if (!opening.is_empty()) break;
    for (const Provider& provider : all) {
      if (provider.unasked == kind) (void)opening.add(provider);  // why_no_gpu says what is missing.
    }
  }
  if (opening.is_empty()) return failure(Code::no_device, "find a device of any kind");
  return opening.result(!wanted.empty());
}

}  // namespace penstock::core
