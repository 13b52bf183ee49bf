// SPDX-License-Identifier: Apache-2.0
// A datagram of a tunnel: its frame lies in the datagram, belongs to no other network, and survives
// a round trip.
#include "wire/vxlan.h"

#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  InputReader reader(input);
  const uint32_t network = reader.take<uint32_t>() & wire::kVxlanNetworkMax;
  const auto datagram = reader.bytes(9'000);
  const auto frame = wire::vxlan_frame(datagram, network);
  if (!frame) return;
  ASSERT_GE(frame->size(), wire::EthernetHeader::kBytes);
  EXPECT_EQ(frame->data() + frame->size(), datagram.data() + datagram.size());
  EXPECT_FALSE(wire::vxlan_frame(datagram, network ^ 1));
  const auto header = wire::vxlan_header(network);
  std::vector<std::byte> again(header.begin(), header.end());
  again.insert(again.end(), frame->begin(), frame->end());
  const auto decoded = wire::vxlan_frame(again, network);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::ranges::equal(*decoded, *frame));
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const uint32_t network : {0U, 7U, wire::kVxlanNetworkMax}) {
    const auto header = wire::vxlan_header(network);
    std::vector<std::byte> datagram(header.begin(), header.end());
    datagram.resize(datagram.size() + 60);
    all.push_back(InputWriter().put(network).put_bytes(datagram).bytes());
  }
  return all;
}

TRIB_FUZZ_TARGET(vxlan);

}  // namespace
}  // namespace tributary::fuzz
