// SPDX-License-Identifier: Apache-2.0
/// @file
/// A host with address 10.0.0.1 or fd00::1, and frames that others send to it.
#pragma once

#include <string>

#include "io/frames/link_inspect.h"
#include "tests/io/frames/bytes.h"

namespace tributary::io {

inline constexpr MacAddress kOurMac{2, 0, 0, 0, 0, 1};
inline constexpr MacAddress kTheirMac{2, 0, 0, 0, 0, 2};
inline const Endpoint kOurs = Endpoint::ipv4(0x0a000001, 12000);
inline const Endpoint kTheirs = Endpoint::ipv4(0x0a000002, 5000);
inline const Endpoint kOurs6 = *Endpoint::parse("[fd00::1]:12000");
inline const Endpoint kTheirs6 = *Endpoint::parse("[fd00::2]:5000");

inline const LinkIdentity kHost{
    .mac = kOurMac, .local = kOurs, .groups = {}, .trusts_udp_checksum = false};
inline const LinkIdentity kHost6{
    .mac = kOurMac, .local = kOurs6, .groups = {}, .trusts_udp_checksum = false};

inline const std::string kToUs = "02 00 00 00 00 01 02 00 00 00 00 02 ";
inline const std::string kFromUs = "02 00 00 00 00 02 02 00 00 00 00 01 ";
inline const std::string kAddress1 = "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 ";
inline const std::string kAddress2 = "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 ";
inline const std::string kGroupOf1 = "ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 01 ";

/// "Who has 10.0.0.1? Tell 10.0.0.2", to all hosts.
inline const std::string kArpRequest =
    "ff ff ff ff ff ff 02 00 00 00 00 02 08 06 00 01 08 00 06 04 00 01 "
    "02 00 00 00 00 02 0a 00 00 02 00 00 00 00 00 00 0a 00 00 01";

/// Echo request 0x1234, number 1, "ab". ICMP: 0800+1234+0001+6162 = 7b97, inverted 8468. IP:
/// 4500+001e+4000+4001+0a00+0002+0a00+0001 = d922, inverted 26dd.
inline const std::string kPing = kToUs +
                                 "08 00 45 00 00 1e 00 00 40 00 40 01 26 dd 0a 00 00 02 "
                                 "0a 00 00 01 08 00 84 68 12 34 00 01 61 62";

/// "Who has fd00::1?", from fd00::2 with its MAC address.
inline const std::string kSolicitation =
    "33 33 ff 00 00 01 02 00 00 00 00 02 86 dd "
    "60 00 00 00 00 20 3a ff " +
    kAddress2 + kGroupOf1 + "87 00 7d 97 00 00 00 00 " + kAddress1 + "01 01 02 00 00 00 00 02";

/// A router's query for all groups, with the option "router alert". IGMP 1164 inverted: ee9b.
inline const std::string kIgmpQueryFrame =
    "01 00 5e 00 00 01 02 00 00 00 00 fe 08 00 46 00 00 20 00 00 00 00 01 02 39 d9 "
    "0a 00 00 fe e0 00 00 01 94 04 00 00 11 64 ee 9b 00 00 00 00";

/// A datagram from them to us.
inline Bytes datagram(const Endpoint& from, const Endpoint& to, const Bytes& payload) {
  Bytes frame(payload.size() + kUdpFrameHeaderBytesIpv6);
  frame.resize(build_udp_frame(
      {.source_mac = kTheirMac, .destination_mac = kOurMac, .source = from, .destination = to},
      payload, frame));
  return frame;
}

}  // namespace tributary::io
