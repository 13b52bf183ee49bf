// SPDX-License-Identifier: Apache-2.0
// A Trio-ML core in virtual time: a sequence of steps, each a packet of a member, of the upper
// aggregator or of a stranger, or a passage of time. Valid packets with some bytes replaced reach
// what lies behind the session's keys.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tests/apps/trio_ml/bed.h"
#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

using trio_ml::Bed;
using trio_ml::encoded;
using trio_ml::JobConfig;
using trio_ml::Member;
using trio_ml::Values;
using wire::Message;
using wire::MessageType;
using Packet = std::vector<std::byte>;

constexpr uint32_t kStepsMax = 64;
constexpr uint32_t kGradients = 4;
constexpr uint32_t kBlocks = 8;
constexpr uint32_t kPacketBytesMax = 160;
constexpr uint32_t kParameters = 3 * kGradients - 1;  ///< Of the asynchronous job.
/// Most packets that one step may cause: a notice and a result to each source, for each block.
constexpr uint32_t kRepliesMax = 128;

constexpr uint64_t kUpwardKey = 5;
constexpr uint64_t kUpperResultKey = 6;
const Endpoint kUpper = Endpoint::ipv4(0x0a000001, 12000);

enum Job : uint32_t {
  kPlain,
  kTimed,
  kPinned,
  kGroup,
  kLower,
  kUpperJob,
  kAsynchronous,
  kJobKinds
};

JobConfig job_of(uint32_t kind) {
  JobConfig job{.sources = 2, .block_cnt_max = kBlocks, .block_grad_max = kGradients};
  job.mitigation = kind == kTimed || kind == kLower;
  job.pin = kind == kPinned;
  if (kind == kGroup) job.group = Endpoint::ipv4(0xef010101, 12000);
  if (kind == kLower) job.upstream = kUpper;
  if (kind == kUpperJob) job.sources_are_aggregators = true;
  if (kind == kLower || kind == kUpperJob) job.world = 4;
  job.asynchronous = kind == kAsynchronous;
  if (job.asynchronous) job.parameters = kParameters;
  return job;
}

/// A step's first byte.
enum Step : uint32_t {
  kRaw,           ///< Any bytes.
  kFromMember,    ///< A member's message of any type, damaged.
  kPlainPacket,   ///< A contribution with the paper's header, damaged.
  kJoin,          ///< A source's join with its last cookie, damaged.
  kFromUpstream,  ///< A message of the upper aggregator, damaged.
  kWait,          ///< Up to 6.5 s.
  kStepKinds,
};

class Run {
 public:
  explicit Run(InputReader& in)
      : in_(in),
        bed_({.jobs = {job_of(in.below(kJobKinds))},
              .layer =
                  in.below(2) == 0 ? engine::PacketLayer::kUdpPayload : engine::PacketLayer::kFrame,
              .dram_bytes = uint64_t{1} << 20,
              .packets_max = kRepliesMax}) {}

  void steps() {
    for (uint32_t i = 0; i < kStepsMax && !in_.at_end(); i++) {
      step();
      check_job();
    }
    // Every session and block ends by itself.
    bed_.advance(seconds(10));
    bed_.run();
  }

 private:
  void step() {
    switch (in_.below(kStepKinds)) {
      case kRaw: {
        const Endpoint from = sender();
        return deliver(in_.bytes(kPacketBytesMax), from);
      }
      case kFromMember:
        return deliver_damaged(member_message());
      case kPlainPacket: {
        const uint32_t source = in_.below(4);
        const uint32_t block = in_.take<uint8_t>();
        return deliver_damaged(trio_ml::plain_bytes(source, block, in_.take<uint8_t>(), lanes()));
      }
      case kJoin: {
        const uint32_t source = in_.below(4);
        const uint32_t world = bed_.job().config.ranks();
        Message join = trio_ml::join_message(source, 1 + in_.below(4), world);
        join.body.key = cookies_[source];
        if (bed_.job().config.asynchronous) ask_for_share(join.body);
        return deliver_damaged(encoded(join));
      }
      case kFromUpstream:
        return deliver_damaged(upstream_message(), kUpper);
      default: {
        // In four parts: a timer finds a block idle at one visit, and ends it at the next.
        const Duration quarter = microseconds(25) * in_.take<uint16_t>();
        for (uint32_t part = 0; part < 4; part++) {
          bed_.advance(quarter);
          bed_.run();
        }
        return take({}, SIZE_MAX);
      }
    }
  }

  /// Asks for all parameters, or for a part of them that may be empty.
  void ask_for_share(wire::ControlBody& body) {
    body.asynchronous = true;
    body.share.before = in_.below(3);
    body.share.all = body.share.before + body.share.own + in_.below(3);
  }

  Values lanes() { return Values(1 + in_.below(kGradients), 7); }

  /// Returns workers 0 to 3, of which two are in the job, or a stranger.
  Endpoint sender() {
    const uint32_t number = in_.below(5);
    return number == 4 ? trio_ml::stranger() : trio_ml::worker(number);
  }

  Packet member_message() {
    const Member& member = members_[in_.below(2)];
    const auto type = static_cast<MessageType>(in_.below(wire::kMessageTypeLast + 1));
    const uint32_t block = in_.take<uint8_t>();
    const Values values = lanes();
    if (type == MessageType::kContribution) {
      Message push = member.contribution(block, values);
      if (bed_.job().config.asynchronous) push.extension.tensor_elements = kParameters;
      return encoded(push, values);
    }
    Message message = member.message(type, block);
    message.header.grad_cnt = static_cast<uint16_t>(values.size());
    return encoded(message, wire::is_control(type) ? Values{} : values);
  }

