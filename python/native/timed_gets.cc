// SPDX-License-Identifier: Apache-2.0

#include "python/native/timed_gets.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

namespace penstock::python {
namespace {

constexpr std::size_t kAtOnceMost = 16;  // Each holds memory; without a limit a drive that hangs would use it up.
constexpr double kSecondsMost = 1e9;

std::uint64_t pages_for(std::uint64_t bytes) { return (bytes + kv::kHeaderBytes - 1) / kv::kHeaderBytes; }

// Copies the requests, with separate memory.
std::shared_ptr<Arrived> aside(std::span<const kv::Request> requests) {
  auto arriving = std::make_shared<Arrived>();
  std::uint64_t pages = 0;
  for (const kv::Request& one : requests) pages += pages_for(kv::bytes_of(one.pieces));
  arriving->pages = std::make_unique<kv::Pages>(pages);
  arriving->pieces.reserve(requests.size());
  pages = 0;
  for (const kv::Request& one : requests) {
    const std::uint64_t bytes = kv::bytes_of(one.pieces);
    const iovec& piece = arriving->pieces.emplace_back(iovec{(*arriving->pages)[pages].data(), bytes});
    arriving->requests.push_back({.key = one.key, .pieces = {&piece, 1}, .is_host = true});
    pages += pages_for(bytes);
  }
  return arriving;
}

void carry_out(kv::Reader& store, Arrived& arriving) {
  try {
    store.get(kv::each_of(arriving.requests));
  } catch (const std::bad_alloc&) {
    for (kv::Request& one : arriving.requests) {
      one.outcome = kv::Outcome::failed;
      one.status = core::failure(core::Code::out_of_memory, "get a chunk");
    }
  }
}

}  // namespace

bool TimedGets::begin(kv::Reader& store, const std::shared_ptr<Arrived>& arriving) {
  const std::scoped_lock lock(mutex_);
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    if (!worker->is_over) {
      ++worker;
      continue;
    }
    worker->thread.join();
    worker = workers_.erase(worker);
  }
  if (workers_.size() >= kAtOnceMost) return false;
  Worker& worker = workers_.emplace_back();
  try {
    worker.thread = std::thread([this, &store, &worker, arriving] {
      carry_out(store, *arriving);
      const std::scoped_lock over(mutex_);
      arriving->is_over = worker.is_over = true;
      changed_.notify_all();
    });
  } catch (...) {
    workers_.pop_back();
    throw;
  }
  return true;
}

std::shared_ptr<const Arrived> TimedGets::get(kv::Reader& store, std::span<kv::Request> requests, double seconds) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                             std::chrono::duration<double>(std::min(seconds, kSecondsMost)));
  const std::shared_ptr<Arrived> arriving = aside(requests);
  bool has_begun = false;
  try {
    has_begun = begin(store, arriving);
  } catch (const std::system_error& error) {
    for (kv::Request& one : requests) {
      one.outcome = kv::Outcome::failed;
      one.status = core::os_failure(error.code().value(), "start a thread that gets chunks");
    }
    return nullptr;
  }
  if (has_begun) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_until(lock, deadline, [&] { return arriving->is_over; })) {
      for (std::size_t i = 0; i < requests.size(); ++i) {
        requests[i].outcome = arriving->requests[i].outcome;
        requests[i].status = arriving->requests[i].status;
      }
      return arriving;
    }
  }
  for (kv::Request& one : requests) one.outcome = kv::Outcome::late;
  return nullptr;
}

void TimedGets::wait() {
  std::list<Worker> workers;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      return std::all_of(workers_.begin(), workers_.end(), [](const Worker& each) { return each.is_over; });
    });
    workers.swap(workers_);
  }
  for (Worker& each : workers) each.thread.join();
}

}  // namespace penstock::python
