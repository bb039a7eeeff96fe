// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "model/pcie/builtin_machines.h"
#include "model/pcie/flow_level.h"
#include "model/pcie/hwloc_file.h"
#include "model/pcie/measured_drives.h"
#include "model/pcie/pci_topology.h"
#include "model/pcie/simulator.h"
#include "model/pcie/timeline_trace.h"
#include "model/pcie/topology_file.h"
#include "model/program/commands.h"
#include "model/program/contention_page.h"
#include "model/program/contention_report.h"
#include "model/program/contention_words.h"
#include "model/program/output.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/new_file.h"
#include "tools/common/plots.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "topology/platform.h"
#include "topology/root.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kUnset = UINT64_MAX;

struct ContentionSettings {
  std::string machine;
  std::string topology;
  std::string hwloc;
  bool this_host = false;
  std::string root = "/";
  std::string pattern = "own-drive";
  std::vector<std::string> pairs;           // "nvme0=gpu3"
  std::vector<std::string> stream_options;  // The given options that define streams.
  unsigned streams = 0;
  bool is_write = false;
  std::uint64_t io_bytes = 1 << 20;
  std::uint64_t total_bytes = std::uint64_t{2} << 30;
  unsigned depth = 16;
  std::string path = "direct";
  std::string fence = "none";
  std::string stage_depth;  // "8", or one for each stage: "64,8,8,8".
  std::string arbitration;  // "": from the file, else round-robin.
  std::string iommu;
  std::string ordering;
  std::uint64_t burst_bytes = kUnset;  // From the file, else 16 KiB.
  std::uint64_t seed = kUnset;
  std::string level = "packet";
  std::vector<std::string> constants;
  std::vector<std::string> calibrations;
  bool sweep = false;
  bool sensitivity = false;
  bool published = false;
  bool list_machines = false;
  bool print_topology = false;
  std::string trace;
  std::string html;
  bool overwrite = false;
  bool json = false;
};

constexpr const char* kPatterns[] = {"own-drive", "striped", "all-to-one", "nic", "host", "mixed", "pipeline"};
constexpr const char* kStreamOptions[] = {"--pattern", "--pair",  "--write", "--io-size",
                                          "--size",    "--depth", "--path",  "--fence"};
constexpr double kHopsMax = 2e10;  // About an hour of simulation.

constexpr const char* kContentionExamples =
    "Examples:\n"
    "  penstock-model contention --machine two-switch-server            eight GPUs, each from its drive\n"
    "  penstock-model contention --this-host --path host --html run.html    what this machine would reach, with "
    "pictures\n"
    "  penstock-model contention --machine dgx-h100 --html run.html     the tree with its load, as a page\n"
    "  penstock-model contention --hwloc host.xml --sweep               of 'lstopo --of xml host.xml'; how many "
    "streams\n"
    "  penstock-model contention --pattern pipeline --fence single      drive, NIC's memory, wire, NIC, GPU\n"
    "  penstock-model contention --pattern pipeline --ordering relaxed  stale data, and what fences cost\n"
    "  penstock-model contention --machine fleet --level flow --pattern striped\n"
    "  penstock-model contention --machine dgx-h100 --print-topology    a start for a topology file\n"
    "--machine names models of machines as they are sold, with all their GPUs and drives; one that was captured, which "
    "may have the same name, is read by --this-host --root DIR.\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage or topology, 77 if this host shows no PCIe device.";

template <std::size_t kSize>
std::vector<std::string> words(const std::array<std::string_view, kSize>& choices) {
  return {choices.begin(), choices.end()};
}

template <typename Choice, typename Words>
Choice choice(const std::string& word, const Words& choices) {
  const auto found = std::find(std::begin(choices), std::end(choices), word);
  return static_cast<Choice>(found - std::begin(choices));
}

model::PcieConstants constants_of(const ContentionSettings& settings) {
  model::PcieConstants constants;
  for (const std::string& setting : settings.constants) {
    const std::size_t sign = setting.find('=');
    char* end = nullptr;
    const double value = sign == std::string::npos ? NAN : std::strtod(setting.c_str() + sign + 1, &end);
    if (std::isnan(value) || *end != '\0') throw Failure(fmt::format("'{}' is not NAME=NUMBER", setting), kUsage);
    model::set_pcie_constant(constants, setting.substr(0, sign), value);
  }
  return constants;
}

