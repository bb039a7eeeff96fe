// SPDX-License-Identifier: Apache-2.0

// The built `penstock` binary from outside: exit codes, what it prints, what it leaves on disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

using Names = std::vector<std::string>;

TEST_F(Tool, UnderASmallStackLimitItWorksOrSaysWhyNot) {
  constexpr rlim_t kSmall = 64 << 10;
  make("data", 5000);
  const auto run_under = [&](rlim_t most) {
    return run({"explain", "data"}, [most] {
      const rlimit limit{kSmall, most};
      if (::setrlimit(RLIMIT_STACK, &limit) != 0) _exit(125);
    });
  };

  rlimit here{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &here), 0);

  const Finished raised = run_under(here.rlim_max);
  const Finished kept = run_under(kSmall);

  EXPECT_EQ(raised.exit_code, 0) << raised.err;
  EXPECT_EQ(kept.signal_number, 0);
  EXPECT_TRUE(kept.exit_code == 0 || kept.err.find("the stack is limited to 64 KiB") != std::string::npos) << kept.err;
}

TEST_F(Tool, HelpNamesEveryCommandAndEveryCommandHasExamples) {
  const Finished all = run({"help"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(all.out, run({"--help"}).out);
  for (const char* command : {"check", "explain", "bench", "stats", "serve"}) {
    EXPECT_NE(all.out.find(std::string("\n  ") + command), std::string::npos) << command;
    const Finished one = run({"help", command});
    EXPECT_EQ(one.exit_code, 0);
    EXPECT_EQ(one.out, run({command, "--help"}).out);
    EXPECT_NE(one.out.find("Examples:\n"), std::string::npos) << command;
    EXPECT_NE(one.out.find("Exit code:"), std::string::npos) << command;
  }
}

TEST_F(Tool, HelpNamesProgramsBesideItInOneSentenceAndListsNone) {
  const std::string out = run({"--help"}).out;
  for (const char* program : {"gdscheck", "gdsio", "gdsio_verify", "gds_stats", "gds_install_check", "k8s", "model"}) {
    EXPECT_EQ(out.find("\n  " + std::string(program) + " "), std::string::npos) << program;
    EXPECT_NE(out.find(program, out.find("\nPrograms beside it: ")), std::string::npos) << out;
  }
}

class OldNameOfAProgram : public Tool {
 protected:
  // The tool in a folder of its own, by another name of the same file.
  OldNameOfAProgram() {
    fs::create_directory(path("bin"));
    fs::create_hard_link(PENSTOCK_TOOL, path("bin/penstock"));
    fs::create_symlink("bin/penstock", path("link"));
    call_it(path("link"));
  }
};

TEST_F(OldNameOfAProgram, RunsItFromBesideTheToolWithTheSameWords) {
  for (const std::string name : {"k8s", "model"}) {
    const fs::path program = path("bin/penstock-" + name);
    std::ofstream(program) << "#!/bin/sh\necho \"$0\"\necho \"$*\"\nexit 7\n";
    fs::permissions(program, fs::perms::owner_all);

    const Finished done = run({"--color", "never", name, "some", "--json", "words"});

    EXPECT_EQ(done.exit_code, 7) << done.err;
    EXPECT_EQ(done.out, program.string() + "\n--color never some --json words\n");
    EXPECT_EQ(done.err, "penstock: 'penstock " + name + "' is now 'penstock-" + name +
                            "'; the old name goes with the next release\n");
    EXPECT_EQ(run({"help", name}).out, program.string() + "\n--help\n");
  }
}

TEST_F(OldNameOfAProgram, SaysWhichPackageHasItWhereItIsNotInstalled) {
  std::ofstream(path("penstock-k8s")) << "#!/bin/sh\n";  // In the working directory, and beside the link: no matter.
  fs::permissions(path("penstock-k8s"), fs::perms::owner_all);

  const Finished done = run({"k8s", "lint", "--json"}, [&] { setenv("PATH", path("").c_str(), 1); });

  EXPECT_EQ(done.exit_code, 77);
  EXPECT_TRUE(done.err.ends_with("which is not installed beside this one; the package penstock-k8s has it\n"))
      << done.err;
  EXPECT_EQ(json::parse(done.out)["exit_code"], 77) << done.out;
}

TEST_F(Tool, HelpListsTheVerbsAloneAndNvidiasNamesAnswer) {
  const std::string all = run({"help"}).out;
  const std::string verbs = all.substr(all.find("Subcommands:"), all.find("Examples:") - all.find("Subcommands:"));
  for (const char* verb : {"check", "explain", "bench", "run", "stats", "serve", "kv", "settings", "help"})
    EXPECT_NE(verbs.find(std::string("\n  ") + verb + " "), std::string::npos) << verb;
  for (const char* other : {"gdsio", "gds_stats", "doctor", "top", "node", "prepare"})
    EXPECT_EQ(verbs.find(std::string("\n  ") + other + " "), std::string::npos) << other;
  const Finished gdsio = run({"gdsio", "--help"});
  EXPECT_EQ(gdsio.exit_code, 0);
  EXPECT_EQ(gdsio.err, "");
}

TEST_F(Tool, AFlagThatAsksAnotherQuestionHasOptionsAndHelpOfItsOwn) {
  EXPECT_NE(run({"bench", "--help"}).out.find("\n  --every-path"), std::string::npos);

  const Finished help = run({"help", "bench", "--every-path"});

  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("Usage: penstock bench --every-path [OPTIONS]\n"), std::string::npos) << help.out;
  EXPECT_NE(help.out.find("\n  --dir DIR"), std::string::npos) << help.out;
  EXPECT_EQ(help.out.find("\n  --sweep"), std::string::npos) << help.out;
  const Finished wrong = run({"bench", "--every-path", "--sweep", "bs=4k"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("see 'penstock bench --every-path --help'"), std::string::npos) << wrong.err;
}

TEST_F(Tool, WrongUsageIsExitCodeTwoAndOneSentence) {
  make("data", 5000);
  const std::vector<Names> usages = {{},
                                     {"frobnicate"},
                                     {"help", "frobnicate"},
                                     {"--frobnicate"},
                                     {"explain"},
                                     {"explain", "data", "--frobnicate"},
                                     {"explain", "data", "--gpu", "-1"},
                                     {"bench", "data", "--bs", "4KB"},
                                     {"bench", "data", "--bs", "0"},
                                     {"bench", "data", "--depth", "0"},
                                     {"bench", "data", "--rw", "sideways"},
                                     {"bench", "data", "--time", "-1"},
                                     {"bench", "data", "--time", "nan"},
                                     {"bench", "data", "--repeat", "0"},
                                     {"bench", "data", "--ramp", "-1"},
                                     {"bench", "data", "--direct", "--buffered"},
                                     {"bench", "data", "--require", "teleport"},
                                     {"bench", "data", "--size", "5001"},
                                     {"bench", "data", "--offset", "5000"},
                                     {"bench", "data", "--size", "8191P", "--offset", "8191P"},
                                     {"bench", "data", "--rw", "write"},
                                     {"bench", "absent", "--rw", "write"},
                                     {"bench", "absent", "--rw", "write", "--create"},
                                     {"bench", "--every-path", "--size", "0"},
                                     {"bench", "--every-path", "data"},
                                     {"check", "."}};
  for (const Names& usage : usages) {
    const Finished done = run(usage);
    std::string shown;
    for (const std::string& word : usage) shown += " " + word;
    EXPECT_EQ(done.exit_code, 2) << shown;
    EXPECT_EQ(done.out, "") << shown;
    EXPECT_TRUE(done.err.starts_with("penstock: ")) << shown << ": " << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << shown << ": " << done.err;
  }
  EXPECT_EQ(folder(), Names{"data"});
}

TEST_F(Tool, ExplainAnswersAsIfAVariableWereSet) {
  make("data", 5000);

  const Finished asked = run({"explain", "data", "--json", "--env", "PENSTOCK_PATHS=null"});
  const Finished set = run({"explain", "data", "--json"}, [] { setenv("PENSTOCK_PATHS", "null", 1); });
  EXPECT_EQ(asked.out, set.out);
  EXPECT_NE(asked.out, run({"explain", "data", "--json"}).out);
  EXPECT_EQ(run({"explain", "data", "--env", "PENSTOCK_PATHZ=null"}).exit_code, 2);
}

TEST_F(Tool, ExplainFailsOnACapturedMachineWhereNoPathIsUsable) {
  EXPECT_EQ(run({"explain", "/data/0/x", "--root", PENSTOCK_MACHINES "dgx-ready"}).exit_code, 0);
  const Finished refused = run({"explain", "/data/0/x", "--root", PENSTOCK_MACHINES "cufile-broken"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.out.find("Correct that in"), refused.out.rfind("Correct that in")) << "told twice" << refused.out;
}

TEST_F(Tool, WhatIsNoFileIsRefusedInOneSentence) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"absent", ".", "pipe", "/dev/null"}) {
    for (const Names& usage : std::vector<Names>{{"explain", name}, {"bench", name}}) {
      if (usage == Names{"explain", "."} || usage == Names{"bench", "."}) continue;  // They go into folders.
      const Finished done = run(usage);
      EXPECT_EQ(done.exit_code, 1) << usage[0] << " " << name;
      EXPECT_TRUE(done.err.starts_with("penstock: " + std::string(name) + ": could not open the file: ")) << done.err;
    }
  }
  EXPECT_EQ(folder(), Names{"pipe"});
}

