// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

GdsioSettings flags(const std::vector<std::string>& words) {
  bool wants_help = false;
  return parse_gdsio(words, wants_help);
}

template <typename Call>
std::string refusal(Call call, int exit_code = kUsage) {
  try {
    call();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit_code(), exit_code) << failure.what();
    return failure.what();
  }
  return "";
}

GdsioSettings job(const std::string& text) { return parse_gdsio_job(text, "jobs"); }

TEST(GdsioOptionsTest, FlagsMeanWhatTheTableSays) {
  const GdsioSettings settings =
      flags({"-f",        "a",  "-d1", "-w", "4", "-n", "0", "-s", "2M", "-o", "4K", "-i",
             "4K:64K:4K", "-x", "6",   "-I", "3", "-k", "9", "-O", "1",  "-m", "4",  "-bVURFp"});
  ASSERT_EQ(settings.groups.size(), 1u);
  EXPECT_EQ(settings.groups[0].file, "a");
  EXPECT_EQ(settings.groups[0].gpu, 1u);
  EXPECT_EQ(settings.groups[0].threads, 4u);
  EXPECT_EQ(settings.groups[0].numa_node, 0u);
  EXPECT_EQ(settings.size, 2u << 20);
  EXPECT_EQ(settings.offset, 4096u);
  EXPECT_EQ(settings.io.smallest, 4096u);
  EXPECT_EQ(settings.io.largest, 65536u);
  EXPECT_EQ(settings.io.step, 4096u);
  EXPECT_EQ(settings.transfer, TransferType::gpu_batch);
  EXPECT_EQ(settings.memory, MemoryType::mmap_host);
  EXPECT_EQ(settings.seed, 9u);
  EXPECT_TRUE(settings.is_write && settings.is_random && settings.is_unaligned && settings.buffered);
  EXPECT_TRUE(settings.skip_register && settings.verify && settings.random_fill && settings.refill);
  EXPECT_TRUE(settings.wants_nvlinks);
}

TEST(GdsioOptionsTest, AnotherFileOpensAGroupThatBeginsAsTheOneBefore) {
  const GdsioSettings settings = flags({"-f", "a", "-d", "1", "-w", "4", "-D", "b", "-w", "2", "-f", "c", "-d", "0"});
  ASSERT_EQ(settings.groups.size(), 3u);
  EXPECT_EQ(settings.groups[1].folder, "b");
  EXPECT_EQ(settings.groups[1].file, "");
  EXPECT_EQ(settings.groups[1].gpu, 1u);
  EXPECT_EQ(settings.groups[1].threads, 2u);
  EXPECT_EQ(settings.groups[2].file, "c");
  EXPECT_EQ(settings.groups[2].gpu, 0u);
  EXPECT_EQ(settings.groups[2].threads, 2u);
}

TEST(GdsioOptionsTest, WhatIsWrongIsRefusedBeforeAnythingHappens) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "neither a file"},
      {{"-f", "a", "-x", "8"}, "-x: '8' is not a number from 0 to 7"},
      {{"-f", "a", "-x", "-1"}, "'-1' is not a number"},
      {{"-f", "a", "-I", "4"}, "not an operation"},
      {{"-f", "a", "-w", "0"}, "from 1 to 1024"},
      {{"-f", "a", "-w", "1025"}, "0 to 1024"},
      {{"-f", "a", "-w", "1000", "-f", "b"}, "too many"},
      {{"-f", "a", "-i", "0"}, "from 1 to 1G"},
      {{"-f", "a", "-i", "2G"}, "from 1 to 1G"},
      {{"-f", "a", "-i", "1K:2K"}, "MIN:MAX:STEP"},
      {{"-f", "a", "-i", "2K:1K:1K"}, "MAX of at least MIN"},
      {{"-f", "a", "-i", "1K:2K:0"}, "STEP"},
      {{"-f", "a", "-i", "1KB"}, "is not a size"},
      {{"-f", "a", "-s", "99999999999G"}, "is not a size"},
      {{"-f", "a", "-o", "8388607T", "-s", "8388607T"}, "largest file"},
      {{"-f", "a", "-T", "0"}, "seconds above 0"},
      {{"-f", "a", "-T", "nan"}, "seconds above 0"},
      {{"-f", "a", "-O", "2"}, "0 to 1"},
      {{"-f", "a", "-U"}, "-U goes with"},
      {{"-f", "a", "-m", "3", "-x", "1"}, "-m 1 to 4 go with"},
      {{"-f", "a", "-y"}, "there is no flag -y"},
      {{"-f", "a", "--nonsense"}, "there is no option --nonsense"},
      {{"-f", "a", "-w"}, "-w needs a value"},
      {{"/no/such/job"}, "cannot read the job file: /no/such/job: "},
      {{"-f", "a", "jobs"}, "only --json may stand beside a job file"},
  };
  for (const auto& [words, sentence] : cases) {
    const std::string found = refusal([&words = words] { (void)flags(words); });
    EXPECT_NE(found.find(sentence), std::string::npos) << sentence << ": " << found;
  }
}

