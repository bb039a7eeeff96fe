// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/published_contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/pcie/builtin_machines.h"
#include "model/pcie/flow_level.h"
#include "model/pcie/machine_builder.h"
#include "model/pcie/simulator.h"

namespace penstock::model {
namespace {

constexpr double kGibi = 1.073741824;  // GB in a GiB.
constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kGibibyte = 1 << 30;

class Points {
 public:
  explicit Points(const PcieConstants& constants) : constants_(constants) {}

  std::vector<PublishedPoint> all() {
    two_switches();
    one_link();
    drives_in_raid();
    dgx_2();
    more_drives();
    h200();
    sixth_generation();
    shared_storage();
    fences();
    classes();
    pipeline();
    two_of_eight();
    gain();
    iommu();
    return std::move(points_);
  }

 private:
  void add(std::string what, std::string unit, double low, double high, double predicted, std::string note = "",
           bool is_calibration = false) {
    points_.push_back({std::move(what), std::move(unit), low, high, predicted, is_calibration, std::move(note)});
  }

  static Stream stream(const std::string& store, const std::string& gpu) {
    Stream made;
    made.name = store + " to " + gpu;
    made.stores = {store};
    made.gpu = gpu;
    made.depth = 16;
    made.total_bytes = kGibibyte / 2;
    return made;
  }

  Outcome outcome(const Machine& machine, const Workload& workload) const {
    return simulate(compile(machine, workload, constants_), workload);
  }

  // Total GB/s while all run.
  double total(const Machine& machine, std::vector<Stream> streams) const {
    Workload workload;
    workload.streams = std::move(streams);
    return outcome(machine, workload).shared_bytes_per_second / kGiga;
  }

  void two_switches() {
    const Machine machine = builtin_machine("two-switch-server", constants_);
    const double alone = total(machine, {stream("nvme0", "gpu0")});
    const double together = total(machine, streams_of(machine, Pattern::own_drive)) / 8;
    add("two-switch server, one GPU alone", "GB/s", 14.2, 14.2, alone);
    add("two-switch server, eight GPUs, each", "GB/s", 6.3, 6.3, together,
        "the turn of 2 KiB between changes is fitted to it", true);
    add("two-switch server, eight against one", "%", 45, 45, 100 * together / alone, "follows from the fitted turn",
        true);
  }

  void one_link() {
    MachineBuilder builder("one link", "built in", constants_);
    builder.root("socket0");
    const int below = builder.pci_switch("switch0", 0, 5, 16);
    builder.gpu("gpu0", below, 5, 4);
    builder.drive("nvme0", below, 5, 4);
    builder.drive("nvme1", below, 5, 4);
    const Machine machine = builder.take();
    const double alone = total(machine, {stream("nvme0", "gpu0")});
    const double each = total(machine, {stream("nvme0", "gpu0"), stream("nvme1", "gpu0")}) / 2;
    add("two streams on one link, each", "GB/s", 8, 8, each,
        "published are 16 and 8: the line rate of Gen5 x4 and its half; headers and control packets take 11 % of it");
    add("two streams on one link, each against alone", "%", 50, 50, 100 * each / alone);
  }

  // All GPUs read, or write, one array, which is as fast as its drives.
  std::vector<Stream> striped(const Machine& machine, unsigned gpus, bool is_write) const {
    std::vector<Stream> streams = streams_of(machine, Pattern::striped, gpus);
    for (Stream& each : streams) {
      each.io_bytes = 8 * kMebibyte;
      each.depth = 16;
      each.is_write = is_write;
      each.total_bytes = 4 * kGibibyte;
    }
    return streams;
  }

  void drives_in_raid() {
    const Machine machine = builtin_machine("four-l40s", constants_);
    add("4 L40S, 4 Gen5 drives: one GPU reads", "GB/s", 24.3 * kGibi, 24.3 * kGibi,
        total(machine, striped(machine, 1, false)), "published as 24.3 GiB/s");
    add("4 L40S, 4 Gen5 drives: four GPUs read", "GB/s", 53.0 * kGibi, 53.0 * kGibi,
        total(machine, striped(machine, 4, false)),
        "published as 53.0 GiB/s and 91 % of the drives' 58 GB/s; that divides GiB by GB, in one unit it is 98 %");
    add("4 L40S, 4 Gen5 drives: four GPUs write", "GB/s", 39.5 * kGibi, 39.5 * kGibi,
        total(machine, striped(machine, 4, true)), "published as 39.5 GiB/s; the drives' data sheet says 10 GB/s each");
  }