model::IommuMode iommu_of(const core::Root& root) {
  switch (core::read_iommu(root).mode) {
    case core::IommuMode::translating: return model::IommuMode::strict;
    case core::IommuMode::passthrough: return model::IommuMode::passthrough;
    default: return model::IommuMode::off;
  }
}

model::TopologyFile read_host(const std::string& directory, const model::PcieConstants& constants) {
  const auto root = core::Root::open(directory);
  if (!root.ok()) throw Failure(fmt::format("{}: cannot be opened as a root directory", directory), kUsage);
  const std::vector<core::PciDevice> devices = core::read_pci_devices(*root);
  try {
    model::TopologyFile file{model::machine_of(devices, directory, constants), {}};
    file.workload.iommu = iommu_of(*root);
    return file;
  } catch (const model::InputError& nothing_there) {
    throw Failure(nothing_there.what(), kNotApplicable);
  }
}

int count_sources(const ContentionSettings& settings) {
  return (settings.machine.empty() ? 0 : 1) + (settings.topology.empty() ? 0 : 1) + (settings.hwloc.empty() ? 0 : 1) +
         (settings.this_host ? 1 : 0);
}

model::TopologyFile read_uncalibrated(const ContentionSettings& settings, const model::PcieConstants& constants) {
  if (settings.root != "/" && !settings.this_host) throw Failure("--root needs --this-host", kUsage);
  if (count_sources(settings) > 1) {
    throw Failure("--machine, --topology, --hwloc and --this-host exclude each other", kUsage);
  }
  if (!settings.topology.empty()) return model::read_topology_file(settings.topology, constants);
  if (!settings.hwloc.empty()) return {model::read_hwloc_file(settings.hwloc, constants), {}};
  if (settings.this_host) return read_host(settings.root, constants);
  return {model::builtin_machine(settings.machine.empty() ? "two-switch-server" : settings.machine, constants), {}};
}

model::TopologyFile read_source(const ContentionSettings& settings, const model::PcieConstants& constants) {
  model::TopologyFile file = read_uncalibrated(settings, constants);
  if (!settings.calibrations.empty()) {
    model::set_measured_drives(file.machine, calibrated_by(settings.calibrations, {}), constants);
  }
  return file;
}

std::vector<model::Stream> streams_of(const ContentionSettings& settings, const model::Machine& machine) {
  std::vector<model::Stream> streams;
  for (const std::string& pair : settings.pairs) streams.push_back(stream_of_pair(pair));
  if (streams.empty()) {
    streams = model::streams_of(machine, choice<model::Pattern>(settings.pattern, kPatterns), settings.streams);
  }
  const auto path = choice<model::PathKind>(settings.path, model::kPathWords);
  for (model::Stream& stream : streams) {
    stream.is_write = settings.is_write;
    stream.io_bytes = settings.io_bytes;
    stream.total_bytes = settings.total_bytes;
    stream.depth = settings.depth;
    if (stream.path == model::PathKind::direct) stream.path = path;
    stream.fence = choice<model::FenceKind>(settings.fence, model::kFenceWords);
  }
  return streams;
}

// A topology file may contain streams. The command line replaces all of them or none: silently changing one property of
// all, or ignoring the option, would mislead.
bool brings_streams(const ContentionSettings& settings, const model::TopologyFile& file) {
  if (file.workload.streams.empty()) return false;
  const auto& given = settings.stream_options;
  const auto is_given = [&](const char* name) { return std::find(given.begin(), given.end(), name) != given.end(); };
  if (is_given("--pattern") || is_given("--pair")) return false;
  if (given.empty()) return true;
  throw Failure(fmt::format("{} would change nothing: {} brings its own streams; --pattern or --pair replaces them",
                            given.front(), settings.topology),
                kUsage);
}

// Rules on the command line override the file.
void complete(const ContentionSettings& settings, model::TopologyFile& file) {
  model::Workload& workload = file.workload;
  if (!brings_streams(settings, file)) workload.streams = streams_of(settings, file.machine);
  if (settings.streams != 0 && workload.streams.size() > settings.streams) workload.streams.resize(settings.streams);
  if (!settings.arbitration.empty()) {
    workload.arbitration = choice<model::Arbitration>(settings.arbitration, model::kArbitrationWords);
  }
  if (!settings.iommu.empty()) workload.iommu = choice<model::IommuMode>(settings.iommu, model::kIommuWords);
  if (!settings.ordering.empty()) workload.ordering = choice<model::Ordering>(settings.ordering, model::kOrderingWords);
  if (settings.burst_bytes != kUnset) workload.burst_bytes = settings.burst_bytes;
  if (!settings.stage_depth.empty()) workload.stage_depth = stage_depths(settings.stage_depth);
  if (settings.seed != kUnset) workload.seed = settings.seed;
}

