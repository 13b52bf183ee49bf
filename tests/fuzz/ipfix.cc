// SPDX-License-Identifier: Apache-2.0
// An IPFIX message: the decoder is bounded, and the flows that it finds survive the project's own
// encoding.
#include "wire/ipfix.h"

#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const auto bytes = std::as_bytes(input);
  const auto decoded = wire::decode_ipfix(bytes);
  if (!decoded) {
    EXPECT_FALSE(decoded.error().text.empty());
    EXPECT_LE(decoded.error().text.size(), 200U);
    return;
  }
  EXPECT_LE(decoded->flows.size(), bytes.size());
  std::vector<std::byte> room(wire::kIpfixMessageBytesMin);
  wire::IpfixWriter writer(room);
  for (const wire::IpfixFlow& flow : decoded->flows) {
    writer.begin();
    writer.append(flow);
    writer.finish(decoded->export_time_s, decoded->sequence, decoded->domain);
    const auto again = wire::decode_ipfix(writer.message());
    ASSERT_TRUE(again.has_value()) << again.error().text;
    ASSERT_EQ(again->flows.size(), 1U);
    ASSERT_EQ(again->flows[0], flow);
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  std::vector<std::byte> room(1400);
  wire::IpfixWriter writer(room);
  for (const bool is_ipv6 : {false, true}) {
    writer.begin();
    wire::IpfixFlow flow{.protocol = 6, .destination_port = 443, .packets = 2, .octets = 80};
    flow.start_ns = 1'600'000'000'000'000'001;
    flow.end_ns = 1'600'000'000'000'000'002;
    writer.append(flow);
    flow.is_ipv6 = is_ipv6;
    writer.append(flow);
    writer.finish(1'600'000'000, 7, 1);
    all.push_back(input_of(writer.message()));
  }
  return all;
}

TRIB_FUZZ_TARGET(ipfix);

}  // namespace
}  // namespace tributary::fuzz
