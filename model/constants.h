// SPDX-License-Identifier: Apache-2.0

// Every number that the models take from a source, in one table with its unit and source; constants of the contention
// simulator alone are in model/pcie/pcie_constants.h, which takes shared ones from here. The models read a Constants,
// so that a user can set each, and model/sensitivity.h can vary each. Pure. Numbers fixed by definition (8 bits in a
// byte, 2 bytes in a BF16 number) are not in the table.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace penstock::model {

enum class Constant : std::size_t {
  kHostRegisterFixed,
  kHostRegisterPage,
  kHostPageBytes,
  kGpuRegisterFixed,
  kGpuRegisterWalk,
  kGpuRegisterPage,
  kGpuPageBytes,
  kCudaRegisterPage,
  kCudaRegisterPageAbsent,
  kNicCacheEntries,
  kNicCacheMiss,
  kCuFileDriverOpen,
  kCuFileHandleRegister,
  kCuFileBufferRegister,
  kDriveGen3Read,
  kDriveGen3Write,
  kDriveGen4Read,
  kDriveGen4Write,
  kDriveGen5Read,
  kDriveGen5Write,
  kDriveShare,
  kGpuLink,
  kNodeLinks,
  kHostCopyGpu,
  kHostCopyNode,
  kPageableCopy,
  kPageCacheWrite,
  kPoorHost,
  kTorchSave,
  kFileLatency,
  kAcceleratorLife,
  kGpuHourPrice,
  kKnee,
  kGpuMemory,
  kGpuMemoryLatency,
  kPcieLink,
  kPcieLatency,
  kHostMemory,
  kHostMemoryLatency,
  kNetworkLatency,
  kNetworkNode,
  kCount,
};

struct ConstantFacts {
  std::string_view name;  // "host_register.page"
  double value;
  double low;  // The ends of the source's range; equal to value if it gives none.
  double high;
  std::string_view unit;  // "s", "B/s", "B", "1", "$/h"
  std::string_view source;
};

constexpr std::size_t kConstantCount = static_cast<std::size_t>(Constant::kCount);

class Constants {
 public:
  Constants();  // The values of the table.

  double operator[](Constant constant) const { return values_[static_cast<std::size_t>(constant)]; }
  void set(Constant constant, double value) { values_[static_cast<std::size_t>(constant)] = value; }

  // Sets a constant by name, for users. Throws InvalidInput for an unknown name, or a value that is not a positive
  // number.
  void set(std::string_view name, double value);

 private:
  std::array<double, kConstantCount> values_;
};

std::span<const ConstantFacts, kConstantCount> constant_table();
const ConstantFacts& facts_of(Constant constant);

}  // namespace penstock::model
