// SPDX-License-Identifier: Apache-2.0

// Gets of a store with a time limit. Each reads into memory of ours, on its own thread: after the time limit nothing is
// written to the program's memory, and ours stays until the drive releases it. Nothing here uses Python.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "kv/access.h"
#include "kv/store_view.h"

namespace penstock::python {

// The bytes of a get, until they are copied.
struct Arrived {
  std::unique_ptr<kv::Pages> pages;
  std::vector<iovec> pieces;  // One for each request.
  std::vector<kv::Request> requests;
  bool is_over = false;
};

class TimedGets {
 public:
  TimedGets() = default;
  ~TimedGets() { wait(); }
  TimedGets(const TimedGets&) = delete;
  TimedGets& operator=(const TimedGets&) = delete;

  // Sets the requests' outcomes and returns the bytes of those that are done; null if all are late: the time has
  // passed, or too many others are late for this one to begin; or if all have failed: there is no thread for them. The
  // store stays until wait() has returned. Any thread. Throws std::bad_alloc.
  std::shared_ptr<const Arrived> get(kv::Reader& store, std::span<kv::Request> requests, double seconds);
  // Waits until the threads of all late gets have ended.
  void wait();

 private:
  struct Worker {
    std::thread thread;
    bool is_over = false;
  };

  bool begin(kv::Reader& store, const std::shared_ptr<Arrived>& arriving);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Worker> workers_;
};

}  // namespace penstock::python
