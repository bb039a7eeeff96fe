// SPDX-License-Identifier: Apache-2.0

// The smaller parts of the contract: vectors, file systems in user space, P2P flags, topology, the size of a BAR.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cufile_fixture.h"

namespace {

// ---- Vectors -------------------------------------------------------------------------------------------------------

class CufileVectorTest : public CufileFixture {};

TEST_F(CufileVectorTest, ScattersOneRangeOverHostAndDeviceMemory) {
  std::vector<char> host(10'000, '-');
  char* device = device_memory(8192);
  const CUfileIOVec_t pieces[] = {{host.data(), 5000}, {nullptr, 0}, {device, 8192}, {host.data() + 5000, 777}};

  EXPECT_EQ(cuFileReadv(handle_, pieces, 4, 123, 0), 5000 + 8192 + 777);

  std::string back(8192, '\0');
  ASSERT_EQ(penstock_device_download(penstock::cufile_session(), back.data(), device, back.size()).code, 0);
  EXPECT_TRUE(std::string(host.data(), 5000) + back + std::string(host.data() + 5000, 777) ==
              bytes_at(123, 5000 + 8192 + 777));
  EXPECT_EQ(host[5777], '-');
}

TEST_F(CufileVectorTest, GathersIntoOneRange) {
  std::string one(100, 'a');
  std::string two(4096, 'b');
  const CUfileIOVec_t pieces[] = {{one.data(), one.size()}, {two.data(), two.size()}};

  EXPECT_EQ(cuFileWritev(handle_, pieces, 2, 50, 0), 4196);

  EXPECT_TRUE(file_bytes(0, 5000) == bytes_at(0, 50) + one + two + bytes_at(4246, 754));
}

TEST_F(CufileVectorTest, StopsAtTheEndOfTheFile) {
  std::vector<char> host(300);
  const CUfileIOVec_t pieces[] = {{host.data(), 100}, {host.data() + 100, 100}, {host.data() + 200, 100}};

  EXPECT_EQ(cuFileReadv(handle_, pieces, 3, kFileBytes - 150, 0), 150);
  EXPECT_EQ(cuFileReadv(handle_, pieces, 3, kFileBytes, 0), 0);
}

TEST_F(CufileVectorTest, LooksAtEverythingBeforeAnythingMoves) {
  std::vector<char> host(100, '-');
  const CUfileIOVec_t no_base[] = {{host.data(), 100}, {nullptr, 5}};
  const CUfileIOVec_t too_much[] = {{host.data(), 100}, {host.data(), SIZE_MAX / 2}};
  const std::vector<CUfileIOVec_t> too_many(1025, CUfileIOVec_t{host.data(), 1});

  expect_fails(cuFileReadv(handle_, no_base, 2, 0, 0), EINVAL);
  expect_fails(cuFileReadv(handle_, too_much, 2, 0, 0), EINVAL);
  expect_fails(cuFileReadv(handle_, too_many.data(), too_many.size(), 0, 0), EINVAL);
  expect_fails(cuFileReadv(handle_, no_base, 0, 0, 0), EINVAL);
  expect_fails(cuFileReadv(handle_, nullptr, 1, 0, 0), EINVAL);
  expect_fails(cuFileReadv(nullptr, no_base, 1, 0, 0), EINVAL);
  expect_fails(cuFileReadv(handle_, no_base, 1, -1, 0), EINVAL);
  expect_fails(cuFileWritev(reinterpret_cast<CUfileHandle_t>(77), no_base, 1, 0, 0), CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_TRUE(std::string(host.begin(), host.end()) == std::string(100, '-'));
}

// ---- File systems in user space ------------------------------------------------------------------------------------

// A "file system" of one file in memory, with a limit per transfer.
struct MemoryFile {
  std::string content;
  std::size_t at_most = SIZE_MAX;
  int fail_with = 0;  // An errno to fail with, returned as -1.
  unsigned calls = 0;
};

ssize_t read_memory(const void* handle, char* memory, size_t size, off_t offset, const cufileRDMAInfo_t*) {
  auto* file = static_cast<MemoryFile*>(const_cast<void*>(handle));
  ++file->calls;
  if (file->fail_with != 0) {
    errno = file->fail_with;
    return -1;
  }
  const auto begin = std::min(static_cast<std::size_t>(offset), file->content.size());
  size = std::min({size, file->at_most, file->content.size() - begin});
  std::memcpy(memory, file->content.data() + begin, size);
  return static_cast<ssize_t>(size);
}

ssize_t write_memory(const void* handle, const char* memory, size_t size, off_t offset, const cufileRDMAInfo_t*) {
  auto* file = static_cast<MemoryFile*>(const_cast<void*>(handle));
  ++file->calls;
  size = std::min(size, file->at_most);
  const auto end = static_cast<std::size_t>(offset) + size;
  if (file->content.size() < end) file->content.resize(end);
  std::memcpy(file->content.data() + offset, memory, size);
  return static_cast<ssize_t>(size);
}

class CufileUserspaceTest : public CufileFixture {
 protected:
  CUfileError_t register_file(MemoryFile& file, const CUfileFSOps_t* calls, CUfileHandle_t& handle) {
    CUfileDescr_t descr{};
    descr.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
    descr.handle.handle = &file;
    descr.fs_ops = calls;
    return cuFileHandleRegister(&handle, &descr);
  }

  const CUfileFSOps_t calls_ = {nullptr, nullptr, nullptr, read_memory, write_memory};
};

TEST_F(CufileUserspaceTest, ItsOwnCallsMoveTheBytesOfHostMemory) {
  MemoryFile file{.content = bytes_at(0, 10'000), .at_most = 700};
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_file(file, &calls_, handle).err, CU_FILE_SUCCESS);
  std::string memory(10'000, '-');

  EXPECT_EQ(cuFileRead(handle, memory.data(), 5000, 100, 0), 5000);
  EXPECT_TRUE(memory.substr(0, 5000) == bytes_at(100, 5000));
  EXPECT_EQ(cuFileRead(handle, memory.data(), 5000, 9'000, 5000), 1000);
  EXPECT_EQ(cuFileRead(handle, memory.data(), 5000, 20'000, 0), 0);
  EXPECT_EQ(cuFileWrite(handle, memory.data(), 3000, 9'500, 0), 3000);

  EXPECT_TRUE(file.content == bytes_at(0, 9'500) + memory.substr(0, 3000));
  EXPECT_GT(file.calls, 10u);
}

TEST_F(CufileUserspaceTest, DeviceMemoryGoesByWayOfTheHostAndIsCountedAsThat) {
  MemoryFile file{.content = bytes_at(0, 9 << 20)};
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_file(file, &calls_, handle).err, CU_FILE_SUCCESS);
  char* device = device_memory(9 << 20);

  EXPECT_EQ(cuFileRead(handle, device, 9 << 20, 0, 0), 9 << 20);
  EXPECT_EQ(cuFileWrite(handle, device, 9 << 20, 5, 0), 9 << 20);

  EXPECT_TRUE(file.content == bytes_at(0, 5) + bytes_at(0, 9 << 20));
  penstock::Counter counters[8];
  std::uint32_t rows = 0;
  ASSERT_EQ(penstock_counters(penstock::cufile_session(), counters, 8, &rows).code, 0);
  ASSERT_EQ(rows, 1u);
  EXPECT_EQ(counters[0].path, PENSTOCK_PATH_USERSPACE);
  EXPECT_EQ(counters[0].read_bytes, 9u << 20);
}

TEST_F(CufileUserspaceTest, ABatchServesItAsWell) {
  MemoryFile file{.content = bytes_at(0, 10'000)};
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_file(file, &calls_, handle).err, CU_FILE_SUCCESS);
  char* device = device_memory(10'000);
  CUfileIOParams_t params{};
  params.mode = CUFILE_BATCH;
  params.opcode = CUFILE_READ;
  params.fh = handle;
  params.u.batch.devPtr_base = device;
  params.u.batch.size = 4000;
  params.u.batch.file_offset = 100;
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(cuFileBatchIOSetUp(&batch, 1).err, CU_FILE_SUCCESS);

  ASSERT_EQ(cuFileBatchIOSubmit(batch, 1, &params, 0).err, CU_FILE_SUCCESS);
  unsigned count = 1;
  CUfileIOEvents_t event{};
  ASSERT_EQ(cuFileBatchIOGetStatus(batch, 1, &count, &event, nullptr).err, CU_FILE_SUCCESS);

  EXPECT_EQ(event.status, CUFILE_COMPLETE);
  EXPECT_EQ(event.ret, 4000u);
  EXPECT_EQ(cuFileWrite(handle, device, 4000, 6'000, 0), 4000);
  EXPECT_TRUE(file.content.substr(6'000) == bytes_at(100, 4000));
  cuFileBatchIODestroy(batch);
}

TEST_F(CufileUserspaceTest, ATableWithoutTheCallIsRefusedWhenItIsNeeded) {
  MemoryFile file{.content = "text"};
  const CUfileFSOps_t none{};
  CUfileHandle_t handle = nullptr;
  char memory[16];

  EXPECT_EQ(register_file(file, nullptr, handle).err, CU_FILE_IO_NOT_SUPPORTED);
  ASSERT_EQ(register_file(file, &none, handle).err, CU_FILE_SUCCESS);
  expect_fails(cuFileRead(handle, memory, 4, 0, 0), CU_FILE_IO_NOT_SUPPORTED);
  EXPECT_EQ(cuFileRead(handle, memory, 0, 0, 0), 0);
}

TEST_F(CufileUserspaceTest, ItsErrorsArriveAndADeregisteredFileIsNone) {
  MemoryFile file{.content = "text", .fail_with = ENOLINK};
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_file(file, &calls_, handle).err, CU_FILE_SUCCESS);
  char memory[16];

  expect_fails(cuFileRead(handle, memory, 4, 0, 0), ENOLINK);
  cuFileHandleDeregister(handle);
  cuFileHandleDeregister(handle);
  expect_fails(cuFileRead(handle, memory, 4, 0, 0), CU_FILE_HANDLE_NOT_REGISTERED);
}

// ---- The machine ---------------------------------------------------------------------------------------------------

class CufileMachineTest : public CufileFixture {};

TEST_F(CufileMachineTest, P2pFlagsAreKeptByKind) {
#if defined(__aarch64__)
  const auto settable = static_cast<CUfileP2PFlags_t>(CU_FILE_P2P_FLAG_C2C);
#else
  const auto settable = static_cast<CUfileP2PFlags_t>(CU_FILE_P2P_FLAG_PCI_P2PDMA);
#endif
  CUfileP2PFlags_t flags{};

  EXPECT_EQ(cuFileDriverSetP2PFlags(CU_FILE_NVME_SUPPORTED, settable).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, &flags).err, CU_FILE_SUCCESS);
  EXPECT_EQ(flags, settable);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_NFS_SUPPORTED, &flags).err, CU_FILE_SUCCESS);
  EXPECT_EQ(flags, 0);
  EXPECT_EQ(cuFileDriverSetP2PFlags(CU_FILE_NFS_SUPPORTED, static_cast<CUfileP2PFlags_t>(CU_FILE_P2P_FLAG_NVFS)).err,
            CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileDriverSetP2PFlags(CU_FILE_MAX_TARGET_TYPES, settable).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileDriverSetP2PFlags(number_as<CUfileDriverStatusFlags_t>(-1), settable).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_NFS_SUPPORTED, nullptr).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileMachineTest, TheTopologyIsAFileThatParses) {
  const std::string name = name_ + ".topology";

  EXPECT_EQ(cuFileExportPCIeTopology(name.c_str()).err, CU_FILE_SUCCESS);
  const nlohmann::json topology = nlohmann::json::parse(std::ifstream(name));
  EXPECT_EQ(topology.at("penstock_topology"), 1);
  EXPECT_TRUE(topology.at("devices").is_array());
  ::unlink(name.c_str());
  EXPECT_EQ(cuFileExportPCIeTopology(nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileExportPCIeTopology("").err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileExportPCIeTopology("/nowhere/at/all").err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileMachineTest, AStandInHasNoBar) {
  std::size_t kib = 7;

  EXPECT_EQ(cuFileGetBARSizeInKB(0, &kib).err, CU_FILE_SUCCESS);
  EXPECT_EQ(kib, 0u);
  EXPECT_EQ(cuFileGetBARSizeInKB(99, &kib).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetBARSizeInKB(-1, &kib).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetBARSizeInKB(0, nullptr).err, CU_FILE_INVALID_VALUE);
}

}  // namespace
