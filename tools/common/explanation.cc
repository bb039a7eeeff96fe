// SPDX-License-Identifier: Apache-2.0

#include "tools/common/explanation.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "facts/examination.h"
#include "facts/outlook.h"
#include "tools/common/arena.h"
#include "tools/common/context.h"
#include "tools/common/direct_answer.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/machine_root.h"
#include "tools/common/nvidia_fs_page.h"
#include "tools/common/outlook_page.h"
#include "tools/common/page.h"
#include "tools/common/residency.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kSampleSize = std::uint64_t{16} << 20;

std::string alignment_text(const FileInfo& info) {
  if (info.direct_offset_align == 0) return "not possible";
  return fmt::format("offsets in multiples of {} B, memory of {} B (known from: {})", info.direct_offset_align,
                     info.direct_memory_align, info.alignment_source);
}

std::string mode_text(const FileInfo& info) {
  const char* access = info.writable == 0 ? "read only" : info.readable == 0 ? "write only" : "read and write";
  return fmt::format("{}, {}", access, info.opened_direct != 0 ? "O_DIRECT" : "buffered (no O_DIRECT)");
}

std::string mount_text(const core::Mount& mount) {
  std::string text = fmt::format("{} on {}, {}", mount.source, mount.mount_point, mount.type);
  if (!mount.super_options.empty()) text += ", " + mount.super_options;
  return text;
}

void print_stack(const core::BlockDevice& device, int depth) {
  std::string text = core::block_kind_name(device.kind);
  if (device.is_partition()) text += ", partition of " + device.disk;
  for (const std::string& fact :
       {std::string(core::nvme_transport_name(device.transport)), device.scsi_link, device.iscsi_driver, device.dm_type,
        device.dm_target, device.md_level, device.backing_file, device.pci_address, device.model}) {
    if (!fact.empty()) text += ", " + fact;
  }
  print("{:>{}}{} ({})\n", "", 4 + 2 * depth, device.name, text);
  for (const core::BlockDevice& below : device.slaves) print_stack(below, depth + 1);
}

// Prints the mount of a file, and the block devices under it if they can be seen here.
void print_place(const DirectAnswer& direct) {
  if (direct.report.mount) print("  mount: {}\n", mount_text(*direct.report.mount));
  print("  block devices:{}\n", direct.stack ? "" : " none");
  if (direct.stack) print_stack(*direct.stack, 0);
}

// File systems keep less than this behind a file's end on their own.
constexpr std::uint64_t kBehindEndMin = 1u << 20;

void print_file(const ExplainSettings& settings, const Explanation& told) {
  const FileInfo& info = told.info;
  const std::uint64_t behind_end = told.direct.file.allocated_behind_end;
  print("file: {}\n", settings.file);
  print("  kind: {}\n", info.is_block_device != 0 ? "block device" : "regular file");
  print("  file system: {}\n", info.file_system);
  print("  size: {} ({} B)\n", format_size(info.size), info.size);
  if (behind_end >= kBehindEndMin) {
    print("  behind its end: {} allocated and not used, as a large write that was killed leaves it\n",
          format_size(behind_end));
    print("    remedy: Cut it off while no program writes to it: truncate --size={} FILE.\n", info.size);
  }
  print("  descriptor: {}\n", mode_text(info));
  print("  direct I/O: {}\n", alignment_text(info));
  print_place(told.direct);
}

std::string reason_text(const Explanation& told, const Verdict& verdict) {
  if (verdict.reason == PENSTOCK_REASON_NONE && told.may_serve(verdict)) return "";
  const Refusal refusal = told.refusal_of(verdict);
  std::string text = fmt::format(" [{}] {}", refusal.reason, refusal.sentence);
  constexpr int kCufileErrors = 5000;  // The numbers of cuFile's own errors begin above this.
  if (verdict.reason == PENSTOCK_REASON_NVFS_VERSION) {
    const int version = verdict.detail;
    text += fmt::format(" (version {}.{}.{})", version / 1'000'000, version / 1000 % 1000, version % 1000);
  } else if (verdict.detail > kCufileErrors) text += fmt::format(" (cuFile error {})", verdict.detail);
  else if (verdict.detail != 0) text += fmt::format(" (errno {}: {})", verdict.detail, strerror(verdict.detail));
  return text;
}

void print_verdicts(const ExplainSettings& settings, const Explanation& told) {
  print("paths for a {} {} {} memory, best first:\n", settings.is_write ? "write" : "read",
        settings.is_write ? "from" : "into", settings.memory);
  for (const Verdict& verdict : told.verdicts) {
    print("  {:<10} {}{}\n", verdict.path_name(), told.may_serve(verdict) ? "usable" : "refused",
          reason_text(told, verdict));
    const std::string remedy = told.refusal_of(verdict).remedy;
    if (!remedy.empty()) print("  {:<10} remedy: {}\n", "", facts::as_sentence(remedy));
  }
  const Verdict* best = told.chosen();
  print("would be used: {}\n", best != nullptr ? best->path_name() : "none; the request would fail");
}

