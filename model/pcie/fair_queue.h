// SPDX-License-Identifier: Apache-2.0

// The arbiter of a station: picks the next lane among those with data. Self-clocked fair queueing: each piece gets a
// finish tag (its bytes divided by its lane's weight, added to the later of the lane's last tag and the tag in
// service), and the smallest tag is served first. With equal weights this is packet-by-packet round robin, whatever the
// pieces' sizes.
//
// Network decides whether lanes are ports, streams or traffic classes, which is the only difference between the kinds
// of arbitration. Costs log(lanes) per piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace penstock::model {

class FairQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

  // Adds the piece at the head of a lane. `last_tag` is the lane's last tag, kept by the caller; it is updated.
  void push(std::uint32_t lane, double bytes, double weight, double& last_tag) {
    last_tag = std::max(now_, last_tag) + bytes / weight;
    put({last_tag, lane});
  }
  // Returns a lane that pop() took out but that could not be served, with its old tag.
  void push_again(std::uint32_t lane, double tag) { put({tag, lane}); }

  std::uint32_t pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    const std::uint32_t lane = heap_.back().lane;
    heap_.pop_back();
    return lane;
  }
  // Starts to serve the piece with this tag.
  void serve(double tag) { now_ = std::max(now_, tag); }

 private:
  struct Entry {
    double tag = 0;
    std::uint32_t lane = 0;
    // Reversed, because the standard heap has its largest on top.
    bool operator<(const Entry& other) const { return tag != other.tag ? tag > other.tag : lane > other.lane; }
  };
  void put(Entry entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end());
  }

  std::vector<Entry> heap_;
  double now_ = 0;
};

}  // namespace penstock::model
