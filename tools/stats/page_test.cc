// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace penstock::tools {
namespace {

using core::Op;

ProcessRate process(pid_t pid, std::uint64_t bytes) {
  ProcessRate one;
  one.pid = pid;
  one.command = "python3";
  one.moved.seconds = 1;
  one.moved.ways[{"p2pdma", "none", Op::read}] = {4 * bytes, 4};
  one.moved.ways[{"bounce", "misaligned", Op::read}] = {bytes, 1};
  one.history = {0, 1e9, 2e9};
  return one;
}

TopView machine(const std::vector<ProcessRate>& processes) {
  MachineRate all;
  all.moved.seconds = 1;
  for (const ProcessRate& one : processes) {
    for (const auto& [way, count] : one.moved.ways) all.moved.ways[way].bytes += count.bytes;
  }
  all.processes = processes;
  return {all, {}};
}

std::string text_of(const std::vector<Text>& lines) {
  std::string text;
  for (const Text& line : lines) text += line.string() + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TopPage, TellsRatesPathsAndReasons) {
  const std::string text = text_of(top_page(machine({process(4711, 1'000'000'000)}), {80, 24}, false));
  EXPECT_EQ(text,
            "penstock stats: 1 process, read 5.00 GB/s, written 0.00 MB/s\n"
            "by path:   p2pdma 80 %, bounce 20 %\n"
            "by reason: none 80 %, misaligned 20 %\n"
            "drives:    idle\n"
            "\n"
            "    pid command         read GB/s written GB/s  path           reason\n"
            "   4711 python3             5.000            -  p2pdma 80 %    misaligned\n");
}

TEST(TopPage, DrivesAreNamedTheBusiestFirst) {
  TopView view = machine({});
  view.drives = {{"nvme1n1", 3.1e9, 0, 0.98}, {"nvme0n1", 0, 2e6, 0.01}};
  EXPECT_TRUE(has(text_of(top_page(view, {120, 24}, false)),
                  "\ndrives:    nvme1n1 read 3.10 GB/s, written 0.00 MB/s, busy 98 %; nvme0n1 read 0.00 MB/s, written "
                  "2.00 MB/s, busy 1 %\n"));
  EXPECT_EQ(top_json(view)["drives"][0]["busy"], 0.98);
}

TEST(TopPage, WithoutAProcessItSaysSo) {
  EXPECT_TRUE(has(text_of(top_page(machine({}), {80, 24}, false)), "\nno process that this user may look at"));
}

TEST(TopPage, NoLineIsWiderThanTheTerminalAndNoPageIsHigher) {
  std::vector<ProcessRate> many;
  for (pid_t pid = 1; pid <= 300; ++pid) many.push_back(process(pid, 1000));
  many[0].command = std::string(200, 'x');
  many[0].refusal = std::string(500, 'y');
  TopView all = machine(many);
  all.machine.hidden = 2;
  all.machine.why_hidden = std::string(300, 'z');
  for (const std::size_t columns : {1u, 3u, 20u, 63u, 64u, 80u, 120u, 200u}) {
    for (const std::size_t rows : {1u, 2u, 5u, 24u, 50u}) {
      const std::vector<Text> lines = top_page(all, {columns, rows}, false);
      EXPECT_LE(lines.size(), rows);
      for (const Text& line : lines) EXPECT_LE(line.string().size(), std::max<std::size_t>(columns, 3)) << columns;
    }
  }
}

TEST(TopPage, ProcessesThatFindNoRoomAreCounted) {
  std::vector<ProcessRate> many;
  for (pid_t pid = 1; pid <= 30; ++pid) many.push_back(process(pid, 1000));
  EXPECT_TRUE(has(text_of(top_page(machine(many), {80, 15}, false)), "     22 more, that move less\n"));
}

TEST(TopPage, TheLastSecondsAreDrawnWhereTheyFit) {
  const TopView one = machine({process(4711, 1'000'000'000)});
  EXPECT_TRUE(has(text_of(top_page(one, {120, 24}, true)), " \u2584\u2588\n"));
  EXPECT_FALSE(has(text_of(top_page(one, {70, 24}, true)), "\u2588"));
  EXPECT_FALSE(has(text_of(top_page(one, {120, 24}, false)), "\u2588"));
}

TEST(TopPage, GpusAreNamedWhereAProcessTells) {
  ProcessRate one = process(4711, 1'000'000'000);
  EXPECT_FALSE(has(text_of(top_page(machine({one}), {100, 24}, false)), "gpu"));
  one.gpus = {0, 3};
  const std::string text = text_of(top_page(machine({one}), {100, 24}, false));
  EXPECT_TRUE(has(text, "path           gpu reason\n")) << text;
  EXPECT_TRUE(has(text, "p2pdma 80 %    0,3 misaligned\n")) << text;
}

TEST(TopPage, ANameMovesNoCursor) {
  ProcessRate one = process(4711, 1);
  one.command = "\033[2J\n";
  one.moved.ways[{"\033[1m", "\n\r", Op::write}] = {1000, 1};
  EXPECT_EQ(text_of(top_page(machine({one}), {80, 24}, true)).find_first_of("\033\r"), std::string::npos);
}

TEST(TopPage, ProgramsGetNumbers) {
  const auto json = top_json(machine({process(4711, 1'000'000)}));
  EXPECT_EQ(json["read_bytes_per_second"], 5e6);
  EXPECT_EQ(json["processes"][0]["pid"], 4711);
  EXPECT_EQ(json["processes"][0]["ways"].size(), 2u);
  EXPECT_EQ(json["processes"][0]["ways"][0]["path"], "bounce");
  EXPECT_EQ(json["processes"][0]["ways"][0]["reason"], "misaligned");
  EXPECT_EQ(json["processes"][0]["ways"][0]["bytes_per_second"], 1e6);
}

}  // namespace
}  // namespace penstock::tools
