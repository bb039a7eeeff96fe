// SPDX-License-Identifier: Apache-2.0

// The providers of devices: a table with a row for each kind. The session opens its devices from it, the settings take
// its names, and the public interfaces describe it to users. A new maker's GPU is a folder beside cuda/ and a row here;
// no other code asks which provider it has.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace penstock::core {

// How to treat a provider if the user does not name devices.
enum class Unasked : std::uint8_t {
  opened,    // Its devices are opened, if there are any.
  stand_in,  // Its devices are opened only if no other provider has any.
  left,      // The provider is not looked at.
};

struct Provider {
  static constexpr int kNoDriver = -1;

  const char* name;                 // The name for users: in PENSTOCK_DEVICE, and as a device's kind.
  const char* what;                 // A phrase for people that says what its devices are.
  Unasked unasked = Unasked::left;  // See there.
  int driver = kNoDriver;           // The number of its Statuses in Domain::driver: unique, 0 to 255.
  // True if storage's DMA engines may reach memory of its devices, so far as can be told before they are opened.
  bool (*may_map_memory)(const DeviceTerms& terms);
  // Fails with no_device if there is none, with a sentence in `why_not`, which may be empty.
  Result<std::unique_ptr<DeviceSet>> (*open)(const DeviceTerms& terms, std::string& why_not);
};

// In the order in which devices are opened and listed.
std::span<const Provider> providers();
const Provider* provider_named(std::string_view name);  // Null if there is none.

// Providers as users list them, first device first. Empty: whatever there is.
using ProviderList = std::vector<const Provider*>;

// The name of the provider whose driver's number a status has in Domain::driver, or "".
const char* driver_of(const Status& status);

bool may_map_memory(const ProviderList& wanted, bool export_memory);

struct OpenedDevices {
  std::unique_ptr<DeviceSet> devices;
  std::string kinds;       // Names of their providers, with commas between them.
  std::string why_no_gpu;  // Why no provider that is opened by default has a device; empty if one was opened.
};

// Opens all wanted devices, or fails; ordinals are unique. A single provider's set is returned unwrapped, so that calls
// cost nothing extra. `all` is the table, except in tests.
Result<OpenedDevices> open_devices(const ProviderList& wanted, bool export_memory,
                                   std::span<const Provider> all = providers());

}  // namespace penstock::core
