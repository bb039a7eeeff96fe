// SPDX-License-Identifier: Apache-2.0

// The answers of the built `penstock validate` about kinds of remote storage, and about drivers that nvidia-fs lists.
#include <tuple>

#include "fakes/validate_fixture.h"

namespace penstock::tools {
namespace {

TEST_F(Validate, IscsiIsNamedWithItsTransportAndFailsBesideRdma) {
  const std::string row = "transport /models";
  const auto sentence_on = [&](const char* machine, const char* state) {
    const auto rows = rows_of(machine_report(std::string(PENSTOCK_MACHINES) + machine));
    EXPECT_EQ(state_of(rows, row), state) << machine;
    return rows.count(row) == 0 ? std::string() : rows.at(row)["sentence"].get<std::string>();
  };
  EXPECT_NE(sentence_on("iscsi", "warn").find("TCP to sdb (iSCSI, iqn.2003-01.org.example:models)"), std::string::npos);
  EXPECT_NE(sentence_on("iscsi-beside-rdma", "fail").find("the RDMA device mlx5_0"), std::string::npos);
  EXPECT_NE(sentence_on("iscsi-iser", "pass").find("RDMA to sdb (iSCSI"), std::string::npos);
  const std::string root = copy_of("iscsi");
  put(root, "/sys/devices/platform/host6/scsi_host/host6/proc_name", "bnx2i\n");
  EXPECT_NE(
      rows_of(machine_report(root))[row]["sentence"].get<std::string>().find("carried out by the adapter (bnx2i)"),
      std::string::npos);
}

TEST_F(Validate, WhoseNfsClientServesAMountIsNamed) {
  const auto rows = rows_of(machine_report(PENSTOCK_MACHINES "vast-nfs"));
  ASSERT_EQ(state_of(rows, "transport /models"), "pass");
  const std::string sentence = rows.at("transport /models")["sentence"];
  EXPECT_NE(sentence.find("by VAST's NFS client 4.0.35-vastdata, multipath by remoteports"), std::string::npos);
}

TEST_F(Validate, WhereNothingTellsATransportItSaysWhoDoes) {
  for (const auto& [machine, row, ask] : {std::tuple("gpfs", "transport /gpfs/models", "mmlsconfig verbsRdma"),
                                          std::tuple("weka-alone", "transport /weka", "weka local resources")}) {
    const auto rows = rows_of(machine_report(std::string(PENSTOCK_MACHINES) + machine));
    ASSERT_EQ(state_of(rows, row), "unknown") << machine;
    EXPECT_NE(rows.at(row)["remedy"].get<std::string>().find(ask), std::string::npos) << rows.at(row);
  }
  EXPECT_EQ(state_of(rows_of(machine_report(PENSTOCK_MACHINES "lustre")), "transport /lustre"), "pass");
}

// nvidia-fs lists WekaFS's name whether anybody has registered or not, and others' only while it is open.
TEST_F(Validate, ANameThatIsAlwaysListedServesItsOwnFileSystemAlone) {
  const auto state_on = [&](const char* machine, const char* row) {
    return state_of(rows_of(machine_report(std::string(PENSTOCK_MACHINES) + machine)), row);
  };
  EXPECT_EQ(state_on("weka-unmounted", "path vendor"), "fail");
  EXPECT_EQ(state_on("weka-alone", "path vendor"), "pass");
  EXPECT_EQ(state_on("weka-alone", "path nvfs"), "not_applicable") << "WEKA's client has no hook for it";
  EXPECT_EQ(state_on("weka-alone", "storage /weka"), "pass");
  EXPECT_EQ(state_on("weka-alone", "storage /data/0"), "not_applicable");
  EXPECT_EQ(state_on("nvidia-fs-idle", "path vendor"), "unknown");
  EXPECT_EQ(state_on("nvidia-fs-idle", "storage /data/0"), "unknown");
}

}  // namespace
}  // namespace penstock::tools
