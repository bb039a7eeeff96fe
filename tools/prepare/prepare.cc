// SPDX-License-Identifier: Apache-2.0

// penstock explain --fix: allocates the whole file before any program writes to it, so that direct writes stay direct,
// and sets its size last. A new file gets its name when it is ready. An existing one keeps every byte: only holes and
// the part past its end are allocated, and --written writes zeros where zeros are read anyway; a lease keeps other
// programs from writing to it meanwhile.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/direct_answer.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/new_file.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/prepare/zeros.h"

namespace penstock::tools {
namespace {

// A lease of a file: while it holds, no other program has the file open. A program that wants to open it waits, as long
// as the system makes it wait. Throws Failure if another program has the file open already.
class Lease {
 public:
  Lease(const std::string& path, int fd);  // Both outlive it.
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  void check();  // Throws if a program wants to open the file.

  // True if no program can have opened the file yet, though one may be waiting. The kernel does not say if it let the
  // program in, but it does not before its time is over, which began when the lease was last seen unwanted, or later.
  // Half of that time is left for the caller's work with the answer.
  bool keeps_others_out();

 private:
  using Clock = std::chrono::steady_clock;

  bool is_unwanted();

  const std::string& path_;
  int fd_;
  Clock::time_point unwanted_at_;
};

// The time for which the kernel makes a program wait that wants to open a leased file; 0 if unknown.
std::chrono::seconds patience_with_leases() {
  long seconds = 0;
  std::ifstream("/proc/sys/fs/lease-break-time") >> seconds;
  return std::chrono::seconds(std::clamp(seconds, 0L, 3600L));
}

Lease::Lease(const std::string& path, int fd) : path_(path), fd_(fd), unwanted_at_(Clock::now()) {
  signal(SIGIO, SIG_IGN);  // The kernel sends SIGIO when a program waits.
  if (fcntl(fd_, F_SETLEASE, F_WRLCK) == 0) return;
  if (errno != EAGAIN) fail_errno(path_, "take a lease of the file, which keeps others from writing to it");
  throw Failure(path_ + ": another program has it open and might write to it meanwhile; close it first");
}

Lease::~Lease() { fcntl(fd_, F_SETLEASE, F_UNLCK); }

void Lease::check() {
  if (is_unwanted()) return;
  throw Failure(path_ + ": another program wants to open it, so the command stopped; run it again");
}

bool Lease::keeps_others_out() { return is_unwanted() || Clock::now() - unwanted_at_ < patience_with_leases() / 2; }

bool Lease::is_unwanted() {
  const Clock::time_point now = Clock::now();
  if (fcntl(fd_, F_GETLEASE) != F_WRLCK) return false;
  unwanted_at_ = now;
  return true;
}

constexpr std::uint64_t kSizeMax = (std::uint64_t{1} << 63) - kZeroBlock;

constexpr const char* kPrepareExamples =
    "Examples:\n"
    "  penstock explain --fix /data/checkpoint --size 64G              allocated, so that writes need no new blocks\n"
    "  penstock explain --fix /data/checkpoint --size 64G --written    filled with zeros, too: no extents to convert\n"
    "  penstock explain --fix sparse.img --json                        an existing file: its holes are filled\n"
    "An existing file keeps every byte and is never made shorter. No other program may have it open. A program that "
    "opens it meanwhile has to wait, and the command stops for it. After a failure the file has the size it had, "
    "unless the message tells another, and holes that were filled stay filled. If --written is killed while it writes "
    "zeros (kill -9, or Ctrl-C where the disk does not answer within a second), an existing file may be longer than "
    "before, with zeros at its end: run the command again.\n"
    "Exit code: 0 fixed, 1 failed, 2 wrong usage, 77 if no preparation makes direct writes possible on this file "
    "system.";

struct PrepareSettings {
  std::string file;
  std::uint64_t size = 0;
  bool has_size = false;
  bool written = false;
  bool json = false;
};

std::uint64_t round_up(std::uint64_t size) { return (size + kZeroBlock - 1) / kZeroBlock * kZeroBlock; }

// ---- Can it help?

// True for findings that preparing the file neither removes nor changes.
bool is_beyond_help(const core::Finding& finding) {
  return finding.stops() && finding.obstacle != core::Obstacle::inline_data;
}

void refuse_where_useless(const std::string& path, int fd) {
  const DirectAnswer answer = ask_direct(fd, {core::Op::write, 0, 0, ""});
  for (const core::Finding& finding : answer.report.findings) {
    if (!is_beyond_help(finding)) continue;
    throw Failure(fmt::format("{}: preparing it cannot make writes direct: {} ({}); {}", path, finding.sentence(),
                              finding.code(), finding.remedy()),
                  kNotApplicable);
  }
}

// ---- Allocation

// Fails before anything is allocated if the disk is too full: blocks that a failing allocation has put into holes are
// not given back.
void check_space(const std::string& path, int fd, std::uint64_t size) {
  struct stat file {};
  struct statvfs file_system {};
  if (fstat(fd, &file) != 0 || fstatvfs(fd, &file_system) != 0) return;
  const std::uint64_t has = static_cast<std::uint64_t>(file.st_blocks) * 512;
  const std::uint64_t free = std::uint64_t{file_system.f_bavail} * file_system.f_frsize;
  if (size <= has || size - has <= free) return;
  throw Failure(fmt::format("{}: it needs {} more and the file system has {} free; free some, or ask for less", path,
                            format_size(size - has), format_size(free)));
}

void allocate(const std::string& path, int fd, std::uint64_t size) {
  check_space(path, fd, size);
  int result = 0;
  do {
    throw_if_interrupted();
    result = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno == EOPNOTSUPP || errno == ENOSYS) {
    throw Failure(path + ": its file system cannot allocate ahead (fallocate); use ext4 or XFS", kNotApplicable);
  }
  fail_errno(path, "allocate the file");
}

// Sets the size. No other program may write past the end: this cuts off everything beyond `size`.
void settle(const std::string& path, int fd, std::uint64_t size) {
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) fail_errno(path, "set the file's size");
  if (fsync(fd) != 0) fail_errno(path, "flush the file");
}

// ---- New and existing files

struct Prepared {
  bool existed = false;
  std::uint64_t size = 0;
  std::uint64_t zeros_written = 0;
  DirectAnswer answer;
};

// Reports what is still in the way, and checks that the file system has really allocated.
DirectAnswer look_again(const std::string& path, int fd, std::uint64_t size) {
  DirectAnswer answer = ask_direct(fd, {core::Op::write, 0, 0, ""});
  if (answer.file.extents.is_known && answer.file.extents.hole_bytes > 0) {
    throw Failure(fmt::format("{}: of the {} that it has now the file system left {} as holes", path, format_size(size),
                              format_size(answer.file.extents.hole_bytes)));
  }
  return answer;
}

Prepared make_new(const PrepareSettings& settings) {
  if (!settings.has_size) {
    throw Failure(settings.file + ": there is no such file; say how large to make it with --size", kUsage);
  }
  NewFile file(settings.file, 0);
  refuse_where_useless(settings.file, file.fd());
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(file.fd(), 0666 & ~mask) != 0) fail_errno(settings.file, "set the file's mode");
  Prepared done{false, settings.size, 0, {}};
  if (settings.size > 0) allocate(settings.file, file.fd(), settings.size);
  if (settings.written) {
    done.zeros_written = write_unwritten(settings.file, file.fd(), round_up(settings.size), [] {});
  }
  settle(settings.file, file.fd(), settings.size);
  done.answer = look_again(settings.file, file.fd(), settings.size);
  file.publish(false);
  return done;
}

