/* The kernels' side of the ring: posts requests in slots, and waits for answers. A part of penstock/gpu.cuh; programs
 * include that.
 *
 * [experimental] All of this header; penstock.h says what that means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_GPU_RING_CUH_
#define PENSTOCK_GPU_RING_CUH_

#include "penstock/gpu_layout.cuh"

namespace penstock::gpu::detail {

// A request in a slot.
struct Ticket {
  Word slot = 0;
  Word number = 0;
};

// Of the calling thread's group: groups that run at once have different numbers, as far as there are any.
PENSTOCK_GPU_INLINE Word group_number() {
  const Word lane = lane_number();
  return lane / 32 + lane % 32 * 67;
}

// A group's leader alone calls it.
class Ring {
 public:
  PENSTOCK_GPU_INLINE explicit Ring(const Layout& shared) : shared_(shared) {}

  // Takes a free one of the first so many slots and writes the request into it; false if there is none among those that
  // it asked. `look`: how many looks were in vain before.
  PENSTOCK_GPU_INLINE bool post(Word kind, Long offset, Word bytes, Ticket& ticket, Word slots, Word look = 0) const {
    if (slots == 0) return false;
    const Word tries = slots < kTriesAtOnce ? slots : kTriesAtOnce;
    // Groups that begin together ask in different lines, and so different threads of the library.
    const Word lines = (slots + kSlotsOfLine - 1) / kSlotsOfLine;
    const Word number = group_number();
    const Word first = number % lines * kSlotsOfLine + number / lines % kSlotsOfLine + look * kTriesAtOnce;
    for (Word i = 0; i < tries; ++i) {
      ticket.slot = (first + i) % slots;
      if (!take(ticket)) continue;
      detail::post(shared_.requests + ticket.slot, request(kind, ticket.number, offset, bytes));
      return true;
    }
    return false;
  }

  // It asks all slots in turn: those of its first look may be held by groups that wait for it.
  PENSTOCK_GPU_INLINE Error post_until(Long offset, Word bytes, Ticket& ticket, Long began) const {
    for (Word looks = 1; !post(kRead, offset, bytes, ticket, shared_.slot_count, looks - 1); ++looks) {
      const bool is_late = now_ns() - began > shared_.timeout_ns;
      const Error over = is_late || looks % kLooksAtEnd == 0 ? is_over() : Error::none;
      if (over != Error::none) return over;
      if (is_late) return Error::ring_full;
      pause(1000);
    }
    return Error::none;
  }

  // Returns the answer. Where that is an error, the slot is left, and `cause` has the detail.
  PENSTOCK_GPU_INLINE Long await(const Ticket& ticket, Long began, int& cause) const {
    const Slot& slot = shared_.slots[ticket.slot];
    for (Word looks = 1;; ++looks) {
      Long found = acquire(&slot.answer);
      const bool is_late = now_ns() - began > shared_.timeout_ns;
      Error over = Error::none;
      if (number_of(found) != ticket.number && (is_late || looks % kLooksAtEnd == 0)) {
        over = is_over();
        found = acquire(&slot.answer);  // It may have come just before the end.
      }
      if (number_of(found) == ticket.number) {
        if (error_of(found) != Error::none) {
          cause = static_cast<int>(detail::look(reinterpret_cast<const Word*>(&slot.detail)));
          leave(ticket);
        }
        return found;
      }
      if (over != Error::none || is_late) {
        abandon(ticket);
        return answer(ticket.number, over != Error::none ? over : Error::timed_out, 0);
      }
      pause(looks < 64 ? 100 : 1000);
    }
  }

  // Behind loads of the slot's memory, which the next request lets the library overwrite.
  PENSTOCK_GPU_INLINE void leave(const Ticket& ticket) const {
    release(shared_.owners + ticket.slot, ticket.number << 2 | kFree);
  }
  // Nobody waits for the answer any more.
  PENSTOCK_GPU_INLINE void abandon(const Ticket& ticket) const {
    release_here(shared_.owners + ticket.slot, ticket.number << 2 | kAbandoned);
  }

 private:
  static constexpr Word kTriesAtOnce = 32;  // Slots that one look for a free one asks.
  static constexpr Word kLooksAtEnd = 16;   // One look in so many asks whether answers may still come.

  // A slot that was abandoned is free once the library has answered it.
  PENSTOCK_GPU_INLINE bool take(Ticket& ticket) const {
    Word* const owner = shared_.owners + ticket.slot;
    const Word state = look(owner), before = state >> 2;
    if (state % 4 == kTaken) return false;
    if (state % 4 == kAbandoned && number_of(acquire(&shared_.slots[ticket.slot].answer)) != before) return false;
    ticket.number = (before + 1) & kNumberMask;
    return exchange(owner, state, ticket.number << 2 | kTaken);
  }
  PENSTOCK_GPU_INLINE Error is_over() const {
    const Control& control = shared_.controls[group_number() % kControls];
    return static_cast<Error>(acquire(reinterpret_cast<const Word*>(&control.over)));
  }

  const Layout& shared_;
};

}  // namespace penstock::gpu::detail

#endif /* PENSTOCK_GPU_RING_CUH_ */
