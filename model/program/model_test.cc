// SPDX-License-Identifier: Apache-2.0

// The built `penstock-model` from outside: exit codes, what it prints, what it leaves on disk.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

TEST_F(Tool, ModelHelpNamesItsCommandsAndEveryOneHasExamples) {
  const Finished all = run({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const char* command : {"registration", "checkpoint", "load", "compare"}) {
    EXPECT_NE(all.out.find(std::string("\n  ") + command), std::string::npos) << command;
    const Finished one = run({command, "--help"});
    EXPECT_EQ(one.exit_code, 0);
    EXPECT_NE(one.out.find("Examples:\n"), std::string::npos) << command;
    EXPECT_NE(one.out.find("Exit code:"), std::string::npos) << command;
  }
}

TEST_F(Tool, ModelRefusesBadInputsInOneSentence) {
  std::ofstream(path("bad.json")) << "{\"settings\": 1}";
  const std::vector<Names> usages = {{},
                                     {"weather"},
                                     {"registration", "--link-gbit", "0"},
                                     {"registration", "--link-gbit", "-100"},
                                     {"registration", "--link-gbit", "nan"},
                                     {"registration", "--buffer", "0"},
                                     {"registration", "--buffer", "8191P"},
                                     {"registration", "--ios", "inf"},
                                     {"registration", "--gain-percent", "100"},
                                     {"registration", "--json", "--csv"},
                                     {"registration", "--set", "drive.gen9=1"},
                                     {"registration", "--set", "drive.gen4_read"},
                                     {"registration", "--set", "drive.gen4_read=fast"},
                                     {"registration", "--set", "drive.gen4_read=-7e9"},
                                     {"checkpoint", "--size-gb", "nan"},
                                     {"checkpoint", "--size-gb", "-1"},
                                     {"checkpoint", "--size-gb", "1e300"},
                                     {"checkpoint", "--parameters", "-70"},
                                     {"checkpoint", "--ranks", "0"},
                                     {"checkpoint", "--ranks", "8", "--nodes", "9"},
                                     {"checkpoint", "--drive-gb-per-s", "0"},
                                     {"checkpoint", "--precision", "fp12"},
                                     {"checkpoint", "--hours", "-1"},
                                     {"checkpoint", "--example", "nothing"},
                                     {"checkpoint", "--price", "-4"},
                                     {"load", "--files", "-1"},
                                     {"load", "--calibrate", "bad.json"},
                                     {"compare"},
                                     {"compare", "bad.json"},
                                     {"compare", "bad.json", "--hold-out", "-1"}};
  for (const Names& usage : usages) {
    const Finished done = run(usage);
    std::string shown;
    for (const std::string& word : usage) shown += " " + word;
    EXPECT_EQ(done.exit_code, 2) << shown;
    EXPECT_TRUE(done.err.starts_with("penstock-model: ")) << shown << ": " << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << shown << ": " << done.err;
  }
  EXPECT_EQ(folder(), Names{"bad.json"});
}

TEST_F(Tool, ModelAnswersForProgramsAndSpreadsheets) {
  for (const char* command : {"registration", "checkpoint", "load"}) {
    const Finished done = run({command, "--json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    const json report = json::parse(done.out);
    EXPECT_EQ(report["model"], command);
    EXPECT_FALSE(report["sensitivity"].empty());
    EXPECT_FALSE(report["sensitivity"][0]["constants"].empty());
    const Finished csv = run({command, "--csv"});
    EXPECT_NE(csv.out.find("_s,"), std::string::npos) << csv.out.substr(0, 200);
  }
}

TEST_F(Tool, ModelPublishedTablesAndExamplesRun) {
  for (const char* command : {"checkpoint", "load"}) {
    const json examples = json::parse(run({command, "--example", "list", "--json"}).out)["examples"];
    EXPECT_GE(examples.size(), 6u);
    for (const json& one : examples) {
      const Finished done = run({command, "--example", one["name"]});
      EXPECT_EQ(done.exit_code, 0) << one << done.err;
    }
    EXPECT_NE(run({command, "--example", "published"}).out.find("why not within 10 %"), std::string::npos);
  }
  EXPECT_NE(run({"registration", "--example"}).out.find("why not within 10 %"), std::string::npos);
}

// Whether the text has a line with these cells, however far apart.
bool has_row(const std::string& text, const Names& cells) {
  std::string pattern = "\n";
  for (const std::string& cell : cells) {
    pattern += (pattern.size() > 1 ? " +" : "") + std::regex_replace(cell, std::regex("[.$]"), "\\$&");
  }
  return std::regex_search(text, std::regex(pattern + "\n"));
}

TEST_F(Tool, AConstantThatIsSetChangesTheResult) {
  const auto seconds = [&](const Names& arguments) {
    return json::parse(run(arguments).out)["sheets"][0]["rows"][0][1].get<double>();
  };
  const Names usual = {"load", "--example", "109b", "--json"};
  Names halved = usual;
  halved.insert(halved.end(), {"--set", "drive.share=0.3"});
  EXPECT_NEAR(seconds(halved) / seconds(usual), 2, 1e-9);
}

TEST_F(Tool, ModelTextIsForPeople) {
  const Finished usual = run({"load", "--drives", "1"});
  EXPECT_NE(usual.out.find("\n  drives in each node: 1 (given)\n"), std::string::npos) << usual.out;
  EXPECT_EQ(usual.out.find("bytes_per_s"), std::string::npos) << usual.out;
  const Finished long_one = run({"load", "--example", "dataset-files"});
  EXPECT_NE(long_one.out.find(" min "), std::string::npos) << long_one.out;
  const json numbers = json::parse(run({"load", "--drives", "1", "--json"}).out);
  EXPECT_EQ(numbers["inputs"]["bytes"], 140e9);
}

TEST_F(Tool, WhatBenchMeasuredCalibratesAndIsCompared) {
  make("data", 8 << 20);
  std::ofstream results(path("results.json"));
  call_it("penstock");
  for (const char* size : {"4k", "64k", "1M"}) {
    for (const char* depth : {"1", "8"}) {
      const Finished done =
          run({"bench", "data", "--bs", size, "--depth", depth, "--buffered", "--repeat", "1", "--json"});
      ASSERT_EQ(done.exit_code, 0) << done.err;
      results << done.out;
    }
  }
  results.close();
  call_it("penstock-model");
  const Finished compared = run({"compare", "results.json", "--json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const json report = json::parse(compared.out);
  EXPECT_EQ(report["sheets"][0]["rows"].size(), 6u);
  EXPECT_EQ(report["sheets"][0]["rows"][2][7], "held out");
  EXPECT_EQ(run({"compare", "results.json", "--within", "0.0001"}).exit_code, 1);

  const Finished load = run({"load", "--calibrate", "results.json"});
  EXPECT_NE(load.out.find("You are here: 'measured here', which is nearest to '"), std::string::npos) << load.out;
  EXPECT_EQ(run({"registration", "--calibrate", "results.json"}).exit_code, 0);
  const Finished save = run({"checkpoint", "--calibrate", "results.json"});
  EXPECT_EQ(save.exit_code, 2);
  EXPECT_NE(save.err.find("no write"), std::string::npos) << save.err;
}

TEST_F(Tool, CostsArePrintedByPlatformAsThePublishedTableHasThem) {
  const Finished done =
      run({"cost", "--platform", "spheron-h100", "--one-rank", "--drives", "1", "--drive-gb-per-s", "4.2"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  for (const char* figures : {"on demand  poor host          4.06          32.48     5456.64", "2177.78",
                              "9.26      300.74", "spot       poor host          1.43          11.44", "never", "35"}) {
    EXPECT_NE(done.out.find(figures), std::string::npos) << figures << "\n" << done.out;
  }
  EXPECT_EQ(done.out.find("aws"), std::string::npos);
}

TEST_F(Tool, PlatformsThatWerePrintedAreReadAsTheSame) {
  std::ofstream(path("mine.yaml")) << run({"cost", "--print-platforms"}).out;
  const Finished mine = run({"cost", "--platforms", "mine.yaml", "--json"});
  ASSERT_EQ(mine.exit_code, 0) << mine.err;
  EXPECT_EQ(mine.out, run({"cost", "--json"}).out);
  std::ofstream(path("wrong.yaml")) << "platforms:\n  - {name: a, gpu: b, gpus: 0, gds: none, source: c}\n";
  const Finished wrong = run({"cost", "--platforms", "wrong.yaml"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("wrong.yaml:2: 'gpus' must be a number from 1"), std::string::npos) << wrong.err;
  EXPECT_EQ(run({"cost", "--platforms", "absent.yaml"}).exit_code, 1);
  EXPECT_EQ(run({"cost", "--platform", "moon"}).exit_code, 2);
  EXPECT_EQ(run({"cost", "--hours", "0"}).exit_code, 2);
}

TEST_F(Tool, DrivesAreSetAgainstASharedFileSystem) {
  std::ofstream(path("mine.yaml"))
      << "platforms:\n  - {name: a, gpu: H100, gpus: 8, on_demand: 4.06, drives_hour: 0.5, "
         "gds: ready, source: me}\nfile_systems:\n  - {name: ours, tb: 40, gb_per_s: 48, "
         "month_money: 10000, source: our own}\n";
  const Names asked = {"cost", "--platforms",      "mine.yaml", "--file-system", "ours", "--file-system-tb",
                       "80",   "--nodes",          "16",        "--size-gb",     "5376", "--drives",
                       "8",    "--drive-gb-per-s", "4.2",       "--checkpoints", "100",  "--hours",
                       "73"};
  const Finished done = run(asked);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::size_t from = done.out.find("Drives of 16 nodes");
  ASSERT_NE(from, std::string::npos) << done.out;
  EXPECT_EQ(done.out.substr(from), text_of(std::string(PENSTOCK_GOLDEN) + "/storage_choice.txt"));
  Names as_json = asked;
  as_json.emplace_back("--json");
  const json report = json::parse(run(as_json).out);
  EXPECT_EQ(report["sheets"][3]["name"], "storage");
  EXPECT_EQ(report["sheets"][3]["rows"].size(), 3u);
  EXPECT_EQ(report["inputs"]["file_system_bytes_per_s"], 96e9);
}

TEST_F(Tool, ASharedFileSystemsRateIsWorkedOutOfItsSizeAndNothingIsSavedWhereDrivesAreSlower) {
  const json told =
      json::parse(run({"cost", "--file-system", "fsx-lustre-1000", "--file-system-tb", "40", "--json"}).out);
  EXPECT_NEAR(told["inputs"]["file_system_bytes_per_s"].get<double>(), 36.4e9, 0.05e9) << "1 GB/s for each TiB";
  EXPECT_EQ(told["origins"]["file_system_bytes_per_s"], "worked out");
  EXPECT_EQ(told["origins"]["file_system_bytes"], "given");
  const std::string text = run({"cost", "--file-system", "fsx-lustre-1000", "--file-system-tb", "40"}).out;
  EXPECT_EQ(text.find("-6."), std::string::npos) << text;
  EXPECT_NE(text.find(" nothing          never "), std::string::npos) << text;
  EXPECT_NE(text.find("spheron-b200: how many drives a node has of its own is not known"), std::string::npos);
}

TEST_F(Tool, WhatOfferedStorageGainsIsTheFirstSentence) {
  const auto cost = [&](Names more) {
    more.insert(more.begin(), {"cost", "--nodes", "4", "--drives", "2", "--drive-gb-per-s", "2", "--size-gb", "160"});
    return run(more);
  };
  const std::string text = cost({"--offer-gb-per-s", "40", "--offer-month", "9000"}).out;
  const std::size_t first = text.find('\n') + 1;
  const std::string_view begin =
      "On 4 nodes, at 4345 saves of 160 GB a month, a save takes 4.00 s and a load 4.00 s by the file system that is "
      "offered (40 GB/s), 10.00 s and 10.00 s by the nodes' drives: that saves ";
  const std::string flat = std::regex_replace(text, std::regex("\n +"), " ");
  EXPECT_EQ(flat.find(begin), first) << text;
  EXPECT_NE(flat.find(", and it costs 9000.00 $. The cheapest is "), std::string::npos) << text;
  EXPECT_NE(text.find("  rate of the file system that is offered: 40 GB/s (given)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Drives of 4 nodes against the file system that is offered, 40 GB/s; "), std::string::npos);
  EXPECT_NE(cost({"--offer-gb-per-s", "40"}).out.find("; what it costs is not known."), std::string::npos);
  EXPECT_NE(cost({"--offer-gb-per-s", "10"}).out.find("saves gain no time"), std::string::npos);
  const std::string apart = cost({"--offer-gb-per-s", "40:20"}).out;
  EXPECT_NE(apart.find("a save takes 8.00 s and a load 4.00 s"), std::string::npos) << apart;
  EXPECT_NE(apart.find("  the same for loads: 40 GB/s (given)\n"), std::string::npos) << apart;
  for (const Names& wrong : {Names{"--offer-gb-per-s", "0"}, Names{"--offer-gb-per-s", "40:"},
                             Names{"--offer-month", "3"}, Names{"--offer-gb-per-s", "40", "--file-system", "rack"}}) {
    EXPECT_EQ(cost(wrong).exit_code, 2) << wrong.front();
  }
}

TEST_F(Tool, ASheetWithoutRowsIsNotPrintedButSaysWhy) {
  const std::regex bare("\n(platform  [^\n]*)\n\n");
  const auto costs = [&](Names words) {
    words.insert(words.begin(), "cost");
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_FALSE(std::regex_search(done.out, bare)) << done.out;
    return done.out;
  };
  const std::string unpriced = costs({"--platform", "gcp-a3-mega", "--file-system", "rack"});
  EXPECT_NE(unpriced.find("\nNo cost can be told, since no price is known of gcp-a3-mega. "), std::string::npos);
  EXPECT_NE(unpriced.find("\nPlatforms\n"), std::string::npos) << unpriced;
  EXPECT_EQ(unpriced.find("\nA month"), std::string::npos) << unpriced;
  const Finished csv = run({"cost", "--platform", "gcp-a3-mega", "--csv"});
  EXPECT_TRUE(csv.err.starts_with("penstock-model: No cost can be told, since no price is known of gcp-a3-mega. "));
  EXPECT_EQ(csv.out.find('\n'), csv.out.size() - 1) << csv.out;
  std::ofstream(path("mine.yaml")) << "platforms:\n  - {name: a, gpu: H100, gpus: 8, on_demand: 4, drives: 0, gds: "
                                      "none, source: me}\nfile_systems:\n  - {name: ours, tb: 1, gb_per_s: 10, "
                                      "month_money: 500, source: me}\n";
  const std::string bare_node = costs({"--platforms", "mine.yaml", "--file-system", "ours"});
  for (const char* line : {"\nNo table tells when the set-up of the direct path has paid: ",
                           "\nNo table tells from when on drives pay: "}) {
    EXPECT_NE(bare_node.find(line), std::string::npos) << bare_node;
  }
  EXPECT_TRUE(std::regex_search(bare_node, std::regex("file system alone .* 50\\.00\n"))) << "$ a month per GB/s";
}

TEST_F(Tool, AFileSystemThatIsNotThereIsRefused) {
  const Finished unknown = run({"cost", "--file-system", "moon"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("there are: fsx-lustre-125, fsx-lustre-1000, rack"), std::string::npos) << unknown.err;
  EXPECT_EQ(run({"cost", "--file-system-tb", "3"}).exit_code, 2);
  EXPECT_EQ(run({"cost", "--file-system", "rack", "--file-system-tb", "-3"}).exit_code, 2);
  EXPECT_EQ(run({"cost", "--nodes", "0"}).exit_code, 2);
}

TEST_F(Tool, CheckpointsByTheClockAreTheSameAsByTheirNumberAndAMonthIsReckoned) {
  const auto sheet_of = [&](Names words, const std::string& name) {
    words.insert(words.end(), {"--size-gb", "80", "--json"});
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    const json report = json::parse(done.out);
    for (const json& sheet : report["sheets"]) {
      if (sheet["name"] == name) return sheet["rows"];
    }
    return json();
  };
  for (const char* command : {"checkpoint", "cost"}) {
    EXPECT_EQ(sheet_of({command, "--every", "30m", "--hours", "100"}, "month"),
              sheet_of({command, "--checkpoints", "200", "--hours", "100"}, "month"));
  }
  const json lost = sheet_of({"checkpoint", "--every", "30m"}, "month")[0];  // 8 GPUs wait for the direct path.
  const json run = sheet_of({"checkpoint", "--every", "30m"}, "run")[0];
  EXPECT_EQ(lost[2], 1460);
  EXPECT_NEAR(lost[3].get<double>(), run[11].get<double>() * 8 * 730 / 168, 1e-9);
  EXPECT_NEAR(lost[4].get<double>(), lost[3].get<double>() * 4.06, 1e-9);
  const json cost = sheet_of({"cost", "--every", "30m", "--platform", "spheron-h100"}, "month")[2];
  EXPECT_EQ(cost[3], 8 * 730);
  EXPECT_NEAR(cost[5].get<double>(), 1460 * 80e9 / (4 * 14e9 * 0.6) / 3600 * 8, 1e-9);
  EXPECT_NEAR(cost[6].get<double>() / cost[5].get<double>(), cost[4].get<double>() / cost[3].get<double>(), 1e-9);
}

TEST_F(Tool, AReportBeginsWithWhatToDo) {
  const auto begins = [&](const Names& words) { return run(words).out.substr(0, 560); };
  const std::string saves = begins({"checkpoint", "--size-gb", "80", "--every", "30m"});
  EXPECT_NE(saves.find("\nLet training go on while it saves, every 30 min 0 s (best: every "), std::string::npos)
      << saves;
  EXPECT_NE(saves.find("a month (730 h); where training waits for each save, it loses "), std::string::npos) << saves;
  EXPECT_EQ(begins({"checkpoint"}).find("(best: every"), std::string::npos) << "it is at the best interval";
  const Names cost = {"cost", "--size-gb", "80", "--every", "30m"};
  EXPECT_NE(begins(cost).find("\nThe cheapest is spheron-h100 at spot prices, 8351.20 $ a month (730 h)."),
            std::string::npos)
      << begins(cost);
  EXPECT_NE(begins(cost).find("Set the direct path up only where the host path is poor"), std::string::npos);
  const auto counsel = [&](const char* hours) {
    return run({"cost", "--size-gb", "80", "--drives", "8", "--setup-hours", hours}).out.substr(0, 560);
  };
  EXPECT_NE(counsel("2").find("against a good one that does not pay within a month"), std::string::npos);
  EXPECT_NE(counsel("0.001").find("Set the direct path up: that pays within a month"), std::string::npos);
  for (const char* command : {"'penstock-model checkpoint'", "'penstock explain --measure --save SIZE FOLDER'"}) {
    EXPECT_NE(begins(cost).find(command), std::string::npos) << begins(cost);
  }
  EXPECT_NE(run(cost).out.find("\nA month (730 h) of such a run, with 1460 saves\nwaiting: training waits for a save"),
            std::string::npos);
}

TEST_F(Tool, SizesAndTimesTakeTheirUnitsAndARefusalSaysWhichOnes) {
  const auto seconds = [&](const Names& words) {
    return json::parse(run(words).out)["sheets"][0]["rows"][0][1].get<double>();
  };
  const double usual = seconds({"checkpoint", "--size-gb", "80", "--drive-gb-per-s", "6.5", "--json"});
  for (const auto& [size, rate] : {std::pair{"80G", "6.5G"}, {"0.08T", "6.5GB/s"}, {"80000MB", "6500M"}}) {
    EXPECT_NEAR(seconds({"checkpoint", "--size-gb", size, "--drive-gb-per-s", rate, "--json"}), usual, 1e-9) << size;
  }
  const std::pair<Names, const char*> wrong[] = {
      {{"checkpoint", "--size-gb", "80X"}, "--size-gb 80X: expected a number of GB (10^9 bytes), such as 80, 80G"},
      {{"cost", "--drive-gb-per-s", "fast"}, "--drive-gb-per-s fast: expected a number of GB"},
      {{"cost", "--every", "30"}, "--every 30: expected a time with its unit, such as 90s, 30m or 2h"},
      {{"checkpoint", "--every", "0m"}, "--every 0m: expected a time"}};
  for (const auto& [words, told] : wrong) {
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_NE(done.err.find(told), std::string::npos) << done.err;
  }
  EXPECT_EQ(run({"cost", "--every", "30m", "--checkpoints", "3"}).exit_code, 2);
}

TEST_F(Tool, WhichRateOfADriveIsTakenIsSaid) {
  const auto asked = [&](Names more) {
    Names words = {"checkpoint", "--drives", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  EXPECT_NE(
      asked({}).out.find(
          "A drive whose data sheet says 14 GB/s is taken to reach 8.4 GB/s in use, 0.6 of it (drive.share; 0.4 to "
          "0.6 are published, and this is their favourable end); --drive-gb-per-s is for what one was measured "
          "to move."),
      std::string::npos);
  EXPECT_EQ(asked({"--set", "drive.share=0.5"}).out.find("favourable"), std::string::npos);
  const char* const used = "\n  rate of a drive: 8.4 GB/s (assumed; --drive-gb-per-s)\n";
  for (const char* command : {"checkpoint", "cost"}) EXPECT_NE(run({command}).out.find(used), std::string::npos);
  const Finished given = asked({"--drive-gb-per-s", "5"});
  EXPECT_NE(given.out.find("Each drive moves 5 GB/s in use, as --drive-gb-per-s says."), std::string::npos)
      << given.out;
  EXPECT_TRUE(has_row(given.out, {"save, direct", "28.00 s", "28.00 s", "28.00 s"})) << given.out;
  const Finished old = asked({"--write-gb-per-s", "5"});
  EXPECT_EQ(old.out, given.out) << "one rate with two names";
  EXPECT_NE(old.err.find("'penstock-model --write-gb-per-s' is now '--drive-gb-per-s'"), std::string::npos) << old.err;
  EXPECT_EQ(run({"checkpoint", "--help"}).out.find("--write-gb-per-s"), std::string::npos);
  EXPECT_EQ(asked({"--fabric-gb-per-s", "50"}).out.find("drive.share"), std::string::npos);
}

TEST_F(Tool, EachResultIsToldWithTheRangeThatItsConstantsHave) {
  const Names words = {"load", "--size-gb", "140", "--drives", "1", "--one-rank"};
  const auto with = [&](const Names& more) {
    Names all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run(all).out;
  };
  const std::string usual = with({});
  EXPECT_NE(usual.find("\nWith all constants at the ends of their ranges (--sensitivity: which matter)\n"),
            std::string::npos)
      << usual;
  EXPECT_TRUE(has_row(usual, {"load, direct", "16.67 s", "16.67 s", "25.00 s"})) << usual;
  EXPECT_TRUE(
      has_row(usual, {"all GPUs during a load, direct, at 4.06 to 6.88 $ a GPU-hour, $", "0.15", "0.15", "0.38"}))
      << usual;
  EXPECT_TRUE(has_row(with({"--price", "5"}),
                      {"all GPUs during a load, direct, at 5 $ a GPU-hour, $", "0.19", "0.19", "0.28"}));
  const std::string given = with({"--set", "drive.share=0.5"});
  EXPECT_TRUE(has_row(given, {"load, direct", "20.00 s", "20.00 s", "20.00 s"})) << given;
  EXPECT_EQ(with({"--sensitivity"}).find("--sensitivity"), std::string::npos);
}

TEST_F(Tool, ACheckpointTakesAsLongByCostAsByCheckpoint) {
  for (const Names& more : {Names{}, Names{"--size-gb", "1600", "--nodes", "16"}, Names{"--drives", "2", "--one-rank"},
                            Names{"--parameters", "70", "--drive-gb-per-s", "5"}}) {
    const auto sheet_of = [&](Names words, std::size_t sheet) {
      words.insert(words.end(), more.begin(), more.end());
      const Finished done = run(words);
      EXPECT_EQ(done.exit_code, 0) << done.err;
      return json::parse(done.out)["sheets"][sheet];
    };
    const json by_time = sheet_of({"checkpoint", "--json"}, 0);
    const json by_price = sheet_of({"cost", "--platform", "spheron-h100", "--json"}, 1);
    const json direct = by_price["rows"][2];
    ASSERT_EQ(direct[2], "direct");
    EXPECT_EQ(by_time["rows"][0][1], direct[6]);
    EXPECT_NEAR(by_time["rows"][0][5].get<double>(), direct[7].get<double>(), 1e-9);
  }
}

TEST_F(Tool, EachInputIsToldAsGivenOrAssumedWithTheOptionThatWouldGiveIt) {
  const std::string out = run({"checkpoint", "--size-gb", "1600", "--nodes", "16", "--drives", "4"}).out;
  for (const char* line :
       {"\n  size: 1.6 TB (given)\n", "\n  drives in each node: 4 (given)\n",
        "\n  GPUs of all nodes: 128 (assumed; --ranks)\n", "\n  $ for a GPU and hour: 4.06 (assumed; --price)\n",
        "\n  to copy the state out of the way: 571.4 ms (worked out)\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
  }
  EXPECT_EQ(out.find("window"), std::string::npos) << out;
  const std::string example = run({"load", "--example", "109b", "--set", "drive.share=0.5"}).out;
  EXPECT_NE(example.find("\n  GPUs of all nodes: 1 (of the example '109b')\n"), std::string::npos) << example;
  EXPECT_NE(example.find("\n  constant drive.share=0.5 (given)\n"), std::string::npos) << example;
  const json priced = json::parse(run({"checkpoint", "--set", "price.gpu_hour=2", "--json"}).out);
  EXPECT_EQ(priced["inputs"]["gpu_hour_money"], 2);
  EXPECT_EQ(priced["origins"]["gpu_hour_money"], "given");
  const json origins = json::parse(run({"load", "--nodes", "2", "--json"}).out)["origins"];
  EXPECT_EQ(origins["nodes"], "given");
  EXPECT_EQ(origins["ranks"], "assumed; --ranks");
  const Finished beside = run({"load", "--example", "109b", "--drives", "3"});
  EXPECT_EQ(beside.exit_code, 2);
  EXPECT_NE(beside.err.find("--drives does not go with --example 109b, which has its own"), std::string::npos);
}

TEST_F(Tool, RanksThatTheNodesCannotShareAreRefused) {
  const Finished done = run({"checkpoint", "--ranks", "8", "--nodes", "16"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_NE(done.err.find("the number of ranks is 8 with 16 nodes; it must be a multiple of them"), std::string::npos)
      << done.err;
}

TEST_F(Tool, AWindowIsAnsweredWithWhatFitsAndHowManyDrivesItTakes) {
  const Finished done = run({"checkpoint", "--drives", "1", "--drive-gb-per-s", "4.2", "--one-rank", "--window", "30"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(
      done.out.find("\nDirect, 140 GB take 33.33 s with 1 drive a node: outside of the window of 30 s. Up to 126 GB "
                    "fit; 2 such drives a node would do. Let training go on"),
      done.out.find('\n'))
      << done.out;
  EXPECT_NE(run({"load", "--fabric-gb-per-s", "40"})
                .out.find("\n140 GB take 3.50 s by the direct path (bound by the "
                          "fabric), and 3.50 s by a good host path (bound by the "),
            std::string::npos);
  EXPECT_EQ(run({"checkpoint", "--window", "-1"}).exit_code, 2);
}

TEST_F(Tool, NoModelShowsARawNumber) {
  const std::vector<std::vector<std::string>> all = {
      {"latency"},
      {"latency", "--size", "1G", "--network-gbit", "400"},
      {"registration", "--buffer", "1G"},
      {"registration", "--ios", "1000000", "--workers", "10000000", "--example"},
      {"checkpoint", "--size-gb", "14000", "--window", "2000000", "--hours", "5000000"},
      {"load", "--size-gb", "140"},
      {"cost", "--nodes", "100000"},
      {"contention", "--machine", "two-switch-server", "--size", "16M", "--sweep"}};
  for (const std::vector<std::string>& words : all) {
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 0) << words[0] << done.err;
    std::smatch raw;
    EXPECT_FALSE(std::regex_search(done.out, raw, std::regex("[0-9]e[+-][0-9]+"))) << raw.str() << "\n" << done.out;
  }
  EXPECT_NE(run({"latency"}).out.find("One read of 1 MiB, alone"), std::string::npos);
  EXPECT_NE(run({"registration", "--buffer", "1G"}).out.find("4 I/Os of 1 GiB for one registration"),
            std::string::npos);
}

TEST_F(Tool, OneIosLatencyIsTakenApart) {
  const Finished done = run({"latency", "--network-gbit", "400", "--published", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json report = json::parse(done.out);
  EXPECT_EQ(report["sheets"][0]["rows"].size(), 6u);
  EXPECT_EQ(report["sheets"][1]["rows"].size(), 3u);
  EXPECT_EQ(run({"latency", "--size", "0"}).exit_code, 2);
}

TEST_F(Tool, AResultFileThatIsNotThereIsAFailure) { EXPECT_EQ(run({"compare", "absent.json"}).exit_code, 1); }

}  // namespace
}  // namespace penstock::tools
