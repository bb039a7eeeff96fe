// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>
#include <set>

#include "fakes/browser.h"
#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::json;

class DoctorTest : public Tool {
 protected:
  void make(const std::string& name, std::size_t size) {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << std::string(size, 'x');
  }
  Json told(std::vector<std::string> words) {
    words.insert(words.begin(), {"explain", "--measure"});
    words.insert(words.end(), {"--time", "0.1", "--json"});
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return Json::parse(done.out);
  }
  Json cached(const std::string& name) { return Json::parse(run({"explain", name, "--json"}).out)["cached_bytes"]; }
  void uncache(const std::string& name, off_t from = 0) {
    const int fd = open(path(name).c_str(), O_RDONLY);
    ASSERT_EQ(fsync(fd), 0);
    ASSERT_EQ(posix_fadvise(fd, from, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
  }
};

std::set<std::string> names_of(const Json& rows) {
  std::set<std::string> names;
  for (const Json& row : rows) names.insert(row["name"]);
  return names;
}

TEST_F(DoctorTest, ThatATimeIsThePageCachesIsSaidAndWhatTheDriveWouldTake) {
  make("file", 8 << 20);
  uncache("file");
  if (cached("file") != 0) GTEST_SKIP() << "files stay in the page cache here";
  const std::string cold = told({"file"})["forecast"]["cached_text"];
  if (cold.find("The drive cannot be measured") != cold.npos) GTEST_SKIP() << "no direct I/O here";
  EXPECT_EQ(cold, "");

  std::string ignored;
  std::getline(std::ifstream(path("file")), ignored);

  const std::string text = told({"file"})["forecast"]["cached_text"];
  EXPECT_EQ(text.find("All of it is in the page cache, so this is the page cache's time. "), 0u) << text;
  EXPECT_NE(text.find("From the drive, which was read past the cache, it takes "), std::string::npos) << text;
}

TEST_F(DoctorTest, OfAFolderEveryPartOfTheWayIsMeasuredAndChangesStandInTheOrderOfTheirGain) {
  make("model/a", 3 << 20);
  make("model/deeper/b", 70 << 20);
  const Json json = told({"model"});
  ASSERT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][1]["path"], "model/deeper/b");
  EXPECT_EQ(json["bytes"], 73 << 20);
  EXPECT_EQ(json["operation"], "load");
  const std::set<std::string> names = names_of(json["stages"]);
  for (const char* name : {"page_cache", "warm", "plain_warm", "host_copy"}) EXPECT_TRUE(names.count(name)) << name;
  for (const Json& stage : json["stages"]) EXPECT_GT(stage["bytes_per_second"], 0) << stage["name"];
  EXPECT_GT(json["forecast"]["seconds"], 0);
  double last = 0;
  for (const Json& change : json["changes"]) {
    EXPECT_GE(change["seconds"], last);
    EXPECT_LT(change["seconds"], json["forecast"]["seconds"]);
    last = change["seconds"];
  }
}

TEST_F(DoctorTest, ThePageCacheIsAfterwardsAsItWasBefore) {
  make("cold", 8 << 20);
  make("warm", 8 << 20);
  uncache("cold");
  if (cached("cold") != 0) GTEST_SKIP() << "the file system of " << path("cold") << " keeps all of it cached";
  const Json json = told({"cold", "warm"});
  EXPECT_EQ(json["cached_bytes"], 8 << 20);
  EXPECT_TRUE(names_of(json["stages"]).count("plain_cold"));
  EXPECT_EQ(cached("cold"), 0);
  EXPECT_EQ(cached("warm"), 8 << 20);
}

TEST_F(DoctorTest, OfASmallFileThatIsPartlyCachedBothPartsAreMeasured) {
  make("half", 8 << 20);
  uncache("half", 4 << 20);
  if (cached("half") != 4 << 20) GTEST_SKIP() << "the file system does not keep half of it cached";
  const Json json = told({"half"});
  const std::set<std::string> names = names_of(json["stages"]);
  EXPECT_TRUE(names.count("plain_cold")) << json["stages"];
  EXPECT_TRUE(names.count("plain_warm")) << json["stages"];
  EXPECT_GT(json["forecast"]["seconds"], 0);
  EXPECT_EQ(cached("half"), 4 << 20);
}

