/* Reads that kernels begin themselves, of any file that penstock/gpu.h has opened for a GPU.
 *
 *   __global__ void gather(penstock::gpu::File file, const unsigned long long* rows, float* out) {
 *     const penstock::gpu::Warp warp;
 *     const unsigned long long row = rows[blockIdx.x];
 *     const auto result = file.read(warp, row * 512, 512, out + blockIdx.x * 128);
 *     if (result.error != penstock::gpu::Error::none) ...
 *   }
 *
 * A File is a value of 128 bytes that kernels take as an argument. All threads of a group call read() with the same
 * arguments, and all get the same result. Groups are Thread, Warp (all 32 threads of it) and Block of this header, and
 * tiles of cooperative groups. Bytes go to any memory that the threads reach; behind the last byte of the file a read
 * ends, as pread(2) does. Reads are quickest where file offset and destination lie alike within 16 bytes.
 *
 * Bytes come from the file's pages in the page cache where the range is registered with the GPU (resident), and else
 * from a thread of the library, which is asked through slots in pinned host memory (ring). A read allocates nothing,
 * takes no lock, and returns an error once its deadline has passed, whatever happened to the library's threads.
 *
 * Compiles with nvcc and NVRTC for sm_70 and later GPUs, and as ordinary C++17 for the host, where each Thread is a
 * lane.
 *
 * [experimental] All of this header; penstock.h says what that means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_GPU_CUH_
#define PENSTOCK_GPU_CUH_

#include "penstock/gpu_groups.cuh"

namespace penstock::gpu {

struct Result {
  Long bytes = 0;  // Bytes that were read without a gap; fewer than asked for at the end of the file, or with an error.
  Error error = Error::none;
  int detail = 0;
};

// ---- The file -------------------------------------------------------------------------------------------------------

// A read that was begun, for wait(). All threads of the group have the same.
struct Pending {
  Long offset = 0;
  Long bytes = 0;
  unsigned char* destination = nullptr;
  enum class Way : int { none, resident, posted, ring } way = Way::none;
  Word slot = 0;
  Word number = 0;  // Of the request in that slot.
};

class File {
 public:
  File() = default;
  // From a penstock_gpu_value.
  template <typename Value>
  PENSTOCK_GPU_BOTH explicit File(const Value& value) {
    static_assert(sizeof(Value) == sizeof(Layout), "give it a penstock_gpu_value");
    memcpy(&shared_, &value, sizeof shared_);
  }

  // The file's bytes when it was opened for the GPU. Reads end there.
  PENSTOCK_GPU_BOTH Long size() const { return shared_.size; }

  // Reads, and waits for the bytes, which all of the group then see.
  template <typename Group>
  PENSTOCK_GPU_INLINE Result read(const Group& group, Long offset, Long bytes, void* destination) const {
    return wait(group, begin(group, offset, bytes, destination, shared_.slot_count));
  }

  // Begins a read and waits for nothing. wait() has to follow, by the same group: until then a slot may be taken, and
  // the bytes at the destination mean nothing. A quarter of the slots, and at least one, is kept for groups that wait,
  // so that these get on, however many reads were begun.
  template <typename Group>
  PENSTOCK_GPU_INLINE Pending read_async(const Group& group, Long offset, Long bytes, void* destination) const {
    const Word kept = shared_.slot_count < 4 ? 1 : shared_.slot_count / 4;
    return begin(group, offset, bytes, destination, shared_.slot_count - kept);
  }

  // Waits for the bytes, at most until the deadline that the file was opened with.
  template <typename Group>
  PENSTOCK_GPU_INLINE Result wait(const Group& group, const Pending& pending) const {
    if (pending.way == Pending::Way::none) return {};
    const bool is_leader = group.thread_rank() == 0;
    Counts& counts = own_counts();
    if (pending.way == Pending::Way::resident) {
      const bool is_good = is_current(group);
      if (is_leader) {
        detail::add(is_good ? &counts.resident_reads : &counts.repeated, 1);
        if (is_good) detail::add(&counts.resident_bytes, pending.bytes);
        else detail::release_here(shared_.is_stale, 1);
      }
      if (is_good) return {pending.bytes, Error::none, 0};
    }
    const Result result = read_by_ring(group, pending);
    if (is_leader) {
      detail::add(&counts.ring_reads, 1);
      detail::add(&counts.ring_bytes, result.bytes);
      if (result.error != Error::none) detail::add(&counts.failed, 1);
    }
    return result;
  }

 private:
  static constexpr Word kTriesAtOnce = 32;  // Slots that one look for a free one asks.
  static constexpr Word kLooksAtEnd = 16;   // One look in so many asks whether answers may still come.

  PENSTOCK_GPU_INLINE Word piece_of(Long bytes) const {
    return bytes < shared_.slot_bytes ? static_cast<Word>(bytes) : shared_.slot_bytes;
  }
  // Of the calling thread's group: groups that run at once have different numbers, as far as there are any.
  PENSTOCK_GPU_INLINE Word own_number() const {
    const Word lane = detail::lane_number();
    return lane / 32 + lane % 32 * 67;
  }
  PENSTOCK_GPU_INLINE const Control& own_control() const { return shared_.controls[own_number() % kControls]; }
  PENSTOCK_GPU_INLINE Counts& own_counts() const { return shared_.counts[detail::lane_number() / 32 % kCountParts]; }

  // Posts the read in one of the first so many slots, if it is not resident.
  template <typename Group>
  PENSTOCK_GPU_INLINE Pending begin(const Group& group, Long offset, Long bytes, void* destination, Word slots) const {
    Pending pending;
    if (offset >= shared_.size || bytes == 0) return pending;
    pending.offset = offset;
    pending.bytes = bytes < shared_.size - offset ? bytes : shared_.size - offset;
    pending.destination = static_cast<unsigned char*>(destination);
    pending.way = Pending::Way::ring;
    const bool is_leader = group.thread_rank() == 0;
    Long found = 0;  // 1: resident. 2: posted, with slot and number above.
    if (is_leader && is_resident(pending)) found = 1;
    else if (is_leader && post(offset, piece_of(pending.bytes), pending, slots, 0)) {
      found = 2 | Long{pending.slot} << 2 | Long{pending.number} << 32;
    }
    found = group.shfl(found, 0);
    if (found == 1) {
      copy_resident(group, pending);
      pending.way = Pending::Way::resident;
    } else if (found != 0) {
      pending.way = Pending::Way::posted;
      pending.slot = static_cast<Word>(found >> 2) & 0x3fffffffu;
      pending.number = static_cast<Word>(found >> 32);
    }
    return pending;
  }

  // ---- Resident

  PENSTOCK_GPU_INLINE bool is_resident(const Pending& pending) const {
    const Long first = pending.offset >> shared_.extent_shift;
    const Long last = (pending.offset + pending.bytes - 1) >> shared_.extent_shift;
    bool is_there = shared_.extents[first] != nullptr;  // Loaded beside the next word.
    is_there &= detail::look(shared_.is_stale) == 0;
    for (Long i = first; is_there && i < last; ++i) is_there = shared_.extents[i + 1] != nullptr;
    return is_there;
  }

  template <typename Group>
  PENSTOCK_GPU_INLINE void copy_resident(const Group& group, const Pending& pending) const {
    const Long extent = Long{1} << shared_.extent_shift;
    for (Long done = 0; done < pending.bytes;) {
      const Long at = pending.offset + done, inside = at & (extent - 1);
      const Long rest = pending.bytes - done, here = rest < extent - inside ? rest : extent - inside;
      detail::copy(group, pending.destination + done, shared_.extents[at >> shared_.extent_shift] + inside, here);
      done += here;
    }
  }

  // True if the bytes that were loaded before are the file's: nobody was let in to change it until now. Each lane's
  // loads are acquired by its fence, the group meets, and the leader looks: if any lane saw a change of the file, which
  // comes after the generation was raised, the look sees that, too.
  template <typename Group>
  PENSTOCK_GPU_INLINE bool is_current(const Group& group) const {
    if (shared_.generation != 0) detail::fence();
    group.sync();
    if (shared_.generation == 0) return true;
    const Word found = group.thread_rank() == 0 ? detail::look(&own_control().generation) : 0;
    return group.shfl(found, 0) == shared_.generation;
  }

  // ---- Ring

  // Takes a free one of the first so many slots and writes the request into it; false if there is none among those that
  // it asked. `look`: how many looks were in vain before.
  PENSTOCK_GPU_INLINE bool post(Long offset, Word bytes, Pending& pending, Word slots, Word look) const {
    if (slots == 0) return false;
    const Word tries = slots < kTriesAtOnce ? slots : kTriesAtOnce;
    // Groups that begin together ask in different lines, and so different threads of the library.
    const Word lines = (slots + kSlotsOfLine - 1) / kSlotsOfLine;
    const Word number = own_number();
    const Word first = number % lines * kSlotsOfLine + number / lines % kSlotsOfLine + look * kTriesAtOnce;
    for (Word i = 0; i < tries; ++i) {
      const Word slot = (first + i) % slots;
      if (!take(slot, pending.number)) continue;
      pending.slot = slot;
      Slot& there = shared_.slots[slot];
      there.offset = offset;
      there.bytes = bytes;
      detail::release(shared_.wanted + slot, pending.number);
      return true;
    }
    return false;
  }

  // A slot that was abandoned is free once the library has answered it.
  PENSTOCK_GPU_INLINE bool take(Word slot, Word& number) const {
    Word* const owner = shared_.owners + slot;
    const Word state = detail::look(owner), before = state >> 2;
    if (state % 4 == kTaken) return false;
    if (state % 4 == kAbandoned && detail::acquire(&shared_.slots[slot].done) != before) return false;
    number = (before + 1) & 0x3fffffffu;
    return detail::exchange(owner, state, number << 2 | kTaken);
  }

  // Called by the leader. Returns why there will be no answer, or none with the answer in the slot.
  PENSTOCK_GPU_INLINE Error await(const Pending& pending, Long began) const {
    const Slot& slot = shared_.slots[pending.slot];
    for (Word looks = 1;; ++looks) {
      if (detail::acquire(&slot.done) == pending.number) return Error::none;
      const bool is_late = detail::now_ns() - began > shared_.timeout_ns;
      if (is_late || looks % kLooksAtEnd == 0) {
        const Error over = is_over();
        if (detail::acquire(&slot.done) == pending.number) return Error::none;
        if (over != Error::none || is_late) {
          leave(pending, kAbandoned);
          return over != Error::none ? over : Error::timed_out;
        }
      }
      detail::pause(looks < 64 ? 200 : 1000);
    }
  }
  PENSTOCK_GPU_INLINE Error is_over() const {
    return static_cast<Error>(detail::acquire(reinterpret_cast<const Word*>(&own_control().over)));
  }
  PENSTOCK_GPU_INLINE void leave(const Pending& pending, Word state) const {
    detail::release_here(shared_.owners + pending.slot, pending.number << 2 | state);
  }

  // Called by the leader. It asks all slots in turn: those of its first look may be held by groups that wait for it.
  PENSTOCK_GPU_INLINE Error post_until(Long offset, Word bytes, Pending& pending, Long began) const {
    for (Word looks = 1; !post(offset, bytes, pending, shared_.slot_count, looks - 1); ++looks) {
      const bool is_late = detail::now_ns() - began > shared_.timeout_ns;
      const Error over = is_late || looks % kLooksAtEnd == 0 ? is_over() : Error::none;
      if (over != Error::none) return over;
      if (is_late) return Error::ring_full;
      detail::pause(1000);
    }
    return Error::none;
  }

  // One piece, which is posted if it is not yet.
  template <typename Group>
  PENSTOCK_GPU_INLINE Result read_piece(const Group& group, Pending pending, bool is_posted, Long began) const {
    const bool is_leader = group.thread_rank() == 0;
    Error error = Error::none;
    Long answer = 0;  // Bytes, slot.
    int cause = 0;
    if (is_leader) {
      const Word bytes = static_cast<Word>(pending.bytes);
      if (!is_posted) error = post_until(pending.offset, bytes, pending, began);
      if (error == Error::none) error = await(pending, began);
      if (error == Error::none) {
        const Slot& slot = shared_.slots[pending.slot];
        answer = detail::look(&slot.moved) | Long{pending.slot} << 32;
        error = static_cast<Error>(detail::look(reinterpret_cast<const Word*>(&slot.error)));
        cause = static_cast<int>(detail::look(reinterpret_cast<const Word*>(&slot.detail)));
        if (error != Error::none) leave(pending, kFree);
      }
    }
    answer = group.shfl(answer, 0);
    const auto failed = static_cast<Error>(group.shfl(static_cast<int>(error), 0));
    cause = group.shfl(cause, 0);
    if (failed != Error::none) return {0, failed, cause};
    group.sync();
    const Long moved = static_cast<Word>(answer);
    detail::copy(group, pending.destination, shared_.staging + (answer >> 32) * shared_.slot_bytes, moved);
    group.sync();
    if (is_leader) leave(pending, kFree);
    return {moved, Error::none, 0};
  }

  template <typename Group>
  PENSTOCK_GPU_INLINE Result read_by_ring(const Group& group, const Pending& whole) const {
    const Long began = detail::now_ns();
    Result result;
    bool is_posted = whole.way == Pending::Way::posted;
    while (result.bytes < whole.bytes) {
      Pending piece = whole;
      piece.offset += result.bytes;
      piece.destination += result.bytes;
      piece.bytes = piece_of(whole.bytes - result.bytes);
      const Result moved = read_piece(group, piece, is_posted, began);
      is_posted = false;
      result.bytes += moved.bytes;
      result.error = moved.error;
      result.detail = moved.detail;
      if (moved.error != Error::none || moved.bytes < piece.bytes) break;
    }
    return result;
  }

  Layout shared_ = {};
};
static_assert(sizeof(File) == sizeof(Layout), "what penstock_gpu_value holds");

}  // namespace penstock::gpu

#endif /* PENSTOCK_GPU_CUH_ */
