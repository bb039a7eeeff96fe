// SPDX-License-Identifier: Apache-2.0

// The built gdscheck on the captured machines of test/fixtures/machines, and on the one it runs on.
#include <regex>
#include <sstream>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

const char* const kMachines[] = {"dgx-h100",          "h200-p2pdma", "cloud-vm",       "laptop", "nfs",
                                 "container-overlay", "md-raid0",    "firecracker-vm", "h200-vm"};

class Gdscheck : public Tool {
 protected:
  Gdscheck() { call_it("gdscheck"); }

  Finished check_machine(const std::string& machine) {
    return run({"-p", "-V", "--root", PENSTOCK_MACHINES + machine});
  }
};

// The rows under one banner, or all others.
std::string section_of(const std::string& text, const std::string& title, bool inside) {
  std::istringstream lines(text);
  std::string found, previous;
  bool is_inside = false;
  for (std::string line; std::getline(lines, line); previous = line) {
    const bool is_title = previous.starts_with(" ===") && line.ends_with(":");
    if (is_title) is_inside = line == " " + title + ":";
    if (is_inside == inside && !line.starts_with(" ===")) found += line + "\n";
  }
  return found;
}

// Reads NVIDIA's output as another program was seen to read it: rows "name : value" under a banner.
std::string value_of(const std::string& text, const std::string& name) {
  const std::regex row("^ *" + name + " *: (.*)$", std::regex::multiline);
  std::smatch match;
  return std::regex_search(text, match, row) ? match[1].str() : "absent";
}

// PENSTOCK_REGENERATE=1 writes them anew; people have to judge the changes then.
TEST_F(Gdscheck, TellsOfCapturedMachinesWhatWasTold) {
  for (const char* machine : kMachines) {
    const fs::path golden = std::string(PENSTOCK_SOURCE_DIR "/test/fixtures/gdscheck/") + machine + ".txt";
    const std::string text = section_of(check_machine(machine).out, "CUFILE CONFIGURATION", false);
    if (std::getenv("PENSTOCK_REGENERATE") != nullptr) std::ofstream(golden) << text;
    EXPECT_EQ(text, text_of(golden)) << machine;
  }
}

TEST_F(Gdscheck, SucceedsOnlyWhereAGpuCanBeServed) {
  const std::pair<const char*, bool> cases[] = {{"dgx-h100", true},
                                                {"h200-p2pdma", true},
                                                {"h200-vm", true},
                                                {"firecracker-vm", false},
                                                {"container-overlay", false}};
  for (const auto& [machine, succeeds] : cases) {
    const Finished done = check_machine(machine);
    EXPECT_EQ(done.exit_code, succeeds ? 0 : 1) << machine;
    EXPECT_EQ(done.out.find(" Platform verification succeeded") != std::string::npos, succeeds) << done.out;
    EXPECT_EQ(done.out.find(" Platform verification failed: ") == std::string::npos, succeeds) << done.out;
  }
}

TEST_F(Gdscheck, SaysThatNothingButCompatIsThereWhereThatIsSo) {
  const std::pair<const char*, const char*> cases[] = {
      {"dgx-h100", " Platform verification succeeded\n"},
      {"nfs", " Platform verification succeeded\n"},
      {"h200-vm", " Platform verification succeeded (compat only)\n"},
      {"cloud-vm", " Platform verification succeeded (compat only)\n"},
      {"dgx-ready", " Platform verification succeeded (compat only)\n"}};
  for (const auto& [machine, line] : cases) {
    const std::string text = check_machine(machine).out;
    EXPECT_NE(text.find(line), std::string::npos) << machine << text;
    EXPECT_EQ(text.find("supports GDS") != std::string::npos, std::string(line).find('(') == std::string::npos) << text;
  }
}

TEST_F(Gdscheck, APathThatAVariableSwitchesOnIsToldAsOneThatMayBeTried) {
  setenv("PENSTOCK_NVIDIA_EXPORT", "on", 1);
  const std::string text = check_machine("dgx-ready").out;
  unsetenv("PENSTOCK_NVIDIA_EXPORT");
  EXPECT_NE(text.find(" Platform verification succeeded (compat; p2pdma may be tried for memory that Penstock "
                      "allocated)\n"),
            std::string::npos)
      << text;
}

