// SPDX-License-Identifier: Apache-2.0

// Priority flow control (PFC, IEEE 802.1Qbb) of a network interface: the priorities for which it is on. The kernel
// reports this over netlink and in no file.
//
// Asking (RTM_GETDCB, DCB_CMD_IEEE_GET) changes nothing and needs no privilege; the interface must be in this network
// namespace. A captured machine has no netlink: there the result is in a file that scripts/capture-machine made,
// kFlowControlFolder/INTERFACE, in the words of `dcb pfc show dev INTERFACE prio-pfc`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "topology/root.h"

namespace penstock::core {

constexpr const char* kFlowControlFolder = "/dcb/";

struct FlowControl {
  // Bit 3 is set if it is on for priority 3. Nothing if the kernel does not report it.
  std::optional<std::uint8_t> priorities;
  std::string why_unknown;  // The end of a sentence: "the driver tells nothing of it"; "" if it is known.
};

// Sends one request to the kernel's NETLINK_ROUTE and returns the datagram that answers it; after a failure "", with
// errno set.
using NetlinkCall = std::function<std::string(std::string_view request)>;
std::string call_netlink(std::string_view request);

FlowControl read_flow_control(const Root& root, const std::string& interface, const NetlinkCall& call = call_netlink);

}  // namespace penstock::core
