// SPDX-License-Identifier: Apache-2.0

// A program with one session, whose threads make requests of every kind until they have had enough.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "simulation/asked.h"
#include "simulation/gpu.h"
#include "simulation/requests.h"

namespace penstock::simulation {

class Program {
 public:
  Program();
  Tally run();

 private:
  struct Slot {
    std::shared_ptr<Handle> handles[2];  // The second has O_DIRECT.
  };

  // Of one thread.
  struct Self {
    penstock_session* session;  // A reference, which the session's own handle may close before.
    Random random;
    std::vector<Place> places;
    std::array<penstock_queue*, 2> queues{};
    std::uint64_t number;
    std::array<GpuStream*, 2> streams{};
  };

  Slot new_slot(penstock_session* session, Random& random);
  void act(penstock_session* session, std::uint64_t number, std::uint64_t seed);
  void act_once(Self& self);
  void await_closing() const;
  std::shared_ptr<Handle> pick(Random& random);
  void call(Self& self);
  void use_queue(Self& self, bool is_polled);
  penstock_queue* queue_of(Self& self, bool is_polled);
  std::vector<Asked> ask_for_many(Self& self, bool is_polled);
  void ask_for_one_too_many(penstock_queue* queue, const Request& request) const;
  void submit(Self& self, penstock_queue* queue, bool is_polled, std::vector<Asked>& asked);
  void reap(Self& self, penstock_queue* queue, std::vector<Asked>& asked);
  void use_another_session(Self& self);
  void use_another_process(Self& self);
  void use_stream(Self& self);
  bool may_refuse(const penstock_status& status, bool is_late) const;
  void* stream_of(Self& self) const;
  bool drain(void* stream) const;
  void give_up(Asked& asked);
  bool was_begun_before_the_loss(Asked& asked, const volatile penstock_stream_result& result);
  void take_descriptors(Slot& slot);
  void change_file(Self& self);
  void flush_file(Self& self);
  void ask_for_advice(Self& self);
  void ask_for_nonsense(Self& self);
  void end(Asked& asked, const penstock_status& status, const penstock_report& report);
  void finish(Asked& asked, const penstock_status& status, const penstock_report& report, Sums& sums);

  penstock_session* session_ = nullptr;
  bool is_closing_ = false, is_closed_ = false;
  std::vector<Slot> slots_;
  std::uint64_t file_max_ = 0, size_max_ = 0;
  unsigned rounds_ = 0, other_sessions_ = 0;
  bool is_restless_ = false;  // Its files change most of the time.
  Sums sums_;
  Tally tally_;
};

}  // namespace penstock::simulation
