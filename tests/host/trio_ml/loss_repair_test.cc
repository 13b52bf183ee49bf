// SPDX-License-Identifier: Apache-2.0
// Method: timeouts and overtaken positions worked by hand from the first timeout (20 ms, before
// any sample). Then a disabled repair. Last, a lossy aggregator that has to complete every
// position. Virtual time only.
#include "host/trio_ml/loss_repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

static_assert(RttEstimator::kInitial == milliseconds(20), "the times below are worked from it");

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

/// A repair with the window [0, sent), whose positions were all sent at 0 ms.
class LossRepairTest : public ::testing::Test {
 protected:
  void begin(uint64_t positions, LossRepair::Config config = {.window = 8}) {
    repair.open(config);
    for (; next < positions; next++) {
      repair.begin(next);
      repair.on_contribution_sent(next, at_ms(0));
    }
  }
  /// Probes every position that is due at `now` and returns these positions.
  std::vector<uint64_t> probe(Instant now) {
    if (now >= repair.next_scan()) repair.scan(0, next, now);
    std::vector<uint64_t> positions;
    while (const auto request = repair.take_request(0, next)) {
      EXPECT_FALSE(request->data_wanted);
      positions.push_back(request->position);
      repair.on_probe_sent(request->position, /*about_run=*/false, now);
    }
    return positions;
  }
  void result(uint64_t position, Instant now) {
    repair.on_heard(now);
    repair.on_result(position, now);
  }

  LossRepair repair{at_ms(0)};
  uint64_t next = 0;
};

TEST_F(LossRepairTest, TimeoutsDoubleWhileTheAggregatorIsSilent) {
  begin(1);
  EXPECT_EQ(repair.next_scan(), at_ms(20));
  EXPECT_THAT(probe(at_ms(19)), IsEmpty());
  EXPECT_THAT(probe(at_ms(20)), ElementsAre(0));
  EXPECT_EQ(repair.attempts(0), 2U);
  EXPECT_EQ(repair.next_scan(), at_ms(60));  // 20 + 2 * 20.
  EXPECT_THAT(probe(at_ms(60)), ElementsAre(0));
  EXPECT_EQ(repair.next_scan(), at_ms(140));  // 60 + 4 * 20.
}

TEST_F(LossRepairTest, TimeoutsFollowTheResults) {
  begin(1);
  result(0, at_ms(16));
  repair.begin(1);
  repair.on_contribution_sent(1, at_ms(16));
  next = 2;
  EXPECT_THAT(probe(at_ms(47)), IsEmpty());
  EXPECT_THAT(probe(at_ms(48)), ElementsAre(1));  // 16 + twice 16.
}

TEST_F(LossRepairTest, AResultEndsTheQuestions) {
  begin(1);
  result(0, at_ms(5));
  EXPECT_THAT(probe(at_ms(500)), IsEmpty());
}

TEST_F(LossRepairTest, OfALateWindowOnlyTheOldestIsProbed) {
  begin(4);
  EXPECT_THAT(probe(at_ms(20)), ElementsAre(0));
}

TEST_F(LossRepairTest, ALossDoublesTheNumberOfProbes) {
  begin(4);
  EXPECT_THAT(probe(at_ms(20)), ElementsAre(0));
  repair.on_heard(at_ms(21));
  repair.on_have(0, /*lost=*/true, at_ms(21));
  EXPECT_EQ(repair.next_scan(), at_ms(21));
  const auto request = repair.take_request(0, next);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->position, 0U);
  EXPECT_TRUE(request->data_wanted);
  repair.on_contribution_sent(0, at_ms(21));
  EXPECT_THAT(probe(at_ms(21)), ElementsAre(1, 2));  // A proven loss doubles the probes.
}

TEST_F(LossRepairTest, ThreeLaterResultsOvertakeAPosition) {
  begin(4);
  result(1, at_ms(1));
  result(2, at_ms(1));
  EXPECT_FALSE(repair.has_requests());
  result(3, at_ms(1));
  EXPECT_THAT(probe(at_ms(1)), ElementsAre(0));
}

// The answer to 0 came later than three others, but sooner after its probe than any answer: it was
// on its way. So the next position is overtaken by six. A loss found so halves the six.
TEST_F(LossRepairTest, LateResultsRaiseTheNumberThatOvertakes) {
  begin(24, {.window = 32});
  for (const uint64_t position : {1, 2, 3}) result(position, at_ms(4));
  EXPECT_THAT(probe(at_ms(4)), ElementsAre(0));
  result(0, at_ms(5));
  for (const uint64_t position : {5, 6, 7, 8, 9}) result(position, at_ms(5));
  EXPECT_THAT(probe(at_ms(5)), IsEmpty());
  result(10, at_ms(5));
  EXPECT_THAT(probe(at_ms(5)), ElementsAre(4));
  repair.on_have(4, /*lost=*/true, at_ms(9));
  EXPECT_TRUE(repair.take_request(0, next)->data_wanted);
  repair.on_contribution_sent(4, at_ms(9));
  for (const uint64_t position : {12, 13}) result(position, at_ms(9));
  EXPECT_THAT(probe(at_ms(9)), IsEmpty());
  result(14, at_ms(9));
  EXPECT_THAT(probe(at_ms(9)), ElementsAre(11));
}

