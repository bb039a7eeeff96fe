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
#include "penstock/gpu_ring.cuh"

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
  detail::Ticket ticket;
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
    return begin(group, offset, bytes, destination, slots_without_kept());
  }

  // Asks the library to bring the range into the page cache, and waits for nothing. A hint: what is resident, or finds
  // no slot among those of read_async, is not asked for, and nobody hears of errors.
  template <typename Group>
  PENSTOCK_GPU_INLINE void prefetch(const Group& group, Long offset, Long bytes) const {
    if (offset >= shared_.size || group.thread_rank() != 0) return;
    if (bytes > shared_.size - offset) bytes = shared_.size - offset;
    const detail::Ring ring(shared_);
    for (Long done = 0; done < bytes; done += kPrefetchBytes) {
      const Long here = bytes - done < kPrefetchBytes ? bytes - done : kPrefetchBytes;
      if (is_resident(offset + done, here)) continue;
      detail::Ticket ticket;
      if (!ring.post(kPrefetch, offset + done, static_cast<Word>(here), ticket, slots_without_kept())) return;
      ring.abandon(ticket);
    }
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
  PENSTOCK_GPU_INLINE Word slots_without_kept() const {
    return shared_.slot_count - (shared_.slot_count < 4 ? 1 : shared_.slot_count / 4);
  }
  PENSTOCK_GPU_INLINE Word piece_of(Long bytes) const {
    return bytes < shared_.slot_bytes ? static_cast<Word>(bytes) : shared_.slot_bytes;
  }
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
    detail::Ticket ticket;
    if (is_leader && is_resident(offset, pending.bytes)) found = 1;
    else if (is_leader && detail::Ring(shared_).post(kRead, offset, piece_of(pending.bytes), ticket, slots)) {
      found = 2 | Long{ticket.slot} << 2 | Long{ticket.number} << 32;
    }
    found = group.shfl(found, 0);
    if (found == 1) {
      copy_resident(group, pending);
      pending.way = Pending::Way::resident;
    } else if (found != 0) {
      pending.way = Pending::Way::posted;
      pending.ticket = {static_cast<Word>(found) >> 2, static_cast<Word>(found >> 32)};
    }
    return pending;
  }

  // ---- Resident

  PENSTOCK_GPU_INLINE bool is_resident(Long offset, Long bytes) const {
    const Long first = offset >> shared_.extent_shift, last = (offset + bytes - 1) >> shared_.extent_shift;
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
    const Word found =
        group.thread_rank() == 0 ? detail::look(&shared_.controls[detail::group_number() % kControls].generation) : 0;
    return group.shfl(found, 0) == shared_.generation;
  }

  // ---- Ring

  // One piece, which is posted if it is not yet.
  template <typename Group>
  PENSTOCK_GPU_INLINE Result read_piece(const Group& group, const Pending& piece, bool is_posted, Long began) const {
    const detail::Ring ring(shared_);
    const bool is_leader = group.thread_rank() == 0;
    detail::Ticket ticket = piece.ticket;
    Long answer = 0;
    int cause = 0;
    if (is_leader) {
      Error error = Error::none;
      if (!is_posted) error = ring.post_until(piece.offset, static_cast<Word>(piece.bytes), ticket, began);
      answer = error == Error::none ? ring.await(ticket, began, cause) : gpu::answer(0, error, 0);
    }
    answer = group.shfl(answer, 0);
    if (error_of(answer) != Error::none) return {0, error_of(answer), group.shfl(cause, 0)};
    const Long slot = group.shfl(ticket.slot, 0);
    const Long moved = moved_of(answer);
    detail::copy(group, piece.destination, shared_.staging + slot * shared_.slot_bytes, moved);
    group.sync();
    if (is_leader) ring.leave(ticket);
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
