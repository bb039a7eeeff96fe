// SPDX-License-Identifier: Apache-2.0

// Gets of a store that are waited for no longer than they may take. Each goes into memory of ours, on a thread of its
// own: when its time has passed nothing is written to where the program wanted it, and our memory stays until the drive
// lets go of it. Nothing here knows Python.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "kv/reader.h"
#include "kv/store.h"

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
  using Get = std::function<void(std::span<kv::Request>)>;

  TimedGets() = default;
  ~TimedGets() { wait(); }
  TimedGets(const TimedGets&) = delete;
  TimedGets& operator=(const TimedGets&) = delete;

  // Gives the requests their outcomes and returns the bytes of those that are done; nothing where all are late: the
  // time has passed, or so many others are late that this one does not begin. Any thread. Throws std::bad_alloc and
  // std::system_error.
  std::shared_ptr<const Arrived> get(std::span<kv::Request> requests, const Get& get, double seconds);
  // Waits until the threads of all late gets have ended.
  void wait();

 private:
  struct Worker {
    std::thread thread;
    bool is_over = false;
  };

  bool begin(const std::shared_ptr<Arrived>& arriving, const Get& get);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Worker> workers_;
};

}  // namespace penstock::python