TEST_F(Tool, AGpuThatIsNotThereIsNotApplicable) {
  make("data", 10);
  for (const Names& usage : std::vector<Names>{{"explain", "data", "--gpu", "99"},
                                               {"bench", "data", "--gpu", "99"},
                                               {"cp", "data", "copy", "--gpu", "99"},
                                               {"bench", "--every-path", "--size", "1M", "--gpu", "99"}}) {
    const Finished done = run(usage);
    EXPECT_EQ(done.exit_code, 77) << usage[0];
    EXPECT_NE(done.err.find("there is no GPU 99"), std::string::npos) << done.err;
  }
  EXPECT_EQ(folder(), Names{"data"});
}

TEST_F(Tool, OutputThatCannotBeWrittenIsAFailure) {
  const Finished done = run({"--version"}, [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); });
  EXPECT_EQ(done.exit_code, 1);
}

TEST_F(Tool, ExplainTellsFactsVerdictsAndTheChoice) {
  make("data", 5000);
  const Finished done = run({"explain", "data", "-v"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(done.out.starts_with("file: data\n  kind: regular file\n  file system: ")) << done.out;
  for (const char* line :
       {"\n  size: 4.88 KiB (5000 B)\n", "\n  descriptor: read only, buffered (no O_DIRECT)\n",
        "\ndevice: host memory standing in for a GPU (reason: ", "\npaths for a read into device memory, best first:\n",
        "\n  p2pdma     refused [", "\n  bounce     usable", "\nwould be used: bounce\n"}) {
    EXPECT_NE(done.out.find(line), std::string::npos) << line << "in\n" << done.out;
  }
}

TEST_F(Tool, ExplainAnswersWithTheVerdictFirstAndEachReasonOnce) {
  make("data", 5000);
  const Finished done = run({"explain", "data"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const std::string begin = "data: a read into host memory in place of a GPU's goes by bounce (not direct: through";
  EXPECT_EQ(done.out.substr(0, begin.size()), begin);
  EXPECT_NE(done.out.find("  not p2pdma, dmabuf, pagecache, nvfs, vendor: "), std::string::npos) << done.out;
  const std::string reason = "the device is host memory standing in for a GPU [stand_in]";
  EXPECT_EQ(done.out.find(reason), done.out.rfind(reason)) << done.out;
  EXPECT_EQ(run({"explain", "data", "--write"}).out.find("data: a write from host memory in place of a GPU's"), 0u);
}

TEST_F(Tool, ExplainTakesFoldersAndSeveralFilesAndSaysWhichItCouldNotLookAt) {
  for (const char* name : {"model/part", "empty"}) fs::create_directories(path(name));
  make("model/one", 5000);
  make("model/part/two", 7000);
  make("three", 10);
  fs::create_symlink("one", path("model/link"));
  const Finished all = run({"explain", "model", "three"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_TRUE(all.out.starts_with("3 files, ")) << all.out;
  for (const char* name : {"\nmodel/one ", "\nmodel/part/two ", "\nthree "})
    EXPECT_NE(all.out.find(name), std::string::npos) << name << " in\n" << all.out;
  const Finished some = run({"explain", "three", "none"});
  EXPECT_EQ(some.exit_code, 1);
  EXPECT_TRUE(some.out.starts_with("1 file, ")) << some.out;
  EXPECT_NE(some.out.find("not looked at: none: "), std::string::npos) << some.out;
  EXPECT_EQ(run({"explain", "empty"}).exit_code, 1);
}

TEST_F(Tool, ExplainSaysWhatOfFilesKeepsThemFromBeingDirectAndOnceForAll) {
  for (const char* name : {"one", "two"}) {
    std::ofstream(path(name)) << "beginning";
    fs::resize_file(path(name), 1 << 20);
  }
  const std::string one = run({"explain", "one"}).out, both = run({"explain", "one", "two"}).out;
  if (run({"explain", "one", "-v"}).out.find("holes") == std::string::npos) GTEST_SKIP() << "no holes are told here";
  EXPECT_NE(one.find("  against O_DIRECT: the file has holes"), std::string::npos) << one;
  EXPECT_NE(both.find("  against O_DIRECT (2 files): the file has holes"), std::string::npos) << both;
  EXPECT_EQ(both.find("O_DIRECT"), both.rfind("O_DIRECT")) << both;
}

TEST_F(Tool, ExplainOfSeveralFilesTellsProgramsAndTheCuriousOfEach) {
  fs::create_directories(path("model"));
  make("model/one", 5000);
  make("model/two", 7000);
  const json told = json::parse(run({"explain", "model", "none", "--json"}).out);
  ASSERT_EQ(told["files"].size(), 3u);
  EXPECT_EQ(told["files"][1]["file"]["path"], "model/two");
  EXPECT_EQ(told["files"][1]["would_use"], "bounce");
  EXPECT_NE(told["files"][2]["error"].get<std::string>().find("none: "), std::string::npos);
  const std::string text = run({"explain", "model", "-v"}).out;
  EXPECT_NE(text.find("file: model/one\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\nfile: model/two\n"), std::string::npos) << text;
}

TEST_F(Tool, ExplainPlansNoReadPastTheEnd) {
  make("data", 5000);
  const Finished done = run({"explain", "data", "--size", "1G"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_NE(done.err.find("reach past its end"), std::string::npos) << done.err;
  EXPECT_EQ(run({"explain", "data", "--size", "1G", "--write"}).exit_code, 0) << "a write makes it longer";
}

// It planned direct reads of what lay in the page cache, which the read then took from there.
TEST_F(Tool, ExplainPlansAReadOfACachedFileThroughThePageCache) {
  make("data", 32 << 20);
  const auto plan = [&] { return json::parse(run({"explain", "data", "--json"}).out); };
  const json cached = plan();
  if (cached["cached_bytes"] != (32 << 20)) GTEST_SKIP() << "the kernel does not tell, or keeps no pages here";
  EXPECT_EQ(cached["plan"]["text"].get<std::string>().find("direct"), std::string::npos) << cached["plan"];
}

TEST_F(Tool, ExplainTellsProgramsTheSame) {
  make("data", 5000);
  const Finished done = run({"explain", "data", "--write", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json told = json::parse(done.out);
  EXPECT_EQ(told["file"]["size"], 5000);
  EXPECT_EQ(told["file"]["writable"], true);
  EXPECT_EQ(told["operation"], "write");
  EXPECT_EQ(told["device"]["stand_in"], true);
  EXPECT_EQ(told["would_use"], "bounce");
  ASSERT_GE(told["paths"].size(), 5u);
  for (const json& path : told["paths"]) {
    if (path["usable"] == false) {
      EXPECT_NE(path["reason"], "none") << path;
      EXPECT_NE(path["sentence"], "") << path;
    }
  }
  EXPECT_EQ(json::parse(run({"explain", "data", "--memory", "host", "--json"}).out)["would_use"], "host");
}

TEST_F(Tool, ExplainTellsOfBlocksThatAKilledWriterLeftBehindTheEnd) {
  make("data", 1000);
  const int fd = open(path("data").c_str(), O_RDWR | O_CLOEXEC);
  const bool allocated = fsync(fd) == 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 9 << 20) == 0;
  close(fd);
  if (!allocated) GTEST_SKIP() << "no fallocate in the working directory";
  const auto behind = json::parse(run({"explain", "data", "--json"}).out)["file"]["allocated_behind_end"];
  if (behind == 0) GTEST_SKIP() << "the file system of the working directory does not tell extents";

  const Finished done = run({"explain", "data", "-v"});

  EXPECT_GE(behind, 8 << 20);
  EXPECT_NE(done.out.find("\n  behind its end: "), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("truncate --size=1000"), std::string::npos);
}

TEST_F(Tool, ExplainTellsWhatWasChosenAndWhy) {
  make("data", 5000);
  make("large", 16 << 20);
  const Names large{"explain", "large", "-v"};
  const auto environment = [] {
    setenv("PENSTOCK_POLICY", "cpu", 1);
    setenv("PENSTOCK_WORKERS", "3", 1);
  };
  const Finished people = run(large, environment);
  EXPECT_NE(people.out.find("  by up to 4 threads to begin with, to be tuned; "), std::string::npos) << people.out;
  EXPECT_NE(people.out.find("; policy cpu\n  why: a first guess: "), std::string::npos) << people.out;
  Names for_programs = large;
  for_programs.push_back("--json");
  const json choice = json::parse(run(for_programs, environment).out)["choice"];
  EXPECT_EQ(choice["path"], "bounce");
  EXPECT_EQ(choice["policy"], "cpu");
  EXPECT_EQ(choice["threads"], 4);
  EXPECT_GE(choice["chunk"], 2 << 20);
  EXPECT_TRUE(choice.contains("depth"));
  EXPECT_EQ(choice["settled"], false);
  EXPECT_NE(choice["why"], "");
  const json small = json::parse(run({"explain", "data", "--json"}).out)["choice"];
  EXPECT_EQ(small["threads"], 1);
  EXPECT_EQ(small["chunk"], 5000);
  EXPECT_TRUE(small["policy"].is_null());
}

void expect_all_bytes_told(const json& told, std::uint64_t bytes, const std::string& path) {
  EXPECT_EQ(told["result"]["bytes"], bytes);
  EXPECT_EQ(told["bytes_by_path"][path], bytes);
  std::uint64_t sum = 0;
  for (const json& one : told["bytes_by_path"]) sum += one.get<std::uint64_t>();
  EXPECT_EQ(sum, bytes);
  EXPECT_EQ(told["result"]["direct_bytes"].get<std::uint64_t>() + told["result"]["cached_bytes"].get<std::uint64_t>(),
            bytes);
}

TEST_F(Tool, BenchReadsBackWhatItWrote) {
  for (const char* operation : {"write", "randwrite"}) {
    for (const char* memory : {"device", "host"}) {
      const Finished write = run({"bench", "data", "--rw", operation, "--size", "1000001", "--bs", "64k", "--verify",
                                  "--create", "--overwrite", "--memory", memory, "--threads", "2", "--json"});
      ASSERT_EQ(write.exit_code, 0) << write.err;
      const json told = json::parse(write.out);
      EXPECT_GT(told["result"]["verified_bytes"], 0);
      const std::uint64_t bytes = told["result"]["bytes"];
      expect_all_bytes_told(told, bytes, std::string(memory) == "host" ? "host" : "bounce");
      if (std::string(operation) == "write") {
        EXPECT_EQ(bytes, 1000001u);
        EXPECT_EQ(fs::file_size(path("data")), 1000001u);
      }
    }
  }
}

TEST_F(Tool, BenchChecksWhatAnotherRunWrote) {
  ASSERT_EQ(run({"bench", "data", "--rw", "write", "--size", "1M", "--verify", "--create"}).exit_code, 0);
  for (const char* depth : {"1", "7"}) {
    const Finished read = run({"bench", "data", "--bs", "12345", "--depth", depth, "--verify", "--json"});
    ASSERT_EQ(read.exit_code, 0) << read.err;
    EXPECT_EQ(json::parse(read.out)["result"]["verified_bytes"], 1 << 20);
  }
  EXPECT_EQ(run({"bench", "data", "--offset", "513", "--size", "70001", "--verify"}).exit_code, 0);
}

TEST_F(Tool, BenchNamesTheFirstWrongByte) {
  ASSERT_EQ(run({"bench", "data", "--rw", "write", "--size", "1M", "--verify", "--create"}).exit_code, 0);
  std::fstream file(path("data"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(700'000);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(700'000);
  file.put(byte);
  file.close();
  const Finished read = run({"bench", "data", "--verify"});
  EXPECT_EQ(read.exit_code, 1);
  EXPECT_EQ(read.err, "penstock: data: verify: the byte at offset 700000 is wrong\n");
}

TEST_F(Tool, BenchSaysWhenAFileIsNotItsOwn) {
  make("data", 1 << 20);
  const Finished read = run({"bench", "data", "--verify"});
  EXPECT_EQ(read.exit_code, 1);
  EXPECT_NE(read.err.find("not written by 'penstock bench --rw write --verify --seed 1'"), std::string::npos);
}

TEST_F(Tool, BenchRandomReadsRunForTheTimeAsked) {
  make("data", 1 << 20);
  const Finished read =
      run({"bench", "data", "--rw", "randread", "--bs", "4k", "--depth", "8", "--time", "0.3", "--warm", "--json"});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  const json told = json::parse(read.out);
  EXPECT_GE(told["result"]["seconds"], 0.3);
  expect_all_bytes_told(told, told["result"]["operations"].get<std::uint64_t>() * 4096, "bounce");
  EXPECT_LE(told["result"]["latency_us"]["p50"], told["result"]["latency_us"]["p99.9"]);
}

TEST_F(Tool, BenchNeverWritesOverDataUnasked) {
  const std::string bytes = make("data", 5000);
  EXPECT_EQ(run({"bench", "data", "--rw", "write", "--size", "4096", "--create"}).exit_code, 2);
  EXPECT_EQ(text_of(path("data")), bytes);
  EXPECT_EQ(run({"bench", "data", "--rw", "write", "--size", "4096", "--overwrite", "--repeat", "1"}).exit_code, 0);
  EXPECT_EQ(text_of(path("data")).substr(4096), bytes.substr(4096));
  EXPECT_NE(text_of(path("data")), bytes);
}

TEST_F(Tool, BenchOfARequiredPathThatOnlyAGpuCanProveIsNotApplicableWithoutOne) {
  make("data", 5000);
  EXPECT_EQ(run({"bench", "data", "--require", "bounce", "--repeat", "1"}).exit_code, 0);
  const Finished done = run({"bench", "data", "--require", "p2pdma"});
  EXPECT_EQ(done.exit_code, 77);
  EXPECT_NE(done.err.find("nothing can be proven here"), std::string::npos) << done.err;
}

TEST_F(Tool, BenchThatIsInterruptedTellsWhatItHasAndTakesItsNewFileAway) {
  const pid_t child = start({"bench", "data", "--rw", "write", "--create", "--size", "1M", "--time", "60"});
  ASSERT_TRUE(wait_until([&] { return has_bytes("data"); }));
  kill(child, SIGTERM);
  const Finished done = wait(child);
  EXPECT_EQ(done.signal_number, SIGTERM) << done.err;
  EXPECT_NE(done.out.find("interrupted; up to then:\n"), std::string::npos) << done.out;
  EXPECT_EQ(folder(), Names{});
}

TEST_F(Tool, DemoVerifiesEveryWayAndNamesTheMissing) {
  const Finished done = run({"bench", "--every-path", "--size", "3M", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json told = json::parse(done.out);
  EXPECT_GE(told["rows"].size(), 4u);
  std::set<std::string> paths;
  for (const json& row : told["rows"]) {
    EXPECT_EQ(row["verified"], true);
    EXPECT_EQ(row["rounds_gb_per_s"].size(), 3u);
    paths.insert(row["path"]);
  }
  EXPECT_TRUE(paths.contains("bounce") && paths.contains("host")) << told["rows"];
  EXPECT_FALSE(paths.contains("p2pdma") || paths.contains("null")) << told["rows"];
  EXPECT_GE(told["missing"].size(), 3u);
  EXPECT_EQ(folder(), Names{});
  const Finished table = run({"bench", "--every-path", "--size", "100"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("\npath "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("\nNot on this machine:\n  p2pdma: "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("device: host memory standing in for a GPU (reason: "), std::string::npos);
}

TEST_F(Tool, DemoWithoutRoomSaysSoAtOnce) {
  const Finished done = run({"bench", "--every-path", "--size", "4096T"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("of free space"), std::string::npos) << done.err;
  EXPECT_EQ(folder(), Names{});
}

}  // namespace
}  // namespace penstock::tools