Json mount_json(const std::optional<core::Mount>& mount) {
  if (!mount) return nullptr;
  return {{"point", mount->mount_point},
          {"type", mount->type},
          {"source", mount->source},
          {"options", mount->options},
          {"super_options", mount->super_options}};
}

Json file_json(const ExplainSettings& settings, const Explanation& told) {
  const FileInfo& info = told.info;
  return {{"path", settings.file},
          {"kind", info.is_block_device != 0 ? "block_device" : "regular"},
          {"file_system", info.file_system},
          {"size", info.size},
          {"allocated_behind_end", told.direct.file.allocated_behind_end},
          {"inode", info.inode},
          {"readable", info.readable != 0},
          {"writable", info.writable != 0},
          {"opened_direct", info.opened_direct != 0},
          {"direct_offset_align", info.direct_offset_align},
          {"direct_memory_align", info.direct_memory_align},
          {"alignment_source", info.alignment_source},
          {"mount", mount_json(told.direct.report.mount)},
          {"block_device", told.direct.stack ? stack_json(*told.direct.stack) : Json()}};
}

Json verdicts_json(const Explanation& told) {
  Json rows = Json::array();
  for (const Verdict& verdict : told.verdicts) {
    const Refusal refusal = told.refusal_of(verdict);
    rows.push_back({{"path", verdict.path_name()},
                    {"usable", told.may_serve(verdict)},
                    {"reason", refusal.reason},
                    {"sentence", refusal.sentence},
                    {"remedy", refusal.remedy},
                    {"errno", verdict.detail}});
  }
  return rows;
}

void check_range(const ExplainSettings& settings, const FileInfo& info) {
  if (settings.offset <= info.size && settings.size <= info.size - settings.offset) return;
  throw Failure(
      fmt::format("{}: it has {}, and --offset and --size reach past its end", settings.file, format_size(info.size)),
      kUsage);
}

std::uint64_t sample_size(const ExplainSettings& settings, const FileInfo& info) {
  if (settings.size != 0) return settings.size;
  const std::uint64_t rest = info.size > settings.offset ? info.size - settings.offset : 0;
  return std::min(rest, kSampleSize);
}

void print_plan(const ExplainSettings& settings, const std::string& plan, std::uint64_t size,
                const std::optional<Choice>& choice) {
  if (plan.empty()) return;
  print("plan of a {} of {} at offset {}:\n", settings.is_write ? "write" : "read", format_size(size), settings.offset);
  std::size_t begin = 0;
  for (std::size_t end = plan.find('\n'); end != std::string::npos; end = plan.find('\n', begin)) {
    print("  {}\n", plan.substr(begin, end - begin));
    begin = end + 1;
  }
  if (choice) print("  why: {}\n", why(*choice));
}

Json choice_json(const std::optional<Choice>& choice) {
  if (!choice) return nullptr;
  const bool by_policy = choice->chosen_by != PENSTOCK_CHOSEN_BY_SIZE;
  return {{"path", penstock_path_name(choice->path)},
          {"policy", by_policy ? Json(choice->policy) : Json()},
          {"threads", choice->threads},
          {"chunk", choice->chunk},
          {"depth", choice->depth},
          {"settled", choice->chosen_by == PENSTOCK_CHOSEN_BY_MEASUREMENT},
          {"why", why(*choice)}};
}

DirectQuestion question_of(const ExplainSettings& settings, std::uint64_t size) {
  return {settings.is_write ? core::Op::write : core::Op::read, settings.offset, size, ""};
}

// Asks about the device that takes part, if it is a GPU.
DirectAnswer direct_answer(const ExplainSettings& settings, penstock_session* session, int fd, std::uint64_t size) {
  DirectQuestion question = question_of(settings, size);
  DeviceInfo device;
  const bool is_known = penstock_device_get(session, settings.gpu, &device).code == 0;
  if (is_known && device.stand_in == 0) question.peer = device.pci_address;
  return ask_direct(fd, question);
}

// A file of a captured machine.
struct CapturedFile {
  DirectAnswer direct;
  facts::Outlook outlook;
};

CapturedFile look_at_captured(const core::Root& root, const facts::Examination& examined, const std::string& file,
                              const DirectQuestion& question) {
  CapturedFile told{ask_captured(root, examined.machine, file, question), {}};
  const auto& mount = told.direct.report.mount;
  if (!mount && !told.direct.file.is_block_device) {
    throw Failure(file + ": it is on no mount of the captured machine");
  }
  const facts::Outlook* const known = mount ? place_of(examined, *mount) : nullptr;
  told.outlook = facts::outlook_of_file(known != nullptr ? *known : examined.whole, told.direct.report.findings,
                                        question.op == core::Op::write);
  return told;
}

