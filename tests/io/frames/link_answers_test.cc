// SPDX-License-Identifier: Apache-2.0
// Method: each frame byte by byte against one computed by hand from its standard, then messages
// that must not be answered.
#include "io/frames/link_answers.h"

#include <gtest/gtest.h>

#include "tests/io/frames/link_bed.h"

namespace tributary::io {
namespace {

using Writer = uint32_t (*)(std::span<const std::byte>, const InspectedFrame&, const LinkIdentity&,
                            std::span<std::byte>);

/// Returns the answer's bytes; empty for no answer.
Bytes answer(Writer write, const Bytes& frame, const LinkIdentity& host, size_t room = 200) {
  const InspectedFrame found = inspect_frame(frame, host, {});
  EXPECT_NE(found.kind, FrameKind::kRefused) << to_string(found.refusal);
  Bytes out(room);
  out.resize(write(frame, found, host, out));
  return out;
}

TEST(LinkAnswers, ArpReplyMatchesHandWrittenBytes) {
  const Bytes expected = from_hex(kFromUs +
                                  "08 06 00 01 08 00 06 04 00 02 02 00 00 00 00 01 0a 00 00 01 "
                                  "02 00 00 00 00 02 0a 00 00 02");
  EXPECT_EQ(answer(answer_arp, from_hex(kArpRequest), kHost), expected);
  EXPECT_TRUE(answer(answer_arp, from_hex(kArpRequest), kHost, 41).empty());  // No room.
  Bytes other = from_hex(kArpRequest);
  other.back() = std::byte{9};  // Asks for 10.0.0.9.
  EXPECT_TRUE(answer(answer_arp, other, kHost).empty());
  Bytes reply = from_hex(kArpRequest);
  reply[21] = std::byte{2};
  EXPECT_TRUE(answer(answer_arp, reply, kHost).empty());
  Bytes to_group = from_hex(kArpRequest);
  to_group[22] = std::byte{3};  // The asker's MAC address would be a group's.
  EXPECT_TRUE(answer(answer_arp, to_group, kHost).empty());
}

TEST(LinkAnswers, ReadsAddressesFromAnArpReply) {
  Bytes reply = from_hex(kArpRequest);
  const auto read = [&reply] {
    return read_arp_reply(reply, inspect_frame(reply, kHost, {}), kHost);
  };
  EXPECT_FALSE(read().has_value());  // Still a request.
  reply[21] = std::byte{2};
  ASSERT_TRUE(read().has_value());
  EXPECT_EQ(read()->mac, kTheirMac);
  EXPECT_TRUE(same_address(read()->address, kTheirs));
  reply[31] = std::byte{1};  // Another host claims our address.
  EXPECT_FALSE(read().has_value());
}

TEST(LinkAnswers, EchoReplyMatchesHandWrittenBytes) {
  // Type 0: the checksum grows by 0800, from 8468 to 8c68. IP: only the addresses are swapped.
  const Bytes expected = from_hex(kFromUs +
                                  "08 00 45 00 00 1e 00 00 40 00 40 01 26 dd 0a 00 00 01 "
                                  "0a 00 00 02 00 00 8c 68 12 34 00 01 61 62");
  EXPECT_EQ(answer(answer_echo, from_hex(kPing), kHost), expected);
  EXPECT_TRUE(answer(answer_echo, from_hex(kPing), kHost, 43).empty());
  LinkIdentity asker = kHost;
  asker.mac = kTheirMac;
  asker.local = kTheirs;
  EXPECT_TRUE(answer(answer_echo, expected, asker).empty());  // A reply is not answered.
}

TEST(LinkAnswers, EchoReplyOverIpv6MatchesHandWrittenBytes) {
  const std::string ip = "86 dd 60 00 00 00 00 08 3a 40 ";
  // fd00+0002+fd00+0001 + 8 + 3a + 8000+1234+0001 = 28c7a; folded 8c7c, inverted 7383.
  const Bytes ping = from_hex(kToUs + ip + kAddress2 + kAddress1 + "80 00 73 83 12 34 00 01");
  const Bytes expected = from_hex(kFromUs + ip + kAddress1 + kAddress2 + "81 00 72 83 12 34 00 01");
  EXPECT_EQ(answer(answer_echo, ping, kHost6), expected);
}

TEST(LinkAnswers, AdvertisementMatchesHandWrittenBytes) {
  const Bytes expected =
      from_hex(kFromUs + "86 dd 60 00 00 00 00 20 3a ff " + kAddress1 + kAddress2 +
               "88 00 1c 9c 60 00 00 00 " + kAddress1 + "02 01 02 00 00 00 00 01");
  EXPECT_EQ(answer(answer_solicitation, from_hex(kSolicitation), kHost6), expected);
  Bytes routed = from_hex(kSolicitation);
  routed[21] = std::byte{254};  // One hop less, so the frame comes from another link.
  EXPECT_TRUE(answer(answer_solicitation, routed, kHost6).empty());
}

TEST(LinkAnswers, ReadsAddressesFromAnAdvertisement) {
  const Bytes frame = answer(answer_solicitation, from_hex(kSolicitation), kHost6);
  LinkIdentity asker = kHost6;
  asker.mac = kTheirMac;
  asker.local = kTheirs6;
  const auto neighbour = read_advertisement(frame, inspect_frame(frame, asker, {}));
  ASSERT_TRUE(neighbour.has_value());
  EXPECT_EQ(neighbour->mac, kOurMac);
  EXPECT_TRUE(same_address(neighbour->address, kOurs6));
}

TEST(LinkAnswers, QuestionsMatchHandWrittenBytes) {
  Bytes out(kLinkFrameBytesMax);
  out.resize(write_question(Endpoint::ipv4(0x0a000009, 0), std::nullopt, kHost, out));
  EXPECT_EQ(out, from_hex("ff ff ff ff ff ff 02 00 00 00 00 01 08 06 00 01 08 00 06 04 00 01 "
                          "02 00 00 00 00 01 0a 00 00 01 00 00 00 00 00 00 0a 00 00 09"));
  out.resize(kLinkFrameBytesMax);
  out.resize(write_question(*Endpoint::parse("[fd00::9]:1"), std::nullopt, kHost6, out));
  EXPECT_EQ(out, from_hex("33 33 ff 00 00 09 02 00 00 00 00 01 86 dd 60 00 00 00 00 20 3a ff " +
                          kAddress1 +
                          "ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 09 87 00 7d 89 00 00 00 00 "
                          "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 09 "
                          "01 01 02 00 00 00 00 01"));
}

TEST(LinkAnswers, MembershipMatchesHandWrittenBytes) {
  const Endpoint group = Endpoint::ipv4(0xef010203, 7000);
  Bytes out(kLinkFrameBytesMax);
  out.resize(write_membership(Membership::kReport, group, kHost, out));
  // Sent to the group itself; IGMP 1600+ef01+0203 = 10704, folded 0705, inverted f8fa.
  EXPECT_EQ(out, from_hex("01 00 5e 01 02 03 02 00 00 00 00 01 08 00 46 00 00 20 00 00 40 00 01 02 "
                          "e9 d2 0a 00 00 01 ef 01 02 03 94 04 00 00 16 00 f8 fa ef 01 02 03"));
  out.resize(kLinkFrameBytesMax);
  out.resize(write_membership(Membership::kLeave, group, kHost, out));
  // Sent to all routers, 224.0.0.2.
  EXPECT_EQ(out, from_hex("01 00 5e 00 00 02 02 00 00 00 00 01 08 00 46 00 00 20 00 00 40 00 01 02 "
                          "fa d4 0a 00 00 01 e0 00 00 02 94 04 00 00 17 00 f7 fa ef 01 02 03"));
}

TEST(LinkAnswers, MembershipOverIpv6MatchesHandWrittenBytes) {
  Bytes out(kLinkFrameBytesMax);
  out.resize(
      write_membership(Membership::kReport, *Endpoint::parse("[ff05::1234]:7000"), kHost6, out));
  const std::string group = "ff 05 00 00 00 00 00 00 00 00 00 00 00 00 12 34 ";
  EXPECT_EQ(out, from_hex("33 33 00 00 12 34 02 00 00 00 00 01 86 dd 60 00 00 00 00 20 00 01 "
                          "fe 80 00 00 00 00 00 00 00 00 00 ff fe 00 00 01 " +
                          group + "3a 00 05 02 00 00 01 00 83 00 5c b7 00 00 00 00 " + group));
}

}  // namespace
}  // namespace tributary::io
