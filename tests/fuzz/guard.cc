// SPDX-License-Identifier: Apache-2.0
// A guard in virtual time: a sequence of frames of a few sources, some damaged, and of times.
#include <string>

#include "tests/apps/guard/bed.h"
#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

using guard::Bed;
using guard::BuiltFrame;
using guard::GuardConfig;
using guard::Outcome;

constexpr uint32_t kStepsMax = 256;
constexpr uint32_t kRepeatsMax = 32;
constexpr uint32_t kFrameBytesMax = 200;

enum Step : uint32_t { kRaw, kDamaged, kRepeated, kTime, kStepKinds };

/// Bandwidths that few packets exceed, short times and the smallest tables.
GuardConfig config_of(InputReader& in) {
  GuardConfig config = guard::small_config();
  for (guard::LevelConfig& level : config.levels) {
    level.pps.fill(1 + in.below(8));
    level.action = static_cast<guard::Action>(in.below(3));
  }
  config.detect_time = seconds(1);
  config.recover_time = seconds(1);
  config.timeout_time = seconds(2);
  config.timeout_active = in.below(2) != 0;
  config.dry_run = in.below(2) != 0;
  config.destinations_max = 64;
  config.suspects_max = 64;
  config.report_max = 4;
  config.handshakes_log2 = 10;
  config.known_bits_log2 = 16;
  config.known_time = seconds(1);
  return config;
}

class Run {
 public:
  explicit Run(InputReader& in) : in_(in), bed_(config_of(in)) {}

  void steps() {
    for (uint32_t i = 0; i < kStepsMax && !in_.at_end(); i++) step();
    check();
  }

 private:
  void step() {
    switch (in_.below(kStepKinds)) {
      case kRaw:
        return send(in_.bytes(kFrameBytesMax));
      case kDamaged: {
        std::vector<std::byte> frame = valid_frame();
        in_.damage(frame);
        return send(frame);
      }
      case kRepeated: {
        const std::vector<std::byte> frame = valid_frame();
        const uint32_t times = 1 + in_.below(kRepeatsMax);
        for (uint32_t i = 0; i < times; i++) send(frame);
        return;
      }
      default:
        now_ = now_ + milliseconds(10) * in_.below(256);
        return bed_.advance(now_);
    }
  }

  /// Returns a TCP segment or a UDP packet of one of 256 sources to one of 256 servers.
  std::vector<std::byte> valid_frame() {
    const std::string source =
        "192.0." + std::to_string(in_.below(4)) + "." + std::to_string(in_.below(256)) + ":1000";
    const std::string server = "198.18.0." + std::to_string(in_.below(256)) + ":443";
    const BuiltFrame frame =
        in_.below(4) == 0 ? guard::udp_frame(source.c_str(), server.c_str())
                          : guard::tcp_frame(source.c_str(), server.c_str(), in_.take<uint8_t>());
    return {frame.span().begin(), frame.span().end()};
  }

  void send(const std::vector<std::byte>& frame) {
    packets_++;
    forwarded_ += bed_.send(now_, frame) ? 1 : 0;
    now_ = now_ + microseconds(100);
  }

  void check() {
    uint64_t forwarded = 0;
    uint64_t packets = 0;
    for (uint32_t i = 0; i < static_cast<uint32_t>(Outcome::kViolation); i++) {
      const uint64_t count = bed_.state().counters()[i].packets;
      packets += count;
      if (i <= static_cast<uint32_t>(Outcome::kNotIp)) forwarded += count;
    }
    EXPECT_EQ(packets, packets_);
    EXPECT_EQ(forwarded, forwarded_);
    EXPECT_LE(bed_.state().suspect_count(), 64U);
    EXPECT_LE(bed_.state().destination_count(), 64U);
    const auto culprits = bed_.state().report().culprits();
    EXPECT_LE(culprits.size(), 4U);
    for (const guard::Culprit& culprit : culprits) {
      EXPECT_GE(culprit.detected_at, culprit.above_since);
      EXPECT_LT(guard::to_text(culprit).size(), 400U);
    }
  }

  InputReader& in_;
  Bed bed_;
  Instant now_;
  uint64_t packets_ = 0;
  uint64_t forwarded_ = 0;
};

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  Run(in).steps();
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const uint32_t action : {0U, 1U, 2U}) {
    InputWriter in;
    in.put8({2, action, 4, action, 6, action, 0, 0});
    // A loud source for three seconds, then silence until it recovers, and a handshake.
    for (uint32_t second = 0; second < 12; second++) {
      in.put8({kRepeated, 1, 2, 3, 1, 0x02, 31, kTime, 25});
    }
    in.put8({kTime, 255, kTime, 255});
    in.put8({kRepeated, 1, 9, 3, 1, 0x02, 0, kRepeated, 1, 9, 3, 1, 0x10, 0});
    all.push_back(in.bytes());
  }
  InputWriter damaged;
  damaged.put8({0, 0, 0, 0, 0, 0, 1, 1});
  damaged.put8({kDamaged, 0, 1, 2, 0, 2, 14, 0x46, 23, 0xff});
  all.push_back(damaged.bytes());
  return all;
}

TRIB_FUZZ_TARGET(guard);

}  // namespace
}  // namespace tributary::fuzz