TEST_F(LossRepairTest, AHeldPositionIsProbedHalfAsOften) {
  begin(1);
  EXPECT_THAT(probe(at_ms(20)), ElementsAre(0));
  repair.on_heard(at_ms(21));
  repair.on_have(0, /*lost=*/false, at_ms(21));
  EXPECT_THAT(probe(at_ms(21)), IsEmpty());
  EXPECT_EQ(repair.next_scan(), at_ms(100));  // 20 + twice 20, doubled after one probe.
}

TEST_F(LossRepairTest, WithMitigationAnEighthOfTheStragglerTimeoutIsTheLimit) {
  begin(1, {.window = 8, .straggler_timeout = milliseconds(16)});
  EXPECT_THAT(probe(at_ms(2)), ElementsAre(0));
  EXPECT_THAT(probe(at_ms(4)), ElementsAre(0));
}

TEST_F(LossRepairTest, ASilentAggregatorIsProbedSoonAfterItReturns) {
  begin(1);
  for (const int64_t ms : {20, 60, 140}) EXPECT_THAT(probe(at_ms(ms)), ElementsAre(0));
  EXPECT_EQ(repair.next_scan(), at_ms(240));
  repair.on_heard(at_ms(150));
  EXPECT_EQ(repair.next_scan(), at_ms(170));
  EXPECT_EQ(repair.last_heard_at(), at_ms(150));
}

TEST_F(LossRepairTest, DisabledItNeverAsks) {
  begin(4, {.window = 8, .enabled = false});
  for (uint64_t position = 1; position < 4; position++) result(position, at_ms(1));
  EXPECT_FALSE(repair.has_requests());
  EXPECT_THAT(probe(at_ms(500)), IsEmpty());
}

TEST_F(LossRepairTest, AQueuedPositionWithAResultIsDropped) {
  begin(1);
  repair.scan(0, next, at_ms(20));
  EXPECT_TRUE(repair.has_requests());
  result(0, at_ms(20));
  EXPECT_FALSE(repair.take_request(0, next).has_value());
  EXPECT_FALSE(repair.has_requests());
}

TEST_F(LossRepairTest, ClearEmptiesTheQueue) {
  begin(1);
  repair.scan(0, next, at_ms(20));
  repair.clear();
  EXPECT_FALSE(repair.has_requests());
}

// --- Answers about a run ---

class LossRepairRun : public LossRepairTest {
 protected:
  /// Probes every run that is due. Returns the positions of the probes; keeps the last number.
  std::vector<uint64_t> probe_runs(Instant now) {
    if (now >= repair.next_scan()) repair.scan(0, next, now);
    std::vector<uint64_t> positions;
    while (const auto request = repair.take_request(0, next)) {
      EXPECT_FALSE(request->data_wanted);
      positions.push_back(request->position);
      number = repair.on_probe_sent(request->position, /*about_run=*/true, now);
    }
    return positions;
  }
  /// Answers the probe of position 0, which has arrived.
  void answer(const LossRepair::RunAnswer& about, Instant now) {
    repair.on_heard(now);
    repair.on_have_run(0, /*lost=*/false, about, next, now);
  }
  /// Returns the queued positions and sends what each wants.
  std::vector<uint64_t> take(bool data_wanted, Instant now) {
    std::vector<uint64_t> positions;
    while (const auto request = repair.take_request(0, next)) {
      EXPECT_EQ(request->data_wanted, data_wanted) << "position " << request->position;
      positions.push_back(request->position);
      if (request->data_wanted) {
        repair.on_contribution_sent(request->position, now);
      } else {
        repair.on_probe_sent(request->position, /*about_run=*/true, now);
      }
    }
    return positions;
  }
  uint32_t number = 0;
};

constexpr wire::RunMask kAll{~uint64_t{0}, ~uint64_t{0}};

TEST_F(LossRepairRun, OneProbeAsksAboutEachRun) {
  begin(200, {.window = 256});
  EXPECT_THAT(probe_runs(at_ms(20)), ElementsAre(0, 128));
  EXPECT_THAT(probe_runs(at_ms(21)), IsEmpty());
}