TEST_F(DoctorTest, WhatTheEnvironmentSetsIsTold) {
  make("model", 8 << 20);
  const Finished done = run({"explain", "--measure", "model", "--time", "0.1", "--json"}, [] {
    setenv("PENSTOCK_CHUNK_KIB", "64", 1);
    setenv("PENSTOCK_WORKERS", "1", 1);
  });
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("PENSTOCK_CHUNK_KIB=64, "), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("PENSTOCK_WORKERS=1"), std::string::npos) << done.out;
}

TEST_F(DoctorTest, PagesOfWhichTheKernelDoesNotTellStayInThePageCache) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  fs::permissions(root_, fs::perms::all);  // The kernel tells only root which parts of root's file are cached.
  make("data", 8 << 20);
  const Finished done = run({"explain", "--measure", "data", "--time", "0.1", "--json"}, [] { (void)!setuid(65534); });
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json json = Json::parse(done.out);
  if (!json["files"][0]["cached_bytes"].is_null()) GTEST_SKIP() << "this kernel tells everybody what is cached";
  EXPECT_NE(json["notes"][0].get<std::string>().find("stay in the page cache"), std::string::npos) << json["notes"];
  EXPECT_EQ(cached("data"), 8 << 20);
}

TEST_F(DoctorTest, HolesAreTold) {
  make("data", 0);
  fs::resize_file(path("data"), 64 << 20);
  const Json json = told({"data"});
  ASSERT_FALSE(json["notes"].empty());
  EXPECT_NE(json["notes"][0].get<std::string>().find("64 MiB of 64 MiB are holes, or compressed"), std::string::npos)
      << json["notes"];
}

TEST_F(DoctorTest, OfWhatIsNotCachedItSaysWhatThePageCacheWouldBring) {
  make("cold file", 32 << 20);
  uncache("cold file");
  if (cached("cold file") != 0) GTEST_SKIP() << "the file system keeps all of it cached";
  const Json json = told({"cold file"});
  EXPECT_DOUBLE_EQ(json["forecast"]["cold_seconds"], json["forecast"]["seconds"]);
  bool is_there = false, is_unknown = false;
  for (const Json& change : json["changes"]) is_there |= change["command"] == "cat 'cold file' > /dev/null";
  for (const Json& doubt : json["doubts"]) is_unknown |= doubt["what"] == "have all of it in the page cache";
  const double seconds = json["forecast"]["seconds"];
  // On a busy machine the drive may have been the quicker one while it was measured: then it is left out.
  double warm = 0;
  for (const Json& stage : json["stages"])
    if (stage["name"] == "warm") warm = stage["bytes_per_second"];
  ASSERT_GT(warm, 0) << json["stages"];
  const bool is_quicker = (32 << 20) / warm <= 0.95 * seconds;
  EXPECT_TRUE(is_there ? is_quicker : !is_quicker || is_unknown || seconds < 0.01) << json;
  EXPECT_EQ(cached("cold file"), 0);
}

