// SPDX-License-Identifier: Apache-2.0

// The built gdsio from outside, with host memory standing in for a GPU.
#include <signal.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// The shape that programs read, as NVIDIA's tool prints it.
const std::regex kResultLine(
    R"(IoType: (\w+) XferType: (\w+) Threads: (\d+)( IoDepth: (\d+))? DataSetSize: (\d+)/(\d+)\(KiB\) IOSize: )"
    R"(([\d.-]+)\(KiB\) Throughput: (\d+\.\d{6}) GiB/sec, Avg_Latency: (\d+\.\d{6}) usecs ops: (\d+) total_time )"
    R"((\d+\.\d{6}) secs)");

class Gdsio : public Tool {
 protected:
  Gdsio() { call_it("gdsio"); }
};

std::vector<Words> result_lines(const std::string& text) {
  std::vector<Words> lines;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kResultLine); at != std::sregex_iterator(); ++at) {
    Words words;
    for (const auto& part : *at) words.push_back(part.str());
    lines.push_back(words);
  }
  return lines;
}

TEST_F(Gdsio, MovesEveryByteByEveryTransferType) {
  const char* const kNames[] = {"GPUD",           "CPUONLY",          "CPU_GPU",   "CPU_ASYNC_GPU",
                                "CPU_CACHED_GPU", "GPU_DIRECT_ASYNC", "GPU_BATCH", "GPU_BATCH_STREAM"};
  for (int type = 0; type < 8; ++type) {
    SCOPED_TRACE(type);
    const std::string name = "f" + std::to_string(type);
    const Finished done = run({"-f", name, "-d", "0", "-w", "3", "-s", "1000K", "-i", "64K", "-x", std::to_string(type),
                               "-I", "1", "-V", "-O", "1"});
    ASSERT_EQ(done.exit_code, 0) << done.err;
    const std::vector<Words> lines = result_lines(done.out);
    ASSERT_EQ(lines.size(), 2u) << done.out;
    const bool is_batch = type >= 6;
    for (const Words& line : lines) {
      EXPECT_EQ(line[2], kNames[type]);
      EXPECT_EQ(line[3], is_batch ? "1" : "3");
      EXPECT_EQ(line[5], is_batch ? "3" : "");
      EXPECT_EQ(line[6], "1000");
      EXPECT_EQ(line[7], "1000");
      EXPECT_EQ(line[8], "64");
      EXPECT_EQ(line[11], "16");
    }
    EXPECT_EQ(lines[0][1], "WRITE");
    EXPECT_EQ(lines[1][1], "READ");
    EXPECT_LT(done.out.find("WRITE"), done.out.find("Verifying data\n"));
    EXPECT_LT(done.out.find("Verifying data\n"), done.out.find("READ"));
    EXPECT_EQ(fs::file_size(path(name)), 1000u << 10);
    EXPECT_EQ(text_of(path(name)), text_of(path("f0")));
  }
}

