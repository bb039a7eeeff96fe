// SPDX-License-Identifier: Apache-2.0

// The built tool's `run`: the program's words and settings, the words about it, and how it ends.
#include <signal.h>

#include "fakes/run_looks.h"
#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

class RunTool : public Tool {
 protected:
  Finished under(std::vector<std::string> words, bool which = false) {
    words.insert(words.begin(), {"run", "--library", PENSTOCK_CUFILE});
    if (which) words.insert(words.begin() + 1, "--which");
    return run(words);
  }
  // Words for a shell that waits until the test has had it looked at.
  static constexpr const char* kAwaited = ": > ready; while [ ! -e go ]; do sleep 0.01; done";
  Finished looked_at(std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "--which", "--library", PENSTOCK_CUFILE});
    const pid_t child = start(words);
    EXPECT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
    EXPECT_TRUE(await_look(child));
    std::ofstream(path("go")) << "";
    return wait(child);
  }
  // The library that a program under it has.
  static std::string library() { return fs::canonical(PENSTOCK_CUFILE).string(); }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(RunTool, AProgramHasTheLibraryAndItsOwnWordsAndItsOwnExitCode) {
  const Finished done = under({"sh", "-c", "echo \"$LD_PRELOAD/$0/$1\"; exit 5", "--which", "--help"});

  EXPECT_EQ(done.exit_code, 5);
  EXPECT_EQ(done.out, library() + "/--which/--help\n");
  EXPECT_EQ(done.err, "penstock run: " + library() +
                          ", which is Penstock's, is in front of any other; --which proves at the end that it was "
                          "used\n");
}

TEST_F(RunTool, WhatWasPreloadedBeforeComesBehind) {
  const Finished done = run({"run", "--library", PENSTOCK_CUFILE, "--", "sh", "-c", "echo \"$LD_PRELOAD\""},
                            [] { setenv("LD_PRELOAD", PENSTOCK_BAD_MOMENTS, 1); });

  EXPECT_EQ(done.out, library() + " " + PENSTOCK_BAD_MOMENTS + "\n");
}

TEST_F(RunTool, TheVersionOfCuFileReachesTheProgram) {
  const Finished done = run(
      {"run", "--library", PENSTOCK_CUFILE, "--cufile", "1.20", "--", "sh", "-c", "echo \"$PENSTOCK_CUFILE_VERSION\""});
  const Finished wrong = run({"run", "--library", PENSTOCK_CUFILE, "--cufile", "1.21", "true"});

  EXPECT_EQ(done.out, "1.20\n");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(has(wrong.err, "1.15")) << wrong.err;
}

TEST_F(RunTool, TheLibraryThatWonIsToldFromTheMappingsOfAllItsProcesses) {
  const Finished done = looked_at({"sh", "-c", std::string("true; (") + kAwaited + ") | cat"});

  EXPECT_EQ(done.exit_code, 0);
  EXPECT_TRUE(has(done.err, library() + " mapped, which is Penstock's\n")) << done.err;
  EXPECT_TRUE(has(done.err, "cuFile's calls go to Penstock's library")) << done.err;
}

// The shortest program that uses cuFile: it tells of itself, so no look needs to find it.
TEST_F(RunTool, OfAProgramThatUsedCuFileTheLibraryIsToldHoweverShortItLived) {
  make("weights", 4096);

  const Finished done = under({PENSTOCK_CLIENT, "read:weights"}, true);

  EXPECT_TRUE(has(done.err, "1 of 1 process had " + library() + " mapped, which is Penstock's\n")) << done.err;
  EXPECT_TRUE(has(done.err, "cuFile's calls go to Penstock's library, which comes first\n")) << done.err;
  EXPECT_EQ(folder(), std::vector<std::string>{"weights"});
}

TEST_F(RunTool, AReportThatTheUserAskedForIsNotTakenAway) {
  make("weights", 4096);
  const Finished done = run({"run", "--which", "--library", PENSTOCK_CUFILE, PENSTOCK_CLIENT, "read:weights"},
                            [] { setenv("PENSTOCK_REPORT", "own.txt", 1); });

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(has(text_of(path("own.txt")), "4.00 KiB read")) << done.err;
}

TEST_F(RunTool, AProgramThatThrowsTheLibraryOutIsToldToHaveNone) {
  const Finished done = looked_at({"env", "-u", "LD_PRELOAD", "sh", "-c", kAwaited});

  EXPECT_FALSE(has(done.err, "which is another's")) << done.err;
  EXPECT_TRUE(has(done.err, "penstock run: LD_PRELOAD was dropped: process ")) << done.err;
  EXPECT_FALSE(has(done.err, "comes first")) << done.err;
}

TEST_F(RunTool, ASignalThatEndsTheProgramIsItsExitCode) {
  const Finished done = under({"sh", "-c", "kill -KILL $$"}, true);

  EXPECT_EQ(done.exit_code, 128 + SIGKILL);
}

TEST_F(RunTool, ATerminationIsPassedOnAndTheProgramEndsAsItLikes) {
  const pid_t child = start({"run", "--which", "--library", PENSTOCK_CUFILE, "sh", "-c",
                             "trap 'echo bye; exit 3' TERM; : > ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("ready")); }));
  kill(child, SIGTERM);
  const Finished done = wait(child);

  EXPECT_EQ(done.exit_code, 3);
  EXPECT_EQ(done.out, "bye\n");
}

TEST_F(RunTool, ProgramsOutOfItsReachAreNamedBeforeTheyRun) {
  const fs::path program = path("program");
  fs::copy_file("/bin/true", program);
  fs::permissions(program, fs::perms::set_uid | fs::perms::all);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  ASSERT_EQ(chown(program.c_str(), 1, 1), 0);  // Which takes the bit away.
  fs::permissions(program, fs::perms::set_uid | fs::perms::all);

  EXPECT_TRUE(has(under({"./program"}).err, "set-user-id or set-group-id: the loader ignores LD_PRELOAD"));
  EXPECT_EQ(under({"./program"}).exit_code, 0);
}

TEST_F(RunTool, WhatCannotBeRunIsASentence) {
  EXPECT_EQ(under({}).exit_code, 2);
  EXPECT_EQ(under({"no-such-program"}).exit_code, 127);
  EXPECT_TRUE(has(under({"no-such-program"}).err, "no-such-program: there is no such program\n"));
  std::ofstream(path("not-for-us")) << "#!/bin/sh";
  EXPECT_EQ(under({"./not-for-us"}).exit_code, 126);
  EXPECT_EQ(run({"run", "--library", "nowhere.so", "true"}).exit_code, 1);
  EXPECT_EQ(run({"run", "--library", ".", "true"}).exit_code, 1);
  const fs::path blank = path("a b.so");
  fs::copy_file(PENSTOCK_CUFILE, blank);
  EXPECT_TRUE(has(run({"run", "--library", blank, "true"}).err, "LD_PRELOAD takes no path with a blank or a colon"));
}

}  // namespace
}  // namespace penstock::tools
