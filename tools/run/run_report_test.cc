// SPDX-License-Identifier: Apache-2.0

// The built tool's `run --report`, and the words of `stats` about processes without a session: other people's programs
// that use cuFile, that do not, and that cannot.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include <nlohmann/json.hpp>

#include "fakes/run_looks.h"
#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class RunReport : public Tool {
 protected:
  RunReport() { make("weights", 32 << 20); }

  Words words(Words program, const std::string& report = "--report") const {
    program.insert(program.begin(), {"run", "--library", PENSTOCK_CUFILE, report, "--"});
    return program;
  }
  Finished under(const Words& program, const std::string& report = "--report") { return run(words(program, report)); }
  Finished client(Words program, const std::string& report = "--report") {
    program.insert(program.begin(), PENSTOCK_CLIENT);
    return under(program, report);
  }
  json told() const { return json::parse(text_of(path("r.json")), nullptr, false); }
  bool is_there(const char* program) const {
    return std::system((std::string("command -v ") + program + " >/dev/null").c_str()) == 0;
  }
  // A program that waits until the test has looked at it.
  pid_t start_waiting(const Words& before, const char* preloaded) {
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(path("").c_str()) != 0) _exit(126);
    if (preloaded != nullptr) setenv("LD_PRELOAD", preloaded, 1);
    std::vector<char*> argv{const_cast<char*>(PENSTOCK_CLIENT)};
    for (const std::string& word : before) argv.push_back(const_cast<char*>(word.c_str()));
    for (const char* word : {"touch:ready", "await:go"}) argv.push_back(const_cast<char*>(word));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  // Runs `stats PID` on it.
  Finished stats_of(const Words& before, const char* preloaded, bool as_json = false) {
    const pid_t child = start_waiting(before, preloaded);
    EXPECT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
    Words asked{"stats", std::to_string(child)};
    if (as_json) asked.emplace_back("--json");
    const Finished done = run(asked);
    std::ofstream(path("go")) << "";
    waitpid(child, nullptr, 0);
    return done;
  }
};

TEST_F(RunReport, WhatWentThroughCuFileIsToldOnStderrAndTheProgramsOwnOutputIsLeftAlone) {
  const Finished done = client({"read:weights", "exit:5"});

  EXPECT_EQ(done.exit_code, 5);
  EXPECT_EQ(done.out, "");
  EXPECT_TRUE(has(done.err, "32.00 MiB read and 0 B written in 1 requests\n  storage   ")) << done.err;
  EXPECT_TRUE(has(done.err, path("weights").string())) << done.err;
  EXPECT_TRUE(has(done.err, "cuFile's calls go to Penstock's library, which comes first\n")) << done.err;
}

TEST_F(RunReport, AFileHasItAsJsonForProgramsWithEachProcessOfTheFamily) {
  const Finished done = client({"read:weights", "fork", "read:weights", "write:out", "exit:3"}, "--report=r.json");

  EXPECT_EQ(done.exit_code, 3);
  EXPECT_EQ(done.err, "");
  EXPECT_EQ(told()["schema"], 1);
  EXPECT_EQ(told()["exit_code"], 3);
  EXPECT_EQ(told()["used_cufile"], true);
  ASSERT_EQ(told()["reports"].size(), 2u);
  std::uint64_t read = 0, written = 0;
  const json all = told();
  for (const json& report : all["reports"]) {
    read += report["all"]["read_bytes"].get<std::uint64_t>();
    written += report["all"]["written_bytes"].get<std::uint64_t>();
  }
  EXPECT_EQ(read, 64u << 20);
  EXPECT_EQ(written, 1u << 20);
}

TEST_F(RunReport, ThePreloadedLibraryGoesBeforeOneThatIsOpenedByItsPath) {
  fs::copy_file(PENSTOCK_FAKE_VENDOR, path("libcufile.so.0"));

  const Finished done = client({"load:" + path("libcufile.so.0").string(), "read:weights"}, "--report=r.json");

  EXPECT_EQ(done.exit_code, 0) << done.err;
  ASSERT_EQ(told()["reports"].size(), 1u);
  EXPECT_EQ(told()["reports"][0]["all"]["read_bytes"], 32 << 20);
}

TEST_F(RunReport, OfAProgramThatEndsBeforeAnyLookTheLibraryItselfSaysThatItWasLoaded) {
  for (int i = 0; i < 5; ++i) {
    const Finished done = under({"true"});
    EXPECT_TRUE(has(done.err, "had loaded Penstock's libcufile, and did not call it") ||
                has(done.err, "Penstock's libcufile was in place, and the program did not call it"))
        << done.err;  // The second, if a look came to it after all.
  }
  const Finished which = run({"run", "--library", PENSTOCK_CUFILE, "--which", "--", "true"});
  EXPECT_TRUE(has(which.err, "1 of 1 process had ")) << which.err;
}

