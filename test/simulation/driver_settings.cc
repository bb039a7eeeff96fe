// SPDX-License-Identifier: Apache-2.0

#include "simulation/driver_settings.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "cufile.h"

namespace penstock::simulation {
namespace {

// In KiB. Chunks of requests that begin later are no longer.
constexpr std::size_t kSizes[] = {64, 128, 1024, 16384}, kMisfits[] = {0, 3, 100};
using Known = std::set<std::size_t>;

CUfileDrvProps_t properties() {
  CUfileDrvProps_t now{};
  if (cuFileDriverGetProperties(&now).err != CU_FILE_SUCCESS) scheduler().fail("cuFile's properties cannot be had");
  return now;
}

// `known`: what it was, and all that the threads of the program have set.
template <typename Set, typename Get>
void change(Random& random, Known& known, const Set& set, const Get& get) {
  known.insert(get(properties()));
  const std::size_t size = kSizes[random.below(std::size(kSizes))];
  known.insert(size);
  if (set(size).err != CU_FILE_SUCCESS) scheduler().fail("a property of an open driver is not taken");
  if (!known.contains(get(properties()))) scheduler().fail("a property of an open driver is what nobody set");
}

void change_property(Random& random) {
  static auto* const known = new Known[4];
  switch (random.below(4)) {
    case 0:
      return change(random, known[0], cuFileDriverSetMaxDirectIOSize,
                    [](const CUfileDrvProps_t& now) { return now.nvfs.max_direct_io_size; });
    case 1:
      return change(random, known[1], cuFileDriverSetMaxCacheSize,
                    [](const CUfileDrvProps_t& now) { return std::size_t{now.max_device_cache_size}; });
    case 2:
      return change(random, known[2], cuFileDriverSetMaxPinnedMemSize,
                    [](const CUfileDrvProps_t& now) { return std::size_t{now.max_device_pinned_mem_size}; });
    default: {
      const auto set = [&](std::size_t size) { return cuFileDriverSetPollMode(random.one_in(2), size); };
      return change(random, known[3], set, [](const CUfileDrvProps_t& now) { return now.nvfs.poll_thresh_size; });
    }
  }
}

void set_misfit(Random& random) {
  const std::size_t misfit = kMisfits[random.below(std::size(kMisfits))];
  if (cuFileDriverSetMaxDirectIOSize(misfit).err == CU_FILE_SUCCESS || properties().nvfs.max_direct_io_size == misfit)
    scheduler().fail("a size that no transfer can have is taken");
}

void expect_refused(CUfileError_t answer) {
  if (answer.err != CU_FILE_DRIVER_ALREADY_OPEN) scheduler().fail("a parameter of an open driver is not refused");
}

void set_parameter(Random& random) {
  constexpr auto kThreads = CUFILE_PARAM_EXECUTION_MAX_IO_THREADS;
  constexpr auto kCompatible = CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE;
  std::size_t threads_before = 0, threads_after = 0;
  bool is_compatible_before = false, is_compatible_after = false;
  const std::size_t size = 64, count = 4;
  (void)cuFileGetParameterSizeT(kThreads, &threads_before);
  (void)cuFileGetParameterBool(kCompatible, &is_compatible_before);
  switch (random.below(4)) {
    case 0: expect_refused(cuFileSetParameterSizeT(kThreads, threads_before + 1)); break;
    case 1: expect_refused(cuFileSetParameterBool(kCompatible, !is_compatible_before)); break;
    case 2: expect_refused(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, "/nowhere")); break;
    default: expect_refused(cuFileSetParameterPosixPoolSlabArray(&size, &count, 1)); break;
  }
  (void)cuFileGetParameterSizeT(kThreads, &threads_after);
  (void)cuFileGetParameterBool(kCompatible, &is_compatible_after);
  if (threads_after != threads_before || is_compatible_after != is_compatible_before)
    scheduler().fail("a parameter was refused, and has changed");
}

void open_once_more() {
  const std::size_t before = cuFileUseCount() > 0;
  const bool is_open = before && cuFileDriverOpen().err == CU_FILE_SUCCESS && cuFileUseCount() > 1;
  if (!is_open || cuFileDriverClose().err != CU_FILE_SUCCESS || cuFileUseCount() < 1)
    scheduler().fail("an open driver does not open once more, or closes with its first user");
}

}  // namespace

void change_driver_settings(Random& random) {
  switch (random.below(6)) {
    case 0: return open_once_more();
    case 1: return set_misfit(random);
    case 2: return set_parameter(random);
    default: return change_property(random);
  }
}

}  // namespace penstock::simulation
