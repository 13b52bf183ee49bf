// SPDX-License-Identifier: Apache-2.0
#include "traffic/generator.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/headers.h"

namespace tributary::traffic {
namespace {

/// Sizes of IP packets in the simple Internet mix, 7:4:1. RFC 6985 describes such mixes; these
/// sizes are the usual 40, 576 and 1500, where 40 fills Ethernet's shortest frame of 64 bytes.
constexpr uint32_t kSmallIpBytes = kFrameBytesMin - wire::EthernetHeader::kBytes;
constexpr uint32_t kMediumIpBytes = 576;
constexpr uint32_t kLargeIpBytes = 1500;
constexpr uint32_t kMixSmall = 7;
constexpr uint32_t kMixMedium = 4;
constexpr uint32_t kMixLarge = 1;

/// Flows of each client, on average. Source: assumed.
constexpr uint32_t kFlowsPerClient = 4;
constexpr uint16_t kHttpsPort = 443;
constexpr uint16_t kDnsPort = 53;
/// The first port that a client uses (RFC 6056 §2.1: above the well-known ports).
constexpr uint32_t kClientPortFirst = 1024;

/// One connection of the flash crowd: SYN, ACK, request, acknowledgements of the answer, FIN.
/// With these gaps it lasts about half a second, at 20 packets per second. Source: assumed.
constexpr uint32_t kVisitPackets = 10;
constexpr Duration kRoundTrip = milliseconds(50);
constexpr Duration kThinking = milliseconds(1);
constexpr uint32_t kAckGapMicroseconds = 120'000;  ///< The longest; gaps are uniform.

/// Seeds of the four processes: the user's seed with a different constant for each.
constexpr uint64_t kChurnSalt = 0x636875726eULL;
constexpr uint64_t kFloodSalt = 0x666c6f6f64ULL;
constexpr uint64_t kCrowdSalt = 0x63726f7764ULL;

constexpr uint64_t salted(uint64_t seed, uint64_t salt) { return Prng(seed ^ salt).any_u64(); }

uint16_t client_port(Prng& prng) {
  return static_cast<uint16_t>(kClientPortFirst + prng.below(65'536 - kClientPortFirst));
}

uint32_t mixed_ip_bytes(Prng& prng) {
  const uint32_t draw = prng.below(kMixSmall + kMixMedium + kMixLarge);
  if (draw < kMixSmall) return kSmallIpBytes;
  return draw < kMixSmall + kMixMedium ? kMediumIpBytes : kLargeIpBytes;
}

/// Returns the TCP sequence numbers that a segment takes.
uint32_t sequence_span(const FrameContents& contents) {
  const uint32_t headers = ip_header_bytes(contents);
  const uint32_t payload = contents.ip_bytes > headers ? contents.ip_bytes - headers : 0;
  return payload + ((contents.tcp_flags & (wire::kTcpSyn | wire::kTcpFin)) != 0 ? 1 : 0);
}

}  // namespace

Result<Generator> Generator::create(const Config& config) {
  if (const auto checked = check(config); !checked) return failure(checked.error().text);
  return Generator(config);
}

Generator::Generator(const Config& config)
    : config_(config),
      background_prng_(config.seed),
      churn_prng_(salted(config.seed, kChurnSalt)),
      flood_prng_(salted(config.seed, kFloodSalt)),
      crowd_prng_(salted(config.seed, kCrowdSalt)),
      ranks_(config.background.flows, config.background.zipf),
      flows_(config.background.flows),
      client_count_(std::min(config.background.flows / kFlowsPerClient + 1, kInnocentSourcesMax)) {
  for (Flow& flow : flows_) flow = new_flow();
  background_due_ = Instant() + poisson_gap(background_prng_, config.background.rate);
  if (config.background.churn > 0) {
    churn_due_ = Instant() + poisson_gap(churn_prng_, config.background.churn);
  }
  if (config.flood) plan_flood();
  if (config.flash_crowd) {
    visits_.reserve(config.flash_crowd->sources);
    arrival_due_ = Instant() + config.flash_crowd->start;
  }
}

std::optional<TrafficPacket> Generator::next() {
  while (packets_ < config_.packets) {
    const Instant due =
        std::min({background_due_, churn_due_, flood_due_, crowd_due(), arrival_due_});
    if (config_.length > Duration() && due > Instant() + config_.length) return std::nullopt;
    // The order of these lines decides ties.
    if (due == background_due_) return next_background();
    if (due == flood_due_) return next_flood();
    if (due == arrival_due_) {
      begin_visit();
    } else if (due == crowd_due()) {
      return next_visit();
    } else if (const auto fin = replace_flow()) {
      return fin;
    }
  }
  return std::nullopt;
}

TrafficPacket Generator::emit(Instant at, const FrameContents& contents, Label label) {
  const uint32_t size = build_frame(contents, frame_);
  ClassSummary& counted = summary_.classes[static_cast<size_t>(label)];
  if (counted.packets == 0) counted.first_at = at;
  counted.last_at = at;
  counted.packets++;
  counted.bytes += size;
  packets_++;
  return {.at = at, .frame = std::span(frame_).first(size), .label = label};
}

// --- Background ----------------------------------------------------------------------------------

Generator::Flow Generator::new_flow() {
  Prng& prng = churn_prng_;
  const BackgroundConfig& background = config_.background;
  Flow flow;
  flow.client = prng.below(client_count_);
  flow.sequence_number = prng.any_u32();
  flow.server = static_cast<uint16_t>(prng.below(background.servers));
  flow.client_port = client_port(prng);
  flow.ipv6 = prng.below(100) < background.ipv6_percent;
  flow.udp = prng.below(100) < background.udp_percent;
  return flow;
}

FrameContents Generator::contents_of(const Flow& flow) const {
  FrameContents contents;
  contents.source = innocent_source(flow.client, flow.ipv6);
  contents.source.port = flow.client_port;
  contents.destination = server_address(flow.server, flow.ipv6, kHttpsPort);
  contents.transport = flow.udp ? Transport::kUdp : Transport::kTcp;
  contents.tcp_flags = wire::kTcpAck;
  contents.sequence_number = flow.sequence_number;
  // The other direction is not generated; any number that is not 0 stands for its sequence numbers.
  contents.acknowledgment_number = ~flow.client;
  return contents;
}

TrafficPacket Generator::next_background() {
  const Instant at = background_due_;
  background_due_ = at + poisson_gap(background_prng_, config_.background.rate);
  Flow& flow = flows_[ranks_.draw(background_prng_)];
  const uint32_t ip_bytes = mixed_ip_bytes(background_prng_);
  FrameContents contents = contents_of(flow);
  if (!flow.begun && !flow.udp) {
    contents.tcp_flags = wire::kTcpSyn;
    contents.acknowledgment_number = 0;
  } else {
    contents.ip_bytes = ip_bytes;
  }
  summary_.flows_begun += flow.begun ? 0 : 1;
  flow.begun = true;
  flow.sequence_number += sequence_span(contents);
  return emit(at, contents, Label::kInnocent);
}

std::optional<TrafficPacket> Generator::replace_flow() {
  const Instant at = churn_due_;
  churn_due_ = at + poisson_gap(churn_prng_, config_.background.churn);
  Flow& flow = flows_[churn_prng_.below(config_.background.flows)];
  const Flow ended = flow;
  flow = new_flow();
  if (!ended.begun) return std::nullopt;
  summary_.flows_ended++;
  if (ended.udp) return std::nullopt;
  FrameContents contents = contents_of(ended);
  contents.tcp_flags = wire::kTcpFin | wire::kTcpAck;
  return emit(at, contents, Label::kInnocent);
}

// --- Flood ---------------------------------------------------------------------------------------

void Generator::plan_flood() {
  const FloodConfig& flood = *config_.flood;
  flood_active_ += poisson_gap(flood_prng_, flood.rate);
  Duration since_start = flood_active_;
  if (flood.kind == FloodKind::kPulse) {
    // flood_active_ counts the time of the pulses only; insert the gaps before this packet.
    const int64_t pulses = flood_active_.ticks() / flood.pulse_on.ticks();
    since_start += flood.pulse_off * pulses;
  }
  flood_due_ =
      since_start < flood.length ? Instant() + flood.start + since_start : Instant::never();
}

TrafficPacket Generator::next_flood() {
  const FloodConfig& flood = *config_.flood;
  const Instant at = flood_due_;
  plan_flood();
  FrameContents contents;
  contents.source = flood_source(flood_prng_.below(flood.sources));
  if (flood.kind == FloodKind::kAmplification) {
    contents.transport = Transport::kUdp;
    contents.source.port = kDnsPort;
    contents.destination = server_address(kFloodServer, false, client_port(flood_prng_));
    contents.ip_bytes = kLargeIpBytes;
  } else {
    contents.source.port = client_port(flood_prng_);
    contents.destination = server_address(kFloodServer, false, kHttpsPort);
    contents.tcp_flags = wire::kTcpSyn;
    contents.sequence_number = flood_prng_.any_u32();
  }
  return emit(at, contents, Label::kFlood);
}

// --- Flash crowd ---------------------------------------------------------------------------------

Instant Generator::crowd_due() const {
  return visits_.empty() ? Instant::never() : visits_.front().due_at;
}

void Generator::begin_visit() {
  const FlashCrowdConfig& crowd = *config_.flash_crowd;
  visits_.push_back({.due_at = arrival_due_,
                     .client = clients_arrived_,
                     .sequence_number = crowd_prng_.any_u32()});
  std::push_heap(visits_.begin(), visits_.end(), Later());
  clients_arrived_++;
  const double rate = crowd.sources / in_seconds(crowd.spread);
  arrival_due_ = clients_arrived_ < crowd.sources ? arrival_due_ + poisson_gap(crowd_prng_, rate)
                                                  : Instant::never();
}

TrafficPacket Generator::next_visit() {
  std::pop_heap(visits_.begin(), visits_.end(), Later());
  Visit& visit = visits_.back();
  const Instant at = visit.due_at;
  FrameContents contents;
  contents.source = flash_crowd_source(visit.client);
  contents.source.port = static_cast<uint16_t>(kClientPortFirst + visit.client % 60'000);
  contents.destination = server_address(flash_crowd_server(config_.background), false, kHttpsPort);
  contents.sequence_number = visit.sequence_number;
  contents.acknowledgment_number = visit.step == 0 ? 0 : ~visit.client;
  contents.tcp_flags = wire::kTcpAck;
  if (visit.step == 0) contents.tcp_flags = wire::kTcpSyn;
  if (visit.step == 2) {  // The request.
    contents.tcp_flags |= wire::kTcpPsh;
    contents.ip_bytes = kMediumIpBytes;
  }
  if (visit.step == kVisitPackets - 1) contents.tcp_flags |= wire::kTcpFin;
  visit.sequence_number += sequence_span(contents);
  plan_visit();
  return emit(at, contents, Label::kFlashCrowd);
}

void Generator::plan_visit() {
  Visit& visit = visits_.back();
  visit.step++;
  if (visit.step == kVisitPackets) {
    visits_.pop_back();
    return;
  }
  if (visit.step == 1) {
    visit.due_at = visit.due_at + kRoundTrip;
  } else if (visit.step == 2) {
    visit.due_at = visit.due_at + kThinking;
  } else {
    visit.due_at = visit.due_at + microseconds(crowd_prng_.below(kAckGapMicroseconds));
  }
  std::push_heap(visits_.begin(), visits_.end(), Later());
}

}  // namespace tributary::traffic