Json captured_json(const std::string& file, const DirectQuestion& question, const CapturedFile& told,
                   const core::NvidiaFsStats& stats) {
  const facts::PathOutlook* const best = told.outlook.first_usable();
  return {{"file",
           {{"path", file},
            {"mount", mount_json(told.direct.report.mount)},
            {"block_device", told.direct.stack ? stack_json(*told.direct.stack) : Json()}}},
          {"operation", core::op_name(question.op)},
          {"paths", outlook_json(told.outlook)},
          {"would_use", best == nullptr ? Json(nullptr) : Json(penstock_path_name(best->path))},
          {"p2pdma", direct_json(told.direct)},
          {"nvidia_fs", nvidia_fs_json(stats)}};
}

void print_captured(const std::string& file, const std::string& root, const DirectQuestion& question,
                    const CapturedFile& told) {
  print("file: {} on the captured machine in {}\n", file, root);
  print_place(told.direct);
  Page page;
  page.section("Paths between it and device memory, best first");
  for (const facts::PathOutlook& path : told.outlook.paths) print_path(page, path);
  print_verdict(page, told.outlook);
  print("\n{}\n{}", page.shown(), Text(direct_text(told.direct, question)));
}

// The first line names the path; below it stand those that are refused before it, by their sentence.
void print_captured_in_short(const std::string& file, const std::string& root, const DirectQuestion& question,
                             const facts::Examination& examined, const CapturedFile& told) {
  const facts::Outlook& outlook = told.outlook;
  const facts::PathOutlook* const best = outlook.first_usable();
  Page page;
  page.wrap("", fmt::format("{}: on the captured machine in {} a {} goes by {}{}", file, root,
                            core::op_name(question.op), best == nullptr ? "none" : penstock_path_name(best->path),
                            best == nullptr ? "" : mover_of(best->path)));
  for (std::size_t i = 0; i < outlook.paths.size() && &outlook.paths[i] != best;) {
    const facts::PathOutlook& first = outlook.paths[i];
    std::string names;
    const auto is_alike = [&](const facts::PathOutlook& one) {
      return one.sentence() == first.sentence() && one.remedy() == first.remedy();
    };
    for (; i < outlook.paths.size() && is_alike(outlook.paths[i]); ++i) {
      names += (names.empty() ? "" : ", ") + std::string(penstock_path_name(outlook.paths[i].path));
    }
    print_refusal(page, "not " + names, first.sentence(), first.reason_name(), first.remedy());
  }
  for (const core::Finding& one : outlook.place != nullptr ? outlook.place->findings : core::Findings{}) {
    if (!is_of_storage(one) || one.code() == outlook.of(PENSTOCK_PATH_P2PDMA).reason_name()) continue;
    print_refusal(page, "also against p2pdma", one.sentence(), one.code(),
                  outlook.is_beyond_repair() ? "" : one.remedy());
  }
  if (const std::string counsel = first_counsel(outlook); !counsel.empty()) page.wrap("  ", counsel);
  for (const facts::Finding* const slow :
       told.direct.stack ? facts::slow_links(examined, *told.direct.stack) : std::vector<const facts::Finding*>()) {
    print_refusal(page, "slower on any path", fmt::format("{}: {}", slow->subject, slow->sentence), slow->code,
                  slow->remedy);
  }
  print("{}", page.shown());
}

RequestPlan plan_of(const ExplainSettings& settings, const File& file, std::uint64_t size, const Verdict* best,
                    const DryRun& run) {
  if (best == nullptr) return {size, "", std::nullopt};
  const auto offset = static_cast<std::int64_t>(settings.offset);
  return {size, require(file.plan(run, size, offset), settings.file),
          require(file.choose(run, size, offset), settings.file)};
}

}  // namespace

void print_in_full(const ExplainSettings& settings, const Session& session, const Explanation& told) {
  const bool on_device = settings.memory == "device";
  print_file(settings, told);
  print("{}\n", on_device ? device_line(session.raw(), settings.gpu) : "memory: host; no device takes part");
  print_verdicts(settings, told);
  print_plan(settings, told.plan.text, told.plan.size, told.plan.choice);
  if (!on_device) return;
  print("\n{}", Text(direct_text(told.direct, question_of(settings, told.plan.size))));
  print("{}", Text(nvidia_fs_text(this_machines_nvidia_fs())));
}

