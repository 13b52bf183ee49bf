// SPDX-License-Identifier: Apache-2.0
// A SwitchML core in virtual time: a sequence of packets of its workers and of strangers, and
// sessions that begin and end between them.
#include "tests/apps/switchml/bed.h"
#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

using switchml::Bed;
using switchml::SessionConfig;
using Packet = std::vector<std::byte>;

constexpr uint32_t kStepsMax = 64;
constexpr uint32_t kSessions = 2;
constexpr uint32_t kSlots = 8;
constexpr uint32_t kPacketBytesMax = 1100;

enum Step : uint32_t { kRaw, kValid, kBegin, kRegister, kEnd, kStepKinds };

SessionConfig session_of(uint32_t place) {
  return {.workers = 2,
          .elements = place == 0 ? 64U : 256U,
          .slots = kSlots,
          .watches_ports = place == 1};
}

class Run {
 public:
  explicit Run(InputReader& in) : in_(in), bed_(config()) {}

  void steps() {
    for (uint32_t i = 0; i < kStepsMax && !in_.at_end(); i++) step();
  }

 private:
  static switchml::BedConfig config() {
    return {.sessions = {session_of(0), session_of(1)},
            .shard = {.sessions_max = kSessions, .slots_max = kSlots},
            .packets_max = 8};
  }

  void step() {
    switch (in_.below(kStepKinds)) {
      case kRaw: {
        const Endpoint from = sender();
        return deliver(in_.bytes(kPacketBytesMax), from);
      }
      case kValid: {
        const Endpoint from = sender();
        const uint32_t place = in_.below(kSessions);
        const uint32_t slot = in_.below(kSlots + 1);
        const bool set = in_.below(2) != 0;
        Packet packet = wire::switchml_payload(
            switchml::packet(slot, set, in_.take<uint8_t>(), 7, session_of(place).elements));
        in_.damage(packet);
        return deliver(packet, from);
      }
      case kBegin: {
        const uint32_t place = in_.below(kSessions);
        return bed_.shard().begin_session(place, session_of(place));
      }
      case kRegister: {
        const uint32_t place = in_.below(kSessions);
        if (!bed_.shard().session(place).active) return;
        const uint32_t rank = in_.below(3);
        const Endpoint address = sender();
        if (address != switchml::stranger()) {
          (void)bed_.shard().set_worker(place, rank, address);
        }
        return;
      }
      default:
        return bed_.shard().end_session(in_.below(kSessions));
    }
  }

  /// Returns a worker of a session on one of four ports, or a stranger.
  Endpoint sender() {
    const uint32_t which = in_.take<uint8_t>();
    if (which >= 128) return switchml::stranger();
    return switchml::worker(which & 1, which >> 1 & 1, static_cast<uint16_t>(which >> 2 & 3));
  }

  void deliver(const Packet& packet, const Endpoint& from) {
    const auto replies = bed_.exchange(packet, from);
    EXPECT_LE(replies.size(), 2U);  // The workers of one session.
    const uint32_t room = wire::switchml_bytes(session_of(1).elements);
    for (const switchml::Reply& reply : replies) {
      EXPECT_NE(reply.to, switchml::stranger());
      EXPECT_LE(reply.bytes.size(), room);
    }
  }

  InputReader& in_;
  Bed bed_;
};

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  Run(in).steps();
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (uint32_t place = 0; place < kSessions; place++) {
    InputWriter in;
    for (uint32_t round = 0; round < 3; round++) {
      for (const uint32_t rank : {0U, 1U, 1U}) {  // The last one asks for the result.
        in.put8({kValid, rank | place << 1, place, 5, round % 2, round, 0});
      }
    }
    in.put8({kEnd, place, kBegin, place, kRegister, place, 0, place << 1});
    in.put8({kRegister, place, 1, 1 | place << 1, kValid, place << 1, place, 0, 0, 9, 0});
    all.push_back(in.bytes());
  }
  InputWriter raw;
  raw.put8({kRaw, 0}).put_bytes(wire::switchml_payload(switchml::packet(1, false, 3, 4)));
  all.push_back(raw.bytes());
  return all;
}

TRIB_FUZZ_TARGET(switchml_server);

}  // namespace
}  // namespace tributary::fuzz
