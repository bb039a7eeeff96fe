// SPDX-License-Identifier: Apache-2.0

// The pending events of the simulation, ordered by time, and for equal times by creation, so that runs are
// deterministic. Times are whole picoseconds: no rounding can reorder two events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace penstock::model {

using Picoseconds = std::uint64_t;
constexpr double kPicosecondsInSecond = 1e12;

// Thirteen days. Longer times are capped to this, so that a few can be added; nothing is scheduled after it.
constexpr Picoseconds kForever = Picoseconds{1} << 60;

inline Picoseconds to_picoseconds(double seconds) {
  const double picoseconds = seconds * kPicosecondsInSecond + 0.5;
  return picoseconds < static_cast<double>(kForever) ? static_cast<Picoseconds>(picoseconds) : kForever;
}
inline double to_seconds(Picoseconds time) { return static_cast<double>(time) / kPicosecondsInSecond; }

struct Event {
  Picoseconds time = 0;
  std::uint32_t order = 0;
  std::uint32_t what = 0;  // For the simulator: the kind of event, and its object.

  // The order number wraps; numbers of simultaneous events are never 2^31 apart.
  bool is_before(const Event& other) const {
    return time != other.time ? time < other.time : static_cast<std::int32_t>(order - other.order) < 0;
  }
};

// A heap with four children per node: half as deep as a binary heap, and a node's children share a cache line.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const Event& top() const { return heap_.front(); }

  void push(Picoseconds time, std::uint32_t what) {
    const Event event{time, next_order_++, what};
    std::size_t at = heap_.size();
    heap_.push_back(event);
    for (; at > 0 && event.is_before(heap_[parent(at)]); at = parent(at)) heap_[at] = heap_[parent(at)];
    heap_[at] = event;
  }

  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  static std::size_t parent(std::size_t at) { return (at - 1) / kChildren; }

  void sink(const Event& event) {
    std::size_t at = 0;
    for (std::size_t child = 1; child < heap_.size(); child = at * kChildren + 1) {
      const std::size_t end = std::min(child + kChildren, heap_.size());
      std::size_t least = child;
      for (std::size_t i = child + 1; i < end; ++i) {
        if (heap_[i].is_before(heap_[least])) least = i;
      }
      if (!heap_[least].is_before(event)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = event;
  }

  std::vector<Event> heap_;
  std::uint32_t next_order_ = 0;
};

}  // namespace penstock::model
