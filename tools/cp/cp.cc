// SPDX-License-Identifier: Apache-2.0

// penstock cp: copies a file through device memory. A file under the final name is always whole.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "stripe/layout.h"
#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/job.h"
#include "tools/common/new_file.h"
#include "tools/common/striped.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/cp/copier.h"

namespace penstock::tools {
namespace {

struct CpSettings {
  std::string source;
  std::string destination;
  unsigned gpu = 0;
  std::uint64_t window = std::uint64_t{256} << 20;
  bool verify = false;
  bool direct = false;
  bool force = false;
  bool no_preserve = false;
  bool json = false;
  std::string stripe;  // Folders of the copy's members, with commas between; "" for an ordinary file.
  std::uint64_t stripe_size = std::uint64_t{8} << 20;
};

struct CpOutcome {
  std::string destination;
  std::uint64_t size = 0;
  std::uint64_t data_bytes = 0;
  double seconds = 0;
  Tally read;
  Tally written;
};

using core::StripeLayout;

std::vector<std::string> folders_of(const CpSettings& settings) {
  std::vector<std::string> folders;
  for (std::size_t at = 0; at <= settings.stripe.size();) {
    const std::size_t comma = std::min(settings.stripe.find(',', at), settings.stripe.size());
    if (comma == at) throw Failure("--stripe: expected folders with commas between them", kUsage);
    folders.push_back(settings.stripe.substr(at, comma - at));
    at = comma + 1;
  }
  const StripeLayout layout{0, settings.stripe_size, static_cast<std::uint32_t>(folders.size())};
  if (folders.size() > StripeLayout::kMembersMax) {
    throw Failure(fmt::format("--stripe: {} folders, and a striped object has at most {} members", folders.size(),
                              StripeLayout::kMembersMax),
                  kUsage);
  }
  if (!layout.is_sane()) throw Failure("--stripe-size: expected a multiple of 64k up to 1G", kUsage);
  return folders;
}

// The new file or object; publishes it under its name.
class Destination {
 public:
  Destination(const CpSettings& settings, const std::string& path, std::uint64_t size, mode_t mode, Session& session)
      : force_(settings.force) {
    if (!force_ && exists(path)) throw Failure(path + ": it exists; --force replaces it");
    if (settings.stripe.empty()) {
      plain_ = std::make_unique<NewFile>(path, settings.direct ? O_DIRECT : 0, false);
      file_ = std::make_unique<File>(require(session.file(plain_->fd()), path));
      if (fchmod(plain_->fd(), mode) != 0) fail_errno(path, "set the file's mode");
      return;
    }
    unsigned flags = 0;
    if (force_) flags |= PENSTOCK_CREATE_REPLACE;
    if (settings.direct) flags |= PENSTOCK_CREATE_DIRECT;
    file_ = std::make_unique<File>(require(
        session.create_stripe(path.c_str(), folders_of(settings), size, settings.stripe_size, mode, flags), path));
  }
  const File& file() const { return *file_; }
  int fd() const { return plain_ == nullptr ? -1 : plain_->fd(); }
  void flush(const std::string& path) { require(file_->sync(), path); }
  void publish(const std::string& path) {
    if (plain_ != nullptr) plain_->publish(force_);
    else require(file_->publish(), path);
  }