TEST_F(Gdscheck, TellsTheSizeOfTheBarWhereItCanBeSeen) {
  fs::copy(PENSTOCK_MACHINES "h200-vm", path("machine"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const std::pair<const char*, const char*> cases[] = {
      {"0xd0000000 0xd0ffffff 0x40200\n0x4000000000 0x7fffffffff 0x14220c\n0x0 0x0 0x0\n", "262144"},
      {"0x3000000000 0x3003ffffff 0x14220c\n0x0 0x0 0x0\n0x4000000000 0x7fffffffff 0x14220c\n", "262144"},
      {"0xd0000000 0xd0ffffff 0x40200\n0x0 0x0 0x0\n", "unknown"},
      {"nonsense\n-1 0x\n", "unknown"},
      {"", "unknown"}};
  for (const auto& [resource, size] : cases) {
    bool has_gpu = false;
    for (const auto& device : fs::directory_iterator(path("machine/sys/bus/pci/devices"))) {
      if (text_of(device.path() / "class") != "0x030200\n") continue;
      std::ofstream(device.path() / "resource") << resource;
      has_gpu = true;
    }
    ASSERT_TRUE(has_gpu);
    const std::string text = run({"-p", "--root", path("machine")}).out;
    EXPECT_NE(text.find(std::string(" bar size (MiB):") + size + " "), std::string::npos) << text;
  }
}

TEST_F(Gdscheck, HasTheSectionsInTheirOrder) {
  const Finished done = run({"-p"});
  std::size_t at = 0;
  for (const char* title : {" GDS release version: 1.15.0.0\n",
                            " nvidia_fs version: ", " Platform: ", " ============\n ENVIRONMENT:\n ============\n",
                            " =====================\n DRIVER CONFIGURATION:\n =====================\n",
                            " =====================\n CUFILE CONFIGURATION:\n =====================\n",
                            " =========\n GPU INFO:\n =========\n",
                            " ==============\n PLATFORM INFO:\n ==============\n", "Platform verification "}) {
    const std::size_t found = done.out.find(title, at);
    ASSERT_NE(found, std::string::npos) << title << done.out;
    at = found;
  }
  EXPECT_TRUE(std::regex_search(done.out, std::regex(R"(nvidia_fs version: \d+\.\d+  libcufile version: \d+\.\d+)")));
  EXPECT_NE(done.out.find("Penstock"), std::string::npos);
}

TEST_F(Gdscheck, ConfigurationRowsHaveDottedKeys) {
  std::istringstream rows(section_of(run({"-p"}).out, "CUFILE CONFIGURATION", true));
  std::string row;
  std::getline(rows, row);
  EXPECT_EQ(row, " CUFILE CONFIGURATION:");
  unsigned count = 0;
  for (; std::getline(rows, row); ++count) {
    EXPECT_TRUE(std::regex_match(row, std::regex(R"( [a-z0-9_]+(\.\w+)+ : .*)"))) << row;
  }
  EXPECT_GT(count, 60u);
}

TEST_F(Gdscheck, ShowsTheConfigurationInForce) {
  std::ofstream(path("cufile.json")) << R"({"properties": {"max_direct_io_size_kb": 2048, "allow_compat_mode": true,
    "nonsense": 1}, "execution": {"max_io_threads": 7}})";
  const Finished done = run({"-p"}, [&] {
    setenv("CUFILE_ENV_PATH_JSON", path("cufile.json").c_str(), 1);
    setenv("CUFILE_FORCE_COMPAT_MODE", "true", 1);
  });
  EXPECT_EQ(value_of(done.out, "properties.max_direct_io_size_kb"), "2048");
  EXPECT_EQ(value_of(done.out, "execution.max_io_threads"), "7");
  EXPECT_EQ(value_of(done.out, "properties.use_compat_mode"), "true");
  EXPECT_EQ(value_of(done.out, "properties.force_compat_mode"), "true");
  EXPECT_EQ(value_of(done.out, "CUFILE_FORCE_COMPAT_MODE"), "true");
  EXPECT_EQ(value_of(done.out, "Configuration file"), path("cufile.json").string());
  const std::string rows = section_of(done.out, "CUFILE CONFIGURATION", true);
  EXPECT_TRUE(std::regex_search(rows, std::regex(" Warning: .*nonsense"))) << rows;
}

