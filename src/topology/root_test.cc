// SPDX-License-Identifier: Apache-2.0

#include "topology/root.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

// Both resolvers must give the same results.
class RootTest : public testing::TestWithParam<Root::Resolver> {
 protected:
  Root root() const { return tree_.root(GetParam()); }
  TestTree tree_;
};

TEST_P(RootTest, ReadsAFileUpToItsLimit) {
  tree_.put("/sys/name", "  first line \nsecond\n");
  EXPECT_EQ(root().read("/sys/name"), "  first line \nsecond\n");
  EXPECT_EQ(root().read("/sys/name", 4), "  fi");
  EXPECT_EQ(root().read_line("/sys/name"), "first line");
  EXPECT_EQ(root().read("/sys/other"), std::nullopt);
  EXPECT_EQ(root().read("/sys"), std::nullopt);
}

TEST_P(RootTest, ReadsNumbersAndRefusesWhatIsNone) {
  tree_.put("/plain", "42\n").put("/negative", "-1\n").put("/hex", "0x010802\n").put("/word", "42x\n");
  tree_.put("/huge", std::string(5000, '9'));
  EXPECT_EQ(root().read_number("/plain"), 42);
  EXPECT_EQ(root().read_number("/negative"), -1);
  EXPECT_EQ(root().read_number("/hex"), 0x010802);
  EXPECT_EQ(root().read_number("/word"), std::nullopt);
  EXPECT_EQ(root().read_number("/huge"), std::nullopt);
}

TEST_P(RootTest, FollowsLinksInsideTheRoot) {
  tree_.put("/real/value", "here\n").link("/relative", "real/value").link("/absolute", "/real/value");
  tree_.link("/directory", "real");
  EXPECT_EQ(root().read_line("/relative"), "here");
  EXPECT_EQ(root().read_line("/absolute"), "here");
  EXPECT_EQ(root().read_line("/directory/value"), "here");
  EXPECT_EQ(root().real_path("/directory/value"), "/real/value");
  EXPECT_EQ(root().real_path("/directory/../real/./value"), "/real/value");
  EXPECT_EQ(root().real_path("/"), "/");
}

TEST_P(RootTest, NeverLeavesTheRoot) {
  TestTree outside;
  outside.put("/secret", "secret\n");
  tree_.link("/absolute", outside.path() + "/secret");
  tree_.link("/relative", "../../../../../../.." + outside.path() + "/secret");
  tree_.link("/directory", outside.path());
  tree_.put("/etc/passwd", "ours\n").link("/climb", "../../../../etc/passwd");
  EXPECT_EQ(root().read("/absolute"), std::nullopt);
  EXPECT_EQ(root().read("/relative"), std::nullopt);
  EXPECT_EQ(root().read("/directory/secret"), std::nullopt);
  EXPECT_EQ(root().read("/../../.." + outside.path() + "/secret"), std::nullopt);
  EXPECT_EQ(root().list("/directory"), std::vector<std::string>());
  EXPECT_EQ(root().real_path("/directory/secret"), "");
  EXPECT_FALSE(root().exists("/absolute"));
  // The parent of the root is the root.
  EXPECT_EQ(root().read_line("/climb"), "ours");
}

TEST_P(RootTest, GivesUpOnCirclesAndLongChainsOfLinks) {
  tree_.link("/self", "self").link("/one", "two").link("/two", "one").link("/loop", "loop/loop/loop/loop");
  std::string last = "/value";
  tree_.put(last, "far\n");
  for (int i = 0; i < 60; ++i) {
    const std::string name = "/chain" + std::to_string(i);
    tree_.link(name, last);
    last = name;
  }
  for (const char* path : {"/self", "/one", "/loop", "/self/below", "/chain59"}) {
    EXPECT_EQ(root().read(path), std::nullopt) << path;
    EXPECT_EQ(root().real_path(path), "") << path;
  }
  EXPECT_EQ(root().read_line("/chain20"), "far");
}

