// SPDX-License-Identifier: Apache-2.0
// Frames down to their UDP payload: the port's inspection, and a Trio-ML core that receives frames.
// A frame that is built around the input is delivered unchanged.
#include <algorithm>

#include "io/frames/udp_frame.h"
#include "tests/apps/trio_ml/bed.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/io/frames/link_bed.h"

namespace tributary::fuzz {
namespace {

using io::build_udp_frame;
using Frame = std::vector<std::byte>;

constexpr uint32_t kFrameBytesMax = 200;

/// Inspects the frame with and without help of the network card.
void inspect(std::span<const std::byte> frame) {
  for (const io::LinkIdentity& identity : {io::kHost, io::kHost6}) {
    for (const bool verified : {false, true}) {
      const auto found =
          io::inspect_frame(frame, identity, {.ip_checksum = verified, .udp_checksum = verified});
      if (found.kind == io::FrameKind::kRefused) {
        EXPECT_LT(found.refusal, io::FrameOutcome::kCount);
        continue;
      }
      EXPECT_LE(uint64_t{found.offset} + found.size, frame.size());
    }
  }
}

void give_to_core(const Frame& frame) {
  trio_ml::Bed bed({.jobs = {{.sources = 2, .block_cnt_max = 4, .block_grad_max = 4}},
                    .layer = engine::PacketLayer::kFrame,
                    .dram_bytes = uint64_t{1} << 20,
                    .packets_max = 16});
  bed.inject_raw(frame);
  bed.run();
  EXPECT_LE(bed.take().size(), 4U);
}

void build(std::span<const std::byte> payload, const Endpoint& from, const Endpoint& to,
           const io::LinkIdentity& identity) {
  Frame frame(payload.size() + io::kUdpFrameHeaderBytesIpv6);
  const uint32_t size = build_udp_frame({.source_mac = io::kTheirMac,
                                         .destination_mac = io::kOurMac,
                                         .source = from,
                                         .destination = to},
                                        payload, frame);
  ASSERT_GT(size, 0U);
  const auto found = io::inspect_frame(std::span(frame).first(size), identity, {});
  ASSERT_EQ(found.kind, io::FrameKind::kUdp);
  EXPECT_EQ(found.source, from);
  EXPECT_TRUE(std::ranges::equal(std::span(frame).subspan(found.offset, found.size), payload));
}

void run(std::span<const uint8_t> input) {
  const auto bytes = std::as_bytes(input.first(std::min<size_t>(input.size(), kFrameBytesMax)));
  inspect(bytes);
  give_to_core({bytes.begin(), bytes.end()});
  build(bytes, io::kTheirs, io::kOurs, io::kHost);
  build(bytes, io::kTheirs6, io::kOurs6, io::kHost6);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto contribution = trio_ml::plain_bytes(0, 1, 1, {1, 2});
  for (const bool ipv4 : {true, false}) {
    Frame frame(kFrameBytesMax);
    frame.resize(build_udp_frame({.source_mac = io::kTheirMac,
                                  .destination_mac = io::kOurMac,
                                  .source = ipv4 ? io::kTheirs : io::kTheirs6,
                                  .destination = ipv4 ? io::kOurs : io::kOurs6},
                                 contribution, frame));
    all.push_back(input_of(frame));
  }
  for (const std::string& hex :
       {io::kArpRequest, io::kPing, io::kSolicitation, io::kIgmpQueryFrame}) {
    all.push_back(input_of(from_hex(hex)));
  }
  return all;
}

TRIB_FUZZ_TARGET(frame_headers);

}  // namespace
}  // namespace tributary::fuzz
