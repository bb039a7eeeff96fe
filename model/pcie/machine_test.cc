// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/machine.h"

#include <cmath>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

std::string refusal_of(const std::function<void(Machine&)>& change) {
  Machine machine = plain_machine(2, 2, kGiga);
  change(machine);
  return refusal([&] { check_machine(machine); });
}

Node& node_of(Machine& machine, const char* name) {
  return machine.nodes[static_cast<std::size_t>(machine.find(name))];
}

TEST(Machine, EveryBuiltInOneIsSound) {
  for (const BuiltinMachine& known : builtin_machines()) EXPECT_NO_THROW(check_machine(known.make({}))) << known.name;
  EXPECT_NE(refusal([] { builtin_machine("abacus"); }).find("no built-in machine 'abacus'"), std::string::npos);
}

TEST(Machine, RefusesParentsInACircle) {
  Machine machine;
  machine.source = "circle";
  for (int i = 0; i < 3; ++i) {
    Node node;
    node.name = "switch" + std::to_string(i);
    node.kind = NodeKind::pci_switch;
    node.parent = (i + 1) % 3;
    node.link.generation = 5;
    node.link.width = 16;
    machine.nodes.push_back(node);
  }

  EXPECT_NE(refusal([&] { check_machine(machine); }).find("form a cycle"), std::string::npos);
}

TEST(Machine, RefusesMissingAndTooManyPorts) {
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu0").parent = kNone; }).find("has no parent"), std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu0").parent = 99; }).find("does not exist"), std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu0").parent = m.find("gpu1"); }).find("a gpu has no port"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "switch0").ports = 3; }).find("only 3 ports"), std::string::npos);
}

TEST(Machine, RefusesNumbersThatAreNone) {
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu0").link.width = 0; }).find("width"), std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu0").link.width = 12; }).find("width"), std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu0").link.generation = 0; }).find("generation"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu0").link.max_payload = 300; }).find("max_payload"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "nvme0").read_rate = NAN; }).find("read rate"), std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "nvme0").write_rate = -1; }).find("write rate"), std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "nvme0").access_seconds = HUGE_VAL; }).find("access time"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "switch0").change_seconds = 1e-7; }).find("interleave"),
            std::string::npos);
}

TEST(Machine, RefusesNamesGivenTwice) {
  EXPECT_NE(refusal_of([](Machine& m) { node_of(m, "gpu1").name = "gpu0"; }).find("given twice"), std::string::npos);
}

}  // namespace
}  // namespace penstock::model