  void dgx_2() {
    const Machine machine = builtin_machine("dgx-2", constants_);
    add("DGX-2, from host memory", "GB/s", 50, 50, total(machine, streams_of(machine, Pattern::host)));
    std::vector<Stream> direct;
    for (int pair = 0; pair < 8; ++pair) {
      direct.push_back(stream(fmt::format("raid{}", pair), fmt::format("gpu{}", 2 * pair)));
      direct.push_back(stream(fmt::format("nic{}", pair), fmt::format("gpu{}", 2 * pair + 1)));
    }
    add("DGX-2, past it from drives and NICs", "GB/s", 200, 200, total(machine, direct));
  }

  void more_drives() {
    Machine machine = builtin_machine("two-switch-server", constants_);
    for (const int drive : machine.all(NodeKind::drive)) {
      machine.nodes[static_cast<std::size_t>(drive)].read_rate = 6.75 * kGiga;
    }
    const std::vector<Stream> eight = streams_of(machine, Pattern::own_drive);
    add("four Gen5 drives (DeepNVMe)", "GB/s", 27, 27, total(machine, {eight[0], eight[1], eight[4], eight[5]}),
        "a drive's 6.75 GB/s is fitted to it", true);
    add("eight Gen5 drives (DeepNVMe)", "GB/s", 48, 48, total(machine, eight),
        "that machine's tree is not published; the two-switch server is assumed");
  }

  std::vector<Stream> from_sockets(const std::vector<int>& gpus) const {
    std::vector<Stream> streams;
    for (const int gpu : gpus) streams.push_back(stream(fmt::format("socket{}", gpu / 4), fmt::format("gpu{}", gpu)));
    return streams;
  }

  void h200() {
    const Machine machine = builtin_machine("hgx-h200", constants_);
    add("8 H200 machine, host memory to one GPU", "GB/s", 55, 55, total(machine, from_sockets({0})),
        "MaxPayload 512 on Gen5 is fitted to it", true);
    add("8 H200 machine, to two GPUs", "GB/s", 106, 106, total(machine, from_sockets({0, 4})), "one on each socket");
    add("8 H200 machine, to four GPUs, the least", "GB/s", 84, 84, total(machine, from_sockets({0, 1, 2, 3})),
        "taken for four on one socket");
    add("8 H200 machine, to four GPUs, the most", "GB/s", 177, 177, total(machine, from_sockets({0, 1, 4, 5})),
        "taken for two on each socket; the sockets' 88.5 GB/s are fitted to it", true);
    add("8 H200 machine, to eight GPUs", "GB/s", 151, 200, total(machine, from_sockets({0, 1, 2, 3, 4, 5, 6, 7})));
  }

  // Milliseconds that a drive waits for fences while it delivers its eighth of 16 GiB.
  double fence_milliseconds(FenceKind kind, double nanoseconds) const {
    PcieConstants constants = constants_;
    (kind == FenceKind::single ? constants.fence_single_ns : constants.fence_coalesced_ns) = nanoseconds;
    const Machine machine = builtin_machine("two-switch-server", constants);
    Workload workload;
    workload.streams = streams_of(machine, Pattern::all_to_one);
    for (Stream& each : workload.streams) each.fence = kind, each.total_bytes = 2 * kGibibyte;
    workload.burst_bytes = 65536;
    const Outcome done = simulate(compile(machine, workload, constants), workload);
    double most = 0;
    for (const StationResult& station : done.stations) most = std::max(most, station.fence_seconds);
    return most * 1e3;
  }

  void sixth_generation() {
    PcieLink link;
    link.generation = 6;
    link.width = 16;
    add("Gen6 x16, what its FLITs have for packets", "GB/s", 118, 118, packet_rate(link, constants_) / kGiga,
        "236 of 256 B of 128 GB/s");
    const Machine machine = builtin_machine("gb300-tray", constants_);
    add("GB300 tray, NIC of 800 Gb/s to its GPU", "GB/s", 100, 100, total(machine, {stream("nic0", "gpu0")}),
        "the tree is published, and that RDMA reaches 800 Gb/s; no rate of storage on such a machine is");
  }

