// SPDX-License-Identifier: Apache-2.0

#include "base/memory_room.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace penstock::core {
namespace {

class MemoryRoomTest : public testing::Test {
 protected:
  MemoryRoomTest() {
    char name[] = "memory_room_XXXXXX";
    root_ = ::mkdtemp(name);
    for (const char* folder : {"/proc", "/sys", "/sys/fs", "/sys/fs/cgroup"}) ::mkdir((root_ + folder).c_str(), 0700);
  }
  ~MemoryRoomTest() override { std::filesystem::remove_all(root_); }
  void write(const char* name, const char* text) { std::ofstream(root_ + name) << text; }
  MemoryRoom room() { return memory_room(root_.c_str()); }

  std::string root_;
};

TEST_F(MemoryRoomTest, IsTheMachinesWithoutAGroup) {
  write("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    300 kB\n");
  EXPECT_EQ(room().total, 1000u * 1024);
  EXPECT_EQ(room().available, 300u * 1024);
}

TEST_F(MemoryRoomTest, IsTheGroupsWhereThatIsSmaller) {
  write("/proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    300 kB\n");
  write("/sys/fs/cgroup/memory.max", "204800\n");
  write("/sys/fs/cgroup/memory.current", "200000\n");
  write("/sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 50000\nactive_file 7\n");
  EXPECT_EQ(room().total, 204800u);
  EXPECT_EQ(room().available, 204800u - 150000u);
}

TEST_F(MemoryRoomTest, AGroupWithoutALimitConfinesNobody) {
  write("/proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    300 kB\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(room().available, 300u * 1024);
}

TEST_F(MemoryRoomTest, NonsenseIsNothing) {
  write("/proc/meminfo", "MemTotal:  many\nxMemAvailable: 7 kB\n");
  EXPECT_EQ(room().total, 0u);
  EXPECT_EQ(room().available, 0u);
}

}  // namespace
}  // namespace penstock::core