TEST_F(DoctorTest, ThePictureForPeopleBeginsWithTheAnswer) {
  make("data", 4 << 20);
  const Finished done = run({"explain", "--measure", "data", "--time", "0.1"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out.find("data: 1 file, 4 MiB, "), 0u) << done.out;
  EXPECT_NE(done.out.find("\nLoading it takes "), std::string::npos) << done.out;
  const bool is_brief = done.out.find("no change is looked for") != std::string::npos;
  EXPECT_TRUE(is_brief || done.out.find("make it quicker") != std::string::npos) << done.out;
  EXPECT_NE(done.out.find("host memory stands in"), std::string::npos) << done.out;
}

TEST_F(DoctorTest, APageHasItsDataAndAllItNeeds) {
  make("da<ta", 1 << 20);
  const Finished done = run({"explain", "--measure", "da<ta", "--time", "0.1", "--html", "page.html"});
  if (done.exit_code == 77) GTEST_SKIP() << done.err;
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("page: page.html\n"), std::string::npos);
  const std::string page = text_of(path("page.html"));
  EXPECT_NE(page.find("\"path\":\"da\\u003cta\""), std::string::npos);
  for (const char* part : {"Chart.js v3", "--paper: ", "function canvas("})
    EXPECT_NE(page.find(part), std::string::npos);
  for (const char* mark : {"@DATA@", "@STYLE@", "@HELPERS@", "@CHART_JS@", "src=\"http"}) {
    EXPECT_EQ(page.find(mark), std::string::npos) << mark;
  }
  const Finished again = run({"explain", "--measure", "da<ta", "--html", "page.html"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_EQ(again.err, "penstock: page.html exists; --overwrite replaces it\n");
}

TEST_F(DoctorTest, APageShowsItsPicturesInABrowser) {
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  const std::string hostile = "a</script><b>";
  fs::create_directory(path("a<"));
  std::ofstream(path(hostile)) << std::string(1 << 20, 'x');
  const Finished done = run({"explain", "--measure", hostile, "--time", "0.1", "--html", "page.html"});
  if (done.exit_code == 77) GTEST_SKIP() << done.err;
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::string dom = opened(text_of(path("page.html")));
  EXPECT_NE(dom.find("data-plots=\"2\""), std::string::npos);
  EXPECT_NE(dom.find("<h1>Loading 0.001049 GB takes "), std::string::npos);
  EXPECT_NE(dom.find("a&lt;/script&gt;&lt;b&gt;: "), std::string::npos);
}

TEST_F(DoctorTest, APatternMeansWhatAShellWouldMakeOfIt) {
  for (const char* name : {"a.bin", "b.bin", "c.txt"}) make(name, 1 << 20);
  EXPECT_EQ(told({"*.bin"})["files"].size(), 2u);
  const Finished done = run({"explain", "--measure", "*.nothing"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(done.err, "penstock: *.nothing: no file has such a name\n");
}

TEST_F(DoctorTest, WhereThereIsNothingToLoadItSaysSo) {
  make("empty", 0);
  EXPECT_EQ(run({"explain", "--measure", "empty"}).err, "penstock: empty: there is nothing to load: it has no bytes\n");
  fs::create_directory(path("folder"));
  EXPECT_EQ(run({"explain", "--measure", "folder"}).err, "penstock: folder: has no regular file\n");
  EXPECT_EQ(run({"explain", "--measure", "absent"}).exit_code, 1);
  EXPECT_EQ(run({"explain", "--measure"}).exit_code, 2);
}

TEST_F(DoctorTest, AnEmptyFileAmongOthersIsNoHindrance) {
  make("model/a", 0);
  make("model/b", 1 << 20);
  EXPECT_EQ(told({"model"})["bytes"], 1 << 20);
}

TEST_F(DoctorTest, WhatMakesNoSenseIsWrongUsage) {
  make("data", 1 << 20);
  EXPECT_EQ(run({"explain", "--measure", "data", "--time", "0"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--measure", "data", "--time", "nan"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--measure", "data", "--save", "1M"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--measure", ".", "--save", "0"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--measure", ".", ".", "--save", "1M"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--measure", "absent", "--save", "1M"}).exit_code, 1);
  EXPECT_EQ(run({"explain", "--measure", "data", "--gpu", "99"}).exit_code, 77);
}

TEST_F(DoctorTest, ASaveIsMeasuredAndLeavesNothing) {
  fs::create_directory(path("saves"));
  const Json json = told({"saves", "--save", "48M"});
  EXPECT_EQ(json["operation"], "save");
  EXPECT_EQ(json["bytes"], 48 << 20);
  const std::set<std::string> names = names_of(json["stages"]);
  EXPECT_TRUE(names.count("cold") && names.count("plain_cold"));
  EXPECT_GT(json["forecast"]["seconds"], 0);
  EXPECT_TRUE(fs::is_empty(path("saves")));
}

TEST_F(DoctorTest, ACheckpointThatDoesNotFitIsTold) {
  const Json json = told({".", "--save", "4000T"});
  ASSERT_FALSE(json["notes"].empty());
  EXPECT_NE(json["notes"][0].get<std::string>().find("a checkpoint of 3.91 PiB does not fit"), std::string::npos)
      << json["notes"];
  const std::string err = run({"explain", "--measure", ".", "--save", "4000T", "--time", "0.1"}).err;
  EXPECT_NE(err.find("a checkpoint of 3.91 PiB does not fit\n"), std::string::npos) << "told before it is measured";
}

TEST_F(DoctorTest, InterruptedItEndsByTheSignalAndLeavesNothing) {
  fs::create_directory(path("saves"));
  const pid_t child = start({"explain", "--measure", "saves", "--save", "1G", "--time", "60"});
  const fs::path files = "/proc/" + std::to_string(child) + "/fd";
  const auto writes = [&] {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(files, error)) {
      if (fs::read_symlink(entry.path(), error).string().find("/saves/") != std::string::npos) return true;
    }
    return false;
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!writes() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  kill(child, SIGINT);
  EXPECT_EQ(wait(child).signal_number, SIGINT);
  EXPECT_TRUE(fs::is_empty(path("saves")));
}

}  // namespace
}  // namespace penstock::tools
