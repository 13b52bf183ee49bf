// SPDX-License-Identifier: Apache-2.0
// Method: each text in full, because users and their scripts read it.
#include "host/worker_errors.h"

#include <gtest/gtest.h>

#include <bit>

namespace tributary::host {
namespace {

using wire::ControlBody;
using wire::ElementFormat;
using wire::Reason;
using wire::TensorTerms;

/// Rank 1 of 4 at job 7.
CommunicatorConfig small_config() {
  CommunicatorConfig config;
  config.server = Endpoint::ipv4(0x0a000001, 12000);
  config.job_id = 7;
  config.rank = 1;
  config.world = 4;
  return config;
}

std::string refusal(Reason reason, uint32_t value) {
  ControlBody body;
  body.reason = reason;
  body.value = value;
  const EndReason reason_for_end = refused(small_config(), 352, body);
  EXPECT_EQ(reason_for_end.status, Status::kRefused);
  return reason_for_end.text;
}

TEST(WorkerErrors, RefusalsNameTheValueAndTheLimit) {
  EXPECT_EQ(refusal(Reason::kUnknownJob, 0), "aggregator 10.0.0.1:12000 has no job 7");
  EXPECT_EQ(refusal(Reason::kSourceOutsideJob, 3),
            "rank 1 is outside job 7 at 10.0.0.1:12000: its sources are 0 to 2");
  EXPECT_EQ(refusal(Reason::kWrongWorld, 8), "job 7 at 10.0.0.1:12000 has 8 ranks, not 4");
  EXPECT_EQ(refusal(Reason::kTooManyGradients, 64),
            "job 7 at 10.0.0.1:12000 takes at most 64 gradients a packet, not 352");
  EXPECT_EQ(
      refusal(Reason::kOtherList, 0),
      "the upper aggregator above 10.0.0.1:12000 is a directory, which serves ranks only; give "
      "job 7 another upstream=");
  EXPECT_EQ(refusal(Reason::kNone, 0), "aggregator 10.0.0.1:12000 refuses rank 1 of job 7");
}

TEST(WorkerErrors, WarnsOfLostPrecision) {
  Outcome outcome;
  outcome.blocks = 40;
  outcome.underflow = {.nonzero = 640, .underflowed = 10};
  EXPECT_EQ(precision_warning(outcome, ElementFormat::kFixedScale, 1e8F), "");  // One in 64.
  outcome.underflow.underflowed = 11;
  EXPECT_EQ(precision_warning(outcome, ElementFormat::kFixedScale, 1e8F),
            "11 of 640 non-zero elements were too small and counted as 0; below 5e-09 (half of "
            "1 / scale) nothing is left: use a larger scale or format=exponent");
  EXPECT_EQ(precision_warning(outcome, ElementFormat::kBlockExponent, 1.0F),
            "11 of 640 non-zero elements were too small and counted as 0; they lie in one packet "
            "with much larger ones: reduce them in a call of their own");
  outcome.underflow = {};
  outcome.degraded.resize(3);
  EXPECT_EQ(precision_warning(outcome, ElementFormat::kBlockExponent, 1.0F), "");
  outcome.degraded[1].imprecise = true;
  EXPECT_EQ(precision_warning(outcome, ElementFormat::kBlockExponent, 1.0F),
            "1 of 40 blocks lost precision, because a straggler missed the round that agreed on "
            "their exponents");
}

TEST(WorkerErrors, JoinsThatFail) {
  const CommunicatorConfig config = small_config();
  EXPECT_EQ(no_answer(config.server, milliseconds(1500)).text,
            "aggregator 10.0.0.1:12000 does not answer (waited 1.5 s)");
  EXPECT_EQ(rank_taken(config).text,
            "rank 1 of job 7 is taken by another worker, which the aggregator has heard lately");
  EXPECT_EQ(job_in_use(config).text, "job 7 is still in use by another session");
  EXPECT_EQ(ranks_not_joined(config, "2, 3", seconds(60), /*is_tree=*/false).text,
            "rank 2, 3 has not joined job 7 within 60.0 s");
  EXPECT_EQ(ranks_not_joined(config, "", seconds(60), /*is_tree=*/true).text,
            "a rank behind another aggregator has not joined job 7 within 60.0 s");
  EXPECT_EQ(ranks_not_joined(config, "", seconds(60), /*is_tree=*/false).text,
            "some rank has not joined job 7 within 60.0 s");
  EXPECT_EQ(no_answer(config.server, seconds(1), /*other_version=*/3).text,
            "aggregator 10.0.0.1:12000 has version 3 of the protocol, and this worker version 2; "
            "run the same release on both");
}

TEST(WorkerErrors, JoinsNameTheirListWhereOthersMayDiffer) {
  CommunicatorConfig config = small_config();
  config.aggregators = {{.name = "a:1"}, {.name = "b:2", .weight = 3}};
  EXPECT_EQ(ranks_not_joined(config, "2", seconds(5), /*is_tree=*/false).text,
            "rank 2 has not joined job 7 within 5.0 s; if it runs, its list of aggregators may "
            "differ from this rank's, a:1,b:2=3");
  EXPECT_EQ(rank_taken(config).text,
            "rank 1 of job 7 is taken by another worker, which the aggregator has heard lately, or "
            "two entries of its list are one aggregator: a:1,b:2=3");
  CommunicatorConfig alone = config;
  alone.aggregators.pop_back();
  alone.auth.mode = auth::Mode::kHeader;
  EXPECT_EQ(
      ranks_not_joined(alone, "2", seconds(5), /*is_tree=*/false).text,
      "rank 2 has not joined job 7 within 5.0 s; if it runs, its aggregator or its secret may "
      "differ from this rank's, a:1");
  wire::ControlBody refusal;
  refusal.reason = Reason::kListsDiffer;
  refusal.value = 3;
  EXPECT_EQ(refused(config, 4, refusal).text,
            "rank 3 of job 7 has another list of aggregators than rank 0; give every rank the same "
            "list; rank 1 has a:1,b:2=3");
  refusal.reason = Reason::kRanksOverlap;
  refusal.group = Endpoint::ipv4(0x0a000009, 12000);
  EXPECT_EQ(refused(config, 4, refusal).text,
            "rank 3 of job 7 is served by two aggregators below 10.0.0.9:12000: check their "
            "rank_base; 10.0.0.9:12000 is the upper aggregator of 10.0.0.1:12000");
  config.from_directory = true;  // The directory gave it, and will give the same to others.
  EXPECT_EQ(ranks_not_joined(config, "2", seconds(5), /*is_tree=*/false).text,
            "rank 2 has not joined job 7 within 5.0 s");
}

TEST(WorkerErrors, SessionsThatEnd) {
  const CommunicatorConfig config = small_config();
  EXPECT_EQ(closed().text, "the communicator was closed");
  EXPECT_EQ(aggregator_silent(config.server, seconds(2)).text,
            "aggregator 10.0.0.1:12000 has not answered for 2.0 s");
  EXPECT_EQ(ranks_missing(config.server, "3", 9, seconds(60)).text,
            "rank 3 has not contributed to block 9 for 60.0 s (aggregator 10.0.0.1:12000 answers)");
  EXPECT_EQ(unknown_rank_missing(config.server, /*upstream=*/true, 9, seconds(60), seconds(0)).text,
            "block 9 is not complete after 60.0 s: a rank behind another aggregator has not "
            "contributed");
  EXPECT_EQ(session_lost(config.server).text,
            "aggregator 10.0.0.1:12000 was restarted or has ended this session");
  EXPECT_EQ(past_cache(config, 9).text,
            "rank 1 is too far behind: block 9 is no longer kept at 10.0.0.1:12000; rejoin with "
            "fresh parameters");
  EXPECT_EQ(peer_left(config, "rank 2", /*lost_aggregator=*/3, 9).status, Status::kPeerLeft);
  CommunicatorConfig sharded = config;
  sharded.aggregators = {{.name = "a:1"}, {.name = "b:2"}};
  EXPECT_EQ(peer_left(sharded, "rank 2", /*lost_aggregator=*/2, 9).text,
            "rank 2 has lost aggregator b:2 (2 of 2) and left job 7");
  EXPECT_EQ(peer_left(config, "rank 2", /*lost_aggregator=*/0, 9).text,
            "rank 2 has left job 7 while block 9 waits for it");
}

TEST(WorkerErrors, AggregatorsOfATreeAreNamedByTheirLevel) {
  const CommunicatorConfig config = small_config();
  const Endpoint upper = Endpoint::ipv4(0x0a000009, 12000);
  EXPECT_EQ(upper_aggregator_silent(config, upper, milliseconds(3200)).text,
            "upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) has not answered for 3.2 s: "
            "start it, or check upstream= of job 7 and the network between them");
  EXPECT_EQ(upper_aggregator_silent(config, upper, seconds(1)).status, Status::kAggregatorGone);
  EXPECT_EQ(
      others_not_joined(config, upper, seconds(60)).text,
      "upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) waits for its other aggregators "
      "to join job 7 (waited 60.0 s): run tributary who there");
  EXPECT_EQ(
      session_lost(config.server, upper).text,
      "upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) was restarted or has ended this "
      "session");
  EXPECT_EQ(aggregator_stopped(config.server, upper).text,
            "upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) was stopped");
  EXPECT_EQ(job_removed(config, upper).text,
            "job 7 was removed from upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) by its "
            "operator");
  EXPECT_EQ(evicted(config, upper).text,
            "aggregator 10.0.0.1:12000 was removed from job 7 by the operator of upper aggregator "
            "10.0.0.9:12000");
  EXPECT_EQ(peer_silent("rank 3, 4", upper, milliseconds(3500), 9).text,
            "lower aggregator 10.0.0.9:12000 (rank 3, 4) has sent nothing to the upper one for 3.5 "
            "s (block 9 waits)");
  EXPECT_EQ(peer_silent("rank 3", {}, milliseconds(3500), 9).text,
            "rank 3 has sent nothing to the aggregator for 3.5 s (block 9 waits)");
  EXPECT_EQ(refused(config, 352, {.reason = wire::Reason::kUnknownJob, .group = upper}).text,
            "aggregator 10.0.0.9:12000 has no job 7; 10.0.0.9:12000 is the upper aggregator of "
            "10.0.0.1:12000");
  EXPECT_EQ(
      refused(config, 352, {.reason = wire::Reason::kSourceOutsideJob, .value = 2, .group = upper})
          .text,
      "upstream_source is outside job 7 at 10.0.0.9:12000: its sources are 0 to 1; 10.0.0.9:12000 "
      "is the upper aggregator of 10.0.0.1:12000");
}

TEST(WorkerErrors, AMismatchNamesBothTensors) {
  const TensorTerms given{.format = ElementFormat::kFixedScale,
                          .tensor_elements = 10,
                          .scale_bits = std::bit_cast<uint32_t>(2.0F) | wire::kScaleBitMean};
  const TensorTerms expected{.format = ElementFormat::kInt32, .tensor_elements = 12};
  EXPECT_EQ(mismatch("rank 1", given, "rank 0, 2", expected, 9).text,
            "rank 1 gives the mean of 10 float32 at scale 2 where rank 0, 2 gave the sum of 12 "
            "int32 (block 9); all ranks must make the same calls");
}

TEST(WorkerErrors, AMismatchWithoutADifferenceInTerms) {
  const TensorTerms terms{.format = ElementFormat::kInt32, .tensor_elements = 12};
  EXPECT_EQ(mismatch("rank 1", terms, "rank 0", terms, 9).text,
            "rank 1 gives the sum of 12 int32 in another call, or in packets of another size, "
            "where rank 0 gave the sum of 12 int32 (block 9); all ranks must make the same calls");
  EXPECT_EQ(mismatch("rank 1", {}, "rank 0", {}, 9).text,
            "rank 1 and rank 0 disagree about a tensor (block 9)");
}

TEST(WorkerErrors, SumsThatFail) {
  EXPECT_EQ(overflow_text(ElementFormat::kFixedScale, 100.0F, 4),
            "a value times the scale 100 does not fit into a sum of 4 ranks; use a smaller scale");
  EXPECT_EQ(overflow_text(ElementFormat::kBlockExponent, 1.0F, 4),
            "a straggler's values are more than 256 times those of the ranks in time");
  EXPECT_EQ(not_finite_text(), "a rank's tensor holds an infinity or a NaN");
}

TEST(WorkerErrors, AtMostEightRanksAreNamed) {
  SourceSet ranks{};
  EXPECT_EQ(ranks_text(ranks, "nobody"), "nobody");
  ranks[0] = 0b1010;
  ranks[1] = 1;
  EXPECT_EQ(ranks_text(ranks, "nobody"), "rank 1, 3, 64");
  ranks = {0x3ff, 0, 0, 0};  // 10 ranks.
  EXPECT_EQ(ranks_text(ranks, "nobody"), "rank 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

TEST(WorkerErrors, MissingRanksCountFromTheRankBase) {
  SourceSet present{};
  present[0] = 0b0101;
  EXPECT_EQ(missing_ranks(present, /*sources=*/4, /*rank_base=*/8), "9, 11");
  EXPECT_EQ(missing_ranks(present, /*sources=*/1, /*rank_base=*/8), "");
}

}  // namespace
}  // namespace tributary::host
