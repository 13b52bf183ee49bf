// SPDX-License-Identifier: Apache-2.0
// The meeting point of SwitchML workers: a sequence of calls, of callers that disconnect, and time.
// Every call is answered once or cancelled.
#include <set>
#include <string>

#include "server/switchml/rendezvous.h"
#include "tests/fuzz/fuzz_input.h"

namespace tributary::fuzz {
namespace {

using server::Rendezvous;

constexpr uint32_t kStepsMax = 128;
constexpr size_t kTextBytesMax = 2048;

enum Step : uint32_t { kBroadcast, kBarrier, kCancel, kWait, kStepKinds };

class Run {
 public:
  explicit Run(InputReader& in) : in_(in) {}

  void steps() {
    for (uint32_t i = 0; i < kStepsMax && !in_.at_end(); i++) {
      step();
      take_answers();
    }
    now_ = now_ + seconds(11);
    rendezvous_.on_time(now_);
    take_answers();
    EXPECT_TRUE(open_.empty()) << open_.size() << " calls without an answer";
    EXPECT_EQ(rendezvous_.next_deadline(), Instant::never());
  }

 private:
  void step() {
    const std::string peer = "10.0.0." + std::to_string(in_.below(4)) + ":1";
    switch (in_.below(kStepKinds)) {
      case kBroadcast: {
        Rendezvous::Broadcast request;
        request.value = in_.take<uint8_t>();
        request.rank = small();
        request.num_workers = small();
        request.root = small();
        open_.insert(rendezvous_.broadcast(peer, request, now_));
        return;
      }
      case kBarrier:
        open_.insert(rendezvous_.barrier(peer, small(), now_));
        return;
      case kCancel:
        if (open_.empty()) return;
        rendezvous_.cancel(*open_.begin());
        open_.erase(open_.begin());
        return;
      default:
        now_ = now_ + milliseconds(1) * in_.take<uint16_t>();
        return rendezvous_.on_time(now_);
    }
  }

  /// Returns a number near the limits: 0 to 3, the most workers and one more, or any.
  uint32_t small() {
    const uint32_t which = in_.below(8);
    if (which < 4) return which;
    return which < 6 ? 28 + which : in_.take<uint32_t>();
  }

  void take_answers() {
    for (const Rendezvous::Answer& answer : rendezvous_.take_answers()) {
      EXPECT_EQ(open_.erase(answer.ticket), 1U);
      EXPECT_LE(answer.text.size(), kTextBytesMax);
    }
  }

  InputReader& in_;
  Instant now_{seconds(100)};
  Rendezvous rendezvous_{seconds(10)};
  std::set<Rendezvous::Ticket> open_;
};

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  Run(in).steps();
}

std::vector<Bytes> seeds() {
  InputWriter job;
  for (const uint32_t rank : {0U, 1U}) job.put8({rank, kBroadcast, 42, rank, 2, 0});
  for (const uint32_t rank : {0U, 1U}) job.put8({rank, kBarrier, 2});
  InputWriter gone;
  gone.put8({1, kBroadcast, 1, 1, 2, 0, 0, kCancel, 0, kBroadcast, 1, 0, 2, 0, 0, kWait});
  gone.put(uint16_t{10'001});
  return {job.bytes(), gone.bytes()};
}

TRIB_FUZZ_TARGET(switchml_rendezvous);

}  // namespace
}  // namespace tributary::fuzz
