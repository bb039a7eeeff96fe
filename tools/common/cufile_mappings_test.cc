// SPDX-License-Identifier: Apache-2.0

#include "tools/common/cufile_mappings.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace penstock::tools {
namespace {

std::vector<std::string> libraries_in(std::string_view maps) {
  std::vector<std::string> paths;
  for (const MappedFile& file : mapped_files_in(maps)) {
    if (is_cufile(file)) paths.push_back(file.path);
  }
  return paths;
}

TEST(CuFileMappingsTest, LibrariesAreKnownByTheirNameAndToldOnce) {
  EXPECT_EQ(
      libraries_in("7f00-7f01 r--p 00000000 08:01 42   /opt/penstock/lib/libcufile.so.0.1.0\n"
                   "7f01-7f02 r-xp 00001000 08:01 42   /opt/penstock/lib/libcufile.so.0.1.0\n"
                   "7f02-7f03 r--p 00000000 08:01 43   /usr/local/cuda/lib64/libcufile.so.1.15.1\n"
                   "7f03-7f04 r--p 00000000 08:01 44   /usr/local/cuda/lib64/libcufile_rdma.so.1\n"
                   "7f04-7f05 rw-p 00000000 00:00 0 \n"
                   "7f05-7f06 r-xp 00000000 00:00 0    [vdso]\n"),
      (std::vector<std::string>{"/opt/penstock/lib/libcufile.so.0.1.0", "/usr/local/cuda/lib64/libcufile.so.1.15.1"}));
}

TEST(CuFileMappingsTest, FoldersHaveBlanksAndFilesAreReplacedUnderARunningProgram) {
  EXPECT_EQ(libraries_in("7f00-7f01 r--p 0 08:01 42   /opt/my libs/libcufile.so.0 (deleted)"),
            (std::vector<std::string>{"/opt/my libs/libcufile.so.0"}));
  EXPECT_TRUE(libraries_in("7f00-7f01 r--p 0 08:01 42   /opt/libcufile.so.d/other.so\n").empty());
  EXPECT_TRUE(libraries_in("").empty());
  EXPECT_TRUE(libraries_in("nonsense\n/\n \n").empty());
}

TEST(CuFileMappingsTest, WhatIsExecutedIsToldFromWhatIsOnlyRead) {
  const auto files = mapped_files_in(
      "1-2 r--p 0 08:01 42 /lib/x.so\n2-3 r-xp 0 08:01 42 /lib/x.so\n"
      "3-4 r--s 0 08:01 43 /data/model.safetensors\n4-5 r--p 0 08:01 42 /lib/x.so\n");

  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files[0].is_executable);
  EXPECT_FALSE(files[1].is_executable);
}

TEST(CuFileMappingsTest, ALibraryThatIsGoneIsNobodysAndAProcessThatIsGoneHasNone) {
  EXPECT_EQ(maker_of(getpid(), {"/nowhere/libcufile.so.0", true, false}), Maker::unknown);
  EXPECT_EQ(maker_of(getpid(), {"/dev/null", true, false}), Maker::unknown);
  EXPECT_FALSE(cufile_libraries_of(0x7fffffff).has_value());
}

TEST(CuFileMappingsTest, OfALibraryTooLargeToBeReadNothingIsSaidUnlessItsBeginningTells) {
  const std::string name = testing::TempDir() + "penstock-maker-" + std::to_string(getpid());
  const auto maker_of_file = [&](const char* text, std::uintmax_t size) {
    std::ofstream(name) << text;
    std::filesystem::resize_file(name, size);
    return maker_of(getpid(), {name, true, false});
  };

  EXPECT_EQ(maker_of_file("cuFileRead", 1 << 20), Maker::other);
  EXPECT_EQ(maker_of_file("cuFileRead", 65 << 20), Maker::unknown);
  EXPECT_EQ(maker_of_file("penstock_cufile_session", 65 << 20), Maker::penstock);
  std::filesystem::remove(name);
}

TEST(CuFileMappingsTest, AProcessWithoutALibraryHasNone) {
  // Another program, since this one may be linked with the library.
  char name[] = "sleep", seconds[] = "600";
  char* const words[] = {name, seconds, nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawnp(&child, name, nullptr, nullptr, words, environ), 0);
  const auto found = cufile_libraries_of(child);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);

  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->empty());
}

TEST(CuFileMappingsTest, ASentenceNamesTheLibraryAndTheRemedy) {
  EXPECT_EQ(sentence_of({{"/n/libcufile.so.0", Maker::other}}),
            "has another libcufile, /n/libcufile.so.0: start it with 'penstock run -- PROGRAM' to have Penstock's in "
            "front");
  EXPECT_NE(sentence_of({{"/n/libcufile.so.0", Maker::other}, {"/o/libcufile.so.0", Maker::penstock}})
                .find("has Penstock's libcufile, /o/libcufile.so.0"),
            std::string::npos);
  EXPECT_NE(sentence_of({}).find("penstock run --report -- PROGRAM"), std::string::npos);
}

}  // namespace
}  // namespace penstock::tools