  // GB/s that the GPUs of the first four nodes, a rack, read from `ports` storage ports.
  double rack(std::size_t ports) const {
    const Machine machine = builtin_machine("fleet", constants_);
    Workload workload;
    workload.streams = streams_of(machine, Pattern::striped, 32);
    for (Stream& each : workload.streams) each.stores.resize(ports);
    return simulate_flows(compile(machine, workload, constants_), workload).shared_bytes_per_second / kGiga;
  }

  void shared_storage() {
    const double two = rack(2);
    add("a rack of 32 GPUs, two storage ports of 400 Gb/s", "GB/s", 100, std::numeric_limits<double>::infinity(), two,
        "published as 100 GB/s and more; a port's 50 GB/s are assumed");
    add("the same with four ports, times as fast", "1", 2, 2, rack(4) / two,
        "published as linear with the ports; so it is until the nodes' own NICs bind");
  }

  void fences() {
    add("fences of 500 ns, 16 GiB over 8 drives", "ms", 65, 65, fence_milliseconds(FenceKind::single, 500));
    add("fences of 1,500 ns, 16 GiB over 8 drives", "ms", 196, 196, fence_milliseconds(FenceKind::single, 1500));
    const char* note =
        "published 5-12 ms; 32,768 times 200-500 ns is 6.6-16.4 ms. 131,072 chunks of 16 KiB are 2 GiB, one "
        "drive's part: 16 GiB have 1,048,576, over 8 drives side by side";
    add("coalesced fences of 200 ns", "ms", 5, 12, fence_milliseconds(FenceKind::coalesced, 200), note);
    add("coalesced fences of 500 ns", "ms", 5, 12, fence_milliseconds(FenceKind::coalesced, 500), note);
  }

  void classes() {
    const Machine machine = builtin_machine("two-switch-server", constants_);
    Workload workload;
    workload.arbitration = Arbitration::traffic_class;
    for (int i = 0; i < 4; ++i) workload.streams.push_back(stream(fmt::format("nvme{}", i), "nic0"));
    workload.streams.push_back(stream("nic0", "gpu0"));
    workload.streams.push_back(stream("nic0", "gpu1"));
    for (int i = 2; i < 4; ++i) workload.streams.push_back(stream("nic0", fmt::format("gpu{}", i)));
    for (std::size_t i = 6; i < 8; ++i) workload.streams[i].is_write = true;
    const Outcome done = outcome(machine, workload);
    double drives = 0;
    for (std::size_t i = 0; i < 4; ++i) drives += done.streams[i].shared_bytes_per_second;
    add("traffic classes, drive to NIC's share when all are busy", "%", 60, 70,
        100 * drives / done.shared_bytes_per_second,
        "the weights are constants; they leave NIC to GPU 25 %: a loss of 35-50 % fits only what asked for half", true);
  }

  // As published: a pipeline of four stages, eight GPUs, eight drives, two NICs.
  static Workload eight_pipelines(const Machine& machine) {
    Workload workload;
    workload.streams = streams_of(machine, Pattern::pipeline);
    for (Stream& each : workload.streams) each.depth = 16, each.total_bytes = kGibibyte / 16;
    workload.stage_depth.fill(16);
    return workload;
  }

  void pipeline() {
    const Machine machine = builtin_machine("two-switch-server", constants_);
    Workload workload = eight_pipelines(machine);
    const Outcome plain = outcome(machine, workload);
    constexpr double kCeiling = 128;  // GB/s: eight drives of 16; two NICs have 200, eight GPUs 1,024.
    add("four-stage pipeline, of its ceiling", "%", 40, 60, 100 * plain.shared_bytes_per_second / kGiga / kCeiling,
        "the ceiling is 8 drives of 16 GB/s, a line rate. Each byte crosses both crossbars, and the changes of stream "
        "that fit 6.3 GB/s hold it back there; without changes it is 80 %, and dgx-h100 has 79 % of its eight Gen4 "
        "drives' 64 GB/s");
    for (Stream& each : workload.streams) each.fence = FenceKind::single;
    add("fences of 1,000 ns, 16 I/Os a stage, add", "%", 5, 15,
        100 * (outcome(machine, workload).seconds / plain.seconds - 1),
        "a fence holds one I/O and not the link, so that others hide it; the next row has no others");
    workload.stage_depth.fill(1);
    const double slow = outcome(machine, workload).seconds;
    for (Stream& each : workload.streams) each.fence = FenceKind::none;
    add("fences of 1,000 ns, one I/O a stage, add", "%", 5, 15, 100 * (slow / outcome(machine, workload).seconds - 1),
        "as published only with one I/O at a time; on dgx-h100 8 %, where no switch binds several times as much");
    receiving(machine);
  }

