// SPDX-License-Identifier: Apache-2.0

// Files of a simulated disk: a seed decides how long each transfer takes, what is moved of it and which error it ends
// with. Their bytes are in bytes.h, the calls in file_calls.cc, those of io_uring in rings.cc.
//
// A file judges. Every byte that reaches it must belong to a write that the program has asked for and that is not over,
// and every byte that a read returns must have been in the file while it ran.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simulation/bytes.h"
#include "simulation/scheduler.h"

namespace penstock::simulation {

enum class Fault : std::uint8_t {
  interrupted,
  cut_short,
  broken,
  full,
  put_off,
  late,
  stalled,
  doubled,
  refused,
  ring,
  misdirected
};
inline constexpr std::size_t kFaults = 11;
inline constexpr const char* kFaultNames[kFaults] = {"EINTR",   "short",   "EIO",     "ENOSPC", "EAGAIN",     "late",
                                                     "stalled", "doubled", "refused", "ring",   "misdirected"};

// One transfer in so many has the fault; 0: none has. Calls that move nothing are refused, and rings break, at rates of
// their own; no write of a file is misdirected, which has no checksum to tell by (misdirected.h).
using Weather = std::array<unsigned, kFaults>;

// A transfer, as the disk has decided about it.
struct Fate {
  int error = 0;
  std::size_t bytes = 0;  // Moved, also before an error.
  Nanoseconds latency = 0;
};

// A device's node, by its name and by its descriptor; false: it is none. Null: there are none.
extern bool (*open_device)(const char* name, int& fd);
extern bool (*close_device)(int fd);
extern void* (*map_device)(void* place, int fd, std::size_t size);  // Null, if it is none's.
extern void (*unmap_device)(const void* memory);
extern bool (*control_device)(int fd, unsigned long call, void* argument, int& result);
// Whether no CPU reaches the memory, as that of a GPU: the kernel moves nothing to or from it. Null: it reaches all.
extern bool (*is_out_of_reach)(const void* memory);
// Whether it is a device's memory that is mapped (peers.h), the errno of a transfer that the kernel refuses for it, or
// 0, and where a drive has it. Null: there is none.
extern bool (*is_of_a_device)(const void* memory);
extern int (*refuse_memory)(bool is_direct, std::span<const iovec> memory);
extern std::byte* (*reach_memory)(bool is_write, std::byte* memory, std::size_t size);

class File {
 public:
  File(std::uint8_t number, std::uint64_t size);
  // That of a drive's folder (drive.h), behind a descriptor. Whoever writes into it is judged by what they read.
  File(std::uint8_t number, int fd, std::uint64_t size);
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::uint8_t number() const { return number_; }
  // In which its bytes are, or will be (bytes.h).
  int descriptor() const { return bytes_.descriptor(); }
  std::uint64_t size() const { return size_; }
  std::uint32_t sector() const { return sector_; }
  long file_system() const { return file_system_; }
  // How often a transfer of it has ended with this errno.
  unsigned errors(int error) const { return errors_[static_cast<unsigned>(error) % errors_.size()]; }
  unsigned all_errors() const;
  unsigned failed_flushes() const { return failed_flushes_; }
  // A transfer of the byte at this offset has failed, or a flush, since there were so many failures.
  std::size_t failures() const { return failures_.size(); }
  bool has_failed_at(std::uint64_t offset, std::size_t since) const;

  // ---- For the calls
  // As fstat tells it.
  void tell(struct stat& facts) const;
  void note_time() { ++times_; }
  // Another process may have changed the size of a drive's file.
  void look_at_size();
  // Somebody asks for what the kernel alone can do.
  void give_to_kernel() { bytes_.give_to_kernel(); }
  int allocate(int mode, std::uint64_t first, std::uint64_t end);
  // Whether it goes so this time, which is counted.
  bool has(Fault fault);
  Fate decide(bool is_write, bool is_direct, std::span<const iovec> memory, std::uint64_t offset);
  // Moves bytes `from` to `to` of the transfer; returns how many were moved.
  std::size_t move(bool is_write, std::span<const iovec> memory, std::uint64_t offset, std::size_t from,
                   std::size_t to);
  // Writes back what the first `writes` have moved, and makes it durable if that is asked for; returns an errno.
  int flush(std::uint64_t writes, bool is_durable);
  void resize(std::uint64_t size);
  void punch(std::uint64_t first, std::uint64_t end);
  // It is cut where it ends, which gives back what was allocated behind.
  void cut_at_end();
  // The one that its end lies in is not behind it.
  bool has_blocks_behind_end() const { return blocks_end_ > (size_ + 4095) / 4096 * 4096; }
  bool is_of_a_drive() const { return is_of_a_drive_; }
  // A module of the kernel writes bytes of its own where others were asked for: whoever asked must write again.
  void spoil(std::uint64_t offset, std::span<const std::byte> bytes);
  // Any of the sectors, and sizes, that were not flushed are lost. Of files of drives.
  std::vector<std::byte> after_a_loss_of_power(Random& random) const;