 private:
  const bool force_;
  std::unique_ptr<NewFile> plain_;
  std::unique_ptr<File> file_;
};

// Copies if source, destination or both are striped: one object in a file on each of several drives. After a failure
// the destination is unchanged.
CpOutcome copy_striped(const CpSettings& settings, const std::string& path, Session& session) {
  CpOutcome outcome;
  outcome.destination = path;
  OpenFile opened = open_file(settings.source, O_RDONLY | (settings.direct ? O_DIRECT : 0));
  const bool is_object = is_striped(settings.source);
  const File from = file_or_stripe(session, opened);
  outcome.size = opened.size;
  const mode_t mode = opened.is_block_device() ? 0644 : opened.facts.st_mode & 0777;
  Destination to(settings, path, opened.size, mode, session);
  CopyEnd source{settings.source, is_object ? -1 : opened.fd.get(), &from, {}};
  CopyEnd destination{path, to.fd(), &to.file(), {}};
  Copier copier(session, settings.gpu, source, destination, opened.size, settings.window);
  const auto start = std::chrono::steady_clock::now();
  outcome.data_bytes = copier.copy();
  to.flush(path);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.read = source.tally;
  outcome.written = destination.tally;
  if (settings.verify) copier.compare();
  throw_if_interrupted();
  to.publish(path);
  return outcome;
}

constexpr std::uint64_t kWindowMin = 8192;
constexpr std::uint64_t kWindowMax = std::uint64_t{1} << 40;

constexpr const char* kCpExamples =
    "Examples:\n"
    "  penstock cp /data/model.safetensors /scratch/          through the memory of GPU 0\n"
    "  penstock cp model.bin copy.bin --verify --direct       O_DIRECT on both sides, then compared\n"
    "  penstock cp /dev/nvme1n1 disk.img --gpu 1 --force      replaces disk.img when the copy is whole\n"
    "  penstock cp w.bin w.stripe --stripe /mnt/d0,/mnt/d1    one object in a file on each of two drives; w.stripe is\n"
    "                                                         its manifest, and cp w.stripe w.bin makes it one file\n"
    "After a failure DST is what it was, unless the message says that the copy is whole and in place: then only its "
    "folder could not be flushed. Until the copy is whole it has no name. Where the file system or NVIDIA's library "
    "(PENSTOCK_VENDOR) needs one, and for the moment in which --force replaces a file, the copy is in DST's folder as "
    ".penstock- and 32 digits; only a cp that was killed (kill -9) leaves it there.\n"
    "Exit code: 0 copied (and equal, with --verify), 1 failed, 2 wrong usage, 77 if there is no such GPU.";

// Returns the path of the copy: if DST is a folder, the file of the same name in it.
std::string destination_of(const CpSettings& settings) {
  std::error_code error;
  if (std::filesystem::is_directory(settings.destination, error)) {
    return std::filesystem::path(settings.destination) / std::filesystem::path(settings.source).filename();
  }
  if (settings.destination.ends_with('/')) fail_errno(settings.destination, "open the folder", ENOENT);
  return settings.destination;
}

void check_destination(const OpenFile& source, const std::string& path, bool force) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0 && facts.st_dev == source.facts.st_dev && facts.st_ino == source.facts.st_ino) {
    throw Failure(fmt::format("{} and {} are the same file", source.path, path));
  }
  if (lstat(path.c_str(), &facts) != 0) return;
  if (!S_ISREG(facts.st_mode) && !S_ISLNK(facts.st_mode)) {
    throw Failure(path + ": it is no regular file, and cp writes only regular files; name another destination");
  }
  if (!force) throw Failure(path + ": it exists; --force replaces it");
}

// Sets the size and allocates space for the data at once, so that a full disk shows before the copying.
void lay_out(const OpenFile& source, const NewFile& file) {
  if (ftruncate(file.fd(), static_cast<off_t>(source.size)) != 0) fail_errno(file.path(), "set the file's size");
  std::uint64_t position = 0;
  while (const auto data = next_data(source.fd.get(), position, source.size)) {
    while (fallocate(file.fd(), 0, static_cast<off_t>(data->offset), static_cast<off_t>(data->size)) != 0) {
      if (errno == EOPNOTSUPP || errno == ENOSYS) return;  // The writes allocate the blocks then.
      if (errno != EINTR) fail_errno(file.path(), "reserve space");
      throw_if_interrupted();
    }
    position = data->offset + data->size;
  }
}

mode_t mode_without_source() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

void set_attributes(const OpenFile& source, const NewFile& file, bool preserve) {
  const struct stat& facts = source.facts;
  preserve = preserve && !source.is_block_device();
  mode_t mode = preserve ? facts.st_mode & 07777 : mode_without_source();
  if (preserve && fchown(file.fd(), geteuid() == 0 ? facts.st_uid : static_cast<uid_t>(-1), facts.st_gid) != 0) {
    mode &= 01777;  // The set-user-id and set-group-id bits must not pass to another owner.
  }
  if (preserve && geteuid() != 0 && facts.st_uid != geteuid()) mode &= ~static_cast<mode_t>(04000);
  if (fchmod(file.fd(), mode) != 0) fail_errno(file.path(), "set the file's mode");
  const timespec times[2] = {facts.st_atim, facts.st_mtim};
  if (preserve && futimens(file.fd(), times) != 0) fail_errno(file.path(), "set the file's times");
}

// Fails if the source was written to meanwhile: the copy would mix old and new bytes.
void check_unchanged(const OpenFile& source) {
  if (source.is_block_device()) return;
  struct stat now {};
  if (fstat(source.fd.get(), &now) != 0) fail_errno(source.path, "look at the file");
  const auto same = [](const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; };
  if (now.st_size == source.facts.st_size && same(now.st_mtim, source.facts.st_mtim)) return;
  throw Failure(source.path + ": it changed while it was copied, so the copy was discarded; run cp again");
}