  Packet upstream_message() {
    Message message = asked_;  // The last packet to the upper aggregator.
    message.header.grad_cnt = std::min<uint16_t>(message.header.grad_cnt, kGradients);
    message.header.extended = true;
    message.header.src_cnt = 4;
    message.extension.type = static_cast<MessageType>(in_.below(wire::kMessageTypeLast + 1));
    if (message.extension.type == MessageType::kWelcome) {
      message.body.sources = 2;  // Its key is the join's nonce.
      message.body.window = kBlocks;
      message.body.gradients_max = kGradients;
      message.body.key = kUpwardKey;
      message.body.result_key = kUpperResultKey;
    } else {
      message.body.reason = static_cast<wire::Reason>(in_.below(wire::kReasonLast + 1));
    }
    if (message.extension.type == MessageType::kReset) message.extension.key = kUpwardKey;
    if (!is_join_reply(message.extension.type) && message.extension.type != MessageType::kReset) {
      message.extension.key = kUpperResultKey;
    }
    const bool result = message.extension.type <= MessageType::kResult;
    return encoded(message, result ? Values(message.header.grad_cnt, 9) : Values{});
  }

  void deliver_damaged(Packet packet) {
    const Endpoint from = sender();
    deliver_damaged(std::move(packet), from);
  }
  void deliver_damaged(Packet packet, const Endpoint& from) {
    in_.damage(packet);
    deliver(packet, from);
  }

  void deliver(const Packet& packet, const Endpoint& from) {
    const bool is_plain = packet.size() < wire::TrioMlHeader::kBytes ||
                          wire::TrioMlHeader::Extended::load(packet.data()) == 0;
    // A plain packet may complete a block, whose result goes to each source's last address.
    const bool is_stranger = bed_.session().number() == 0 && !is_plain;
    bed_.deliver(packet, from);
    take(from, is_stranger ? packet.size() : SIZE_MAX);
  }

  /// Takes the replies to a packet, and learns cookies and the terms of new sessions.
  /// @param bytes_max The most bytes that its sender may get.
  void take(const Endpoint& from, size_t bytes_max) {
    size_t to_sender_bytes = 0;
    const std::vector<trio_ml::Reply> replies = bed_.take();
    EXPECT_LT(replies.size(), kRepliesMax);
    for (const trio_ml::Reply& reply : replies) {
      if (reply.to == from && !is_to_joined(reply.message)) to_sender_bytes += reply.bytes.size();
      if (reply.to == kUpper) asked_ = reply.message;
      if (reply.message.extension.type == MessageType::kCookie) {
        cookies_[reply.message.header.src_id % cookies_.size()] = reply.message.body.key;
      }
      if (reply.message.extension.type != MessageType::kWelcome) continue;
      const uint32_t source = reply.message.body.source;
      ASSERT_LT(source, members_.size());
      members_[source] = {.source = source,
                          .key = reply.message.body.key,
                          .result_key = reply.message.body.result_key};
    }
    EXPECT_LE(to_sender_bytes, bytes_max);
  }

  /// Returns whether a message goes to a source that has joined, because another source has joined
  /// after it. Its address returned a cookie before.
  static bool is_to_joined(const Message& message) {
    return message.extension.type == MessageType::kWelcome ||
           message.body.reason == wire::Reason::kConfirm ||
           message.body.reason == wire::Reason::kListsDiffer;
  }

  void check_job() {
    EXPECT_LE(bed_.job().record.block_curr_cnt, kBlocks);
    EXPECT_EQ(bed_.port().queue(0).counters().tx_refused, 0U);
  }

  InputReader& in_;
  Bed bed_;
  std::array<Member, 2> members_{Member{.source = 0}, Member{.source = 1}};
  std::array<uint64_t, 4> cookies_{};
  Message asked_;
};

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  Run(in).steps();
}

/// Writes a step of a source that nothing damages.
void put_join(InputWriter& out, uint32_t kind, uint32_t source) {
  out.put8({kJoin, source, source});            // Its nonce.
  if (kind == kAsynchronous) out.put8({0, 0});  // All parameters.
  out.put8({source, 0});                        // Its address, no damage.
}
void put_contribution(InputWriter& out, uint32_t source, uint32_t block) {
  out.put8({kFromMember, source, 0, block, kGradients - 1, source, 0});
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (uint32_t kind = 0; kind < kJobKinds; kind++) {
    for (const uint32_t frames : {0U, 1U}) {
      InputWriter session;
      session.put8({kind, frames});
      // Twice for a cookie, and once more to confirm.
      for (const uint32_t source : {0U, 0U, 1U, 1U, 0U}) put_join(session, kind, source);
      if (kind == kLower) session.put8({kFromUpstream, 11, 0, 0, kFromUpstream, 5, 0});
      for (uint32_t block = 0; block < 3; block++) {
        put_contribution(session, 0, block);
        put_contribution(session, 1, block);
        if (kind == kLower) session.put8({kFromUpstream, 1, 0, 0});  // The result.
      }
      put_contribution(session, 0, 3);
      session.put8({kFromMember, 0, 2, 3, 0, 0, 0});  // A probe.
      session.put8({kWait}).put(uint16_t{300});       // 30 ms: the block ages out.
      session.put8({kFromMember, 0, 10, 0, 0, 0, 0, kFromMember, 0, 9, 0, 0, 0, 0});
      all.push_back(session.bytes());
    }
    InputWriter plain;
    plain.put8({kind, 0});
    for (uint32_t i = 0; i < 4; i++) plain.put8({kPlainPacket, i % 2, i / 2, 1, 3, i % 2, 0});
    all.push_back(plain.bytes());
  }
  return all;
}

TRIB_FUZZ_TARGET(trio_ml_server);

}  // namespace
}  // namespace tributary::fuzz