TEST_F(RunReport, PlainReadsMappingsAndDirectReadsAreToldWithTheirFilesAndARemedy) {
  const pid_t child = start(
      words({PENSTOCK_CLIENT, "map:weights", "direct:weights", "plain:weights", "fork", "touch:ready", "await:go"}));
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
  EXPECT_TRUE(await_look(child));
  std::ofstream(path("go")) << "";
  const Finished done = wait(child);

  EXPECT_EQ(done.exit_code, 0);
  EXPECT_TRUE(has(done.err, "nothing went through cuFile: ")) << done.err;
  EXPECT_TRUE(has(done.err, "read()")) << done.err;
  EXPECT_TRUE(has(done.err, "Penstock's libcufile was in place, and the program did not call it")) << done.err;
  EXPECT_TRUE(has(done.err, "instead   a loader that calls cuFile: torch.cuda.gds")) << done.err;
}

TEST_F(RunReport, AMappingThatLastsIsSeenWithItsFile) {
  const pid_t child =
      start(words({PENSTOCK_CLIENT, "map:weights", "direct:weights", "touch:ready", "await:go"}, "--report=r.json"));
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
  EXPECT_TRUE(await_look(child));
  std::ofstream(path("go")) << "";
  EXPECT_EQ(wait(child).exit_code, 0);

  EXPECT_EQ(told()["used_cufile"], false);
  ASSERT_EQ(told()["without_cufile"]["files"].size(), 1u) << told().dump(1);
  EXPECT_EQ(told()["without_cufile"]["files"][0]["name"], path("weights").string());
  EXPECT_EQ(told()["without_cufile"]["files"][0]["mapped"], true);
  EXPECT_EQ(told()["without_cufile"]["files"][0]["direct"], true);
}

TEST_F(RunReport, APythonProgramThatReadsByItselfAndOneThatCallsCuFileAreToldApart) {
  if (!is_there("python3")) GTEST_SKIP() << "there is no python3";
  const std::string plain = "open('weights', 'rb').read()";
  const std::string cufile =
      "import ctypes\nlibrary = ctypes.CDLL('libcufile.so.0')\nassert library.cuFileDriverOpen() == 0\n";

  const Finished read = under({"python3", "-c", plain});
  EXPECT_TRUE(has(read.err, "nothing went through cuFile: python3 reads with ")) << read.err;
  const Finished used = under({"python3", "-c", cufile});
  EXPECT_EQ(used.exit_code, 0) << used.err;
  EXPECT_TRUE(has(used.err, "and asked it for no byte\n")) << used.err;
}

TEST_F(RunReport, FioIsToldItsOwnRemedy) {
  if (!is_there("fio")) GTEST_SKIP() << "there is no fio";

  const Finished done = under({"fio", "--name=x", "--filename=weights", "--rw=read", "--bs=1M", "--ioengine=psync",
                               "--output=fio.txt", "--time_based", "--runtime=1"});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(has(done.err, "nothing went through cuFile: fio reads with ")) << done.err;
  EXPECT_TRUE(has(done.err, "--ioengine=libcufile")) << done.err;
}

TEST_F(RunReport, AProgramThatNeverReadsIsToldSo) {
  const Finished done = under({"true"});

  EXPECT_EQ(done.exit_code, 0);
  EXPECT_TRUE(has(done.err, "nothing went through cuFile: true read next to nothing")) << done.err;
}

TEST_F(RunReport, AStaticProgramAndASetUserIdOneAreToldWhyTheyCannotHaveIt) {
  const Finished still = under({PENSTOCK_STATIC});
  EXPECT_EQ(still.exit_code, 0);
  EXPECT_TRUE(has(still.err, "why       ") && has(still.err, "is statically linked")) << still.err;

  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  fs::copy_file("/bin/true", path("program"));
  ASSERT_EQ(chown(path("program").c_str(), 1, 1), 0);
  fs::permissions(path("program"), fs::perms::set_uid | fs::perms::all);
  const Finished other = under({"./program"});
  EXPECT_TRUE(has(other.err, "why       ./program is set-user-id or set-group-id")) << other.err;
}

