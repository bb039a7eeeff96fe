// SPDX-License-Identifier: Apache-2.0

#include "tools/suite/ways.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "tools/common/context.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPlainSize = std::uint64_t{16} << 20;    // The size of each read(2) and write(2).
constexpr std::uint64_t kRequestSize = std::uint64_t{64} << 20;  // The size of a request to the library.

// The memory of one thread, which outlasts the moves.
struct Hand {
  Arena device;
  std::vector<std::byte> host;
};

// Each thread takes the next file in turn. An exception of a thread is thrown here; the first one counts.
void for_each_file(const std::vector<SuiteFile>& files, unsigned threads,
                   const std::function<void(unsigned thread, const SuiteFile& file)>& move) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;  // Guarded by the mutex.
  const auto work = [&](unsigned thread) {
    try {
      for (std::size_t i = next++; i < files.size() && !interrupted(); i = next++) move(thread, files[i]);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = files.size();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
  }
  if (error) std::rethrow_exception(error);
  throw_if_interrupted();
}

class OwnVariant : public SuiteVariant {
 public:
  OwnVariant(const Session& session, unsigned gpu) : session_(session), gpu_(gpu) {}

  double move(const std::vector<SuiteFile>& files, bool is_load, unsigned threads) override {
    make_hands(threads);
    const Clock::time_point start = Clock::now();
    for_each_file(files, threads, [&](unsigned thread, const SuiteFile& file) {
      const OpenFile opened = open_file(file.path, is_load ? O_RDONLY : O_RDWR);
      if (is_load) load(hands_[thread], opened, file.size);
      else save(hands_[thread], opened, file.size);
    });
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 protected:
  virtual void load(Hand& hand, const OpenFile& file, std::uint64_t size) = 0;
  virtual void save(Hand& hand, const OpenFile& file, std::uint64_t size) = 0;

  const Session& session_;

 private:
  // Called before the clock runs. The bytes to be saved differ from place to place, so that no drive can skip zeros.
  void make_hands(unsigned threads) {
    while (hands_.size() < threads) {
      hands_.push_back({Arena::on_device(session_.raw(), gpu_, kRequestSize), std::vector<std::byte>(kPlainSize)});
      Hand& hand = hands_.back();
      std::uint64_t state = hands_.size();
      for (std::byte& each : hand.host) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        each = static_cast<std::byte>(state >> 56);
      }
      for (std::uint64_t at = 0; at < kRequestSize; at += kPlainSize) hand.device.upload(at, hand.host);
    }
  }

  const unsigned gpu_;
  std::vector<Hand> hands_;
};

class PlainVariant : public OwnVariant {
 public:
  using OwnVariant::OwnVariant;
  std::string name() const override { return "without"; }

 private:
  void load(Hand& hand, const OpenFile& file, std::uint64_t size) override {
    for (std::uint64_t at = 0; at < size && !interrupted(); at += kPlainSize) {
      const std::span bytes = std::span(hand.host).first(std::min(kPlainSize, size - at));
      if (read_at(file.fd.get(), file.path, bytes, at) != bytes.size())
        throw Failure(file.path + ": it became shorter while it was read");
      hand.device.upload(at % kRequestSize, bytes);
    }
  }

  void save(Hand& hand, const OpenFile& file, std::uint64_t size) override {
    for (std::uint64_t at = 0; at < size && !interrupted(); at += kPlainSize) {
      std::span bytes = std::span(hand.host).first(std::min(kPlainSize, size - at));
      hand.device.download(at % kRequestSize, bytes);
      write_at(file.fd.get(), file.path, bytes, at);
    }
    if (fsync(file.fd.get()) != 0) fail_errno(file.path, "flush the file");
  }
};

class PenstockVariant : public OwnVariant {
 public:
  using OwnVariant::OwnVariant;
  std::string name() const override { return "with Penstock"; }
  const Tally* tally() const override { return &tally_; }

 private:
  void load(Hand& hand, const OpenFile& file, std::uint64_t size) override {
    const File known = require(session_.file(file.fd.get()), file.path);
    for (std::uint64_t at = 0; at < size && !interrupted(); at += kRequestSize) {
      count(known.read(hand.device.data(), std::min(kRequestSize, size - at), static_cast<std::int64_t>(at)), file,
            std::min(kRequestSize, size - at));
    }
  }

  void save(Hand& hand, const OpenFile& file, std::uint64_t size) override {
    const File known = require(session_.file(file.fd.get()), file.path);
    for (std::uint64_t at = 0; at < size && !interrupted(); at += kRequestSize) {
      count(known.write(hand.device.data(), std::min(kRequestSize, size - at), static_cast<std::int64_t>(at)), file,
            std::min(kRequestSize, size - at));
    }
    require(known.sync(), file.path);
  }

  void count(const Outcome& outcome, const OpenFile& file, std::uint64_t wanted) {
    require(outcome.status, file.path);
    if (outcome.report.bytes != wanted) throw Failure(file.path + ": fewer bytes were moved than asked for");
    const std::lock_guard lock(mutex_);
    tally_.add(outcome.report, 0);
  }

  std::mutex mutex_;
  Tally tally_;  // Guarded by the mutex.
};

}  // namespace

std::unique_ptr<SuiteVariant> plain_variant(const Session& session, unsigned gpu) {
  return std::make_unique<PlainVariant>(session, gpu);
}

std::unique_ptr<SuiteVariant> penstock_variant(const Session& session, unsigned gpu) {
  return std::make_unique<PenstockVariant>(session, gpu);
}

}  // namespace penstock::tools