  // ---- For the program
  // Anybody may write anything into it. None of it is ever cached.
  void be_scratch() { is_scratch_ = true; }
  bool is_scratch() const { return is_scratch_; }
  // Nothing befalls so many of the next transfers: who tests it once may come to use it.
  void be_calm(std::uint64_t transfers) { calm_ = transfers; }
  // It is a block device of this number, whose size stays as it is, in whole sectors.
  void be_raw_drive(unsigned number) { raw_drive_ = number; }
  bool is_raw_drive() const { return raw_drive_ != 0; }
  // How many moves there were of bytes that were written, and of how many a loss of power would lose nothing.
  std::uint64_t writes() const { return writes_; }
  std::uint64_t durable_writes() const { return durable_writes_; }
  // A write of [first, end) begins. No other that is under way may overlap. Returns its number, by which its bytes are
  // made (stress/history.h).
  std::uint32_t begin_write(std::uint64_t first, std::uint64_t end);
  // It is over, and has told of so many bytes. Returns what is wrong.
  std::optional<std::string> end_write(std::uint32_t change, std::uint64_t bytes);
  bool is_written(std::uint64_t first, std::uint64_t end) const;  // A write that is under way touches the range.

  struct Look {
    std::uint64_t first = 0, wanted = 0;
    std::size_t change = 0, size = 0;  // How many there were before.
  };
  // Its size was changed since.
  bool is_resized_since(const Look& look) const { return sizes_.size() > look.size + 1; }
  Look begin_read(std::uint64_t first, std::uint64_t wanted);
  // Returns what is wrong with what it got. `is_whole`: it succeeded.
  std::optional<std::string> end_read(const Look& look, std::span<const std::byte> got, bool is_whole);

 private:
  struct Range {
    std::uint64_t first, end;
  };
  struct Asked {
    std::uint32_t change;
    std::uint64_t first, end;
    std::uint64_t disturbances;
  };
  struct Change {
    std::uint64_t first;
    std::vector<std::byte> before;
  };

  // Of bytes that may be lost.
  struct Unflushed {
    std::uint64_t write, offset;
    std::vector<std::byte> before, after;
    std::uint64_t size_before, size_after;
    void be_overwritten(const Unflushed& durable);
    bool is_given_up = false;  // A flush of it failed: the kernel does not try again, and tells nobody a second time.
  };

  void draw_kind();
  std::size_t write(std::span<const std::byte> bytes, std::uint64_t offset);
  // They are what this write has at that offset.
  bool are_of(std::span<const std::byte> bytes, std::uint32_t change, std::uint64_t first) const;
  void require_asked(std::uint64_t first, std::span<const std::byte> bytes, bool is_spoiled = false);
  void note_unflushed(std::uint64_t offset, std::span<const std::byte> bytes);
  void end_flushed();
  void note_size(std::uint64_t size);
  void note_change(std::uint64_t first, std::uint64_t size);
  bool was_there(const Look& look, std::uint64_t at, std::byte byte) const;