std::uint64_t allocated_bytes(int fd) {
  struct stat facts {};
  return fstat(fd, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_blocks) * 512 : 0;
}

// Takes back the blocks that were added past the old end, if no other program can have come to use them. Blocks that
// were put into holes cannot be told from older ones, so they stay; every byte reads as before. The lease is still
// held, so that the words about the file are true.
[[noreturn]] void fail_half_way(const Failure& failure, const OpenFile& file, Lease& lease, std::uint64_t had) {
  const int fd = file.fd.get();
  const bool is_ours = lease.keeps_others_out();
  const bool is_cut_back = is_ours && ftruncate(fd, static_cast<off_t>(file.size)) == 0;
  const int error = errno;
  const std::uint64_t has = allocated_bytes(fd);
  const std::uint64_t added = has - std::min(had, has);
  if (is_cut_back && added == 0) throw failure;
  if (is_cut_back) {
    throw Failure(fmt::format("{}; its bytes and its size are unchanged, and it has {} more allocated, since holes "
                              "that were filled stay filled",
                              failure.what(), format_size(added)),
                  failure.exit_code());
  }
  throw Failure(fmt::format("{}; {}: it was {} bytes long and is {} now, with zeros in what was added, and has {} more "
                            "allocated",
                            failure.what(),
                            is_ours ? fmt::format("it could not be cut back ({})", std::strerror(error))
                                    : "another program may be using it by now, so it was not cut back",
                            file.size, lseek(fd, 0, SEEK_END), format_size(added)),
                failure.exit_code());
}

