// SPDX-License-Identifier: Apache-2.0

// The built `penstock check --deepspeed` on files and folders of this machine.
#include <nlohmann/json.hpp>

#include "fakes/tool_world.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class DeepSpeedToolTest : public Tool {
 protected:
  void write(const std::string& text) { std::ofstream(path("ds_config.json")) << text; }
  Finished check() { return run({"check", "--deepspeed", "ds_config.json"}); }
  // Of the parameter swap to a folder, with GPUDirect Storage.
  json findings_on_folder(const std::string& folder) {
    write(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "max_in_cpu": 0, "nvme_path": ")" +
          folder + R"("}}, "aio": {"use_gds": true}})");
    const Finished finished = run({"check", "--json", "--deepspeed", "ds_config.json"});
    const json report = json::parse(finished.out, nullptr, false);
    EXPECT_FALSE(report.is_discarded()) << finished.out << finished.err;
    EXPECT_EQ(finished.exit_code, report["errors"] == 0 ? 0 : 1);
    EXPECT_EQ(report["deepspeed"], "0.19.8");
    return report["findings"];
  }
  static json of_code(const json& findings, const std::string& code) {
    for (const json& one : findings) {
      if (one["code"] == code) return one;
    }
    return nullptr;
  }
};

TEST_F(DeepSpeedToolTest, AFolderOnADriveIsToldItsRoomAndWhatPenstockWouldDo) {
  fs::create_directory(path("swap"));

  const json findings = findings_on_folder(path("swap"));

  EXPECT_EQ(of_code(findings, "free_room")["severity"], "note") << findings;
  const std::string outlook = of_code(findings, "outlook")["cause"];
  EXPECT_NE(outlook.find("bounce"), std::string::npos) << outlook;
  // Nothing has tested a direct path here, so none may be promised.
  for (const char* promise : {"p2pdma serves", "vendor serves"}) {
    EXPECT_EQ(outlook.find(promise), std::string::npos) << outlook;
  }
}

TEST_F(DeepSpeedToolTest, AFolderThatIsMissingIsANoteAndAFileAnError) {
  EXPECT_EQ(of_code(findings_on_folder(path("none/of/these")), "folder_missing")["severity"], "note");
  std::ofstream(path("file")) << "x";
  EXPECT_EQ(of_code(findings_on_folder(path("file")), "no_folder")["severity"], "error");
  EXPECT_EQ(of_code(findings_on_folder(path("file/below")), "no_folder")["severity"], "error");
  EXPECT_EQ(of_code(findings_on_folder("swap"), "relative_path")["severity"], "warning");
}

TEST_F(DeepSpeedToolTest, AFolderThatMayNotBeWrittenToIsAnError) {
  write(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/swap"}}})");
  const auto as_nobody = [] {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(125);
  };

  const Finished finished = run({"check", "--deepspeed", "ds_config.json"}, as_nobody);

  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_NE(finished.out.find("/ may not be written to: Permission denied"), std::string::npos) << finished.out;
}

TEST_F(DeepSpeedToolTest, AFileSystemInMemoryTakesNoDirectIo) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "there is no /dev/shm here";
  const json found = of_code(findings_on_folder("/dev/shm/swap"), "no_direct_io");
  EXPECT_EQ(found["severity"], "warning");
  EXPECT_NE(found["cause"].get<std::string>().find("tmpfs"), std::string::npos) << found;
}

TEST_F(DeepSpeedToolTest, WhatCannotBeReadIsASentenceAndExitCodeOne) {
  const Finished none = check();
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_NE(none.err.find("ds_config.json: could not open the file"), std::string::npos) << none.err;
  write("{\n  # on\n}");
  const Finished comment = check();
  EXPECT_EQ(comment.exit_code, 1);
  EXPECT_NE(comment.err.find("ds_config.json:2:3: is not JSON here"), std::string::npos) << comment.err;
}

TEST_F(DeepSpeedToolTest, NamesWithControlCharactersReachNoTerminal) {
  write("{\"aio\": {\"x\\u001b[2Jy\": 1, \"\\u202e\": \"\\u0007\"}}");
  const Finished finished = check();
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(finished.out.find('\a'), std::string::npos);
}

TEST_F(DeepSpeedToolTest, ACapturedMachineIsAnotherQuestion) {
  EXPECT_EQ(run({"check", "--deepspeed", "ds_config.json", "--root", "."}).exit_code, 2);
}

}  // namespace
}  // namespace penstock::tools