TEST_P(RootTest, OpensNeitherPipesNorDevices) {
  ASSERT_EQ(::mkfifo((tree_.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(root().read("/pipe"), std::nullopt);
  EXPECT_TRUE(root().exists("/pipe"));
  auto machine = Root::open("", GetParam());
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->read("/dev/zero"), std::nullopt);
}

TEST_P(RootTest, ListsSortedNamesAndNoMoreThanTheLimit) {
  tree_.put("/few/b", "").put("/few/a", "").put("/few/c", "");
  EXPECT_EQ(root().list("/few"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(root().list("/few/a"), std::vector<std::string>());
  for (std::size_t i = 0; i < Root::kEntriesMax + 10; ++i) tree_.put("/many/" + std::to_string(i), "");
  EXPECT_EQ(root().list("/many").size(), Root::kEntriesMax);
}

TEST_P(RootTest, NamesWhereALinkPointsAlsoWhenNothingIsThere) {
  tree_.link("/driver", "../../bus/pci/drivers/nvme").put("/file", "");
  EXPECT_EQ(root().link_name("/driver"), "nvme");
  EXPECT_EQ(root().link_name("/file"), "");
  EXPECT_EQ(root().link_name("/none"), "");
}

TEST_P(RootTest, FindsANeedleThatTwoBlocksShare) {
  constexpr std::string_view kNeedles[] = {"p2pdma_pgmap_ops", "other"};
  for (const std::size_t before : {std::size_t{0}, (std::size_t{64} << 10) - 7, (std::size_t{128} << 10) - 1}) {
    tree_.put("/symbols", std::string(before, 'x') + "p2pdma_pgmap_ops\n");
    EXPECT_TRUE(root().contains("/symbols", kNeedles, 1 << 20)) << before;
  }
  EXPECT_FALSE(root().contains("/symbols", kNeedles, 1 << 10));
  EXPECT_FALSE(root().contains("/none", kNeedles, 1 << 20));
}

TEST_P(RootTest, AHugeFileCostsNoMoreThanTheLimit) {
  tree_.put("/huge", "");
  std::filesystem::resize_file(tree_.path() + "/huge", std::uintmax_t{1} << 40);
  constexpr std::string_view kNeedles[] = {"needle"};
  EXPECT_EQ(root().read("/huge")->size(), Root::kReadBytesMax);
  EXPECT_FALSE(root().contains("/huge", kNeedles, 1 << 20));
  EXPECT_EQ(root().read_line("/huge").size(), 4096u);
}

TEST_P(RootTest, LinesAreFoundWhereverBlocksAreCut) {
  constexpr std::string_view kNeedles[] = {"needle"};
  for (const std::size_t before : {0, 10, 65530, 65531, 65535, 65536, 200'000}) {
    tree_.put("/lines", std::string(before, '-') + "\na needle\nhay\nneedles");
    EXPECT_EQ(root().lines_with("/lines", kNeedles, 1 << 20, 10), (std::vector<std::string>{"a needle", "needles"}))
        << before;
    EXPECT_EQ(root().lines_with("/lines", kNeedles, 1 << 20, 1), std::vector<std::string>{"a needle"}) << before;
  }
  tree_.put("/long", "needle" + std::string(1 << 20, 'x'));
  EXPECT_EQ(root().lines_with("/long", kNeedles, 1 << 20, 10).at(0).size(), Root::kLineBytesMax);
  EXPECT_TRUE(root().lines_with("/none", kNeedles, 1 << 20, 10).empty());
}

TEST_P(RootTest, ADeepPathIsRefusedOrReadAndNeverCrashes) {
  std::string path;
  for (unsigned i = 0; i < Root::kDepthMax + 20; ++i) path += "/d";
  tree_.put(path + "/value", "deep\n");
  EXPECT_EQ(root().real_path(path), "");
  EXPECT_FALSE(root().exists(std::string(1 << 20, '/') + std::string(1 << 20, 'x')));
}

TEST_P(RootTest, ReadsTheMachineItself) {
  auto machine = Root::open("/", GetParam());
  ASSERT_TRUE(machine.ok());
  EXPECT_TRUE(machine->is_machine());
  EXPECT_FALSE(machine->read_line("/proc/sys/kernel/osrelease").empty());
  EXPECT_TRUE(machine->read("/proc/self/mountinfo").has_value());
}

INSTANTIATE_TEST_SUITE_P(Resolvers, RootTest, testing::Values(Root::Resolver::kernel, Root::Resolver::steps),
                         [](const auto& resolver) {
                           return resolver.param == Root::Resolver::kernel ? "Kernel" : "Steps";
                         });

TEST(RootOpenTest, AMissingRootOrAFileIsAnError) {
  TestTree tree;
  tree.put("/file", "");
  EXPECT_TRUE(Root::open(tree.path() + "/none").status().is_errno(ENOENT));
  EXPECT_TRUE(Root::open(tree.path() + "/file").status().is_errno(ENOTDIR));
}

}  // namespace
}  // namespace penstock::core
