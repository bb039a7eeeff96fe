// SPDX-License-Identifier: Apache-2.0

#include "tools/help/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "core/p2pdma_needs.h"
#include "facts/codes.h"
#include "facts/environment.h"
#include "facts/finding.h"
#include "penstock/penstock.hpp"
#include "tools/common/failure.h"
#include "tools/common/nearest.h"
#include "tools/common/page.h"
#include "topology/text.h"

#define PENSTOCK_CUFILE_WITHOUT_CUDA  // Only its numbers and names are needed.
#include "cufile.h"

namespace penstock::tools {
namespace {

constexpr const char* kHelpExamples =
    "Examples:\n"
    "  penstock help bench             the options of a command\n"
    "  penstock help stand_in          what a reason means, and what to do\n"
    "  penstock help PENSTOCK_POLICY   a setting: its value, what it takes\n"
    "  penstock help 5030              an error of cuFile; also by its name, and errors of the system (EIO)\n"
    "  penstock help binds             a word of what the tools print\n"
    "  penstock help words             the list of such words; also 'paths', 'reasons' and 'rows'\n"
    "Exit code: 0 explained, 2 there is no such word.";

struct CufileError {
  const char* name;
  int number;
  const char* sentence;
};
constexpr CufileError kCufileErrors[] = {
#define CUFILE_OP(name, number, sentence) {#name, number, sentence},
    CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
};

const char* path_in_words(int path) {
  switch (path) {
    case PENSTOCK_PATH_P2PDMA:
      return "the drive's DMA engine reaches the GPU's memory by Linux's P2PDMA; no CPU, no host memory";
    case PENSTOCK_PATH_DMABUF:
      return "a raw drive's DMA engine reaches GPU memory that its driver exports as a dma-buf; no CPU, no host memory";
    case PENSTOCK_PATH_PAGECACHE: return "the GPU's DMA engine reads the file's pages in the page cache";
    case PENSTOCK_PATH_NVFS: return "the module nvidia-fs, called without NVIDIA's library, where it serves the file";
    case PENSTOCK_PATH_VENDOR: return "NVIDIA's library moves the bytes, where its module nvidia-fs serves the file";
    case PENSTOCK_PATH_BOUNCE: return "storage to pinned host memory to the GPU, overlapped";
    case PENSTOCK_PATH_HOST: return "storage straight into host memory; no GPU takes part";
    case PENSTOCK_PATH_NULL:
      return "moves no bytes, to measure what the library itself costs; taken only if it is named";
    default: return "the file system in user space moves the bytes by its own calls";
  }
}

// Returns what the path needs of the machine. It is empty where the path's sentence says all.
std::string needs_of_path(int path) {
  switch (path) {
    case PENSTOCK_PATH_P2PDMA:
      return fmt::format(
          "an NVMe drive, or md raid of such, with ext4 or XFS; Linux {} or later, but not {}, with "
          "CONFIG_PCI_P2PDMA; a way between drive and GPU that no ACS redirects and no IOMMU translates. Of an "
          "NVIDIA GPU: the open driver {} or later, from Linux {} on {} or later, all of its memory in BAR 1 "
          "(RMForceStaticBar1), PENSTOCK_NVIDIA_EXPORT=on",
          text_of(core::kP2pdmaKernel), text_of(core::kP2pdmaKernelFaulty), text_of(core::kP2pdmaDriver),
          text_of(core::kP2pdmaKernelOfNewPages), text_of(core::kP2pdmaDriverOfNewPages));
    case PENSTOCK_PATH_DMABUF:
      return "a Linux whose io_uring takes dma-bufs as buffers (none up to 7.3); an NVIDIA GPU with the open driver; "
             "a raw NVMe drive or a partition of one; no IOMMU that translates; PENSTOCK_DMABUF=on. To read files on "
             "ext4 or "
             "XFS on such a drive also PENSTOCK_DMABUF_FILES=on, and the right to read the drive's node, with which "
             "the process can read every file on it";
    case PENSTOCK_PATH_PAGECACHE:
      return "an NVIDIA GPU whose driver registers read-only memory; a file on ext4, XFS, Btrfs, F2FS, tmpfs or "
             "hugetlbfs, opened without O_DIRECT, whose bytes are in the page cache; writes on the last two alone";
    case PENSTOCK_PATH_NVFS:
      return "the module nvidia-fs, a storage driver that has registered with it, blocks of 4096 bytes, and "
             "PENSTOCK_NVFS=on or auto";
    case PENSTOCK_PATH_VENDOR:
      return "NVIDIA's libcufile.so.0, the module nvidia-fs, and a storage driver that has registered with it";
    case PENSTOCK_PATH_BOUNCE: return "a GPU and its driver; without one, host memory stands in";
    default: return "";
  }
}

std::vector<std::string> names_of_paths() {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < penstock_path_count(); ++i) {
    names.emplace_back(penstock_path_name(static_cast<std::int32_t>(i)));
  }
  return names;
}

std::vector<std::string> names_of_reasons() {
  std::vector<std::string> names;
  for (const std::int32_t reason : facts::all_reasons()) names.emplace_back(penstock_reason_name(reason));
  return names;
}

// Words in tables and sentences of the tools that are explained nowhere else.
struct Word {
  const char* word;
  const char* sentence;
};
constexpr Word kWords[] = {
    {"binds",
     "to be the slowest part of the way, which sets the speed of the whole: making another part quicker gains nothing"},
    {"cold", "not in the page cache: the drive has to be read"},
    {"warm", "in the page cache: no drive takes part"},
    {"plain", "the way of a program that calls read(2) or write(2) itself, without this library"},
    {"turns",
     "things to be compared are measured one after another, again and again, so that whatever else the machine does "
     "affects all alike; the range is from the slowest turn to the fastest"},
    {"interval",
     "the rate lies within this range with a probability of 95 %, judged by how much the measured stretches of time "
     "differ"},
    {"blended", "some bytes came from the page cache and the others from the drive: the rate is that of neither"},
    {"link",
     "the PCIe connection of a GPU or a drive; its generation (GT/s for each lane) and its width (lanes) limit "
     "it"},
    {"direct",
     "around the page cache, with O_DIRECT: the drive's DMA engine moves the bytes, where nothing stands in "
     "its way"},
    {"buffered", "through the page cache, with a copy by the CPU"},
    {"O_DIRECT",
     "the flag of open(2) for I/O around the page cache; a file system may accept it and copy all the same; 'penstock "
     "check --try FOLDER' tries that"},
    {"stand-in", "host memory in the place of a GPU's, where there is none: bytes travel, but over no link"},
    {"BAR1", "the window through which other PCIe devices reach a GPU's memory"},
    {"page-cache", "the kernel's copy of files in memory"},
    {"page cache", "the kernel's copy of files in memory"},
    {"switch", "both devices are below one PCIe switch: bytes between them pass no CPU"},
    {"host_bridge", "both devices are below one PCIe root of a CPU, and bytes between them pass through it"},
    {"node", "both devices are at one NUMA node, below different roots"},
    {"apart", "the devices are at different NUMA nodes: bytes between them cross the link of the CPUs"},
    {"registration",
     "having the GPU's driver map host memory, or GPU memory, for DMA; it takes longer than a small "
     "transfer, so what is registered is kept"},
    {"placement", "which memory and which CPUs a transfer uses: those near the GPU or the drive are quicker"},
    {"path", "a way to move bytes between a file and memory; 'penstock help paths' lists them"},
    {"reason",
     "the stable name of a cause for which a path is not taken, or is slower than it could be; 'penstock help reasons' "
     "lists them"},
    {"session", "one use of the library by a process, from opening it to closing it, with its settings and its memory"},
    {"self-test",
     "bytes that are written and read over a direct path before it is used, once for each pair of GPU and drive: on "
     "some "
     "machines such transfers end with success and move nothing"},
    {"pair", "a GPU and a drive, between which bytes may go directly or not"},
    {"closed", "a path that this machine cannot take, whatever the settings; the reason says why"},
    {"off", "a path that the machine may be able to take, but that a setting leaves out; the reason names the setting"},
    {"peer page", "a page of a GPU's memory that the kernel knows as a target of P2PDMA"},
    {"ACS", "PCIe Access Control Services: where they redirect, bytes between two devices take the way by the CPU"},
    {"IOMMU",
     "the unit that can translate the addresses of DMA; if it does, some direct transfers are lost without an error"},
    // People ask with these words; each is answered with a command.
    {"fast",
     "'penstock bench --every-path --dir FOLDER' measures every path that this machine has, and ends with the fastest"},
    {"slow", "'penstock explain --measure FILE' says which part of the way limits a load, and what would help"},
    {"save",
     "'penstock explain --measure --save SIZE FOLDER' says what limits a checkpoint that is saved there, and what "
     "would help. Mostly it is the drive. Else writes go through the page cache (PENSTOCK_DIRECT_IO=always, or "
     "direct=True of penstock.checkpoint), the file system looks for new blocks (write over files in use), or the "
     "trainer waits for all of it (penstock.checkpoint.Saver saves behind it)"},
    {"checkpoint",
     "the state of a job, saved to go on from: 'penstock explain --measure --save SIZE FOLDER' says what limits a save "
     "there; 'python -m penstock checkpoint --help' lists what looks at one, checks one and moves one"},
    {"manifest",
     "a text that lists parts. Of Kubernetes: 'penstock-k8s lint FILE...' judges those you have, 'penstock-k8s render' "
     "writes them. Of a striped object: 'penstock explain MANIFEST' says by which path each of its files goes. Of a "
     "checkpoint: 'python -m penstock checkpoint verify FOLDER' checks the files that it lists"},
    {"fallback",
     "a path that served because a better one could not; 'penstock run --report PROGRAM' says which paths a program's "
     "bytes took and why, and PENSTOCK_REQUIRE=PATH makes a request fail instead"},
    {"pod",
     "it needs no root, capability or udev, but a GPU (nvidia.com/gpu), a volume of a real file system for the data, "
     "since an overlay hides the drive, a seccomp profile that allows io_uring, and 256 MiB of memory for each GPU; "
     "'penstock check' in the pod names what is missing. 'penstock-k8s verify' says on a node or in a pod which paths "
     "it has; 'penstock-k8s lint' judges manifests"},
    {"kubernetes", "'penstock-k8s' answers for a cluster: choose, render, lint, verify"},
};

bool add_word(Page& page, std::string_view word) {
  const auto is_it = [&](const Word& each) { return word == each.word; };
  const auto* const found = std::find_if(std::begin(kWords), std::end(kWords), is_it);
  if (found == std::end(kWords)) return false;
  page.wrap(fmt::format("{}: ", word), found->sentence);
  return true;
}

// Lists everything that a user can ask about, a line for each: "words", "paths", "reasons" or "rows".
bool add_list(Page& page, std::string_view word) {
  const auto add = [&](std::string_view name, std::string_view sentence) {
    page.line(fmt::format("{:<24} ", name), sentence);
  };
  if (word == "words") {
    for (const Word& each : kWords) add(each.word, each.sentence);
  } else if (word == "paths") {
    for (const std::string& name : names_of_paths()) add(name, path_in_words(*path_by_name(name)));
  } else if (word == "reasons") {
    for (const std::int32_t reason : facts::all_reasons()) {
      add(penstock_reason_name(reason), penstock_reason_sentence(reason));
    }
  } else if (word == "rows") {
    for (const facts::Code& code : facts::codes()) add(code.name, code.about);
  }
  return !page.text().empty();
}

bool add_path(Page& page, std::string_view word) {
  const std::string name = word == "P2PDMA" ? "p2pdma" : std::string(word);  // The kernel's name of the same.
  const auto path = path_by_name(name);
  if (!path) return false;
  page.wrap(fmt::format("{} (a path): ", name), path_in_words(*path));
  if (const std::string needs = needs_of_path(*path); !needs.empty()) {
    page.wrap("  ", fmt::format("It needs {}.", needs));
  }
  page.wrap("  ", "'penstock check' says what this machine lacks of it, 'penstock explain FILE' the same for a file.");
  const std::string reason = fmt::format("{}_off", name);
  if (facts::reason_named(reason)) {
    page.wrap("  ", fmt::format("A setting can leave it out: 'penstock help {}' says which.", reason));
  }
  return true;
}

bool add_reason(Page& page, std::string_view word) {
  const std::optional<std::int32_t> reason = facts::reason_named(word);
  if (!reason) return false;
  page.wrap(fmt::format("{} (a reason): ", word), penstock_reason_sentence(*reason));
  const std::string_view remedy = penstock_reason_remedy(*reason);
  if (!remedy.empty()) page.wrap("  -> ", facts::as_sentence(std::string(remedy)));
  for (const facts::Code& code : facts::codes()) {
    if (code.reason == word || code.of_vendor == word) {
      page.wrap("  ", fmt::format("In check's rows it is {}.", code.name));
    }
  }
  return true;
}

// Says what a code of check's and explain's judges, and by which reason the library says the same.
bool add_code(Page& page, std::string_view word) {
  const facts::Code* const code = facts::code_named(word);
  if (code == nullptr || code->about.empty()) return false;
  page.wrap(fmt::format("{} (a row of check): ", word), code->about);
  for (const std::string_view reason : {code->reason, code->of_vendor}) {
    if (!reason.empty()) page.wrap("  ", fmt::format("The library's reason for it is {}.", reason));
  }
  page.wrap("  ", "'penstock check --all' has the row, with what is to be done.");
  return true;
}

// Finds an error by its name or its number, which programs print with either sign.
bool add_cufile_error(Page& page, std::string_view word) {
  const std::optional<int> number = core::parse_number<int>(word);
  for (const CufileError& error : kCufileErrors) {
    if (error.number == 0 || (word != error.name && number != error.number && number != -error.number)) continue;
    page.wrap(fmt::format("{} ({}, an error of cuFile): ", error.name, error.number), error.sentence);
    page.wrap("  ",
              "Of a call that failed, the log named by CUFILE_LOGFILE_PATH has the step, the cause and the remedy.");
    return true;
  }
  return false;
}

bool add_errno(Page& page, std::string_view word) {
  constexpr int kErrnoMost = 200;
  const std::optional<int> number = core::parse_number<int>(word);
  for (int error = 1; error < kErrnoMost; ++error) {
    const char* const name = strerrorname_np(error);
    if (name == nullptr || (word != name && number != error && number != -error)) continue;
    page.wrap(fmt::format("{} ({}, an error of the system): ", name, error), strerrordesc_np(error));
    return true;
  }
  return false;
}

void add_all(Topics& topics, const std::vector<std::string>& names) {
  for (const std::string& name : names) topics.emplace_back(name, "");
}

// Collects all that can be asked about besides commands.
Topics other_topics() {
  Topics topics;
  for (const Word& each : kWords) topics.emplace_back(each.word, each.sentence);
  for (const std::string& name : names_of_paths()) topics.emplace_back(name, path_in_words(*path_by_name(name)));
  for (const facts::Code& code : facts::codes()) topics.emplace_back(code.name, code.about);
  add_all(topics, {"words", "paths", "reasons", "rows"});
  add_all(topics, names_of_reasons());
  add_all(topics, facts::setting_names());
  for (const CufileError& error : kCufileErrors) topics.emplace_back(error.name, "");
  return topics;
}

// Proposes names, and where none is near, the topics that are told in a sentence with this word.
[[noreturn]] void refuse_word(const std::string& word, Topics topics) {
  const Topics others = other_topics();
  topics.insert(topics.end(), others.begin(), others.end());
  std::vector<std::string> names, telling;
  for (const auto& [name, sentence] : topics) {
    names.push_back(name);
    if (contains(sentence, word)) telling.push_back(name);
  }
  std::string meant = proposal_or_variable(word, names);
  if (meant.empty() && !telling.empty()) meant = fmt::format("; it is a matter of '{}'", fmt::join(telling, "', '"));
  throw Failure(
      fmt::format("'{}' is no command, path, reason, setting, variable, error or word of the tools{}{}", word, meant,
                  meant.empty() ? "; if lint said it, 'penstock-k8s lint --rules' tells what it means" : ""),
      kUsage);
}

}  // namespace

void add_help(CommandLine& command, Topics commands) {
  auto word = std::make_shared<std::string>();
  command.option("WORD", *word, "A command, path, reason, setting, variable, error or word of the tools").required();
  command.footer(kHelpExamples);
  command.runs([word, commands = std::move(commands)] {
    const auto text = topic_text(*word);
    if (!text) refuse_word(*word, commands);
    print("{}", *text);
    return kSuccess;
  });
}

std::optional<Text> topic_text(std::string_view word) {
  Page page;
  const bool is_known = add_list(page, word) || add_path(page, word) || add_reason(page, word) ||
                        add_code(page, word) || add_cufile_error(page, word) || add_errno(page, word) ||
                        add_word(page, word);
  return is_known ? std::optional(Text(page.text())) : std::nullopt;
}

}  // namespace penstock::tools