// A CUDA driver without a GPU, in place of libcuda.so.1: copies, streams and memory of gdsio's own go through it.
TEST_F(Gdsio, MovesEveryByteThroughACudaDriver) {
  const auto with_driver = [] {
    setenv("PENSTOCK_DEVICE", "cuda", 1);
    setenv("LD_LIBRARY_PATH", PENSTOCK_FAKE_LIBCUDA, 1);
  };
  for (const Words& more : {Words{"-x", "0"}, Words{"-x", "2"}, Words{"-x", "3"}, Words{"-x", "4"}, Words{"-x", "5"},
                            Words{"-x", "6"}, Words{"-x", "7"}, Words{"-m", "1"}, Words{"-m", "2"},
                            Words{"-m", "2", "-x", "5"}, Words{"-m", "1", "-x", "6"}}) {
    SCOPED_TRACE(more[0] + more[1] + more.back());
    Words words = {"-f", "f", "-d", "1", "-w", "3", "-s", "1000K", "-i", "64K", "-I", "1", "-V", "-O", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = run(words, with_driver);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(result_lines(done.out).size(), 2u) << done.out;
    EXPECT_NE(done.out.find("\ndevice: GPU 1, "), std::string::npos) << done.out;
  }
}

TEST_F(Gdsio, SaysWhichPathTheBytesTook) {
  make("data", 1 << 20);
  const std::string direct = run({"-f", "data", "-O", "1"}).out;
  EXPECT_NE(direct.find("\nPath: bounce 100.0% (stand_in: "), std::string::npos) << direct;
  EXPECT_NE(direct.find("\ndevice: host memory standing in for a GPU"), std::string::npos) << direct;
  const std::string plain = run({"-f", "data", "-O", "1", "-x", "1"}).out;
  EXPECT_NE(plain.find("\nPath: none of the library's"), std::string::npos) << plain;
  const std::string host = run({"-f", "data", "-O", "1", "-m", "3"}).out;
  EXPECT_NE(host.find("\nPath: host 100.0%"), std::string::npos) << host;
}

// Two command lines are passed around: one calls -I 1 a read, the other -x 0 the CPU's path.
TEST_F(Gdsio, SaysWhatTheNumbersOfTwoLinesThatAreAboutMean) {
  make("data", 1 << 20);
  const Finished first = run({"-f", "data", "-d", "0", "-w", "4", "-i", "64K", "-x", "0", "-I", "1", "-O", "1"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("gdsio: data is written over: -I 1 and 3 write, 0 and 2 read\n"), std::string::npos);
  const Finished second = run({"-f", "data", "-d", "0", "-w", "4", "-i", "64K", "-x", "0", "-I", "0", "-O", "1"});
  EXPECT_EQ(second.err,
            "gdsio: -x 0 asks cuFile for the GPU's direct path, and none served (see Path); the CPU's path is -x 2, "
            "without a GPU -x 1\n");
  EXPECT_EQ(second.out.find("IoType: READ XferType: GPUD"), 0u) << second.out;
  EXPECT_EQ(run({"-f", "data", "-x", "2", "-O", "1"}).err, "");
  EXPECT_EQ(run({"-f", "new", "-s", "64K", "-x", "2", "-I", "1", "-O", "1"}).err, "");
}

TEST_F(Gdsio, VerifiesRandomUnalignedAndGrowingRequestsToo) {
  for (const Words& more :
       {Words{"-I", "3", "-i", "4K"}, Words{"-I", "3", "-U", "-i", "4K:20K:1K"}, Words{"-I", "1", "-i", "1:9999:777"},
        Words{"-I", "1", "-b", "-m", "4"}, Words{"-I", "3", "-R", "-F", "-k", "5", "-x", "3"}}) {
    Words words = {"-f", "f", "-w", "4", "-s", "300K", "-o", "12345", "-V", "-O", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(result_lines(done.out).size(), 2u) << done.out;
  }
}

TEST_F(Gdsio, NamesTheByteThatSomebodyChanged) {
  ASSERT_EQ(run({"-f", "f", "-s", "1M", "-i", "64K", "-I", "1", "-V", "-O", "1"}).exit_code, 0);
  const Words read = {"-f", "f", "-w", "2", "-i", "64K", "-I", "0", "-V", "-O", "1"};
  const Finished whole = run(read);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(whole.out.find("Verifying data\n"), 0u);
  std::fstream file(path("f"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(777777);
  const char old = static_cast<char>(file.get());
  file.seekp(777777);
  file.put(static_cast<char>(old ^ 1));
  file.close();

  const Finished broken = run(read);

  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_EQ(broken.err, "gdsio: f: verify: the byte at offset 777777 is wrong\n");
  EXPECT_TRUE(result_lines(broken.out).empty()) << broken.out;
  EXPECT_EQ(run({"-f", "f", "-V", "-k", "2", "-O", "1"}).exit_code, 1) << "another seed, other bytes";
}

TEST_F(Gdsio, AFolderHasAFileForEachThread) {
  fs::create_directory(path("folder"));
  const Finished done = run({"-D", "folder", "-w", "3", "-s", "100K", "-i", "32K", "-I", "1", "-V", "-O", "1"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(result_lines(done.out)[0][7], "300");
  for (const char* name : {"folder/gdsio.0", "folder/gdsio.1", "folder/gdsio.2"}) {
    EXPECT_EQ(fs::file_size(path(name)), 100u << 10) << name;
  }
  EXPECT_FALSE(fs::exists(path("folder/gdsio.3")));
  EXPECT_EQ(run({"-D", "folder", "-w", "4", "-O", "1"}).exit_code, 1) << "the fourth was never written";
  EXPECT_EQ(run({"-D", "folder", "-w", "4", "-s", "100K", "-x", "6", "-I", "0", "-O", "1"}).exit_code, 0);
}

TEST_F(Gdsio, SeveralFilesAndGpusRunTogether) {
  const Finished done = run({"-f", "a",  "-d",   "0",  "-w",  "2",  "-f", "b",  "-d", "1", "-w",
                             "1",  "-s", "256K", "-i", "64K", "-I", "1",  "-V", "-O", "1"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(result_lines(done.out)[0][3], "3");
  EXPECT_EQ(result_lines(done.out)[0][7], "512");
  EXPECT_EQ(fs::file_size(path("a")), 256u << 10);
  EXPECT_EQ(fs::file_size(path("b")), 256u << 10);
}

TEST_F(Gdsio, AJobFileStandsForFlags) {
  std::ofstream(path("job")) << "[global]\nxfer_type=6\nrw=write\nbs=16K\nsize=256K\ndo_verify=1\nfd_type=1\n"
                                "[job1]\nfilename=a\nnum_threads=4\n[job2]\nfilename=b\nnum_threads=4\n";
  const Finished done = run({"job"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(result_lines(done.out)[0][2], "GPU_BATCH");
  EXPECT_EQ(result_lines(done.out)[0][5], "4");
  EXPECT_EQ(fs::file_size(path("b")), 256u << 10);
  std::ofstream(path("job")) << "[global]\nnonsense=6\n";
  const Finished broken = run({"job"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_EQ(broken.err, "gdsio: job:2: there is no key 'nonsense'\n");
  EXPECT_EQ(run({"/dev/zero"}).exit_code, 2) << "a job file without an end";
}

TEST_F(Gdsio, RunsForTheTimeAsked) {
  make("data", 1 << 20);
  const Finished done = run({"-f", "data", "-w", "2", "-i", "4K", "-I", "2", "-T", "0.3", "-V", "-O", "1"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Words line = result_lines(done.out).at(0);
  EXPECT_EQ(line[1], "RANDREAD");
  EXPECT_GE(std::stod(line[12]), 0.3);
  EXPECT_LT(std::stod(line[12]), 10);
  EXPECT_EQ(std::stoull(line[6]), std::stoull(line[11]) * 4);
  EXPECT_EQ(done.err.find("gdsio: -V is ignored with -T\n"), 0u) << done.err;
}

TEST_F(Gdsio, TellsProgramsTheSame) {
  make("data", 1 << 20);
  const Finished done = run({"-f", "data", "-i", "64K", "-O", "1", "--json"});
  const json report = json::parse(done.out, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << done.out;
  EXPECT_EQ(report["results"][0]["operations"], 16);
  EXPECT_EQ(report["results"][0]["paths"][0]["path"], "bounce");
  EXPECT_EQ(report["results"][0]["paths"][0]["bytes"], 1 << 20);
  EXPECT_EQ(report["devices"][0]["stand_in"], true);
  const json refusal = json::parse(run({"-f", "none", "--json"}).out, nullptr, false);
  EXPECT_EQ(refusal["exit_code"], 1);
}

TEST_F(Gdsio, ExitCodesTellUsageFromFailureFromWhatDoesNotApply) {
  make("data", 8192);
  const std::pair<int, Words> cases[] = {
      {2, {}},
      {2, {"-f", "data", "-x", "9"}},
      {2, {"-f", "data", "-w", "1000", "-i", "1G"}},
      {2, {"-f", "data", "-w", "1000", "-i", "1G", "-x", "1"}},
      {2, {"-f", "new", "-I", "1", "-O", "1"}},
      {2, {"-f", "data", "-o", "8192", "-O", "1"}},
      {1, {"-f", "none"}},
      {2, {"-f", "."}},
      {1, {"-f", "data", "-s", "16K", "-O", "1"}},
      {1, {"-D", "none", "-s", "1M", "-I", "1"}},
      {1, {"-f", "/dev/null"}},
      {77, {"-f", "data", "-B"}},
      {77, {"-f", "data", "-S"}},
      {77, {"-f", "data", "-m", "1"}},
      {77, {"-f", "data", "-m", "2"}},
      {77, {"-f", "data", "-d", "9"}},
  };
  for (const auto& [exit_code, words] : cases) {
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, exit_code) << done.err;
    EXPECT_EQ(done.err.find("gdsio: "), 0u) << done.err;
    EXPECT_EQ(done.out, "");
  }
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(Gdsio, ANodeThatIsNotThereDoesNotApply) {
  make("data", 8192);
  const Finished done = run({"-f", "data", "-n", "999", "-O", "1"});
  EXPECT_EQ(done.exit_code, 77);
  EXPECT_EQ(done.err, "gdsio: there is no NUMA node 999 on this machine\n");
}

TEST_F(Gdsio, AConfigurationThatForbidsCompatModeIsObeyed) {
  make("data", 8192);
  const Finished done = run({"-f", "data", "-O", "1"}, [] { setenv("CUFILE_ALLOW_COMPAT_MODE", "false", 1); });
  EXPECT_EQ(done.exit_code, 1) << done.out;
  EXPECT_EQ(done.out, "");
}

TEST_F(Gdsio, AConfigurationThatIsBrokenIsNamedWithItsLine) {
  make("data", 1 << 20);
  std::ofstream(path("cufile.json")) << "{\n  \"properties\": {\n    \"allow_compat_mode\": 7\n  }\n}\n";
  const std::string name = path("cufile.json");
  const Finished done = run({"-f", "data", "-O", "1"}, [&] { setenv("CUFILE_ENV_PATH_JSON", name.c_str(), 1); });
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("cufile.json:3: "), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("allow_compat_mode"), std::string::npos) << done.err;
}

TEST_F(Gdsio, AFolderInAFilesPlaceIsToldTheOtherFlag) {
  fs::create_directory(path("folder"));
  for (const char* mode : {"0", "1"}) {
    const Finished done = run({"-f", "folder", "-s", "64K", "-I", mode, "-O", "1"});
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_NE(done.err.find("-D"), std::string::npos) << done.err;
  }
  EXPECT_TRUE(fs::is_empty(path("folder")));
}

TEST_F(Gdsio, AFileThatFindsNoRoomIsTakenAwayAgain) {
  for (const char* type : {"0", "1", "3", "5", "6"}) {
    const Finished done = run({"-f", "f", "-s", "4M", "-i", "64K", "-w", "2", "-x", type, "-I", "1", "-O", "1"}, [] {
      const rlimit limit{1 << 20, 1 << 20};
      setrlimit(RLIMIT_FSIZE, &limit);
    });
    EXPECT_EQ(done.exit_code, 1) << type;
    EXPECT_NE(done.err.find("gdsio: f: at offset "), std::string::npos) << type << done.err;
    EXPECT_NE(done.err.find("File too large"), std::string::npos) << type << done.err;
    EXPECT_FALSE(fs::exists(path("f"))) << type;
  }
}

TEST_F(Gdsio, ThatIsInterruptedTellsWhatItHasAndDiesOfTheSignal) {
  const pid_t child = start({"-f", "f", "-s", "1M", "-i", "4K", "-I", "1", "-T", "600", "-O", "1"});
  ASSERT_TRUE(wait_until([&] { return has_bytes("f"); }));
  kill(child, SIGINT);
  const Finished done = wait(child);
  EXPECT_EQ(done.signal_number, SIGINT);
  EXPECT_EQ(done.out.find("interrupted; up to then:\n"), 0u) << done.out << done.err;
  EXPECT_EQ(result_lines(done.out).size(), 1u) << done.out;
  EXPECT_FALSE(fs::exists(path("f")));
}

TEST_F(Gdsio, AnswersUnderThePenstockCommandToo) {
  make("data", 1 << 20);
  call_it("penstock");
  EXPECT_EQ(result_lines(run({"gdsio", "-f", "data", "-O", "1"}).out).size(), 1u);
  const std::string help = run({"help", "gdsio"}).out;
  EXPECT_EQ(help, run({"gdsio", "--help"}).out);
  for (const char flag : std::string("fDdnmwsoixITkOpbVURFh")) {
    EXPECT_NE(help.find(std::string("\n  -") + flag), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace penstock::tools