TEST_F(LossRepairRun, EveryMissingContributionIsRetransmittedAtOnce) {
  begin(10, {.window = 16});
  EXPECT_THAT(probe_runs(at_ms(20)), ElementsAre(0));  // Packet 10.
  wire::RunMask present = kAll;
  present[0] &= ~((1U << 4) | (1U << 7) | (1U << 8));
  answer({number, present, {}}, at_ms(21));
  // 8 was sent two packets before the probe, so the probe may have overtaken it.
  EXPECT_THAT(take(/*data_wanted=*/true, at_ms(21)), ElementsAre(4, 7));
}

TEST_F(LossRepairRun, OneAnswerRetransmitsOnce) {
  begin(10, {.window = 16});
  EXPECT_THAT(probe_runs(at_ms(20)), ElementsAre(0));
  const LossRepair::RunAnswer about{number, {}, {}};
  answer(about, at_ms(21));
  EXPECT_THAT(take(/*data_wanted=*/true, at_ms(21)), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  answer(about, at_ms(21));  // A duplicate. The retransmissions were sent after the probe.
  EXPECT_THAT(take(/*data_wanted=*/true, at_ms(21)), IsEmpty());
}

TEST_F(LossRepairRun, LostResultsAreRequested) {
  begin(10, {.window = 16});
  EXPECT_THAT(probe_runs(at_ms(20)), ElementsAre(0));
  answer({number, kAll, {1U << 2 | 1U << 5, 0}}, at_ms(21));
  EXPECT_THAT(take(/*data_wanted=*/false, at_ms(21)), ElementsAre(2, 5));
}

TEST_F(LossRepairRun, ANumberThatWasNeverSentProvesNothing) {
  begin(10, {.window = 16});
  EXPECT_THAT(probe_runs(at_ms(20)), ElementsAre(0));
  answer({number + 1, {}, {}}, at_ms(20));
  EXPECT_FALSE(repair.has_requests());
  answer({number - 11, {}, {}}, at_ms(20));
  EXPECT_FALSE(repair.has_requests());
}

/// An aggregator for one worker, behind a link that loses packets both ways. A result or kHave
/// arrives a millisecond after the packet that it answers.
class LossyAggregator {
 public:
  LossyAggregator(LossRepair& repair, testing::Prng& prng) : repair_(repair), prng_(prng) {}

  void send_contribution(uint64_t position, Instant now) {
    repair_.on_contribution_sent(position, now);
    if (lost()) return;
    held_.insert(position);
    answer(position, /*result=*/true, now);
  }
  void send_probe(uint64_t position, Instant now) {
    repair_.on_probe_sent(position, /*about_run=*/false, now);
    if (!lost()) answer(position, held_.contains(position), now);
  }
  /// Delivers the answers that are due. The positions with a result join `done`.
  void deliver(Instant now, std::set<uint64_t>& done) {
    while (!answers_.empty() && answers_.begin()->first <= now) {
      const auto [position, result] = answers_.begin()->second;
      answers_.erase(answers_.begin());
      repair_.on_heard(now);
      if (done.contains(position)) continue;
      if (result) {
        repair_.on_result(position, now);
        done.insert(position);
      } else {
        repair_.on_have(position, /*lost=*/true, now);
      }
    }
  }

 private:
  bool lost() { return prng_.chance(0.2); }
  void answer(uint64_t position, bool result, Instant now) {
    if (!lost()) answers_.emplace(now + milliseconds(1), std::pair(position, result));
  }

  LossRepair& repair_;
  testing::Prng& prng_;
  std::set<uint64_t> held_;
  std::multimap<Instant, std::pair<uint64_t, bool>> answers_;
};

TEST(LossRepairWalk, EveryPositionGetsItsResultThroughALossyLink) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  constexpr uint64_t kWindow = 7;  // Not a power of two.
  constexpr uint64_t kPositions = 2000;
  LossRepair repair(at_ms(0));
  repair.open({.window = kWindow});
  LossyAggregator aggregator(repair, prng);
  std::set<uint64_t> done;
  uint64_t base = 0;
  uint64_t next = 0;
  Instant now = at_ms(0);
  while (base < kPositions) {
    ASSERT_LT(now, Instant(seconds(2000))) << "position " << base << " is stuck";
    aggregator.deliver(now, done);
    while (base < next && done.contains(base)) base++;
    if (now >= repair.next_scan()) repair.scan(base, next, now);
    while (const auto request = repair.take_request(base, next)) {
      ASSERT_FALSE(done.contains(request->position));
      ASSERT_TRUE(request->position >= base && request->position < next);
      if (request->data_wanted) {
        aggregator.send_contribution(request->position, now);
      } else {
        aggregator.send_probe(request->position, now);
      }
    }
    for (; next < kPositions && next < base + kWindow; next++) {
      repair.begin(next);
      aggregator.send_contribution(next, now);
    }
    now = now + microseconds(500);
  }
}

}  // namespace
}  // namespace tributary::host