  const std::uint8_t number_;
  Bytes bytes_;
  std::uint64_t size_;
  std::uint64_t blocks_end_ = 0;  // As far as blocks were allocated, which may be behind the size.
  struct stat facts_ {};          // What never changes of them.
  std::uint64_t times_ = 1;       // That its change was stamped.
  std::uint32_t sector_ = 512;
  long file_system_ = 0;
  Weather weather_{};
  std::array<unsigned, 64> errors_{};
  unsigned failed_flushes_ = 0;
  std::vector<Range> failures_;  // What was asked of each transfer that failed.
  std::vector<Asked> asked_;
  std::uint32_t changes_begun_ = 0;
  std::uint64_t writes_ = 0, durable_writes_ = 0;
  const bool is_of_a_drive_;
  bool is_scratch_ = false;
  unsigned raw_drive_ = 0;
  std::uint64_t calm_ = 0;
  std::vector<Unflushed> unflushed_;  // Of drives' files alone.
  std::uint64_t disturbances_ = 0;    // Times that it was cut, or a hole was made.
  unsigned looks_ = 0;
  std::vector<Change> changes_;       // Since the oldest look.
  std::vector<std::uint64_t> sizes_;  // The same; the first is that at its beginning.
};

// A transfer, from its beginning until it has told of its end. It judges whoever gives memory or bytes back before.
class Moving {
 public:
  // `is_apart`: it goes to the drive directly, and nobody who waits for it holds the inode's lock.
  Moving(std::shared_ptr<File> file, bool is_write, std::span<const iovec> memory, std::uint64_t offset,
         bool is_apart = false);
  ~Moving();
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;

  File& file() const { return *file_; }
  std::size_t move(std::size_t from, std::size_t to) const {
    return file_->move(is_write_, memory_, offset_, from, to);
  }
  // Fails the run where a transfer that is under way reaches that memory, or writes to that range of the file.
  static void require_none(std::span<const std::byte> memory);
  static void require_no_write(const File& file, std::uint64_t first, std::uint64_t end);
  // A write through the page cache begins. Where a direct write is under way in one of its pages, the kernel may read
  // the page before and write it back after it, with the old bytes.
  static void require_no_neighbour(const File& file, std::uint64_t first, std::uint64_t end);
  // The process has ended, and the kernel goes on with them. It must be asked for what it writes.
  static void land_all();
  // Those of a parent end in the parent.
  static void forget_all();

 private:
  const std::shared_ptr<File> file_;
  const bool is_write_;
  const std::span<const iovec> memory_;
  const std::uint64_t offset_;
  const bool is_apart_;
};

// A descriptor of its own for the file that this one has; -1 with an errno if there is none.
int open_again(int fd);

class Disk {
 public:
  Weather weather{};
  std::array<std::uint64_t, kFaults> faults{};  // How many there were.
  std::uint64_t transfers = 0;
  long block_size = 4096;  // Of its file systems.

  bool has_had(Fault fault) const { return faults[static_cast<std::size_t>(fault)] != 0; }
  // One call in so many is refused.
  bool refuses(unsigned one_in);
  unsigned fails_flushes_one_in = 0;  // Besides those of the weather; 0: none fails.
  bool fails_flush();

  std::shared_ptr<File> create(std::uint64_t size);
  std::shared_ptr<File> adopt(int fd, std::uint64_t size);
  // A descriptor of the file.
  int open(const std::shared_ptr<File>& file, bool is_direct);

  struct Open {
    std::shared_ptr<File> file;
    bool is_direct = false;
    bool is_of_others = false;      // Of a library beside ours, which nobody closes for it.
    std::uint64_t description = 0;  // The open file, of which there may be several descriptors; 0: a new one.
  };
  // The file that is open and has this descriptor of its own; null: none.
  std::shared_ptr<File> find_by_descriptor(int descriptor) const;
  // Null for a descriptor of something else.
  const Open* find(int fd) const;
  bool is_open(const File& file) const;
  bool is_open_beside(const Open& open) const;  // By another open file.
  void keep(int fd, Open open);
  // Somebody closes all descriptors of the file by number, and opens another file, which takes the numbers.
  void take_descriptors(const File& file);
  bool has_taken_descriptors() const { return !taken_.empty(); }
  // These are still those of the other files, which are closed now.
  bool give_up_taken();
  void drop(int fd);

 private:
  std::deque<Open> open_;  // Of which some are held while others are added.
  std::uint64_t descriptions_ = 0;
  std::vector<std::pair<int, std::shared_ptr<File>>> taken_;
  std::uint8_t files_ = 0;
};

Disk& disk();

}  // namespace penstock::simulation
