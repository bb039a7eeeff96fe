// SPDX-License-Identifier: Apache-2.0

#include "topology/flow_control.h"

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/unique_fd.h"
#include "topology/text.h"

namespace penstock::core {
namespace {

constexpr std::uint32_t kSequence = 1;  // Each socket sends one request.
constexpr std::size_t kAnswerBytesMax = 16 << 10;
constexpr unsigned kPriorities = 8;

constexpr std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

template <typename Part>
void append(std::string& message, const Part& part) {
  message.append(reinterpret_cast<const char*>(&part), sizeof(part));
}

template <typename Part>
std::optional<Part> part_at(std::string_view bytes, std::size_t at) {
  Part part;
  if (bytes.size() < at || bytes.size() - at < sizeof(part)) return std::nullopt;
  std::memcpy(&part, bytes.data() + at, sizeof(part));
  return part;
}

std::string request_for(const std::string& interface) {
  const std::size_t attribute = sizeof(nlattr) + interface.size() + 1;
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(sizeof(nlmsghdr) + sizeof(dcbmsg) + aligned(attribute));
  header.nlmsg_type = RTM_GETDCB;
  header.nlmsg_flags = NLM_F_REQUEST;
  header.nlmsg_seq = kSequence;
  std::string message;
  append(message, header);
  append(message, dcbmsg{AF_UNSPEC, DCB_CMD_IEEE_GET, 0});
  append(message, nlattr{static_cast<std::uint16_t>(attribute), DCB_ATTR_IFNAME});
  message += interface;
  message.resize(header.nlmsg_len);
  return message;
}

// Returns the content of the attribute of this kind from a sequence of attributes, or nothing.
std::optional<std::string_view> attribute_of(std::string_view attributes, unsigned kind) {
  while (const auto header = part_at<nlattr>(attributes, 0)) {
    if (header->nla_len < sizeof(nlattr) || header->nla_len > attributes.size()) break;
    if ((header->nla_type & NLA_TYPE_MASK) == kind) {
      return attributes.substr(sizeof(nlattr), header->nla_len - sizeof(nlattr));
    }
    attributes.remove_prefix(std::min(aligned(header->nla_len), attributes.size()));
  }
  return std::nullopt;
}

FlowControl unknown_for(int error) {
  if (error == EOPNOTSUPP) return {std::nullopt, "its driver, or the kernel, tells nothing of it"};
  if (error == ENODEV) return {std::nullopt, "the interface is not in this network namespace"};
  return {std::nullopt, std::string("the kernel does not answer: ") + std::strerror(error)};
}

FlowControl flow_control_in(std::string_view answer) {
  const FlowControl nonsense{std::nullopt, "the kernel's answer makes no sense"};
  const auto header = part_at<nlmsghdr>(answer, 0);
  if (!header || header->nlmsg_seq != kSequence || header->nlmsg_len > answer.size()) return nonsense;
  const std::string_view message = answer.substr(0, header->nlmsg_len);
  if (header->nlmsg_type == NLMSG_ERROR) {
    const auto error = part_at<std::int32_t>(message, sizeof(nlmsghdr));
    return error && *error < 0 && *error > -4096 ? unknown_for(-*error) : nonsense;
  }
  constexpr std::size_t kAttributes = sizeof(nlmsghdr) + sizeof(dcbmsg);
  if (header->nlmsg_type != RTM_GETDCB || message.size() < kAttributes) return nonsense;
  const auto of_ieee = attribute_of(message.substr(kAttributes), DCB_ATTR_IEEE);
  const auto pfc = of_ieee ? attribute_of(*of_ieee, DCB_ATTR_IEEE_PFC) : std::nullopt;
  if (!pfc) return unknown_for(EOPNOTSUPP);
  const auto enabled = part_at<std::uint8_t>(*pfc, offsetof(ieee_pfc, pfc_en));
  return enabled ? FlowControl{enabled, ""} : nonsense;
}

// "prio-pfc 0:off 1:off 2:off 3:on ..."
FlowControl flow_control_as_told(std::string_view line) {
  std::uint8_t priorities = 0;
  unsigned count = 0;
  for (const std::string_view word : split(line, ' ')) {
    const bool is_one = word.size() > 2 && word[1] == ':' && word[0] >= '0' && word[0] < '0' + int{kPriorities};
    if (!is_one) continue;
    ++count;
    if (word.substr(2) == "on") priorities = static_cast<std::uint8_t>(priorities | (1U << (word[0] - '0')));
  }
  if (count < kPriorities) return {std::nullopt, "it was not captured"};
  return {priorities, ""};
}

}  // namespace

std::string call_netlink(std::string_view request) {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.valid()) return {};
  const timeval patience{1, 0};
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
      ::sendto(socket.get(), request.data(), request.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
               sizeof(kernel)) < 0) {
    return {};
  }
  std::string answer(kAnswerBytesMax, '\0');
  const ssize_t size = ::recv(socket.get(), answer.data(), answer.size(), 0);
  answer.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return answer;
}

FlowControl read_flow_control(const Root& root, const std::string& interface, const NetlinkCall& call) {
  const bool is_name = !interface.empty() && interface.size() < IFNAMSIZ && interface.find('/') == std::string::npos;
  if (!is_name) return unknown_for(ENODEV);
  if (!root.is_machine()) return flow_control_as_told(root.read_line(kFlowControlFolder + interface));
  errno = 0;
  const std::string answer = call(request_for(interface));
  if (answer.empty()) return unknown_for(errno == 0 ? ENODATA : errno);
  return flow_control_in(answer);
}

}  // namespace penstock::core
