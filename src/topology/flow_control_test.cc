// SPDX-License-Identifier: Apache-2.0

#include "topology/flow_control.h"

#include <gtest/gtest.h>
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

std::string bytes_of(const auto& part) { return {reinterpret_cast<const char*>(&part), sizeof(part)}; }

std::string attribute(unsigned kind, const std::string& payload) {
  std::string text =
      bytes_of(nlattr{static_cast<std::uint16_t>(sizeof(nlattr) + payload.size()), static_cast<std::uint16_t>(kind)});
  text += payload;
  text.resize((text.size() + 3) & ~std::size_t{3});
  return text;
}

std::string message(unsigned type, const std::string& payload) {
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(sizeof(header) + payload.size());
  header.nlmsg_type = static_cast<std::uint16_t>(type);
  header.nlmsg_seq = 1;
  return bytes_of(header) + payload;
}

std::string refusal(int error) { return message(NLMSG_ERROR, bytes_of(-error) + std::string(sizeof(nlmsghdr), '\0')); }

// Builds the answer of a driver that has PFC on for these priorities.
std::string answer_of(std::uint8_t priorities) {
  ieee_pfc pfc{};
  pfc.pfc_cap = 8;
  pfc.pfc_en = priorities;
  const std::string nested = attribute(DCB_ATTR_IEEE_ETS, std::string(59, 'x')) +
                             attribute(DCB_ATTR_IEEE_PFC, bytes_of(pfc)) +
                             attribute(DCB_ATTR_IEEE_APP_TABLE, std::string(6, 'y'));
  return message(RTM_GETDCB, bytes_of(dcbmsg{0, DCB_CMD_IEEE_GET, 0}) +
                                 attribute(DCB_ATTR_IFNAME, std::string("eth4\0", 5)) +
                                 attribute(DCB_ATTR_IEEE | NLA_F_NESTED, nested));
}

const Root& machine() {
  static const Root root = std::move(Root::open("").value());
  return root;
}

TEST(FlowControlTest, TheKernelIsAskedForOneInterfaceAndTellsItsPriorities) {
  std::string asked;
  const auto kernel = [&](std::string_view request) {
    asked = request;
    return answer_of(0x08);
  };

  const FlowControl result = read_flow_control(machine(), "eth4", kernel);

  EXPECT_EQ(result.priorities, 0x08);
  EXPECT_EQ(result.why_unknown, "");
  nlmsghdr header{};
  ASSERT_GE(asked.size(), sizeof(header));
  std::memcpy(&header, asked.data(), sizeof(header));
  EXPECT_EQ(header.nlmsg_len, asked.size());
  EXPECT_EQ(header.nlmsg_type, RTM_GETDCB);
  EXPECT_NE(asked.find(std::string("eth4\0", 5)), std::string::npos);
}

TEST(FlowControlTest, OffIsToldFromUnknown) {
  EXPECT_EQ(read_flow_control(machine(), "eth4", [](auto) { return answer_of(0); }).priorities, 0);
  const std::string without = message(RTM_GETDCB, bytes_of(dcbmsg{0, DCB_CMD_IEEE_GET, 0}) +
                                                      attribute(DCB_ATTR_IEEE, attribute(DCB_ATTR_IEEE_ETS, "x")));
  const std::pair<std::string, const char*> cases[] = {{refusal(EOPNOTSUPP), "tells nothing of it"},
                                                       {refusal(ENODEV), "not in this network namespace"},
                                                       {refusal(EPERM), "Operation not permitted"},
                                                       {without, "tells nothing of it"}};
  for (const auto& [answer, why] : cases) {
    const FlowControl result = read_flow_control(machine(), "eth4", [&told = answer](auto) { return told; });
    EXPECT_FALSE(result.priorities) << why;
    EXPECT_NE(result.why_unknown.find(why), std::string::npos) << result.why_unknown;
  }
}

TEST(FlowControlTest, AnAnswerThatIsCutOffOrBentIsUnknown) {
  const std::string whole = answer_of(0xff);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_flow_control(machine(), "eth4", [&](auto) { return whole.substr(0, size); }).priorities) << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bent = whole;
    bent[at] = '\xff';
    const FlowControl result = read_flow_control(machine(), "eth4", [&](auto) { return bent; });
    EXPECT_EQ(result.priorities.has_value(), result.why_unknown.empty()) << at;
  }
}

// Kernels without DCB report that it is unsupported. Others report that there is no such interface.
TEST(FlowControlTest, TheKernelItselfAnswersNobodyInParticular) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    const FlowControl result = read_flow_control(machine(), "nosuch0");
    ::_exit(result.priorities || result.why_unknown.find("permitted") != std::string::npos ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(read_flow_control(machine(), "lo").priorities);
}

TEST(FlowControlTest, OfACapturedMachineItsFileTells) {
  TestTree tree;
  tree.put("/dcb/eth4", "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:on 7:off \n").put("/dcb/eth5", "rubbish\n");
  EXPECT_EQ(read_flow_control(tree.root(), "eth4").priorities, 0x48);
  for (const char* interface : {"eth5", "eth6", "../dcb/eth4", "", "eth4eth4eth4eth4"}) {
    EXPECT_FALSE(read_flow_control(tree.root(), interface).priorities) << interface;
  }
}

}  // namespace
}  // namespace penstock::core