CpOutcome copy(const CpSettings& settings, Session& session) {
  const int direct = settings.direct ? O_DIRECT : 0;
  const OpenFile opened = open_file(settings.source, O_RDONLY | direct);
  CpOutcome outcome;
  outcome.destination = destination_of(settings);
  outcome.size = opened.size;
  check_destination(opened, outcome.destination, settings.force);
  const File from = require(session.file(opened.fd.get()), settings.source);
  NewFile created(outcome.destination, direct, nvidia_library_may_serve(from, settings.gpu));
  lay_out(opened, created);
  const std::string kind = require(from.info(), settings.source).file_system;
  if (opened.size == 0 && (kind == "proc" || kind == "sysfs")) {
    throw Failure(
        fmt::format("{}: could not copy: the kernel makes its content when it is read, so it has no size to copy; "
                    "use cp(1)",
                    settings.source));
  }
  const File to = require(session.file(created.fd()), outcome.destination);
  CopyEnd source{settings.source, opened.fd.get(), &from, {}};
  CopyEnd destination{outcome.destination, created.fd(), &to, {}};
  Copier copier(session, settings.gpu, source, destination, opened.size, settings.window);
  const auto start = std::chrono::steady_clock::now();
  outcome.data_bytes = copier.copy();
  if (fsync(created.fd()) != 0) fail_errno(outcome.destination, "flush the file");
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.read = source.tally;
  outcome.written = destination.tally;
  if (settings.verify) {
    // Makes the comparison read from the storage rather than from the page cache.
    posix_fadvise(created.fd(), 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(opened.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    copier.compare();
  }
  check_unchanged(opened);
  set_attributes(opened, created, !settings.no_preserve);
  throw_if_interrupted();
  created.publish(settings.force);
  return outcome;
}

void print_way(const char* verb, const Tally& tally) {
  for (const auto& [key, way] : tally.chosen) {
    if (way.bytes == 0) continue;
    print("{}: {}  {}\n", verb, path_sentence(key.first, key.second, way.refused_path), format_size(way.bytes));
  }
  print("{}", Text(path_note(tally.path_reason)));
}

void print_outcome(const CpSettings& settings, const CpOutcome& outcome, const std::string& device) {
  print("{} -> {}: {} in {}, {}{}\n", settings.source, outcome.destination, format_size(outcome.size),
        format_duration(outcome.seconds), format_rate(static_cast<double>(outcome.data_bytes) / outcome.seconds),
        settings.verify ? ", verified: every byte is equal" : "");
  if (outcome.data_bytes < outcome.size) print("holes: {}\n", format_size(outcome.size - outcome.data_bytes));
  print("{}\n", device);
  print_way("read", outcome.read);
  print_way("written", outcome.written);
}

Json way_json(const Tally& tally) {
  Json json = {{"direct_bytes", tally.direct_bytes}, {"cached_bytes", tally.cached_bytes}, {"paths", Json::array()}};
  for (const auto& [key, way] : tally.chosen) {
    if (way.bytes == 0) continue;
    Json row = path_json(key.first, key.second, way.refused_path);
    row["bytes"] = way.bytes;
    json["paths"].push_back(row);
  }
  // The reason why the path taken is slower than it could be. The reason why it was taken is in "paths".
  json["slowed_by"] = penstock_reason_name(tally.path_reason);
  for (std::uint32_t path = 0; path < penstock_path_count(); ++path) {
    json["bytes_by_path"][penstock_path_name(static_cast<int>(path))] = tally.bytes_by_path[path];
  }
  return json;
}

int run_cp(const CpSettings& settings) {
  if (settings.window < kWindowMin || settings.window > kWindowMax) {
    throw Failure(fmt::format("--window {}: expected 8k to 1T", settings.window), kUsage);
  }
  SessionSettings choice;
  choice.direct_io = settings.direct ? "always" : "";
  Session session = open_session(choice);
  check_gpu(session.raw(), settings.gpu);
  const bool is_object = !settings.stripe.empty() || is_striped(settings.source);
  const CpOutcome outcome =
      is_object ? copy_striped(settings, destination_of(settings), session) : copy(settings, session);
  if (!settings.json) {
    print_outcome(settings, outcome, device_line(session.raw(), settings.gpu));
    return kSuccess;
  }
  const Json json = {{"source", settings.source},
                     {"destination", outcome.destination},
                     {"size", outcome.size},
                     {"data_bytes", outcome.data_bytes},
                     {"seconds", outcome.seconds},
                     {"verified", settings.verify},
                     {"device", device_json(session.raw(), settings.gpu)},
                     {"read", way_json(outcome.read)},
                     {"written", way_json(outcome.written)}};
  print_json(json);
  return kSuccess;
}

}  // namespace

void add_cp(CommandLine& command) {
  auto settings = std::make_shared<CpSettings>();
  command.option("SRC", settings->source, "A regular file, a block device, or a striped object's manifest").required();
  command.option("DST", settings->destination, "A file that does not exist yet, or a folder").required();
  command.option("--gpu", settings->gpu, "The GPU whose memory the bytes pass through").default_shown();
  command.flag("--verify", settings->verify, "Read both files again and compare them, before DST gets its name");
  command.size("--window", settings->window, "Bytes of device memory to use [256M]");
  command.flag("--direct", settings->direct, "Open both files with O_DIRECT");
  command.flag("--force", settings->force, "Replace DST if it exists, in one step");
  command.flag("--no-preserve", settings->no_preserve,
               "Do not copy SRC's mode and times to DST, nor, as root, its owner");
  command.option("--stripe", settings->stripe, "Make DST a striped object with a member in each DIR")
      .value_name("DIR,DIR");
  command.size("--stripe-size", settings->stripe_size, "Bytes in a member before the next has its turn [8M]");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kCpExamples);
  command.runs([settings] { return run_cp(*settings); });
}

}  // namespace penstock::tools
