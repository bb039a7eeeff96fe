// What undoes cuMemCreate, cuMemAddressReserve and cuMemMap of memory.cc.
#include "fakes/fake_cuda/world.h"

using namespace penstock::fake_cuda;

CALL(cuMemGetAllocationGranularity, std::size_t* bytes, const int*, int) {
  ENTER;
  *bytes = std::size_t{2} << 20;
  return 0;
}
CALL(cuMemUnmap, CUdeviceptr memory, std::size_t size) {
  ENTER;
  const auto block = find(memory);
  REQUIRE(block == world().blocks.end() || block->second.mapped != size ? CUDA_ERROR_INVALID_VALUE : 0);
  block->second.mapped = 0;
  return 0;
}
CALL(cuMemRelease, unsigned long long) {
  ENTER;
  return 0;
}
CALL(cuMemAddressFree, CUdeviceptr memory, std::size_t size) {
  ENTER;
  const auto block = find(memory);
  const bool is_whole = block != world().blocks.end() && block->first == memory && block->second.size == size;
  REQUIRE(!is_whole || block->second.mapped != 0 ? CUDA_ERROR_INVALID_VALUE : 0);
  world().blocks.erase(block);
  give_back_pages(memory, size);
  return 0;
}
