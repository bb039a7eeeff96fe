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
 * from a thread of the library, which is asked through slots in pinned host memory (ring). If the file has a cache in
 * device memory, blocks of either kind are kept there, and found again (cached). A read allocates nothing, takes no
 * lock, and returns an error once its deadline has passed, whatever happened to the library's threads.
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

#include "penstock/gpu_cache.cuh"
#include "penstock/gpu_groups.cuh"
#include "penstock/gpu_ring.cuh"

namespace penstock::gpu {

struct Result {
  Long bytes = 0;  // Bytes that were read without a gap; fewer than asked for at the end of the file, or with an error.
  Error error = Error::none;
  int detail = 0;
};

// ---- The file -------------------------------------------------------------------------------------------------------

// A read that was begun, for wait() of the same threads.
struct Pending {
  Long offset = 0;
  Long bytes = 0;
  unsigned char* destination = nullptr;
  enum class Way : int { none, resident, cached, ring } way = Way::none;
  bool is_posted = false;  // The first piece was, by the ticket.
  Word generation = 0;     // In which it began; the leader's alone.
  detail::Ticket ticket;   // The leader's alone.
  detail::Frame frame;     // Of the cache, for the block that was posted.
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
    return wait(group, begin(group, offset, bytes, destination));
  }

  // Begins a read and waits for nothing. wait() has to follow, by the same group: until then a slot may be taken, and
  // the bytes at the destination mean nothing. A quarter of the slots, and at least one, is kept for groups that wait,
  // so that these get on, however many reads were begun.
  template <typename Group>
  PENSTOCK_GPU_INLINE Pending read_async(const Group& group, Long offset, Long bytes, void* destination) const {
    Pending pending = begin(group, offset, bytes, destination);
    if (pending.way == Pending::Way::ring || pending.way == Pending::Way::cached) {
      post(group, pending, slots_without_kept());
    }
    return pending;
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
      if (detail::look(&shared_.standing->generation) != 0 && is_resident(offset + done, here)) continue;
      detail::Ticket ticket;
      if (!ring.post(kPrefetch, offset + done, static_cast<Word>(here), ticket, slots_without_kept())) return;
      ring.abandon(ticket);
    }
  }

  // Waits for the bytes, at most until the deadline that the file was opened with.
  template <typename Group>
  PENSTOCK_GPU_INLINE Result wait(const Group& group, const Pending& pending) const {
    if (pending.way == Pending::Way::none) return {};
    Counts& counts = own_counts();
    Long began = 0;  // Of the first time that it waits.
    if (pending.way != Pending::Way::ring) {
      bool is_good = true;
      const bool is_cached = pending.way == Pending::Way::cached;
      Result result{pending.bytes, Error::none, 0};
      if (is_cached) result = read_cached(group, pending, began, is_good);
      else is_good = is_current(group, pending.generation);
      if (is_good && is_cached) return count(group, result, counts.cached_reads, counts.cached_bytes);
      if (is_good) return count(group, result, counts.resident_reads, counts.resident_bytes);
      if (group.thread_rank() == 0) {
        detail::add(&counts.repeated, 1);
        (void)detail::exchange(&shared_.standing->generation, pending.generation, 0);
      }
    }
    if (began == 0) began = detail::now_ns();
    const bool is_posted = pending.way == Pending::Way::ring && pending.is_posted;
    const Result result = read_by_ring(group, pending, is_posted, began);
    return count(group, result, counts.ring_reads, counts.ring_bytes);
  }

 private:
  static constexpr Word kTries = 4;      // Of a frame that others claim meanwhile.
  static constexpr Word kPatience = 10;  // A 1024th of the deadline is waited for another group that fetches a block.

  PENSTOCK_GPU_INLINE Word slots_without_kept() const {
    return shared_.slot_count - (shared_.slot_count < 4 ? 1 : shared_.slot_count / 4);
  }
  PENSTOCK_GPU_INLINE Word piece_of(Long bytes) const {
    return bytes < shared_.slot_bytes ? static_cast<Word>(bytes) : shared_.slot_bytes;
  }
  PENSTOCK_GPU_INLINE Counts& own_counts() const { return shared_.counts[detail::lane_number() / 32 % kCountParts]; }

  template <typename Group>
  PENSTOCK_GPU_INLINE Result count(const Group& group, const Result& result, Long& reads, Long& bytes) const {
    if (group.thread_rank() != 0) return result;
    detail::add(&reads, 1);
    detail::add(&bytes, result.bytes);
    if (result.error != Error::none) detail::add(&own_counts().failed, 1);
    return result;
  }

  // Chooses the way, and loads what is resident.
  template <typename Group>
  PENSTOCK_GPU_INLINE Pending begin(const Group& group, Long offset, Long bytes, void* destination) const {
    Pending pending;
    if (offset >= shared_.size || bytes == 0) return pending;
    pending.offset = offset;
    pending.bytes = bytes < shared_.size - offset ? bytes : shared_.size - offset;
    pending.destination = static_cast<unsigned char*>(destination);
    int way = static_cast<int>(Pending::Way::ring);
    if (group.thread_rank() == 0) {
      pending.generation = detail::acquire_here(&shared_.standing->generation);
      if (pending.generation != 0) {
        if (shared_.sets != nullptr) way = static_cast<int>(Pending::Way::cached);
        else if (is_resident(offset, pending.bytes)) way = static_cast<int>(Pending::Way::resident);
      }
    }
    pending.way = static_cast<Pending::Way>(group.shfl(way, 0));
    if (pending.way == Pending::Way::resident) copy_resident(group, pending.destination, offset, pending.bytes);
    return pending;
  }

  // Posts the first piece in one of the first so many slots, if there is one: of a cached read its block, if no frame
  // has it, and it is not resident.
  template <typename Group>
  PENSTOCK_GPU_INLINE void post(const Group& group, Pending& pending, Word slots) const {
    const detail::Cache cache(shared_);
    const detail::Ring ring(shared_);
    if (group.thread_rank() == 0) {
      if (pending.way == Pending::Way::cached) {
        const Span block = block_of(pending.offset);
        const Long key = key_of(block, pending.generation);
        if (!is_resident(block.offset, block.bytes) && cache.find(key).word == 0) pending.frame = cache.claim(key);
        if (pending.frame.word != 0) {
          pending.is_posted = ring.post(kRead, block.offset, block.bytes, pending.ticket, slots);
          if (!pending.is_posted) cache.drop(pending.frame);
        }
      } else {
        pending.is_posted = ring.post(kRead, pending.offset, piece_of(pending.bytes), pending.ticket, slots);
      }
    }
    pending.is_posted = group.shfl(static_cast<int>(pending.is_posted), 0) != 0;
    if (pending.way == Pending::Way::cached) {
      pending.frame = {group.shfl(pending.frame.number, 0), group.shfl(pending.frame.word, 0)};
    }
  }

  // ---- Resident

  PENSTOCK_GPU_INLINE bool is_resident(Long offset, Long bytes) const {
    const Long first = offset >> shared_.extent_shift, last = (offset + bytes - 1) >> shared_.extent_shift;
    bool is_there = is_registered(first);
    for (Long i = first; is_there && i < last; ++i) is_there = is_registered(i + 1);
    return is_there;
  }

  PENSTOCK_GPU_INLINE const unsigned char* pages_at(Long offset) const {
    const Long inside = offset & ((Long{1} << shared_.extent_shift) - 1);
    const Long place = detail::look(shared_.extents + (offset >> shared_.extent_shift)) & ~Long{1};
    return reinterpret_cast<const unsigned char*>(place) + inside;
  }
  // An extent that was found may be gone when its pages are loaded. They stay what they were, and the generation tells.
  PENSTOCK_GPU_INLINE bool is_registered(Long extent) const {
    const Long place = detail::look(shared_.extents + extent);
    return place != 0 && place % 2 == 0;
  }

  template <typename Group>
  PENSTOCK_GPU_INLINE void copy_resident(const Group& group, unsigned char* to, Long offset, Long bytes) const {
    const Long extent = Long{1} << shared_.extent_shift;
    for (Long done = 0; done < bytes;) {
      const Long left = bytes - done, room = extent - (offset + done) % extent, here = left < room ? left : room;
      detail::copy(group, to + done, pages_at(offset + done), here);
      done += here;
    }
  }

  // True if the bytes that were loaded before are the file's: nobody was let in to change it until now. Each lane's
  // loads are acquired by its fence, the group meets, and the leader looks: if any lane saw a change of the file, which
  // comes after the generation was raised, the look sees that, too. Where looks are shared, one of any group tells so
  // for a while, since the library waits longer before it lets somebody in.
  template <typename Group>
  PENSTOCK_GPU_INLINE bool is_current(const Group& group, Word generation) const {
    if (shared_.looks == 0) {
      group.sync();
      return true;
    }
    const bool is_leader = group.thread_rank() == 0;
    Long* const seen = &shared_.standing->seen[detail::group_number() % kSeen].what;
    if (detail::shares_looks) {
      detail::fence_here();
      group.sync();
      if (group.shfl(is_leader && holds_still(detail::look(seen), generation) ? 1 : 0, 0) != 0) return true;
    }
    detail::fence();
    group.sync();
    int is_same = 0;
    if (is_leader) {
      const Long began = detail::shares_looks ? detail::now_ns() : 0;
      // The clock's highest bit is never set: the place is the same, but no GPU looks there before it has the time.
      is_same = detail::look(&control().generation + (began >> 63)) == generation ? 1 : 0;
      if (detail::shares_looks && is_same != 0) detail::release_here(seen, began >> 10 << 16 | (generation & 0xffff));
    }
    return group.shfl(is_same, 0) != 0;
  }
  // The clock is read once what was seen has come, and so behind all loads before the fence.
  static PENSTOCK_GPU_INLINE bool holds_still(Long seen, Word generation) {
    if (((seen ^ generation) & 0xffff) != 0) return false;
    const Long age = ((detail::now_ns() >> 10) - (seen >> 16)) << 16 >> 16;
    return age < kLookHoldsNs / 1024;
  }
  PENSTOCK_GPU_INLINE const Control& control() const { return shared_.controls[detail::group_number() % kControls]; }

  // ---- Ring

  // An answer of the ring; all of the group may load its bytes.
  struct Answer {
    Result result;
    detail::Ticket ticket;
    const unsigned char* memory = nullptr;
  };

  // Posts the request if it is not yet, and waits. The leader leaves the slot if there is no error.
  template <typename Group>
  PENSTOCK_GPU_INLINE Answer ask(const Group& group, Long offset, Long bytes, bool is_posted, detail::Ticket ticket,
                                 Long began) const {
    const detail::Ring ring(shared_);
    Long answer = 0;
    int cause = 0;
    if (group.thread_rank() == 0) {
      Error error = Error::none;
      if (!is_posted) error = ring.post_until(offset, static_cast<Word>(bytes), ticket, began);
      answer = error == Error::none ? ring.await(ticket, began, cause) : gpu::answer(0, error, 0);
    }
    answer = group.shfl(answer, 0);
    if (error_of(answer) != Error::none) return {{0, error_of(answer), group.shfl(cause, 0)}, {}, nullptr};
    const Long slot = group.shfl(ticket.slot, 0);
    group.sync();
    const unsigned char* const staging = is_in_device(answer) ? shared_.staging_in_device : shared_.staging;
    return {{moved_of(answer), Error::none, 0}, ticket, staging + slot * shared_.slot_bytes};
  }

  template <typename Group>
  PENSTOCK_GPU_INLINE Result read_piece(const Group& group, const Pending& piece, bool is_posted, Long began) const {
    const Answer answer = ask(group, piece.offset, piece.bytes, is_posted, piece.ticket, began);
    if (answer.result.error != Error::none) return answer.result;
    detail::copy(group, piece.destination, answer.memory, answer.result.bytes);
    group.sync();
    if (group.thread_rank() == 0) detail::Ring(shared_).leave(answer.ticket);
    return answer.result;
  }

  // read(piece) for one piece after the other, of which each has so many bytes at most.
  template <typename Read>
  PENSTOCK_GPU_INLINE static Result in_pieces(const Pending& whole, bool are_blocks, Word bytes_max, Read read) {
    Result result;
    while (result.bytes < whole.bytes) {
      Pending piece = whole;
      piece.offset += result.bytes;
      piece.destination += result.bytes;
      const Long left = whole.bytes - result.bytes;
      const Long room = bytes_max - (are_blocks ? piece.offset % bytes_max : 0);
      piece.bytes = left < room ? left : room;
      const Result moved = read(piece);
      result = {result.bytes + moved.bytes, moved.error, moved.detail};
      if (moved.error != Error::none || moved.bytes < piece.bytes) break;
    }
    return result;
  }

  template <typename Group>
  PENSTOCK_GPU_INLINE Result read_by_ring(const Group& group, const Pending& whole, bool is_posted, Long began) const {
    return in_pieces(whole, false, shared_.slot_bytes, [&](const Pending& piece) {
      const bool was_posted = is_posted;
      is_posted = false;
      return read_piece(group, piece, was_posted, began);
    });
  }

  // ---- Cached

  struct Span {
    Long number;
    Long offset;
    Word bytes;
  };
  PENSTOCK_GPU_INLINE Span block_of(Long offset) const {
    const Long number = offset / shared_.slot_bytes, begin = number * shared_.slot_bytes;
    return {number, begin, piece_of(shared_.size - begin)};
  }
  static PENSTOCK_GPU_INLINE Long key_of(const Span& block, Word generation) {
    return Long{generation} << kBlockBits | block.number;
  }
  PENSTOCK_GPU_INLINE unsigned char* memory_of(const detail::Frame& frame) const {
    return shared_.frames + frame.number * shared_.slot_bytes;
  }

  // `is_good` becomes false if the file may have changed meanwhile.
  template <typename Group>
  PENSTOCK_GPU_INLINE Result read_cached(const Group& group, const Pending& whole, Long& began, bool& is_good) const {
    bool is_posted = whole.is_posted;
    return in_pieces(whole, true, shared_.slot_bytes, [&](const Pending& piece) {
      const bool was_posted = is_posted;
      is_posted = false;
      if (was_posted) return fetch(group, piece, piece.frame, true, began, is_good);
      return read_block(group, piece, began, is_good);
    });
  }

  // Of the leader: a frame that is full, or one to fetch the block into, or none after a while.
  PENSTOCK_GPU_INLINE detail::Frame find_or_claim(Long block, Long& began) const {
    const detail::Cache cache(shared_);
    for (Long since = 0;;) {
      detail::Frame frame = cache.find(block);
      if (detail::Cache::phase_of(frame.word) == kFull) return frame;
      if (since == 0) since = detail::now_ns();
      if (began == 0) began = since;
      if (frame.word == 0) {
        frame = cache.claim(block);
        if (frame.word != 0) return frame;
      }
      if (detail::now_ns() - since > shared_.timeout_ns >> kPatience) return {};
      detail::pause(200 + detail::group_number() % 8 * 100);  // Groups that saw each other do not meet again.
    }
  }

  template <typename Group>
  PENSTOCK_GPU_INLINE Result read_block(const Group& group, const Pending& piece, Long& began, bool& is_good) const {
    const Span block = block_of(piece.offset);
    for (Word tries = 0; tries < kTries; ++tries) {
      detail::Frame frame;
      if (group.thread_rank() == 0) frame = find_or_claim(key_of(block, piece.generation), began);
      frame = {group.shfl(frame.number, 0), group.shfl(frame.word, 0)};
      if (frame.word == 0) break;
      if (detail::Cache::phase_of(frame.word) != kFull) return fetch(group, piece, frame, false, began, is_good);
      group.sync();
      detail::copy(group, piece.destination, memory_of(frame) + (piece.offset - block.offset), piece.bytes);
      if (shared_.looks == 0) detail::fence_here();
      is_good = is_current(group, piece.generation);
      if (!is_good) return {};
      const bool is_same = group.thread_rank() == 0 && detail::Cache(shared_).is_same(frame);
      if (group.shfl(is_same ? 1 : 0, 0) != 0) return {piece.bytes, Error::none, 0};
    }
    if (began == 0) began = detail::now_ns();  // It found the block each time, and has not waited.
    return read_by_ring(group, piece, false, began);
  }

  // Brings the block into the frame, which the group has claimed, and reads the piece. It is a call: inlined into a
  // kernel whose single threads begin reads ahead, ptxas of CUDA 13.0 made code of it that put wrong bytes into frames
  // (without ptxas's optimisation the same PTX was right). So what a kernel runs is also the code that was checked.
  template <typename Group>
  PENSTOCK_GPU_CALL Result fetch(const Group& group, const Pending& piece, detail::Frame frame, bool is_posted,
                                 Long& began, bool& is_good) const {
    const detail::Cache cache(shared_);
    if (began == 0) began = detail::now_ns();
    const bool is_leader = group.thread_rank() == 0;
    const Span block = block_of(piece.offset);
    if (is_leader) detail::add(&own_counts().fetched, 1);
    // A block that lies in two extents goes by the ring.
    const bool is_in_one = (block.offset ^ (block.offset + block.bytes - 1)) >> shared_.extent_shift == 0;
    const bool is_there = is_leader && is_in_one && !is_posted && is_resident(block.offset, block.bytes);
    const bool from_pages = group.shfl(is_there ? 1 : 0, 0);
    Answer answer{{block.bytes, Error::none, 0}, {}, nullptr};
    if (from_pages) answer.memory = pages_at(block.offset);
    else answer = ask(group, block.offset, block.bytes, is_posted, piece.ticket, began);
    // Where the file has become shorter, or another group has claimed the frame, the bytes are not kept.
    const bool is_whole = answer.result.bytes == block.bytes;
    const bool is_ours = group.shfl(is_leader && is_whole && cache.begin_filling(frame) ? 1 : 0, 0);
    if (is_ours) detail::fence_here();  // Each lane's stores come behind the leader's word, too.
    Result result = answer.result;
    if (result.error == Error::none) {
      const Long inside = piece.offset - block.offset;
      result.bytes = result.bytes > inside ? result.bytes - inside : 0;
      if (result.bytes > piece.bytes) result.bytes = piece.bytes;
      group.sync();
      if (is_ours) detail::copy<true>(group, memory_of(frame), answer.memory, block.bytes);
      group.sync();
      const unsigned char* const from = is_ours ? memory_of(frame) : answer.memory;
      detail::copy(group, piece.destination, from + inside, result.bytes);
      if (from_pages && !is_current(group, piece.generation)) is_good = false;
      group.sync();
      if (is_leader && !from_pages) detail::Ring(shared_).leave(answer.ticket);
    }
    if (is_leader && is_ours && is_good) cache.end_filling(frame);
    else if (is_leader) cache.drop(frame);
    if (!is_good) return {};
    return result;
  }

  Layout shared_ = {};
};
static_assert(sizeof(File) == sizeof(Layout), "what penstock_gpu_value holds");

}  // namespace penstock::gpu

#endif /* PENSTOCK_GPU_CUH_ */
