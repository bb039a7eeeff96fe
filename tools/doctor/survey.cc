// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/survey.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <thread>

#include "base/cpus.h"
#include "base/memory_room.h"
#include "facts/bus.h"
#include "stripe/members.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/machine_root.h"
#include "tools/common/new_file.h"
#include "tools/common/residency.h"
#include "tools/common/striped.h"

namespace penstock::tools {
namespace {

using namespace std::chrono_literals;

// A piece counts as cached if more than this part of it is, and as uncached likewise: requests share pages at their
// ends.
constexpr double kNearlyAll = 0.98;
constexpr std::uint64_t kSmallPiece = std::uint64_t{1} << 20;  // Used if most large pieces are partly cached.

// Sorts pieces into cached and uncached. A piece of which neither part reaches `enough` goes into neither list.
void sort_pieces(Survey& survey, std::size_t number, std::uint64_t piece_size, double enough) {
  const Shard& shard = survey.shards[number];
  const Source source(shard.path);
  for (std::uint64_t at = 0; at < shard.size; at += piece_size) {
    Piece piece{number, at, std::min(piece_size, shard.size - at), 0};
    piece.cached = source.cached(piece.offset, piece.size).value_or(0);
    const double part = static_cast<double>(piece.cached) / static_cast<double>(piece.size);
    if (part >= enough) survey.cached.push_back(piece);
    else if (part <= 1 - enough) survey.uncached.push_back(piece);
  }
}

// True if most bytes are in no piece. The other bytes, such as those of the smallest files, tell little of them.
bool leaves_most_out(const Survey& survey) {
  std::uint64_t all = 0, found = 0;
  for (const Shard& shard : survey.shards) all += shard.size;
  for (const std::vector<Piece>* pieces : {&survey.cached, &survey.uncached}) {
    for (const Piece& piece : *pieces) found += piece.size;
  }
  return found < all / 2;
}

// A file that holds bytes to be loaded: one of the user's, or a member of a striped object.
struct Part {
  std::string path;
  std::uint64_t bytes = 0;
};
using Parts = std::map<dev_t, std::vector<Part>>;  // Sorted by the device on which they lie.

void add_shard(Survey& survey, const std::string& path, Parts& parts) {
  const Source source(path);
  Shard shard{path, source.size(), source.cached(), {}};
  for (std::size_t i = 0; i < source.files().size(); ++i) {
    const OpenFile& file = source.files()[i];
    const std::uint64_t bytes = source.bytes_in(i);
    const auto blocks = static_cast<std::uint64_t>(file.facts.st_blocks) * 512;  // The unit of stat(2).
    survey.allocated += file.is_block_device() ? bytes : std::min(blocks, bytes);
    if (bytes > 0) parts[file.is_block_device() ? file.facts.st_rdev : file.facts.st_dev].push_back({file.path, bytes});
    if (source.is_object()) shard.members.push_back(file.path);
  }
  survey.bytes += shard.size;
  survey.cached_bytes += shard.cached.value_or(0);
  survey.is_residency_known = survey.is_residency_known && shard.cached.has_value();
  survey.shards.push_back(std::move(shard));
}

void add_places(Survey& survey, const Parts& by_device, const Session& session, unsigned gpu) {
  for (const auto& [device, parts] : by_device) {
    const auto smaller = [](const Part& one, const Part& other) { return one.bytes < other.bytes; };
    Place place;
    place.file = std::max_element(parts.begin(), parts.end(), smaller)->path;
    for (const Part& part : parts) place.bytes += part.bytes;
    ExplainSettings settings;
    settings.file = place.file;
    settings.gpu = gpu;
    place.told = look_at(settings, session);
    survey.places.push_back(std::move(place));
  }
}

void add_drives(std::vector<Bus>& buses, const core::BlockDevice& stack, const std::vector<core::PciDevice>& pci) {
  for (const core::BlockDevice& below : stack.slaves) add_drives(buses, below, pci);
  const auto is_it = [&](const core::PciDevice& each) { return each.address == stack.pci_address; };
  const auto found = std::find_if(pci.begin(), pci.end(), is_it);
  const auto is_known = [&](const Bus& bus) { return bus.device.address == stack.pci_address; };
  if (found == pci.end() || std::any_of(buses.begin(), buses.end(), is_known)) return;
  buses.push_back({stack.disk, *found, ""});
}

void add_buses(Survey& survey, const Session& session, unsigned gpu) {
  const std::vector<core::PciDevice> pci = facts::pci_devices(open_machine_root(""));
  for (const Place& place : survey.places) {
    if (place.told.direct.stack) add_drives(survey.buses, *place.told.direct.stack, pci);
  }
  const DeviceInfo info = require(session.device(gpu), fmt::format("GPU {}", gpu));
  survey.has_gpu = info.stand_in == 0;
  for (const core::PciDevice& device : pci) {
    if (!survey.has_gpu || device.address != info.pci_address) continue;
    for (Bus& drive : survey.buses) drive.relation = facts::place_beside(drive.device, device);
    survey.buses.push_back({fmt::format("GPU {}", gpu), device, ""});
  }
}

void add_machine(Survey& survey, const Session& session, unsigned gpu) {
  add_buses(survey, session, gpu);
  survey.device = device_line(session.raw(), gpu);
  survey.device_facts = device_json(session.raw(), gpu);
  survey.memory_available = core::memory_room().available;
  survey.cpus = static_cast<unsigned>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
  const core::CpuSet allowed = core::allowed_cpus();
  survey.cpu_limit = std::min<double>(survey.cpus, core::cpu_limit("", allowed));
  survey.is_quota = survey.cpu_limit < static_cast<double>(allowed.count());
}

// False if some of it stays in the cache, as pages do that are just being read. Adjacent pieces are dropped together: a
// folio may lie in both of them.
bool forget(const Survey& survey, std::span<const Piece> pieces) try {
  bool all = true;
  while (!pieces.empty()) {
    const Piece& first = pieces.front();
    std::uint64_t size = 0, cached = 0;
    for (; !pieces.empty() && pieces.front().shard == first.shard && pieces.front().offset == first.offset + size;
         pieces = pieces.subspan(1)) {
      size += pieces.front().size;
      cached += pieces.front().cached;
    }
    const Source source(survey.shards[first.shard].path);
    const auto has_more = [&] { return source.cached(first.offset, size).value_or(0) > cached; };
    if (!has_more()) continue;
    source.forget(first.offset, size);
    all = all && !has_more();
  }
  return all;
} catch (const Failure&) {
  return true;  // The file was removed, and its pages with it.
}

core::StripeMembers open_object(const std::string& manifest) {
  auto opened = core::open_members(manifest);
  if (!opened.ok()) throw Failure(core::describe(opened.status()));
  return std::move(*opened);
}

using Identity = std::pair<dev_t, ino_t>;
Identity identity_of(const OpenFile& file) { return {file.facts.st_dev, file.facts.st_ino}; }

}  // namespace

void find_pieces(Survey& survey) {
  for (std::size_t i = 0; i < survey.shards.size(); ++i) sort_pieces(survey, i, kPieceSize, kNearlyAll);
  if (!leaves_most_out(survey)) return;
  survey.cached.clear();
  survey.uncached.clear();
  for (std::size_t i = 0; i < survey.shards.size(); ++i) sort_pieces(survey, i, kSmallPiece, 0.5);
}

Survey look_over(const std::vector<std::string>& files, const Session& session, unsigned gpu) {
  Survey survey;
  Parts by_device;
  for (const std::string& file : without_members(files)) {
    throw_if_interrupted();
    add_shard(survey, file, by_device);
  }
  if (survey.bytes == 0) throw Failure(files[0] + ": there is nothing to load: it has no bytes");
  find_pieces(survey);
  add_places(survey, by_device, session, gpu);
  add_machine(survey, session, gpu);
  return survey;
}

Survey look_at_folder(const std::string& folder, const Session& session, unsigned gpu) {
  const NewFile scratch(folder + "/penstock-doctor", 0);
  ExplainSettings settings;
  settings.file = fmt::format("/proc/self/fd/{}", scratch.fd());
  settings.gpu = gpu;
  settings.is_write = true;
  Survey survey;
  survey.places.push_back({folder, 0, look_at(settings, session)});
  add_machine(survey, session, gpu);
  return survey;
}

void restore_page_cache(const Survey& survey, std::size_t count) {
  if (!survey.is_residency_known || count == 0) return;
  const auto read = std::span(survey.uncached).first(std::min(count + 1, survey.uncached.size()));
  const auto end = std::chrono::steady_clock::now() + 1s;
  while (!forget(survey, read) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(10ms);
}

Source::Source(const std::string& path) : path_(path), is_object_(is_striped(path)) {
  if (is_object_) {
    const core::StripeMembers object = open_object(path);
    layout_ = object.manifest.layout;
    for (const std::string& file : object.manifest.files) files_.push_back(open_file(file, O_RDONLY));
    return;
  }
  files_.push_back(open_file(path, O_RDONLY));
  layout_ = {.size = files_[0].size, .stripe_bytes = core::StripeLayout::kStripeMax, .members = 1};
}

File Source::open_in(const Session& session) const {
  return is_object_ ? require(session.stripe(path_.c_str()), path_) : require(session.file(files_[0].fd.get()), path_);
}

std::size_t Source::read(std::span<std::byte> bytes, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < bytes.size() && offset + done < size()) {
    const std::uint64_t at = offset + done;
    const OpenFile& file = files_[layout_.member_at(at)];
    const auto asked = std::min<std::uint64_t>(std::min(layout_.stripe_end(at), size()) - at, bytes.size() - done);
    const ssize_t count =
        pread(file.fd.get(), bytes.data() + done, asked, static_cast<off_t>(layout_.offset_in_member(at)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(file.path, "read the file");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void Source::each_part(std::uint64_t offset, std::uint64_t size, const Visit& visit) const {
  core::StripeLayout before = layout_, behind = layout_;
  before.size = std::min(offset, layout_.size);
  behind.size = size == 0 ? layout_.size : std::min(layout_.size, before.size + size);
  for (std::uint32_t i = 0; i < layout_.members; ++i) {
    const std::uint64_t begin = before.member_bytes(i), end = behind.member_bytes(i);
    if (begin < end) visit(files_[i], begin, end - begin);
  }
}

std::optional<std::uint64_t> Source::cached(std::uint64_t offset, std::uint64_t size) const {
  std::optional<std::uint64_t> sum = 0;
  each_part(offset, size, [&](const OpenFile& file, std::uint64_t at, std::uint64_t bytes) {
    const auto part = cached_bytes(file.fd.get(), at, bytes);
    if (!part) sum.reset();
    else if (sum) *sum += *part;
  });
  return sum;
}

void Source::warm(std::uint64_t offset, std::uint64_t size) const {
  each_part(offset, size,
            [](const OpenFile& file, std::uint64_t at, std::uint64_t bytes) { warm_cache(file.path, at, bytes); });
}

void Source::forget(std::uint64_t offset, std::uint64_t size) const {
  each_part(offset, size, [](const OpenFile& file, std::uint64_t at, std::uint64_t bytes) {
    posix_fadvise(file.fd.get(), static_cast<off_t>(at), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  });
}

std::vector<std::string> without_members(const std::vector<std::string>& files) {
  std::set<Identity> members;
  for (const std::string& file : files) {
    if (!is_striped(file)) continue;
    const Source object(file);
    for (const OpenFile& member : object.files()) members.insert(identity_of(member));
  }
  if (members.empty()) return files;
  std::vector<std::string> rest;
  for (const std::string& file : files) {
    if (!members.contains(identity_of(open_file(file, O_RDONLY)))) rest.push_back(file);
  }
  return rest;
}

}  // namespace penstock::tools
