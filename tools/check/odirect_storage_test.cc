// SPDX-License-Identifier: Apache-2.0

// The answers of `penstock check --try` and `penstock explain` about storage on captured machines, beyond those of a
// try: pages of test/fixtures/storage, which PENSTOCK_REGENERATE=1 writes anew for people to judge.
#include <nlohmann/json.hpp>
#include <regex>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

struct Place {
  const char* machine;
  const char* folder;
};
const Place kPlaces[] = {{"iscsi", "/models"},    {"lvm-cache", "/data/lv"},  {"lvm-cache", "/data/plain"},
                         {"lvm-vdo", "/data/lv"}, {"drbd", "/data/copied"},   {"vast-nfs", "/models"},
                         {"nfs-rdma", "/models"}, {"nfs-fscache", "/models"}, {"gpfs", "/gpfs/models"},
                         {"lustre", "/lustre"},   {"weka-alone", "/weka"},    {"nvme-rdma", "/remote"},
                         {"dgx-ready", "/data/0"}};

class Storage : public Tool {
 protected:
  static std::string root_of(const Place& place) { return std::string(PENSTOCK_MACHINES) + place.machine; }
  json notes_of(const Place& place) {
    const Finished done = run({"odirect", place.folder, "--root", root_of(place), "--json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out, nullptr, false)["storage_notes"];
  }
  // All texts of a topic, one after another.
  std::string told(const Place& place, const std::string& topic) {
    std::string text;
    for (const json& note : notes_of(place)) {
      if (note["topic"] == topic)
        text += note["text"].get<std::string>() + "\n" + note["ask"].get<std::string>() + "\n";
    }
    return text;
  }
};

TEST_F(Storage, OfEachKindItIsToldWhatWasTold) {
  for (const Place& place : kPlaces) {
    const Finished done = run({"odirect", place.folder, "--root", root_of(place)});
    ASSERT_EQ(done.exit_code, 0) << place.machine << done.err;
    const std::string name = place.machine + std::regex_replace(std::string(place.folder), std::regex("/"), "-");
    const fs::path golden = PENSTOCK_SOURCE_DIR "/test/fixtures/storage/" + name + ".txt";
    if (std::getenv("PENSTOCK_REGENERATE") != nullptr) std::ofstream(golden) << done.out;
    EXPECT_EQ(done.out, text_of(golden)) << name;
  }
}

TEST_F(Storage, ExplainSaysTheSameAsOdirect) {
  for (const Place& place : kPlaces) {
    const Finished done = run({"explain", std::string(place.folder) + "/file", "--root", root_of(place), "--json"});
    ASSERT_EQ(done.exit_code, 0) << place.machine << done.err;
    EXPECT_EQ(json::parse(done.out, nullptr, false)["p2pdma"]["storage_notes"], notes_of(place)) << place.machine;
  }
}

TEST_F(Storage, AnIscsiDiskIsNamedSoByAllWhoJudgeIt) {
  const std::string root = PENSTOCK_MACHINES "iscsi";
  const json explained = json::parse(run({"explain", "/models/x", "--root", root, "--json"}).out, nullptr, false);
  EXPECT_EQ(explained["p2pdma"]["routes"][0]["obstacles"].dump().find("\"scsi\""), std::string::npos);
  EXPECT_NE(explained["p2pdma"]["routes"][0]["obstacles"].dump().find("\"iscsi\""), std::string::npos) << explained;
  EXPECT_EQ(explained["file"]["block_device"]["iscsi_driver"], "iscsi_tcp");
  EXPECT_NE(run({"check", "--all", "--root", root}).out.find("sdb (scsi iscsi iscsi_tcp)"), std::string::npos);
  EXPECT_NE(told({"iscsi", "/models"}, "server").find("reached by tcp"), std::string::npos);
}

TEST_F(Storage, CachesUnderAFileAreTold) {
  EXPECT_NE(told({"lvm-cache", "/data/lv"}, "cache").find("dm-cache"), std::string::npos);
  EXPECT_NE(told({"lvm-cache", "/data/plain"}, "transforms").find("dmsetup table hot"), std::string::npos);
  EXPECT_NE(told({"nfs-fscache", "/models"}, "cache").find("fsc"), std::string::npos);
  EXPECT_EQ(told({"nfs-rdma", "/models"}, "cache"), "") << "no fsc";
  EXPECT_NE(told({"gpfs", "/gpfs/models"}, "cache").find("page pool"), std::string::npos);
  EXPECT_NE(run({"explain", "/data/lv/x", "--root", PENSTOCK_MACHINES "lvm-cache"}).out.find("dm-cache"),
            std::string::npos);
}

TEST_F(Storage, ALoopDeviceWithAPageCacheIsNamed) {
  const fs::path machine = path("machine");
  fs::copy(PENSTOCK_MACHINES "md-raid0", machine, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const auto notes = [&](const char* direct_io) {
    std::ofstream(machine / "sys/devices/virtual/block/loop0/loop/dio") << direct_io << "\n";
    const Finished done = run({"odirect", "/mnt/image", "--root", machine.string(), "--json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out, nullptr, false)["storage_notes"].dump();
  };
  EXPECT_NE(notes("0").find("loop0 reads and writes its file, /scratch/images/data.img, through the page cache"),
            std::string::npos);
  EXPECT_NE(notes("0").find("losetup --direct-io=on /dev/loop0"), std::string::npos);
  EXPECT_EQ(notes("1").find("through the page cache"), std::string::npos);
}

TEST_F(Storage, ThresholdsThatThisClientShowsAreRead) {
  EXPECT_NE(told({"vast-nfs", "/models"}, "inline").find("up to 4096 bytes"), std::string::npos);
  EXPECT_NE(told({"nfs-rdma", "/models"}, "inline").find("cannot be read here"), std::string::npos);
  EXPECT_NE(told({"lustre", "/lustre"}, "inline").find("up to 16384 bytes"), std::string::npos);
  EXPECT_NE(told({"lustre", "/lustre"}, "transforms").find("checksum of each message"), std::string::npos);
}

TEST_F(Storage, WhetherAWriteIsSafeIsToldWhereItShows) {
  EXPECT_NE(told({"drbd", "/data/copied"}, "replication").find("protocol A"), std::string::npos);
  fs::copy(PENSTOCK_MACHINES "drbd", path("machine"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const auto with = [&](const std::string& line) {
    std::ofstream(path("machine/proc/drbd")) << line;
    const json all =
        json::parse(run({"odirect", "/data/copied", "--root", path("machine").string(), "--json"}).out, nullptr, false);
    return all["storage_notes"].dump();
  };
  EXPECT_NE(with(" 1: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----\n").find("RPO 0"),
            std::string::npos);
  EXPECT_NE(with(" 1: cs:WFConnection ro:Primary/Unknown ds:UpToDate/DUnknown C r-----\n").find("not connected"),
            std::string::npos);
  EXPECT_NE(with(std::string(100000, ':') + "\n\x1b[31m 1:").find("cannot be read here"), std::string::npos);
}

TEST_F(Storage, OnALocalDriveATryShowsEverything) {
  EXPECT_EQ(notes_of({"dgx-ready", "/data/0"}), json::array());
  const Finished here = run({"odirect", "."});
  EXPECT_EQ(here.exit_code, 0) << here.err;
  EXPECT_EQ(run({"odirect", "relative", "--root", PENSTOCK_MACHINES "iscsi"}).exit_code, 2);
  EXPECT_EQ(run({"odirect", "/models", "--root", "/no/such/machine"}).exit_code, 2);
}

}  // namespace
}  // namespace penstock::tools
