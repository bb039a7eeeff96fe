// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/hwloc_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <pugixml.hpp>
#include <string_view>

#include "model/pcie/machine_builder.h"
#include "model/pcie/topology_file.h"
#include "topology/pci_device.h"

namespace penstock::model {
namespace {

constexpr std::size_t kHwlocBytesMax = std::size_t{32} << 20;
constexpr unsigned kDepthMax = 64;
constexpr unsigned kDisplayClass = 0x03;
constexpr unsigned kProcessingClass = 0x12;
constexpr unsigned kNvmeClass = 0x0108;

class HwlocReader {
 public:
  HwlocReader(const std::string& text, std::string name, const PcieConstants& constants)
      : text_(text), name_(std::move(name)), builder_(name_, name_, constants), constants_(constants) {}

  Machine read() {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text_.data(), text_.size());
    if (!parsed) fail(parsed.offset, parsed.description());
    const pugi::xml_node topology = document.child("topology");
    if (!topology) fail(0, "this is no hwloc topology");
    walk(topology, kNone, 0, 0);
    if (builder_.machine().nodes.empty())
      fail(0, "it holds no PCI device; write it with lstopo --of xml on the machine");
    return builder_.take();
  }

 private:
  [[noreturn]] void fail(std::ptrdiff_t offset, const std::string& what) const {
    const auto end = text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text_.size()));
    throw InputError(fmt::format("{}:{}: {}", name_, std::count(text_.begin(), end, '\n') + 1, what));
  }

  static std::string_view type_of(const pugi::xml_node& object) { return object.attribute("type").as_string(); }
  static bool is_host_bridge(const pugi::xml_node& object) {
    return type_of(object) == "Bridge" &&
           std::string_view(object.attribute("bridge_type").as_string()).starts_with("0");
  }

  static bool has_bridge_below(const pugi::xml_node& object) {
    for (const pugi::xml_node& child : object.children("object")) {
      if (type_of(child) == "Bridge") return true;
    }
    return false;
  }

  static bool has_device_below(const pugi::xml_node& object, unsigned depth = 0) {
    for (const pugi::xml_node& child : object.children("object")) {
      if (type_of(child) == "PCIDev" || (depth < kDepthMax && has_device_below(child, depth + 1))) return true;
    }
    return false;
  }

  // `bridges` counts those passed below the host bridge: a root port, then a switch's upstream and downstream ports in
  // turn.
  void walk(const pugi::xml_node& object, int parent, unsigned bridges, unsigned depth) {
    if (depth > kDepthMax) fail(object.offset_debug(), "objects are nested too deep");
    int below = parent;
    if (is_host_bridge(object) && has_device_below(object)) {
      below = root_beside(object.parent());
      bridges = 0;
    } else if (type_of(object) == "Bridge" && parent != kNone) {
      ++bridges;
      if (bridges % 2 == 0 && has_bridge_below(object)) below = add_switch(object, parent);
    } else if (type_of(object) == "PCIDev" && parent != kNone) {
      add_device(object, parent);
    }
    for (const pugi::xml_node& child : object.children("object")) walk(child, below, bridges, depth + 1);
  }

  // A processor has several host bridges and one memory: host bridges of one package or group belong together.
  int root_beside(const pugi::xml_node& owner) {
    const auto [place, is_new] = roots_.try_emplace(owner.hash_value(), 0);
    if (is_new) place->second = builder_.root(fmt::format("socket{}", roots_.size() - 1));
    return place->second;
  }

  int add_switch(const pugi::xml_node& object, int parent) {
    const PcieLink link = link_of(object, 16);
    return builder_.pci_switch(fmt::format("switch-{}", object.attribute("pci_busid").as_string("?")), parent,
                               link.generation, link.width);
  }

  PcieLink link_of(const pugi::xml_node& object, unsigned likely_width) const {
    const double rate = object.attribute("pci_link_speed").as_double(0);
    if (!(rate >= 0 && rate < 1e6)) fail(object.offset_debug(), "pci_link_speed is no rate");
    PcieLink usual;
    usual.generation = 4;
    usual.width = likely_width;
    // hwloc writes 0 if it could not read the link.
    return rate > 0 ? link_of_rate(rate * kGiga, likely_width).value_or(usual) : usual;
  }

  // "0302 [10de:2335] [...]": the class comes first.
  unsigned class_of(const pugi::xml_node& object) const {
    const std::string_view type = object.attribute("pci_type").as_string();
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(type.data(), type.data() + std::min<std::size_t>(type.size(), 4), value, 16);
    if (error != std::errc{} || end != type.data() + 4)
      fail(object.offset_debug(), "pci_type does not begin with a class");
    return value;
  }

  void add_device(const pugi::xml_node& object, int parent) {
    const unsigned device_class = class_of(object);
    const unsigned base = device_class >> 8;
    if (base == kDisplayClass || base == kProcessingClass) {
      const PcieLink link = link_of(object, 16);
      builder_.gpu(fmt::format("gpu{}", gpus_++), parent, link.generation, link.width);
    } else if (device_class == kNvmeClass) {
      const PcieLink link = link_of(object, 4);
      builder_.drive(fmt::format("nvme{}", drives_++), parent, link.generation, link.width);
    } else if (core::PciDevice::is_nic_class(device_class << 8)) {
      const PcieLink link = link_of(object, 16);
      builder_.nic(fmt::format("nic{}", nics_++), parent, link.generation, link.width,
                   constants_.nic_wire_share * raw_rate(link));
    }
  }

  const std::string& text_;
  std::string name_;
  MachineBuilder builder_;
  const PcieConstants& constants_;
  std::map<std::size_t, int> roots_;
  int gpus_ = 0;
  int drives_ = 0;
  int nics_ = 0;
};

}  // namespace

Machine parse_hwloc(const std::string& text, const std::string& name, const PcieConstants& constants) {
  return HwlocReader(text, name, constants).read();
}

Machine read_hwloc_file(const std::string& path, const PcieConstants& constants) {
  return parse_hwloc(read_input_file(path, kHwlocBytesMax), path, constants);
}

}  // namespace penstock::model