TEST(GdsioOptionsTest, FlagsWithoutAKnownMeaningDoNotApply) {
  EXPECT_NE(refusal([] { (void)flags({"-f", "a", "-B"}); }, kNotApplicable), "");
  EXPECT_NE(refusal([] { (void)flags({"-f", "a", "-S"}); }, kNotApplicable), "");
}

TEST(GdsioOptionsTest, AJobFileSaysTheSame) {
  const GdsioSettings settings =
      job("# A comment\r\n"
          "[global]\n"
          "name=anything at all\n"
          "xfer_type=5\n"
          " rw = randwrite # another\n"
          "bs=4K:8K:1K\nsize=1M\nruntime=1.5\ndo_verify=1\nskip_bufregister=true\nenable_nvlinks=0\nrandom_seed=7\n"
          "refill_buffer=1\nfill_random=1\nunaligned_random=1\nstart_offset=512\nmem_type=3\nfd_type=1\n"
          "gpu_dev_id=1\n"
          "[job1]\nfilename=a\nnum_threads=3\n\n"
          "[job2]\nnuma_node=0\ngpu_dev_id=0\ndirectory=b");
  ASSERT_EQ(settings.groups.size(), 2u);
  EXPECT_EQ(settings.groups[0].file, "a");
  EXPECT_EQ(settings.groups[0].gpu, 1u);
  EXPECT_EQ(settings.groups[0].threads, 3u);
  EXPECT_EQ(settings.groups[1].folder, "b");
  EXPECT_EQ(settings.groups[1].gpu, 0u);
  EXPECT_EQ(settings.groups[1].threads, 1u);
  EXPECT_EQ(settings.groups[1].numa_node, 0u);
  EXPECT_EQ(settings.transfer, TransferType::gpu_direct_async);
  EXPECT_EQ(settings.memory, MemoryType::malloc_host);
  EXPECT_EQ(settings.io.step, 1024u);
  EXPECT_EQ(settings.size, 1u << 20);
  EXPECT_EQ(settings.offset, 512u);
  EXPECT_EQ(settings.seconds, 1.5);
  EXPECT_EQ(settings.seed, 7u);
  EXPECT_TRUE(settings.is_write && settings.is_random && settings.is_unaligned && settings.buffered);
  EXPECT_TRUE(settings.skip_register && settings.verify && settings.random_fill && settings.refill);
  EXPECT_FALSE(settings.wants_nvlinks);
}

TEST(GdsioOptionsTest, ABrokenJobFileIsRefusedWithTheLine) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "jobs: there is no [job...] section"},
      {"[global]\n", "no [job...] section"},
      {"bs=1M\n", "jobs:1: there is a key before the first section"},
      {"[global]\nbs=1M\n[job1]\nfilename=a\nbs=1M\n", "jobs:5: 'bs' holds for all jobs"},
      {"[global]\nfilename=a\n[job1]\n", "jobs:2: 'filename' belongs to a job"},
      {"[job1]\nfilename=a\nfilename=b\n", "jobs:3: a job has one"},
      {"[job1]\nfilename=a\n[global]\n", "jobs:3: [global] must come before"},
      {"[job1]\n", "jobs: there is neither a file"},
      {"[job1\nfilename=a\n", "jobs:1: a section's name ends"},
      {"[jobless]\n[other]\n", "jobs:2: there is no section [other]"},
      {"[global]\n\nnonsense=1\n[job1]\nfilename=a\n", "jobs:3: there is no key 'nonsense'"},
      {"[global]\nrw=sideways\n", "jobs:2: 'sideways' is not an operation"},
      {"[global]\ndo_verify=2\n", "jobs:2: '2' is neither 1 nor 0"},
      {"[global]\njust words\n", "jobs:2: a line is"},
      {"[global]\nbs=\n", "jobs:2: '' is not a size"},
      {std::string("[global]\n\0=\0\n", 13), "jobs:2: there is no key"},
  };
  for (const auto& [text, sentence] : cases) {
    const std::string found = refusal([&text = text] { (void)job(text); });
    EXPECT_NE(found.find(sentence), std::string::npos) << sentence << ": " << found;
  }
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "[job]\nfilename=a\n";
  EXPECT_NE(refusal([&] { (void)job(many); }), "");
}

}  // namespace
}  // namespace penstock::tools
