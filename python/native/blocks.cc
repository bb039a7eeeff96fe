// SPDX-License-Identifier: Apache-2.0

#include "python/native/blocks.h"

#include <nanobind/stl/shared_ptr.h>

#include "python/native/failure.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

constexpr const char* kOtherCounts =
    "expected a tensor of [blocks, ...] for each layer, with as many blocks, and bytes, in each";

nb::object device_of(nb::handle tensor) {
  return nb::hasattr(tensor, "is_cuda") ? nb::object(tensor.attr("device")) : nb::none();
}

std::uint64_t first_extent(nb::handle tensor) {
  if (!nb::hasattr(tensor, "shape") || nb::len(nb::object(tensor.attr("shape"))) == 0) raise_type_error(kOtherCounts);
  return nb::cast<std::uint64_t>(nb::object(tensor.attr("shape")[0]));
}

Block block_of(std::shared_ptr<const Blocks> blocks, std::int64_t number) {
  const auto count = static_cast<std::int64_t>(blocks->count());
  if (number < 0 || number >= count) {
    throw nb::index_error(("there is no block " + std::to_string(number) + " of " + std::to_string(count)).c_str());
  }
  return {std::move(blocks), static_cast<std::uint64_t>(number)};
}

}  // namespace

Blocks::Blocks(const nb::list& layers) {
  for (nb::handle tensor : layers) {
    const std::uint64_t count = first_extent(tensor);
    if (layers_.empty()) count_ = count, device_ = device_of(tensor);
    // Without stream order: each request has its own.
    Memory memory(tensor, Memory::Access::writable, nb::int_(-1));
    if (count == 0 || count != count_ || memory.size() == 0 || memory.size() % count != 0) {
      raise_value_error(kOtherCounts);
    }
    if (memory.is_device() && device_.is_none())
      raise_type_error("blocks of a GPU's memory: expected tensors of torch");
    if (!device_.equal(device_of(tensor))) raise_value_error("expected all layers on one device");
    const std::uint64_t bytes = memory.size() / count;
    block_bytes_ += bytes;
    layers_.push_back({std::move(memory), bytes});
  }
  if (layers_.empty()) raise_value_error(kOtherCounts);
}

void bind_blocks(nb::module_& module) {
  nb::class_<Block>(module, "Block", "One block of a penstock.kv.Blocks: what a chunk is put from or got into.")
      .def_ro("number", &Block::number)
      .def_prop_ro("nbytes", [](const Block& block) { return block.of->block_bytes(); })
      .def_prop_ro("is_cuda", [](const Block& block) { return block.of->is_device(); })
      .def_prop_ro("device", [](const Block& block) { return block.of->device(); });
  nb::class_<Blocks>(module, "Blocks",
                     "Paged memory: for each layer a contiguous, writable tensor or array of [blocks, ...], all on one "
                     "device. blocks[i] stands for the pieces [layer[i] for layer in layers] in `Store.put` and "
                     "`Store.get`, and takes a fraction of their time. The tensors live as long as it, or a block.")
      .def(nb::init<const nb::list&>(), nb::arg("layers"))
      .def("__len__", &Blocks::count)
      .def("__getitem__", &block_of, nb::arg("number"));
}

}  // namespace penstock::python