TEST_F(RunReport, WhoIsKilledWritesNoReportAndIsTold) {
  const pid_t child = start(words({PENSTOCK_CLIENT, "read:weights", "touch:ready", "await:go", "kill:9"}));
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
  EXPECT_TRUE(await_look(child));
  std::ofstream(path("go")) << "";
  const Finished done = wait(child);

  EXPECT_EQ(done.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(has(done.err, "had a session open and wrote no report")) << done.err;
  EXPECT_TRUE(has(done.err, "it had 32 MiB read and 0 B written in 1 requests")) << done.err;
  EXPECT_TRUE(has(done.err, "was ended by signal 9")) << done.err;
}

TEST_F(RunReport, ADaemonThatGoesOnIsNamed) {
  const Finished done = client({"daemon", "await:go", "touch:gone"});
  std::ofstream(path("go")) << "";
  EXPECT_TRUE(wait_until([&] { return fs::exists(path("gone")); }));

  EXPECT_EQ(done.exit_code, 0);
  EXPECT_TRUE(has(done.err, "still runs, and its report at its end is lost: set PENSTOCK_REPORT=FILE")) << done.err;
}

TEST_F(RunReport, SignalsToTheToolAloneArePassedOn) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
    fs::remove(path("ready"));
    const pid_t child =
        start(words({"sh", "-c", "trap 'exit 9' TERM INT USR1; : > ready; while :; do sleep 0.05; done"}));
    ASSERT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
    kill(child, number);

    EXPECT_EQ(wait(child).exit_code, 9) << number;
  }
}

TEST_F(RunReport, APlaceWhereNoReportCanBeWrittenIsSaidBeforeTheProgramRuns) {
  for (const char* target : {"--report=missing/r.json", "--report=/proc/r.json"}) {
    const Finished done = client({"touch:ran"}, target);
    EXPECT_EQ(done.exit_code, 1) << target;
    EXPECT_FALSE(fs::exists(path("ran"))) << target;
  }
}

TEST_F(RunReport, AReportThatADiskHasNoRoomForAnyMoreGoesToStderr) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a disk that is full";
  fs::create_directory(path("full"));

  const Finished done = run(words({PENSTOCK_CLIENT, "read:weights"}, "--report=full/r.txt"), [] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(77);
    if (mount("none", "full", "tmpfs", 0, "size=4096") != 0) _exit(77);
    std::ofstream("full/filler") << std::string(4096, 'f');
  });

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(has(done.err, "full/r.txt: the report could not be written")) << done.err;
  EXPECT_TRUE(has(done.err, "32.00 MiB read")) << done.err;
}

TEST_F(RunReport, NothingIsLeftInTheFolderForTemporaryFiles) {
  fs::create_directory(path("tmp"));

  run(words({PENSTOCK_CLIENT, "read:weights"}), [] { setenv("TMPDIR", "tmp", 1); });

  EXPECT_TRUE(fs::is_empty(path("tmp")));
}

TEST_F(RunReport, StatsSaysWhoseLibraryAProcessWithoutASessionHas) {
  const Finished ours = stats_of({}, PENSTOCK_CUFILE);
  EXPECT_EQ(ours.exit_code, 77);
  EXPECT_TRUE(has(ours.err, "has Penstock's libcufile, ")) << ours.err;

  for (const char* done : {"ready", "go"}) fs::remove(path(done));
  fs::copy_file(PENSTOCK_FAKE_VENDOR, path("libcufile.so.0"));
  const Finished nvidias = stats_of({"load:./libcufile.so.0"}, nullptr);
  EXPECT_EQ(nvidias.exit_code, 77);
  EXPECT_TRUE(has(nvidias.err, "has another libcufile, " + path("libcufile.so.0").string())) << nvidias.err;
  EXPECT_TRUE(has(nvidias.err, "penstock run -- PROGRAM")) << nvidias.err;

  for (const char* done : {"ready", "go"}) fs::remove(path(done));
  EXPECT_TRUE(has(stats_of({}, nullptr).err, "has no libcufile: it reads files by itself"));
}

TEST_F(RunReport, StatsTellsProgramsTheSame) {
  fs::copy_file(PENSTOCK_FAKE_VENDOR, path("libcufile.so.0"));

  const Finished one = stats_of({"load:./libcufile.so.0"}, nullptr, true);

  EXPECT_EQ(one.exit_code, 77);
  EXPECT_EQ(json::parse(one.out)["libraries"][0]["maker"], "other") << one.out;
}

TEST_F(RunReport, TheListOfStatsHasThoseWithoutASession) {
  const pid_t child = start_waiting({}, PENSTOCK_CUFILE);
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
  const Finished list = run({"stats"});
  const json told_by_list = json::parse(run({"stats", "--json"}).out);
  std::ofstream(path("go")) << "";
  waitpid(child, nullptr, 0);

  EXPECT_TRUE(has(list.out, "libcufile without a session")) << list.out;
  const auto& rows = told_by_list["without_session"];
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const json& row) { return row["pid"] == child; }));
}

}  // namespace
}  // namespace penstock::tools