Json explanation_json(const ExplainSettings& settings, const Session& session, const Explanation& told) {
  const bool on_device = settings.memory == "device";
  const Verdict* best = told.chosen();
  return {{"file", file_json(settings, told)},
          {"cached_bytes", told.cached ? Json(*told.cached) : Json()},
          {"operation", settings.is_write ? "write" : "read"},
          {"memory", settings.memory},
          {"device", on_device ? device_json(session.raw(), settings.gpu) : Json()},
          {"paths", verdicts_json(told)},
          {"p2pdma", on_device ? direct_json(told.direct) : Json()},
          {"plan", {{"offset", settings.offset}, {"size", told.plan.size}, {"text", told.plan.text}}},
          {"choice", choice_json(told.plan.choice)},
          {"would_use", best != nullptr ? Json(best->path_name()) : Json()},
          {"nvidia_fs", on_device ? nvidia_fs_json(this_machines_nvidia_fs()) : Json()}};
}

bool Explanation::may_serve(const Verdict& verdict) const {
  return verdict.usable != 0 && (required.empty() || verdict.path_name() == required);
}

Refusal Explanation::refusal_of(const Verdict& verdict) const {
  if (may_serve(verdict) || verdict.usable == 0) {
    Refusal told{verdict.reason_name(), verdict.sentence(), verdict.remedy()};
    if (verdict.reason != PENSTOCK_REASON_STAND_IN || !stand_in) return told;
    told.sentence += ": " + stand_in->sentence;
    told.remedy = stand_in->remedy;
    return told;
  }
  const facts::Finding finding = facts::left_out_by(required);
  return {finding.code, finding.sentence, finding.remedy};
}

const Verdict* Explanation::chosen() const {
  const auto found =
      std::find_if(verdicts.begin(), verdicts.end(), [this](const Verdict& each) { return may_serve(each); });
  return found == verdicts.end() ? nullptr : &*found;
}

bool is_of_storage(const core::Finding& finding) {
  return finding.stops() && finding.obstacle >= core::Obstacle::nvme_multipath &&
         finding.obstacle < core::Obstacle::compressed;
}

const char* why(const Choice& choice) {
  switch (choice.chosen_by) {
    case PENSTOCK_CHOSEN_BY_SIZE: return "so small that the calling thread moves it alone";
    case PENSTOCK_CHOSEN_AT_FIRST: return "a first guess: this process has not measured enough of such requests";
    case PENSTOCK_CHOSEN_BY_MEASUREMENT: return "the best that this process measured, by its policy";
    default: return "follows from path, size and settings; nothing is measured for it";
  }
}

Explanation look_at(const ExplainSettings& settings, const Session& session) {
  const int access = settings.is_write ? O_RDWR : O_RDONLY;
  const OpenFile opened = open_file(settings.file, access | (settings.direct ? O_DIRECT : 0));
  const File file = require(session.file(opened.fd.get()), settings.file);
  const std::optional<Arena> host = settings.memory == "device" ? std::nullopt : std::optional(Arena::on_host(4096));
  const DryRun run{settings.is_write ? PENSTOCK_WRITE : PENSTOCK_READ, settings.gpu, host ? host->data() : nullptr};
  Explanation told;
  told.info = require(file.info(), settings.file);
  if (!settings.is_write) check_range(settings, told.info);
  told.cached = cached_bytes(opened.fd.get());
  DeviceInfo device;
  if (penstock_device_get(session.raw(), settings.gpu, &device).code == 0 && device.stand_in != 0) {
    told.stand_in = why_stand_in(session.raw());
  }
  told.verdicts = require(file.explain(run), settings.file);
  told.required = require(session.setting("require"), "session");
  const std::uint64_t size = sample_size(settings, told.info);
  told.direct = direct_answer(settings, session.raw(), opened.fd.get(), size);
  told.plan = plan_of(settings, file, size, told.chosen(), run);
  return told;
}

int explain_captured(const ExplainSettings& settings, const std::vector<std::string>& files, bool in_full) {
  const DirectQuestion question = question_of(settings, settings.size);
  const core::Root root = open_machine_root(settings.root);
  const facts::Examination examined =
      facts::examine(facts::read_machine(root, settings.root, variables_of(settings.variables)));
  Json documents = Json::array();
  int exit_code = kSuccess;
  for (const std::string& file : files) {
    const CapturedFile told = look_at_captured(root, examined, file, question);
    if (told.outlook.first_usable() == nullptr) exit_code = kFailed;
    if (!settings.json && &file != files.data()) print("\n");
    if (settings.json) documents.push_back(captured_json(file, question, told, examined.machine.nvidia_fs_stats));
    else if (in_full) print_captured(file, settings.root, question, told);
    else print_captured_in_short(file, settings.root, question, examined, told);
  }
  if (in_full && !settings.json) print("{}", Text(nvidia_fs_text(examined.machine.nvidia_fs_stats)));
  if (settings.json) print_json(files.size() == 1 ? documents[0] : Json{{"files", documents}});
  return exit_code;
}

}  // namespace penstock::tools
