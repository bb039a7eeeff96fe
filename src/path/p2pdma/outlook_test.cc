// SPDX-License-Identifier: Apache-2.0

// The obstacles that captured machines tell before any byte moves. A GPU is that of the machine, a drive its number.
#include "path/p2pdma/outlook.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "fakes/fake_gpu.h"
#include "fakes/fake_storage.h"
#include "path/reasons.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

class OutlookOfMachinesTest : public testing::Test {
 protected:
  // Returns the drive of that number, as a program has it open.
  std::unique_ptr<File> drive(unsigned minor) {
    storage_.type = FileType::block_device;
    storage_.block_device = makedev(259, minor);
    return std::move(*File::open(storage_, FakeStorage::kUserFd));
  }
  static std::unique_ptr<Outlook> outlook(const std::string& machine) {
    return machine_outlook(std::string(PENSTOCK_MACHINES) + machine);
  }
  static DeviceFacts gpu(const char* address, bool is_nvidia) {
    DeviceFacts facts{.is_nvidia = is_nvidia};
    std::snprintf(facts.pci_address, sizeof facts.pci_address, "%s", address);
    return facts;
  }

  FakeStorage storage_;
};

TEST_F(OutlookOfMachinesTest, WhereThereIsNoSystemToReadNothingIsKnown) {
  const std::unique_ptr<Outlook> outlook = machine_outlook("/no/such/root");
  const std::unique_ptr<File> file = drive(0);
  const DeviceFacts device = gpu("0000:18:00.0", true);
  EXPECT_EQ(outlook->of_device(device), Reason::none);
  EXPECT_EQ(outlook->of_file(*file, Op::read), Reason::none);
  EXPECT_EQ(outlook->of_route(device, *file), Reason::none);
  EXPECT_EQ(outlook->of_drive(device, *file), Reason::none);
  EXPECT_EQ(outlook->request_max(*file), 0u);
}

TEST_F(OutlookOfMachinesTest, ADriveOfAnotherMachineIsNotKnown) {
  const std::unique_ptr<Outlook> outlook = this->outlook("iommu-translating");
  const std::unique_ptr<File> file = drive(77);
  EXPECT_EQ(outlook->of_drive(gpu("0000:18:00.0", true), *file), Reason::none);
  EXPECT_EQ(outlook->request_max(*file), 0u);
}

TEST_F(OutlookOfMachinesTest, AnIommuThatTranslatesIsAnObstacleForNvidiasMemoryAlone) {
  const std::unique_ptr<Outlook> outlook = this->outlook("iommu-translating");
  const std::unique_ptr<File> file = drive(2);
  EXPECT_EQ(outlook->of_drive(gpu("0000:18:00.0", true), *file), reason_of(Obstacle::iommu_translating));
  EXPECT_EQ(outlook->of_drive(gpu("0000:18:00.0", false), *file), Reason::none);
}

TEST_F(OutlookOfMachinesTest, WhereNothingTranslatesNvidiasMemoryHasNoObstacleEither) {
  EXPECT_EQ(outlook("h200-p2pdma")->of_drive(gpu("0000:18:00.0", true), *drive(0)), Reason::none);
}

TEST_F(OutlookOfMachinesTest, ADriveOverANetworkIsNoDriveThatReachesMemory) {
  const std::unique_ptr<File> file = drive(3);
  EXPECT_EQ(outlook("nvme-tcp")->of_drive(gpu("0000:18:00.0", true), *file), reason_of(Obstacle::nvme_tcp));
}

// The file's own facts come from the descriptor, whatever machine is looked at.
TEST_F(OutlookOfMachinesTest, AFileIsJudgedByItsOwnFactsAndTheRouteByTheMachines) {
  std::string name = testing::TempDir() + "/outlook_XXXXXX";
  const UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  ::unlink(name.c_str());
  PosixStorage storage(true);
  const std::unique_ptr<File> file = std::move(*File::open(storage, fd.get()));
  const std::unique_ptr<Outlook> nowhere = machine_outlook("/no/such/root"), there = outlook("cmb-peer");
  EXPECT_EQ(nowhere->of_file(*file, Op::read), Reason::none);
  EXPECT_EQ(nowhere->of_route(gpu("0000:18:00.0", false), *file), Reason::none);
  EXPECT_EQ(there->of_file(*file, Op::read), Reason::none);
  EXPECT_EQ(there->of_route(gpu("0000:18:00.0", false), *file), reason_of(Obstacle::peer_unseen)) << "no such device";
}

TEST_F(OutlookOfMachinesTest, AKernelThatCannotIsTheDevicesObstacle) {
  EXPECT_NE(outlook("kernel-5-4")->of_device(gpu("0000:18:00.0", true)), Reason::none);
}

}  // namespace
}  // namespace penstock::core
