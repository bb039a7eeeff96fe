// SPDX-License-Identifier: Apache-2.0

#include "tools/run/account.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Account account_of(const std::string& program) {
  Account account{.words = {program}, .library = "/opt/penstock/lib/libcufile.so.0.1.0"};
  ProcessSeen process{.pid = 7, .command = program};
  process.libraries = {{account.library, Maker::penstock}};
  process.read_call_bytes = 100 << 20;
  process.write_call_bytes = 64 << 20;
  process.files["/data/model.safetensors"] = {.bytes = 4ull << 30, .is_mapped = true};
  account.processes = {process};
  return account;
}

TEST(AccountTest, WhoReadsWithoutCuFileIsToldWithWhatAndWhatWouldUseIt) {
  EXPECT_EQ(
      account_text(account_of("python3")),
      "penstock run: nothing went through cuFile: python3 reads with mmap, read()\n"
      "  why       Penstock's libcufile was in place, and the program did not call it\n"
      "  path      none of Penstock's: no call of cuFile came; the bytes went through the page cache into host memory\n"
      "  read      100 MiB by read() and its like; 0 B came from storage, by whatever calls\n"
      "  wrote     64 MiB by write() and its like\n"
      "  files           4 GiB  mapped          /data/model.safetensors\n"
      "  instead   a loader that calls cuFile: torch.cuda.gds, KvikIO, fastsafetensors, NIXL, DeepSpeed, LMCache, "
      "fio's engine libcufile; or the Python package penstock, which needs none\n");
}

