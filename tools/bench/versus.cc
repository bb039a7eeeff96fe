// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/versus.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "bench/versus/comparison.h"
#include "bench/versus/failure.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kSizeOfNewFile = std::uint64_t{1} << 30;
constexpr std::uint64_t kSizeMax = std::uint64_t{4} << 30;
constexpr std::uint64_t kSizeMin = 1 << 20;  // Several of the largest small requests find room.
constexpr unsigned kPairs = 5;
constexpr const char* kNewFile = "penstock-versus.tmp";

versus::Calls linked_calls() {
  return {.name = "penstock",
          .driver_open = cuFileDriverOpen,
          .register_handle = cuFileHandleRegister,
          .deregister_handle = cuFileHandleDeregister,
          .register_buffer = cuFileBufRegister,
          .deregister_buffer = cuFileBufDeregister,
          .read = cuFileRead,
          .write = cuFileWrite,
          .batch_open = cuFileBatchIOSetUp,
          .batch_submit = cuFileBatchIOSubmit,
          .batch_status = cuFileBatchIOGetStatus,
          .batch_close = cuFileBatchIODestroy,
          .read_async = cuFileReadAsync,
          .register_stream = cuFileStreamRegister,
          .deregister_stream = cuFileStreamDeregister,
          .session = penstock_cufile_session,
          .file = penstock_cufile_file,
          .device_alloc = penstock_device_alloc,
          .device_upload = penstock_device_upload,
          .device_download = penstock_device_download,
          .queue_open = penstock_queue_open,
          .queue_submit = penstock_queue_submit,
          .queue_reap = penstock_queue_reap,
          .queue_close = penstock_queue_close};
}

// The size of the existing file, or of the one to be made.
std::uint64_t size_of(const BenchSettings& settings) {
  if (settings.files.size() > 1) throw Failure("--versus takes one FILE", kUsage);
  struct stat status {};
  const bool is_there = !settings.files.empty() && stat(settings.files[0].c_str(), &status) == 0;
  if (is_there && !S_ISREG(status.st_mode)) throw Failure(settings.label() + ": --versus needs a regular file", kUsage);
  const std::uint64_t all = is_there ? static_cast<std::uint64_t>(status.st_size) : kSizeOfNewFile;
  const std::uint64_t size = settings.size > 0 ? settings.size : std::min(all, kSizeMax);
  if (size < kSizeMin || (is_there && size > all)) {
    throw Failure(
        fmt::format("{}: --versus needs at least {} bytes, and --size within the file", settings.label(), kSizeMin),
        kUsage);
  }
  return size;
}

}  // namespace

int run_bench_versus(const BenchSettings& settings) {
  versus::Comparison comparison;
  comparison.file = settings.files.empty() ? kNewFile : settings.files[0];
  comparison.ours = linked_calls;
  comparison.rival = settings.versus;
  comparison.effort.size = size_of(settings);
  comparison.pairs = settings.pairs > 0 ? settings.pairs : kPairs;
  comparison.whole_table = false;
  comparison.stand_in = settings.device == "host";
  comparison.judge = false;
  comparison.interrupted = interrupted;
  comparison.command = "penstock bench --versus " + settings.versus;
  try {
    const Json report = versus::compare(comparison, !settings.json);
    if (settings.json) print_json(report);
    return versus::exit_code_of(report);
  } catch (const versus::Failure& failure) {
    throw Failure(failure.what(), failure.exit_code());
  }
}

}  // namespace penstock::tools
