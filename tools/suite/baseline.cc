// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "bench/versus/calls.h"
#include "bench/versus/failure.h"
#include "bench/versus/side.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/suite/ways.h"

namespace penstock::tools {
namespace {

// Processes that use the other library, one for each thread of the other variants. They move whole files; this process
// flushes their writes, with the clock running.
class BaselineVariant : public SuiteVariant {
 public:
  BaselineVariant(const std::string& path, bool stand_in, std::uint64_t largest, unsigned threads) : path_(path) {
    versus::SideSettings side;
    side.load = [path] { return versus::load_calls(path); };
    side.memory_bytes = largest;
    side.stand_in = stand_in;
    if (stand_in) side.environment.emplace_back("PENSTOCK_DEVICE", "host");
    for (unsigned i = 0; i < threads; ++i) {
      side.name = threads == 1 ? path : fmt::format("{}, process {}", path, i);
      sides_.push_back(std::make_unique<versus::Side>(side));
    }
    guarded([&] {
      for (const auto& each : sides_) each->greet();
      return 0.0;
    });
  }

  std::string name() const override { return "with " + path_; }

  double move(const std::vector<SuiteFile>& files, bool is_load, unsigned threads) override {
    return guarded([&] {
      double seconds = 0;
      for (std::size_t begin = 0; begin < files.size(); begin += threads) {
        throw_if_interrupted();
        const std::size_t count = std::min<std::size_t>(threads, files.size() - begin);
        seconds += round_of({files.data() + begin, count}, is_load);
      }
      return seconds + (is_load ? 0 : flushed(files));
    });
  }

 private:
  double round_of(std::span<const SuiteFile> files, bool is_load) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      versus::Task task;
      task.what = is_load ? "read" : "write";
      task.file = files[i].path;
      task.size = files[i].size;
      sides_[i]->prepare(task);
    }
    for (std::size_t i = 0; i < files.size(); ++i) sides_[i]->wait_until_ready();
    for (std::size_t i = 0; i < files.size(); ++i) sides_[i]->go();
    versus::Sample all = sides_[0]->result();
    for (std::size_t i = 1; i < files.size(); ++i) all.merge(sides_[i]->result());
    return all.seconds();
  }

  static double flushed(const std::vector<SuiteFile>& files) {
    const auto start = std::chrono::steady_clock::now();
    for (const SuiteFile& file : files) {
      const OpenFile opened = open_file(file.path, O_RDWR);
      if (fsync(opened.fd.get()) != 0) fail_errno(file.path, "flush the file");
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  template <typename Action>
  static double guarded(const Action& action) {
    try {
      return action();
    } catch (const versus::Failure& failure) {
      throw Failure(failure.what(), failure.exit_code());
    }
  }

  const std::string path_;
  std::vector<std::unique_ptr<versus::Side>> sides_;
};

}  // namespace

std::unique_ptr<SuiteVariant> baseline_variant(const std::string& path, bool stand_in, std::uint64_t largest,
                                               unsigned threads) {
  return std::make_unique<BaselineVariant>(path, stand_in, largest, threads);
}

}  // namespace penstock::tools