// Allocates and sets the size, under a lease to the end. Returns the bytes of zeros written.
std::uint64_t fill_and_settle(const OpenFile& file, std::uint64_t size, bool written) {
  const int fd = file.fd.get();
  Lease lease(file.path, fd);
  // From here on no other program can change it.
  if (lseek(fd, 0, SEEK_END) != static_cast<off_t>(file.size)) {
    throw Failure(file.path + ": another program changed its size; run the command again");
  }
  const std::uint64_t had = allocated_bytes(fd);
  try {
    std::uint64_t zeros = 0;
    allocate(file.path, fd, size);
    if (written) zeros = write_unwritten(file.path, fd, round_up(size), [&] { lease.check(); });
    lease.check();
    settle(file.path, fd, size);
    return zeros;
  } catch (const Failure& failure) {
    fail_half_way(failure, file, lease, had);
  }
}

Prepared extend(const PrepareSettings& settings, const OpenFile& file) {
  if (file.is_block_device()) {
    throw Failure(file.path + ": a block device has all its blocks; there is nothing to prepare", kNotApplicable);
  }
  const std::uint64_t size = settings.has_size ? settings.size : file.size;
  if (size < file.size) {
    throw Failure(
        fmt::format("{}: it has {} already, and prepare makes no file shorter", file.path, format_size(file.size)),
        kUsage);
  }
  const int fd = file.fd.get();
  refuse_where_useless(file.path, fd);
  Prepared done{true, size, 0, {}};
  if (size > 0) done.zeros_written = fill_and_settle(file, size, settings.written);
  done.answer = look_again(file.path, fd, size);
  return done;
}

// ---- The command

Text outcome_text(const PrepareSettings& settings, const Prepared& done) {
  const core::FileExtents& extents = done.answer.file.extents;
  Text text = Text::of("{}: {}, {}", settings.file, format_size(done.size),
                       done.existed ? "allocated, every byte kept" : "made and allocated");
  if (done.zeros_written > 0) text += Text::of(", {} of zeros written", format_size(done.zeros_written));
  if (extents.unwritten_bytes > 0) {
    text += Text::of(
        "\n  {} are unwritten: direct writes convert them, reads are zeros from the CPU; --written "
        "writes them once",
        format_size(extents.unwritten_bytes));
  }
  for (const core::Finding& one : done.answer.report.findings) {
    if (one.obstacle == core::Obstacle::unwritten_extents) continue;
    text += Text::of("\n  {}{}: {}; {}", one.code(), one.certainty == core::Certainty::possible ? "?" : "",
                     one.sentence(), one.remedy());
  }
  text += Text::of("\n");
  return text;
}

int run_prepare(const PrepareSettings& settings) {
  if (settings.size > kSizeMax) throw Failure("--size: no file can be that large", kUsage);
  const auto start = std::chrono::steady_clock::now();
  const Prepared done = exists(settings.file) ? extend(settings, open_file(settings.file, O_RDWR)) : make_new(settings);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (settings.json) {
    print_json({{"file", settings.file},
                {"existed", done.existed},
                {"size", done.size},
                {"zeros_written", done.zeros_written},
                {"seconds", seconds},
                {"p2pdma", direct_json(done.answer)}});
  } else {
    print("{}", outcome_text(settings, done));
  }
  return kSuccess;
}

}  // namespace

void add_prepare(CommandLine& command) {
  auto settings = std::make_shared<PrepareSettings>();
  command.option("FILE", settings->file, "A file; it is created if it does not exist").required();
  const Option size = command.size("--size", settings->size, "The size it is to have [an existing file's own]");
  command.flag("--written", settings->written, "Also write zeros, so that the first write has no extent to convert");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kPrepareExamples);
  command.runs([settings, size] {
    settings->has_size = size.was_given();
    return run_prepare(*settings);
  });
}

}  // namespace penstock::tools