void refuse_endless(const model::Network& network, const model::Workload& workload) {
  double hops = 0;
  for (std::size_t i = 0; i < workload.streams.size(); ++i) {
    const model::Stream& stream = workload.streams[i];
    const auto burst = static_cast<double>(std::min(workload.burst_bytes, stream.io_bytes));
    const model::Route& route = network.plans[i].routes.front();
    hops += static_cast<double>(stream.total_bytes) / burst * (route.legs.back().hop_end - route.legs[0].hop_begin);
  }
  if (hops <= kHopsMax) return;
  throw Failure("that is more than an hour of simulation: take fewer bytes, larger bursts or --level flow", kUsage);
}

void write_timelines(const ContentionSettings& settings, const ContentionReport& report) {
  if (!settings.trace.empty()) {
    const std::string trace = model::timeline_trace(report.network, report.outcome, report.machine);
    write_file(settings.trace, trace, settings.overwrite);
  }
  if (settings.html.empty()) return;
  write_file(settings.html, page_with(contention_page(), contention_page_json(report)), settings.overwrite);
}

// The sensitivity analysis rebuilds the machine for each constant.
model::Sensitivity sensitivity_of(const ContentionSettings& settings, const model::Workload& workload,
                                  const model::PcieConstants& constants) {
  const auto make = [&](const model::PcieConstants& moved) { return read_source(settings, moved).machine; };
  return model::contention_sensitivity(make, workload, constants);
}

ContentionReport simulate(const ContentionSettings& settings) {
  const bool is_packet_level = settings.level == "packet";
  if (!settings.trace.empty() && !is_packet_level) throw Failure("--trace needs --level packet", kUsage);
  const model::PcieConstants constants = constants_of(settings);
  model::TopologyFile file = read_source(settings, constants);
  complete(settings, file);
  ContentionReport report;
  report.machine = file.machine.name;
  report.level = settings.level;
  report.parts = file.machine;
  report.workload = file.workload;
  report.network = model::compile(file.machine, report.workload, constants);
  if (is_packet_level) refuse_endless(report.network, report.workload);
  const model::Simulator simulator = is_packet_level ? model::simulate : model::simulate_flows;
  report.outcome = simulator(report.network, report.workload);
  if (report.workload.ordering == model::Ordering::relaxed) {
    if (!is_packet_level) throw Failure("--ordering relaxed needs --level packet", kUsage);
    report.orderings = model::compare_orderings(file.machine, report.workload, constants);
  }
  if (settings.sweep) report.sweep = model::sweep_streams(file.machine, report.workload, constants, simulator);
  if (settings.sensitivity) report.sensitivity = sensitivity_of(settings, report.workload, constants);
  return report;
}

void list_machines(bool json) {
  Json rows = Json::array();
  for (const model::BuiltinMachine& machine : model::builtin_machines()) {
    rows.push_back({{"name", machine.name}, {"summary", machine.summary}});
    if (!json) print("{:<18} {}\n", machine.name, machine.summary);
  }
  if (json) print_json({{"machines", rows}});
}

void show_published(const ContentionSettings& settings) {
  const std::vector<model::PublishedPoint> points = model::published_contention(constants_of(settings));
  if (settings.json) {
    print_json(published_json(points));
  } else {
    print_published(points);
  }
}

void run(const ContentionSettings& settings) {
  if (settings.list_machines) return list_machines(settings.json);
  if (settings.published) return show_published(settings);
  if (settings.print_topology) {
    return print_document(Text(model::write_topology(read_source(settings, constants_of(settings)).machine)));
  }
  if (!settings.html.empty()) require_plots(contention_page());
  const ContentionReport report = simulate(settings);
  write_timelines(settings, report);
  if (settings.json) {
    print_json(contention_json(report));
  } else {
    print_contention(report);
  }
}

