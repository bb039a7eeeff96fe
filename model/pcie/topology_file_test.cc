// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/topology_file.h"

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

constexpr const char* kServer = R"(name: small server
nodes:
  - {name: cpu, kind: root, memory_gigabytes_per_second: 100}
  - {name: switch, kind: switch, parent: cpu, generation: 5, width: 16}
  - {name: gpu0, kind: gpu, parent: switch, generation: 5, width: 16}
  - {name: nvme0, kind: drive, parent: switch, generation: 4, width: 4, access_us: 70}
arbitration: weighted-fair
streams:
  - {stores: [nvme0], gpu: gpu0, depth: 4, io_bytes: 65536, path: host, fence: coalesced, weight: 2}
)";

// The error for the server file with one line replaced.
std::string refusal_with(const std::string& line, const std::string& other) {
  std::string text = kServer;
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  text.replace(at, line.size(), other);
  return refusal([&] { parse_topology(text, "server.yaml"); });
}

TEST(TopologyFile, SaysWhatIsThereAndFillsInTheRest) {
  const TopologyFile file = parse_topology(kServer, "server.yaml");

  EXPECT_EQ(file.machine.name, "small server");
  EXPECT_EQ(file.machine.nodes.size(), 4U);
  EXPECT_EQ(file.machine.node(0).memory_rate, 100e9);
  EXPECT_EQ(file.machine.node(3).read_rate, 7e9);  // The rate of a Gen4 drive.
  EXPECT_DOUBLE_EQ(file.machine.node(3).access_seconds, 70e-6);
  EXPECT_EQ(file.workload.arbitration, Arbitration::weighted_fair);
  ASSERT_EQ(file.workload.streams.size(), 1U);
  EXPECT_EQ(file.workload.streams[0].path, PathKind::through_host);
  EXPECT_EQ(file.workload.streams[0].fence, FenceKind::coalesced);
  EXPECT_EQ(file.workload.streams[0].depth, 4U);
}

TEST(TopologyFile, StagesOfPipelinesHaveOneDepthOrFour) {
  const auto depths_of = [](const std::string& line) {
    return parse_topology(kServer + line, "server.yaml").workload.stage_depth;
  };
  EXPECT_EQ(depths_of(""), (std::array<unsigned, 4>{0, 0, 0, 0}));
  EXPECT_EQ(depths_of("stage_depth: 8\n"), (std::array<unsigned, 4>{8, 8, 8, 8}));
  EXPECT_EQ(depths_of("stage_depth: [64, 8, 4, 2]\n"), (std::array<unsigned, 4>{64, 8, 4, 2}));
  for (const char* wrong : {"stage_depth: [1, 2]\n", "stage_depth: -1\n", "stage_depth: {a: 1}\n",
                            "stage_depth: [1, 2, 3, x]\n", "stage_depth: 70000\n"}) {
    EXPECT_NE(refusal([&] { depths_of(wrong); }), "") << wrong;
  }
}

TEST(TopologyFile, EveryBuiltInMachineComesBackAsItWasWritten) {
  for (const BuiltinMachine& known : builtin_machines()) {
    const Machine machine = known.make({});
    const std::string text = write_topology(machine);
    const Machine back = parse_topology(text, "back.yaml").machine;

    EXPECT_EQ(write_topology(back), text) << known.name;
    if (machine.nodes.size() > 1000) continue;
    Workload workload;
    workload.streams = streams_of(machine, Pattern::own_drive);
    for (Stream& stream : workload.streams) stream.total_bytes = 8 * kMebibyte;
    EXPECT_EQ(run(machine, workload).event_hash, run(back, workload).event_hash) << known.name;
  }
}

TEST(TopologyFile, NamesFileAndLineOfEveryMistake) {
  struct Mistake {
    const char* line;
    const char* other;
    const char* says;
  };
  const Mistake mistakes[] = {
      {"width: 16}\n  - {name: gpu0", "width: 0}\n  - {name: gpu0", "server.yaml:4: switch 'switch': width must be"},
      {"memory_gigabytes_per_second: 100", "memory_gigabytes_per_second: .nan", "server.yaml:3: memory_"},
      {"memory_gigabytes_per_second: 100", "memory_gigabytes_per_second: .inf", "server.yaml:3: memory_"},
      {"memory_gigabytes_per_second: 100", "memory_gigabytes_per_second: -1", "server.yaml:3: memory_"},
      {"parent: cpu", "parent: switch", "server.yaml:4: switch 'switch': is above itself"},
      {"parent: cpu", "parent: moon", "server.yaml:4: there is no node 'moon'"},
      {"parent: switch, generation: 5", "generation: 5", "server.yaml:5: gpu 'gpu0': has no parent"},
      {"kind: drive", "kind: tape", "server.yaml:6: 'tape' is none of"},
      {"access_us: 70", "acess_us: 70", "server.yaml:6: 'acess_us' is not known here"},
      {"access_us: 70", "ports: 7", "server.yaml:6: 'ports' is not known here"},
      {"width: 4", "width: four", "server.yaml:6: width must be a number, not 'four'"},
      {"width: 4", "width: 4.5", "server.yaml:6: width must be a whole number"},
      {"width: 4", "width: [4]", "server.yaml:6: width must be a number"},
      {"weighted-fair", "by-lot", "server.yaml:7: 'by-lot' is none of"},
      {"[nvme0]", "nvme0", "server.yaml:9: a stream has no list 'stores'"},
      {"depth: 4", "depth: 0", "server.yaml:9: stream 'gpu0': depth is 0"},
      {"name: gpu0", "name: switch", "server.yaml:5: gpu 'switch': the name is given twice"},
      {"{name: cpu, kind", "{nam: cpu, kind", "server.yaml:3: a node has no 'name'"},
      {"nodes:", "nodes: 3\nother:", "server.yaml:"},
      {"kind: root,", "kind: root, [", "server.yaml:"},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string said = refusal_with(mistake.line, mistake.other);
    EXPECT_TRUE(said.starts_with(mistake.says)) << mistake.other << ": " << said;
  }
}

TEST(TopologyFile, StreamsOfNodesThatAreNotThereAreToldByTheirLine) {
  std::string text = kServer;
  text.replace(text.find("[nvme0]"), 7, "[nvme7]");
  const TopologyFile file = parse_topology(text, "server.yaml");

  const std::string said = refusal([&] { compile(file.machine, file.workload); });

  EXPECT_TRUE(said.starts_with("server.yaml:9: stream 'gpu0': there is no 'nvme7'")) << said;
}

TEST(TopologyFile, HostileTextIsRefusedAndNothingElseHappens) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("a: &a [*a]"), std::string(100000, '['), std::string(1, '\0'),
        std::string("nodes: [{name: x, kind: root}, {name: x, kind: root}]"), std::string("nodes: [1, 2]"),
        std::string("nodes:\n - {name: [a], kind: root}"), std::string("? [a]\n: b")}) {
    EXPECT_NE(refusal([&] { parse_topology(text, "bad.yaml"); }), "") << text.substr(0, 40);
  }
  EXPECT_NE(refusal([] { read_topology_file("/nowhere/at/all.yaml"); }), "");
  EXPECT_NE(refusal([] { read_topology_file("/"); }), "");
}

}  // namespace
}  // namespace penstock::model