TEST_F(Gdscheck, AConfigurationThatCannotBeUnderstoodVerifiesNothing) {
  std::ofstream(path("cufile.json")) << "{ \"properties\": ";
  const Finished done = run({"-p"}, [&] { setenv("CUFILE_ENV_PATH_JSON", path("cufile.json").c_str(), 1); });
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.out.find("Platform verification failed: the configuration"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find(" Warning: "), std::string::npos);
  EXPECT_EQ(value_of(done.out, "NVMe"), "Unsupported");
}

TEST_F(Gdscheck, WithoutCompatModeNothingIsCompatible) {
  const auto nvme_where = [&](const char* allowed) {
    const auto allow = [allowed] { setenv("CUFILE_ALLOW_COMPAT_MODE", allowed, 1); };
    return value_of(run({"-p", "--root", PENSTOCK_MACHINES "cloud-vm"}, allow).out, "NVMe");
  };
  EXPECT_EQ(nvme_where("false"), "Unsupported");
  EXPECT_EQ(nvme_where("true"), "compat");
}

TEST_F(Gdscheck, OffersNoDirectPathToWhatTheDenylistNames) {
  fs::copy(PENSTOCK_MACHINES "dgx-h100", path("machine"),
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const auto told = [&] { return run({"-V", "--root", "machine"}).out; };
  ASSERT_NE(told().find("ext4, nvfs"), std::string::npos) << told();

  fs::create_directories(path("machine/etc"));
  std::ofstream(path("machine/etc/cufile.json")) << R"({"denylist": {"filesystems": ["ext4"]}})";

  EXPECT_EQ(told().find("ext4, nvfs"), std::string::npos) << told();
  EXPECT_NE(told().find("ext4, compat"), std::string::npos) << told();
}

TEST_F(Gdscheck, SaysHowAFileIsServed) {
  make("data", 8192);
  const Finished served = run({"-f", "data"});
  EXPECT_EQ(served.exit_code, 0) << served.err;
  EXPECT_NE(served.out.find("would be used: bounce\n"), std::string::npos) << served.out;
  EXPECT_NE(served.out.find("cuFile: serves the file\n"), std::string::npos) << served.out;
  const Finished refused =
      run({"-f", "data"}, [&] {
        std::ofstream(path("cufile.json"))
            << R"({"denylist": {"mounts": ["/"]}, "properties": {"allow_compat_mode": false}})";
        setenv("CUFILE_ENV_PATH_JSON", path("cufile.json").c_str(), 1);
      });
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.out.find("cuFile: refuses the file: "), std::string::npos) << refused.out;
  EXPECT_EQ(run({"-f", "none"}).exit_code, 1);
  EXPECT_EQ(run({"-f", "."}).exit_code, 1);
}

TEST_F(Gdscheck, FlagsThatDoNotApplySaySo) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-t"}, {"-e", "cufile", "-o", "x"}, {"-p", "-d", "30"}, {"-l", "1"}, {"-i"}}) {
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 77) << words[0];
    EXPECT_NE(done.err.find("does not apply"), std::string::npos) << done.err;
    EXPECT_EQ(done.out, "");
  }
  EXPECT_EQ(run({}).exit_code, 2);
  EXPECT_EQ(run({"-y"}).exit_code, 2);
  EXPECT_EQ(run({"-p", "--root", "/no/such/machine"}).exit_code, 2);
}

TEST_F(Gdscheck, AnswersToItsOtherNames) {
  const std::string versions = run({"-v"}).out;
  EXPECT_EQ(std::count(versions.begin(), versions.end(), '\n'), 4);
  call_it("gdscheck.py");
  EXPECT_EQ(run({"-v"}).out, versions);
  call_it("penstock");
  EXPECT_EQ(run({"gdscheck", "-v"}).out, versions);
  EXPECT_EQ(run({"help", "gdscheck"}).out, run({"gdscheck", "--help"}).out);
}

}  // namespace
}  // namespace penstock::tools
