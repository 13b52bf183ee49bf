// SPDX-License-Identifier: Apache-2.0
// A port's network layer in virtual time: a sequence of frames, destinations to route to, and time.
// It answers at most as many bytes as it receives, and its tables are bounded.
#include <algorithm>
#include <array>

#include "base/internet_checksum.h"
#include "io/frames/frame_link.h"
#include "io/frames/link_headers.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/io/frames/link_bed.h"

namespace tributary::fuzz {
namespace {

using io::build_udp_frame;
using Frame = std::vector<std::byte>;

constexpr uint32_t kStepsMax = 64;
constexpr uint32_t kNeighboursMax = 8;
constexpr uint32_t kFrameBytesMax = 256;
/// Frames that may be due at once: a question for each address, a report for each group.
constexpr uint32_t kOwnFramesMax = io::kQuestionsMax + io::kGroupsMax;

enum Step : uint32_t { kRaw, kValid, kRoute, kWait, kJoinGroup, kLeave, kStepKinds };

io::FrameLinkConfig config_of(bool ipv4) {
  io::FrameLinkConfig config;
  config.local = ipv4 ? io::kOurs : io::kOurs6;
  config.prefix_bits = ipv4 ? 24 : 64;
  config.devices.push_back({.mac = io::kOurMac});
  return config;
}

/// The frames that valid steps begin with.
const std::vector<Frame>& templates() {
  static const std::vector<Frame> all = [] {
    std::vector<Frame> frames;
    for (const std::string& hex :
         {io::kArpRequest, io::kPing, io::kSolicitation, io::kIgmpQueryFrame}) {
      frames.push_back(from_hex(hex));
    }
    Frame reply = frames[0];  // The ARP request as a reply from 10.0.0.2 to us.
    std::ranges::copy(io::kOurMac, reinterpret_cast<uint8_t*>(reply.data()));
    reply[21] = std::byte{2};
    frames.push_back(reply);
    for (const bool ipv4 : {true, false}) {
      Frame datagram(100);
      datagram.resize(build_udp_frame({.source_mac = io::kTheirMac,
                                       .destination_mac = io::kOurMac,
                                       .source = ipv4 ? io::kTheirs : io::kTheirs6,
                                       .destination = ipv4 ? io::kOurs : io::kOurs6},
                                      from_hex("01 02 03"), datagram));
      frames.push_back(datagram);
    }
    return frames;
  }();
  return all;
}

/// Makes the checksums of an IPv4 frame right, so that damage reaches the protected bytes.
void repair_checksums(Frame& frame) {
  constexpr uint32_t kIpAt = wire::EthernetHeader::kBytes;
  if (frame.size() < kIpAt + wire::Ipv4Header::kBytes || frame[12] != std::byte{8}) return;
  const size_t ip_bytes = std::to_integer<size_t>(frame[kIpAt] & std::byte{15}) * 4;
  const size_t rest_at = kIpAt + ip_bytes;
  if (ip_bytes < wire::Ipv4Header::kBytes || frame.size() < rest_at + 4) return;
  store_be<uint16_t>(&frame[kIpAt + 10], 0);
  store_be<uint16_t>(&frame[kIpAt + 10],
                     internet_checksum(std::span(frame).subspan(kIpAt, ip_bytes)));
  const auto protocol = std::to_integer<uint32_t>(frame[kIpAt + 9]);
  if (protocol != 1 && protocol != 2) return;  // ICMP, IGMP.
  const size_t total = load_be<uint16_t>(&frame[kIpAt + 2]);
  if (total < ip_bytes + 4 || kIpAt + total > frame.size()) return;
  store_be<uint16_t>(&frame[rest_at + 2], 0);
  const auto message = std::span(frame).subspan(rest_at, total - ip_bytes);
  store_be<uint16_t>(&frame[rest_at + 2], internet_checksum(message));
}

class Run {
 public:
  Run(InputReader& in, bool ipv4)
      : in_(in), ipv4_(ipv4), table_(kNeighboursMax), link_(config_of(ipv4), table_) {}

  void steps() {
    for (uint32_t i = 0; i < kStepsMax && !in_.at_end(); i++) {
      step();
      drain();
      EXPECT_LE(table_.size(), kNeighboursMax);
    }
  }

 private:
  void step() {
    switch (in_.below(kStepKinds)) {
      case kRaw:
        return receive(in_.bytes(kFrameBytesMax));
      case kValid: {
        Frame frame = templates()[in_.below(static_cast<uint32_t>(templates().size()))];
        in_.damage(frame);
        if (in_.below(2) != 0) repair_checksums(frame);
        return receive(frame);
      }
      case kRoute: {
        Endpoint to = ipv4_ ? io::kTheirs : io::kTheirs6;
        to.address[15] = in_.take<uint8_t>();
        (void)link_.route(to, now_);
        return;
      }
      case kWait:
        now_ = now_ + milliseconds(1) * in_.take<uint16_t>();
        return;
      case kJoinGroup: {
        Endpoint group = Endpoint::ipv4(0xef010100, 12000);
        group.address[15] = in_.take<uint8_t>();
        (void)link_.join(group, now_);
        return;
      }
      default:
        return link_.leave_all(now_);
    }
  }

  void receive(const Frame& frame) {
    Frame reply(std::max<size_t>(frame.size(), io::kLinkFrameBytesMax));
    const uint32_t verified = in_.below(4);
    const io::Arrival arrival = link_.receive(
        frame, 0, {.ip_checksum = (verified & 1) != 0, .udp_checksum = (verified & 2) != 0}, now_,
        reply);
    ASSERT_LT(arrival.outcome, io::FrameOutcome::kCount);
    // An answer is a message of the same kind: a solicitation may lack the option of its answer.
    EXPECT_LE(arrival.reply_bytes, std::max<size_t>(frame.size() + io::kLinkOptionBytes, 42));
    if (arrival.outcome != io::FrameOutcome::kDelivered) return;
    EXPECT_LE(uint64_t{arrival.offset} + arrival.size, frame.size());
  }

  void drain() {
    std::array<std::byte, io::kLinkFrameBytesMax> out{};
    for (uint32_t frames = 0;; frames++) {
      const io::OwnFrame own = link_.next_frame(out, now_);
      if (own.bytes == 0) return;
      EXPECT_LE(own.bytes, out.size());
      ASSERT_LT(frames, kOwnFramesMax);
    }
  }

  InputReader& in_;
  const bool ipv4_;
  io::NeighbourTable table_;
  io::FrameLink link_;
  Instant now_{seconds(100)};
};

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  const bool ipv4 = in.below(2) == 0;
  Run(in, ipv4).steps();
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const uint32_t family : {0U, 1U}) {
    InputWriter in;
    in.put8({family, kRoute, 2, kJoinGroup, 1, kJoinGroup, 2});
    for (uint32_t frame = 0; frame < templates().size(); frame++) {
      in.put8({kValid, frame, 0, 0, 0});
      in.put8({kValid, frame, 0, 1, 3});
    }
    in.put8({kWait}).put(uint16_t{31'000});
    in.put8({kRoute, 2, kRoute, 3, kLeave, kWait}).put(uint16_t{2'000});
    all.push_back(in.bytes());
  }
  return all;
}

TRIB_FUZZ_TARGET(frames_link);

}  // namespace
}  // namespace tributary::fuzz
