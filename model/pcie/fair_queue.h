// SPDX-License-Identifier: Apache-2.0

// The arbiter of a station: which of the lanes that have something to send is next. Self-clocked fair queueing: each
// piece gets a finish tag, its bytes over its lane's weight after the lane's last tag or the tag now in service, and
// the smallest tag goes first. With equal weights that is packet-by-packet round robin, whatever the pieces' sizes.
//
// Whether the lanes are ports, streams or traffic classes is Network's choice: that is all that the three kinds of
// arbitration differ in. Costs log(lanes) a piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace penstock::model {

class FairQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

  // A piece came to the head of a lane. `last_tag` is the lane's own, kept by the caller; it is updated.
  void push(std::uint32_t lane, double bytes, double weight, double& last_tag) {
    last_tag = std::max(now_, last_tag) + bytes / weight;
    put({last_tag, lane});
  }
  // A lane that was taken out by pop() and could not be served comes back, with the tag it had.
  void push_again(std::uint32_t lane, double tag) { put({tag, lane}); }

  std::uint32_t pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    const std::uint32_t lane = heap_.back().lane;
    heap_.pop_back();
    return lane;
  }
  // The piece with this tag is served now.
  void serve(double tag) { now_ = std::max(now_, tag); }

 private:
  struct Entry {
    double tag = 0;
    std::uint32_t lane = 0;
    // The standard heap has its largest on top.
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
