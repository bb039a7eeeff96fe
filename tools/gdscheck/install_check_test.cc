// SPDX-License-Identifier: Apache-2.0

// The built gds_install_check on captured machines, and on the one it runs on.
#include <nlohmann/json.hpp>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class GdsInstallCheck : public Tool {
 protected:
  GdsInstallCheck() { call_it("gds_install_check"); }

  static std::string root_of(const std::string& machine) { return PENSTOCK_MACHINES + machine; }
  static std::string state_of(const json& told, const std::string& code) {
    for (const json& check : told["checks"]) {
      if (check["code"] == code) return check["state"];
    }
    return "absent";
  }
};

TEST_F(GdsInstallCheck, VerifiesAMachineThatHasEveryPiece) {
  const Finished done = run({"--root", root_of("dgx-h100")});
  EXPECT_EQ(done.exit_code, 0) << done.out;
  EXPECT_NE(done.out.find("ok       nvidia_fs          nvidia-fs 2.22\n"), std::string::npos) << done.out;
  EXPECT_TRUE(done.out.ends_with("GDS installation is verified\n")) << done.out;
}

TEST_F(GdsInstallCheck, NamesEveryPieceThatIsMissingWithItsRemedy) {
  const Finished done = run({"--root", root_of("h200-vm")});
  const json told = json::parse(run({"--json", "--root", root_of("h200-vm")}).out, nullptr, false);
  EXPECT_EQ(done.exit_code, 1) << done.out;
  EXPECT_NE(done.out.find("modprobe nvidia-fs"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("GDS installation is not verified: "), std::string::npos) << done.out;
  EXPECT_EQ(told["verified"], false);
  EXPECT_EQ(state_of(told, "gpu_driver"), "ok");
  EXPECT_EQ(state_of(told, "nvidia_fs"), "missing");
  EXPECT_EQ(state_of(told, "peer_memory"), "optional");
  EXPECT_EQ(state_of(told, "cufile_json"), "ok");
  for (const json& check : told["checks"]) {
    EXPECT_TRUE(check["state"] != "missing" || check["remedy"] != "") << check;
  }
}

TEST_F(GdsInstallCheck, DoesNotApplyWhereThereIsNoGpu) {
  EXPECT_EQ(run({"--root", root_of("md-raid0")}).exit_code, 77);
  EXPECT_EQ(run({"--root", "/no/such/machine"}).exit_code, 2);
  EXPECT_EQ(run({"--frobnicate"}).exit_code, 2);
  EXPECT_EQ(run({"--help"}).exit_code, 0);
}

TEST_F(GdsInstallCheck, AConfigurationThatKeepsTheDriverClosedIsNamedWithItsLine) {
  std::ofstream(path("cufile.json")) << R"({"properties": {"allow_compat_mod": false}})";
  const auto configure = [&] { setenv("CUFILE_ENV_PATH_JSON", path("cufile.json").c_str(), 1); };
  const json told = json::parse(run({"--json"}, configure).out, nullptr, false);
  EXPECT_EQ(state_of(told, "cufile_json"), "missing") << told;
  EXPECT_EQ(state_of(json::parse(run({"--json"}).out, nullptr, false), "cufile_json"), "ok");
}

TEST_F(GdsInstallCheck, SaysWhoseLibraryAProgramLoadsAndWhere) {
  const fs::path library = PENSTOCK_CUFILE;
  const auto near_it = [&] { setenv("LD_LIBRARY_PATH", library.parent_path().c_str(), 1); };
  const std::string text = run({}, near_it).out;
  EXPECT_NE(text.find("Penstock's libcufile.so.0"), std::string::npos) << text;
}

}  // namespace
}  // namespace penstock::tools