TEST(AccountTest, WhetherThePageCacheServedIsTold) {
  const auto path_of = [](FileSeen file, std::uint64_t call_bytes) {
    Account account = account_of("load");
    account.processes[0].read_call_bytes = call_bytes;
    account.processes[0].files["/data/model.safetensors"] = file;
    const std::string text = account_text(account);
    const std::size_t begin = text.find("  path      ") + 12;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string none = "none of Penstock's: no call of cuFile came";
  EXPECT_EQ(path_of({.bytes = 1}, 100 << 20), none + "; the bytes went through the page cache into host memory");
  EXPECT_EQ(path_of({.bytes = 1, .is_direct = true}, 100 << 20),
            none + "; the bytes went by O_DIRECT around the page cache, into host memory");
  EXPECT_EQ(path_of({.bytes = 1, .is_mapped = true, .is_direct = true}, 0),
            none +
                "; the bytes went through the page cache into host memory; some by O_DIRECT around the page cache, "
                "into host memory");
  EXPECT_EQ(path_of({.bytes = 1}, 0), none) << "who read it was not seen";
}

TEST(AccountTest, ThatNoFileWasSeenIsSaidAndWhatNoDriveWasAskedFor) {
  Account account = account_of("cat");
  account.processes[0].files.clear();

  const std::string text = account_text(account);

  EXPECT_TRUE(has(text, "no call of cuFile came; 100 MiB came from no drive, but from the page cache, a pipe or a "))
      << text;
  EXPECT_TRUE(has(text, "  read      100 MiB by read() and its like")) << text;
  EXPECT_TRUE(has(text, "  files     none was open at a look")) << text;
  account.processes[0].storage_bytes = 100 << 20;
  EXPECT_TRUE(
      has(account_text(account), "; whether the bytes went through the page cache or around it, no look saw\n"));
}

TEST(AccountTest, AProgramThatReadNothingIsToldSoAndWhatToDo) {
  Account account = account_of("true");
  account.processes[0].read_call_bytes = 4096;
  account.processes[0].files.clear();

  EXPECT_EQ(account_text(account),
            "penstock run: nothing went through cuFile: true read next to nothing (4 KiB)\n"
            "  why       Penstock's libcufile was in place, and the program did not call it\n"
            "  path      none of Penstock's: no call of cuFile came\n"
            "  instead   give it work that reads files: nothing can be told of this\n");
}

TEST(AccountTest, TheRemedyIsThatOfTheProgramsOwnFramework) {
  Account torch = account_of("python3");
  torch.processes[0].has_torch = true;
  EXPECT_TRUE(has(account_text(torch), "instead   torch.cuda.gds; or of the package penstock"));
  EXPECT_TRUE(has(account_text(account_of("vllm")), "instead   --load-format penstock"));
  Account kvikio = account_of("python3");
  kvikio.processes[0].has_kvikio = true;
  EXPECT_TRUE(has(account_text(kvikio), "instead   KVIKIO_COMPAT_MODE=OFF"));
}

TEST(AccountTest, AnothersLibraryAloneIsWhyNothingCameToOurs) {
  Account account = account_of("python3");
  account.processes[0].libraries = {{"/usr/lib/libcufile.so.0", Maker::other}};

  EXPECT_TRUE(
      has(account_text(account), "another libcufile was loaded, and Penstock's was not: LD_PRELOAD was dropped"));
  EXPECT_TRUE(has(account_text(account), "had /usr/lib/libcufile.so.0 mapped, which is another's"));
}

// The account of a program that no look found.
Account unseen_account() { return {.words = {"load"}, .library = "/opt/penstock/lib/libcufile.so.0.1.0"}; }

TEST(AccountTest, WhatAProgramWroteOfItselfTellsWhichLibraryItHadThoughNoLookFoundIt) {
  Account account = unseen_account();
  account.reports = {{7, R"({"schema": 1, "library": "/opt/penstock/lib/libcufile.so.0.1.0"})"}};

  EXPECT_EQ(which_text(account),
            "penstock run: 1 of 1 process had /opt/penstock/lib/libcufile.so.0.1.0 mapped, which is Penstock's\n"
            "penstock run: cuFile's calls go to Penstock's library, which comes first\n");
  EXPECT_EQ(account_json(account)["in_place"], true);
  EXPECT_EQ(account_json(account)["libraries"][0]["processes"], 1);
  for (const char* nonsense : {"{cut", "[]", "7", R"({"library": 7})", "{}"}) {
    account.reports = {{7, nonsense}};
    EXPECT_EQ(which_text(account), "penstock run: cuFile's calls go to Penstock's library, which comes first\n");
  }
}

TEST(AccountTest, OfWhatNoLookFoundNothingIsSaidThatCannotBeKnown) {
  const Account account = unseen_account();
  const char* const sentence =
      "Penstock's libcufile was put in front; whether it was in place cannot be known, since the program ended before "
      "a look\n";

  EXPECT_EQ(which_text(account), std::string("penstock run: ") + sentence);
  EXPECT_TRUE(has(account_text(account), std::string("  why       ") + sentence)) << account_text(account);
  EXPECT_TRUE(account_json(account)["in_place"].is_null());
}

TEST(AccountTest, ALibraryThatSaysItWasLoadedWasInPlaceThoughNoLookFoundIt) {
  Account account = unseen_account();
  account.loaded = {{7, "/opt/penstock/lib/libcufile.so.0.1.0"}};

  EXPECT_EQ(which_text(account),
            "penstock run: 1 of 1 process had /opt/penstock/lib/libcufile.so.0.1.0 mapped, which is Penstock's\n"
            "penstock run: cuFile's calls go to Penstock's library, which comes first\n");
  EXPECT_TRUE(
      has(account_text(account), "  why       process 7 had loaded Penstock's libcufile, and did not call it; whether"))
      << account_text(account);
  EXPECT_EQ(account_json(account)["in_place"], true);
  EXPECT_EQ(account_json(account)["used_cufile"], false);
  account.processes = {{.pid = 8, .command = "load", .has_loaded = true}};
  EXPECT_TRUE(has(which_text(account), "LD_PRELOAD was dropped: process 8 (load)")) << which_text(account);
}

TEST(AccountTest, AProcessThatHadItsLibrariesAndNotOursHadLostLdPreload) {
  Account account = unseen_account();
  account.processes = {{.pid = 7, .command = "load"}};
  EXPECT_TRUE(has(which_text(account), "cannot be known")) << "its loader may not have come to them yet";
  account.processes[0].has_loaded = true;

  const char* const sentence = "LD_PRELOAD was dropped: process 7 (load) had its libraries, and not Penstock's\n";
  EXPECT_EQ(which_text(account), std::string("penstock run: ") + sentence);
  EXPECT_TRUE(has(account_text(account), std::string("  why       ") + sentence)) << account_text(account);
  EXPECT_EQ(account_json(account)["in_place"], false);
}

TEST(AccountTest, ManyReportsAreCounted) {
  Account account = account_of("python3");
  for (pid_t pid = 1; pid <= 20; ++pid) account.reports[pid] = "report of " + std::to_string(pid) + "\n";

  EXPECT_TRUE(has(account_text(account), "report of 16\npenstock run: 4 more processes wrote reports"));
}

TEST(AccountTest, AReportThatIsNoJsonIsPassedOver) {
  Account account = account_of("python3");
  account.reports = {{1, "{\"schema\": 1}"}, {2, "{cut"}};

  EXPECT_EQ(account_json(account)["reports"].size(), 1u);
}

TEST(FamilyTest, NumbersOfTheKernelAreFoundByTheirNames) {
  const char* io = "rchar: 12\nwchar: 3\nread_bytes: 4096\nwrite_bytes: 1\n";

  EXPECT_EQ(number_in(io, "rchar:"), 12u);
  EXPECT_EQ(number_in(io, "\nread_bytes:"), 4096u);
  EXPECT_EQ(number_in("", "rchar:"), std::nullopt);
}

}  // namespace
}  // namespace penstock::tools