void add_machine_options(CommandLine& command, ContentionSettings& settings) {
  command.option("--machine", settings.machine, "A built-in machine [two-switch-server]").value_name("NAME");
  command.option("--topology", settings.topology, "A topology file (YAML), which may have streams, too")
      .value_name("FILE");
  command.option("--hwloc", settings.hwloc, "A file that lstopo wrote as XML").value_name("FILE");
  command.flag("--this-host", settings.this_host, "The machine that this runs on");
  command.option("--root", settings.root, "With --this-host: read the captured machine in DIR")
      .value_name("DIR")
      .default_shown();
  command.flag("--list-machines", settings.list_machines, "Name the built-in machines");
  command.flag("--print-topology", settings.print_topology, "Print the machine as a topology file");
}

void add_stream_options(CommandLine& command, ContentionSettings& settings) {
  command.option("--pattern", settings.pattern, "Which GPU reads from where")
      .one_of(std::vector<std::string>(std::begin(kPatterns), std::end(kPatterns)))
      .default_shown();
  command.option("--pair", settings.pairs, "One stream, from STORE (or from several: STORE+STORE=GPU) to GPU")
      .value_name("STORE=GPU");
  command.option("--streams", settings.streams, "Only the first N streams");
  command.flag("--write", settings.is_write, "Streams go from the GPUs to storage");
  command.size("--io-size", settings.io_bytes, "Bytes of one I/O [1M]");
  command.size("--size", settings.total_bytes, "Bytes of one stream [2G]");
  command.option("--depth", settings.depth, "I/Os that a stream keeps in flight").default_shown();
  command
      .option("--path", settings.path,
              "host: copied by the CPU; pinned: through host memory without a copy; pipeline: by way of two NICs")
      .one_of(words(model::kPathWords))
      .default_shown();
  command.option("--fence", settings.fence, "How the transfers of a store are fenced")
      .one_of(words(model::kFenceWords))
      .default_shown();
}

void add_rule_options(CommandLine& command, ContentionSettings& settings) {
  command.option("--arbitration", settings.arbitration, "Whose packet goes next [round-robin]")
      .one_of(words(model::kArbitrationWords));
  command.option("--iommu", settings.iommu, "How the IOMMU works [the host's, else off]")
      .one_of(words(model::kIommuWords));
  command.option("--ordering", settings.ordering, "relaxed: a pipeline's completions pass data; counts stale bytes")
      .one_of(words(model::kOrderingWords));
  command.option("--level", settings.level, "packet: simulate bursts of packets; flow: only rates, for many machines")
      .one_of({"packet", "flow"})
      .default_shown();
  command.size("--burst", settings.burst_bytes, "Bytes that are simulated as one [16k]");
  command
      .option("--stage-depth", settings.stage_depth,
              "I/Os that a pipeline's engines hold: one number, or four (media, DMA, sending, receiving); 0: any")
      .value_name("N[,N,N,N]");
  command.option("--seed", settings.seed, "Seed of access times and arrivals [1]");
  command
      .option("--calibrate", settings.calibrations,
              "Give drives the speed that 'penstock bench --direct --json' measured")
      .value_name("FILE")
      .one_value_each();
  command.option("--set", settings.constants, "Give a constant another value; 'penstock-model constants' lists them")
      .value_name("NAME=VALUE");
}

void add_answer_options(CommandLine& command, ContentionSettings& settings) {
  command.flag("--sweep", settings.sweep, "Also run with fewer streams, to see how many give the most");
  command.flag("--sensitivity", settings.sensitivity, "Add which constants move the result most");
  command.flag("--published", settings.published, "Compare the model with published and measured figures");
  command.option("--trace", settings.trace, "Also write the timeline to FILE, as a trace that Perfetto and Chrome open")
      .value_name("FILE");
  command
      .option("--html", settings.html, "Also write a page with the tree and the streams to FILE; it needs no network")
      .value_name("FILE");
  command.flag("--overwrite", settings.overwrite, "Replace FILE if it exists");
  command.flag("--json", settings.json, "Print JSON");
}

}  // namespace

void add_contention(CommandLine& command) {
  auto settings = std::make_shared<ContentionSettings>();
  add_machine_options(command, *settings);
  add_stream_options(command, *settings);
  add_rule_options(command, *settings);
  add_answer_options(command, *settings);
  command.footer(kContentionExamples);
  command.runs([settings, command] {
    for (const char* name : kStreamOptions) {
      if (command.was_given(name)) settings->stream_options.emplace_back(name);
    }
    return answer([&] { run(*settings); });
  });
}

}  // namespace penstock::tools
