// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked ends and tensors of two and three channels.
#include "host/group_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::host {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

GroupState three() {
  GroupState state;
  for (uint32_t i = 1; i <= 3; i++) state.add({.text = " (place)", .aggregator = i});
  return state;
}

TEST(GroupState, FirstEndEndsTheOthersAndNamesTheLostAggregator) {
  GroupState state = three();
  EXPECT_FALSE(state.failure().has_value());
  EXPECT_THAT(state.note_end(1, {Status::kAggregatorGone, "it is gone"}), ElementsAre(0, 2));
  ASSERT_TRUE(state.failure().has_value());
  EXPECT_EQ(state.failure()->status, Status::kAggregatorGone);
  EXPECT_EQ(state.failure()->text, "it is gone (place)");
  EXPECT_EQ(state.failure()->lost_aggregator, 2U);
}

TEST(GroupState, RestartedAggregatorIsLostToo) {
  GroupState state = three();
  (void)state.note_end(2, {Status::kSessionLost, "it was restarted"});
  EXPECT_EQ(state.failure()->status, Status::kSessionLost);
  EXPECT_EQ(state.failure()->lost_aggregator, 3U);
}

TEST(GroupState, AggregatorThatEvictsThisRankIsNotLost) {
  GroupState state = three();
  EXPECT_THAT(state.note_end(0, evicted({})), ElementsAre(1, 2));
  EXPECT_EQ(state.failure()->status, Status::kSessionLost);
  EXPECT_THAT(state.failure()->text, EndsWith(" (place)"));
  EXPECT_EQ(state.failure()->lost_aggregator, 0U);
}

// Aggregator 1 lives: it says that another rank has lost aggregator 3.
TEST(GroupState, AggregatorThatAnotherRankHasLostIsPassedOn) {
  GroupState state = three();
  EXPECT_THAT(state.note_end(0, {Status::kAggregatorGone, "rank 2 has lost aggregator 3", 3}),
              ElementsAre(1, 2));
  EXPECT_EQ(state.failure()->text, "rank 2 has lost aggregator 3");
  EXPECT_EQ(state.failure()->lost_aggregator, 3U);
}

TEST(GroupState, LaterEndsChangeNothing) {
  GroupState state = three();
  EXPECT_THAT(state.note_end(2, {Status::kPeerMissing, "a rank is late"}), ElementsAre(0, 1));
  EXPECT_THAT(state.note_end(0, {Status::kAggregatorGone, "it is gone"}), IsEmpty());
  EXPECT_EQ(state.failure()->status, Status::kPeerMissing);
  EXPECT_EQ(state.failure()->lost_aggregator, 0U);
}

TEST(GroupState, ClosedCommunicatorHasNoPlace) {
  GroupState state = three();
  EXPECT_THAT(state.note_end(0, {Status::kClosed, "closed"}), ElementsAre(1, 2));
  EXPECT_EQ(state.failure()->text, "closed");
}

/// Returns the parts of a tensor of 40 elements: 16 and 24.
std::vector<TensorPart> two_parts(std::vector<int32_t>& tensor) {
  Transfer whole;
  whole.integers = tensor;
  std::vector<TensorPart> parts;
  for (const plan::Part& part : {plan::Part{0, 0, 16}, plan::Part{1, 16, 24}}) {
    parts.push_back({.element_first = part.element_first, .transfer = transfer_of(whole, part)});
    parts.back().transfer.outcome.blocks = part.element_count / 8;
  }
  return parts;
}

TEST(GroupState, OutcomesOfPartsBecomeOne) {
  std::vector<int32_t> tensor(40);
  auto parts = two_parts(tensor);
  parts[1].transfer.outcome.degraded.push_back(
      {.element_first = 8, .element_count = 8, .sources = {}});
  const Outcome outcome = three().merge(parts);
  EXPECT_EQ(outcome.status, Status::kOk);
  EXPECT_EQ(outcome.blocks, 5U);
  ASSERT_EQ(outcome.degraded.size(), 1U);
  EXPECT_EQ(outcome.degraded[0].element_first, 24U);
}

TEST(GroupState, FailedTensorHasTheFirstFailure) {
  std::vector<int32_t> tensor(40);
  auto parts = two_parts(tensor);
  parts[0].transfer.outcome.status = Status::kAggregatorGone;
  parts[0].transfer.outcome.text = "of this channel";
  GroupState state = three();
  (void)state.note_end(0, {Status::kAggregatorGone, "it is gone"});
  const Outcome outcome = state.merge(parts);
  EXPECT_EQ(outcome.status, Status::kAggregatorGone);
  EXPECT_EQ(outcome.text, "it is gone (place)");
}

TEST(GroupState, CutsByWeight) {
  GroupState state = three();
  state.set_cut(/*gradients=*/8, /*narrow_gradients=*/16, {1, 0, 3});
  Transfer transfer;
  transfer.elided_elements = 8 * 400;
  EXPECT_THAT(state.cut(transfer),
              ElementsAre(plan::Part{0, 0, 8 * 100}, plan::Part{2, 8 * 100, 8 * 300}));
  // Parts are whole blocks, which are twice as large with 16-bit gradients.
  transfer.elided_elements = 16 * 400 + 1;
  transfer.format = wire::ElementFormat::kBlockExponent16;
  EXPECT_THAT(state.cut(transfer),
              ElementsAre(plan::Part{0, 0, 16 * 100}, plan::Part{2, 16 * 100, 16 * 300 + 1}));
}

TEST(GroupState, EachPriorityHasChannelsOfItsOwn) {
  GroupState state;
  for (const uint32_t priority : {0U, 0U, 1U}) state.add({.priority = priority});
  state.set_cut(/*gradients=*/8, /*narrow_gradients=*/16, {1, 3, 1});
  Transfer transfer;
  transfer.elided_elements = 8 * 400;
  EXPECT_THAT(state.cut(transfer),
              ElementsAre(plan::Part{0, 0, 8 * 100}, plan::Part{1, 8 * 100, 8 * 300}));
  for (const uint32_t priority : {1U, 7U}) {
    transfer.priority = priority;
    EXPECT_THAT(state.cut(transfer), ElementsAre(plan::Part{2, 0, 8 * 400}));
  }
}

// Small tensors too: every push to an asynchronous job has all parameters.
TEST(GroupState, FixedSharesAreTheSameForEveryTensor) {
  GroupState state = three();
  state.set_cut(/*gradients=*/8, /*narrow_gradients=*/16, {1, 1, 2});
  state.fix_shares({{.before = 0, .own = 1, .all = 4},
                    {.before = 1, .own = 1, .all = 4},
                    {.before = 2, .own = 2, .all = 4}});
  Transfer transfer;
  transfer.elided_elements = 8 * 8 - 3;
  for (uint32_t i = 0; i < 3; i++) {
    EXPECT_THAT(state.cut(transfer),
                ElementsAre(plan::Part{0, 0, 16}, plan::Part{1, 16, 16}, plan::Part{2, 32, 29}));
  }
  // One block is the last aggregator's.
  transfer.elided_elements = 5;
  EXPECT_THAT(state.cut(transfer), ElementsAre(plan::Part{2, 0, 5}));
}

}  // namespace
}  // namespace tributary::host