  // NICs to GPUs, alone and together with drives to NICs, with traffic-class arbitration.
  void receiving(const Machine& machine) {
    Workload workload;
    workload.arbitration = Arbitration::traffic_class;
    for (int i = 0; i < 8; ++i)
      workload.streams.push_back(stream(fmt::format("nic{}", i / 4), fmt::format("gpu{}", i)));
    for (Stream& each : workload.streams) each.total_bytes = kGibibyte / 8;
    const double alone = outcome(machine, workload).shared_bytes_per_second;
    for (int i = 0; i < 8; ++i)
      workload.streams.push_back(stream(fmt::format("nvme{}", i), fmt::format("nic{}", i / 4)));
    for (Stream& each : workload.streams) each.total_bytes = kGibibyte / 8;
    const Outcome beside = outcome(machine, workload);
    double received = 0;
    for (std::size_t i = 0; i < 8; ++i) received += beside.streams[i].shared_bytes_per_second;
    add("NIC to GPU loses beside drive to NIC", "%", 35, 50, 100 * (1 - received / alone),
        "the weights leave it 25 of 90 parts, since the other class is published to get 60-70 %; equal parts "
        "would be a loss of half, and what is published for both cannot be: 65 and 50-65 % are more than all");
  }

  void two_of_eight() {
    const Machine machine = builtin_machine("two-switch-server", constants_);
    const auto each = [&](const char* drive, const char* gpu) {
      std::vector<Stream> streams = {stream("nvme0", "gpu0"), stream(drive, gpu)};
      for (Stream& one : streams) one.io_bytes = 131072, one.total_bytes = kGibibyte / 8;
      return total(machine, streams) / 2;
    };
    add("GPU 0 and GPU 4 at 128 KiB, each", "GB/s", 8, 8, each("nvme4", "gpu4"),
        "published for two GPUs that share a switch; of eight behind two, 0 and 4 are behind one each and share "
        "nothing");
    add("GPU 0 and GPU 1 at 128 KiB, each", "GB/s", 8, 8, each("nvme1", "gpu1"),
        "two streams of 14 GB/s do not fill a crossbar of 256; changes of stream cost them 12 %. Three and four behind "
        "one switch do fall to 8.2 and 6.1 GB/s");
  }

  void gain() {
    const Machine machine = builtin_machine("two-switch-server", constants_);
    const auto on_all = [&](PathKind path) {
      std::vector<Stream> streams = streams_of(machine, Pattern::own_drive);
      for (Stream& each : streams) each.path = path, each.depth = 16, each.total_bytes = kGibibyte / 8;
      return total(machine, streams);
    };
    add("direct over through the host, eight GPUs", "1", 2.5, 4,
        on_all(PathKind::direct) / on_all(PathKind::through_host),
        "of the two-switch server, whose host memory has 63 GB/s; the other built-in machines have 1.0-1.3, since "
        "their "
        "memory and copies keep up with their drives");
  }

  void iommu() {
    const Machine machine = builtin_machine("dgx-h100", constants_);
    Workload workload;
    workload.streams = {stream("nic0", "gpu0")};
    const std::string why = "the loss is a constant of the model, not its finding";
    machine_loss(machine, workload, "strict IOMMU, NIC to GPU loses", 10, 15, why);
    workload.streams = {stream("nvme0", "gpu0")};
    machine_loss(machine, workload, "strict IOMMU, drive to GPU loses", 0, 0,
                 why + "; it is about time alone: translated addresses may corrupt the bytes in silence");
  }

  void machine_loss(const Machine& machine, Workload workload, const char* what, double low, double high,
                    const std::string& why) {
    const double off = outcome(machine, workload).bytes_per_second;
    workload.iommu = IommuMode::strict;
    add(what, "%", low, high, 100 * (1 - outcome(machine, workload).bytes_per_second / off), why, true);
  }

  const PcieConstants& constants_;
  std::vector<PublishedPoint> points_;
};

}  // namespace

double PublishedPoint::error() const {
  if (predicted >= low && predicted <= high) return 0;
  const double near = predicted < low ? low : high;
  return near != 0 ? predicted / near - 1 : predicted;
}

std::vector<PublishedPoint> published_contention(const PcieConstants& constants) { return Points(constants).all(); }

}  // namespace penstock::model
