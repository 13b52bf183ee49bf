// SPDX-License-Identifier: Apache-2.0
// Method: two lower aggregators below one, three workers below each lower one; packets are carried
// by hand between their ports. Sums and source sets by hand, each link losing each packet once,
// sessions through the tree, then a network that loses and doubles at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

#include "tests/apps/trio_ml/bed.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;

constexpr uint32_t kLowerCount = 2;
constexpr uint32_t kBelow = 3;  // Workers below each.
constexpr uint32_t kRanks = kLowerCount * kBelow;
constexpr Duration kTimeout = milliseconds(10);

Endpoint upper_address() { return Endpoint::ipv4(0x0a0000c8, wire::kTrioMlPort); }
Endpoint lower_address(uint32_t index) {
  return Endpoint::ipv4(0x0a0000d0 + index, wire::kTrioMlPort);
}

JobConfig lower_job(uint32_t index, bool mitigation, uint32_t window = 8) {
  return {.id = 1,
          .sources = kBelow,
          .block_cnt_max = window,
          .block_grad_max = 16,
          .mitigation = mitigation,
          .timeout = kTimeout,
          .upstream = upper_address(),
          .upstream_source = index,
          .rank_base = index * kBelow,
          .world = kRanks};
}
JobConfig upper_job(bool mitigation, uint32_t window = 8) {
  return {.id = 1,
          .sources = kLowerCount,
          .block_cnt_max = window,
          .block_grad_max = 16,
          .mitigation = mitigation,
          .timeout = kTimeout * 3,
          .sources_are_aggregators = true,
          .world = kRanks};
}

/// The tree, the workers' mailboxes, and the losses of each link.
class Tree {
 public:
  using Windows = std::array<uint32_t, kLowerCount>;

  /// @param windows Of the lower aggregators. The upper one has the largest.
  explicit Tree(PacketLayer layer, bool mitigation = false, const Windows& windows = {8, 8})
      : upper_({.jobs = {upper_job(mitigation, *std::ranges::max_element(windows))},
                .layer = layer,
                .local = upper_address()}) {
    for (uint32_t i = 0; i < kLowerCount; i++) {
      lower_.push_back(std::make_unique<Bed>(BedConfig{.jobs = {lower_job(i, mitigation, windows[i])},
                                                       .layer = layer,
                                                       .local = lower_address(i)}));
    }
  }

  [[nodiscard]] Bed& upper() { return upper_; }
  [[nodiscard]] Bed& lower(uint32_t index) { return *lower_[index]; }
  [[nodiscard]] Bed& above(uint32_t rank) { return *lower_[rank / kBelow]; }

  /// Sends a worker's packet to its aggregator and carries packets until none is left.
  void send(uint32_t rank, const Bytes& payload) {
    above(rank).deliver(payload, worker(rank));
    carry();
  }
  void contribute(uint32_t rank, uint32_t block_id, const Values& values, uint16_t gen_id = 0) {
    send(rank, plain_bytes(rank % kBelow, block_id, gen_id, values));
  }
  /// Returns the packets that a worker received since the last call.
  std::vector<Reply> take(uint32_t rank) { return std::exchange(mail_[rank], {}); }
  Reply take_result(uint32_t rank) {
    const auto mine = take(rank);
    EXPECT_EQ(mine.size(), 1U) << "rank " << rank;
    return mine.empty() ? Reply{} : mine.front();
  }

  /// Advances the time on all machines.
  void pass(Duration time) {
    const Instant until = upper_.now() + time;
    while (upper_.now() < until) {
      const Instant next = std::min(until, upper_.now() + milliseconds(1));
      upper_.run_until(next);
      for (auto& bed : lower_) bed->run_until(next);
      carry();
    }
  }

  /// Loses `count` packets between aggregators, after `passed` that arrive.
  void lose_after(uint32_t passed, uint32_t count) {
    pass_ = passed;
    lose_ = count;
  }
  /// Starts to lose and duplicate packets between aggregators.
  void set_faults(Prng& prng, double loss, double duplicate) {
    prng_ = &prng;
    loss_ = loss;
    duplicate_ = duplicate;
  }

 private:
  void carry() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Reply& packet : upper_.take()) {
        moved = true;
        across(lower_at(packet.to), packet.bytes, upper_address());
      }
      for (uint32_t i = 0; i < kLowerCount; i++) {
        for (Reply& packet : lower_[i]->take()) {
          if (packet.to == upper_address()) {
            moved = true;
            across(upper_, packet.bytes, lower_address(i));
          } else {
            mail_[packet.to.port - worker(0).port].push_back(std::move(packet));
          }
        }
      }
    }
  }
  Bed& lower_at(const Endpoint& address) {
    return address == lower_address(0) ? *lower_[0] : *lower_[1];
  }
  void across(Bed& to, const Bytes& payload, const Endpoint& from) {
    if (pass_ > 0) {
      pass_--;
    } else if (lose_ > 0) {
      lose_--;
      return;
    }
    if (prng_ != nullptr && prng_->chance(loss_)) return;
    to.deliver(payload, from);
    if (prng_ != nullptr && prng_->chance(duplicate_)) to.deliver(payload, from);
  }

  Bed upper_;
  std::vector<std::unique_ptr<Bed>> lower_;
  std::map<uint32_t, std::vector<Reply>> mail_;
  uint32_t pass_ = 0;
  uint32_t lose_ = 0;
  Prng* prng_ = nullptr;
  double loss_ = 0;
  double duplicate_ = 0;
};

class Hierarchy : public ::testing::TestWithParam<PacketLayer> {};

INSTANTIATE_TEST_SUITE_P(Layers, Hierarchy,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

TEST_P(Hierarchy, EveryRankGetsTheSumOfAll) {
  Tree tree(GetParam());
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    EXPECT_EQ(tree.take(0).size(), 0U);
    tree.contribute(rank, 5, {int32_t{1} << rank, -1});
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    const Reply result = tree.take_result(rank);
    EXPECT_EQ(result.gradients, (Values{63, -6}));
    EXPECT_EQ(result.message.header.src_cnt, kRanks);
    EXPECT_FALSE(result.message.header.degraded);
  }
  EXPECT_EQ(tree.lower(0).counts(), (Counts{{"aggregated", 3},
                                            {"block_completed", 1},
                                            {"result_sent", 3},
                                            {"sent_upstream", 1},
                                            {"upstream_result", 1}}));
  EXPECT_EQ(tree.upper().counts(),
            (Counts{{"aggregated", 2}, {"block_completed", 1}, {"result_sent", 2}}));
}

TEST_P(Hierarchy, ProbeRetransmitsALostPartialSum) {
  Tree tree(GetParam());
  for (uint32_t rank = 0; rank < kRanks - 1; rank++) tree.contribute(rank, 0, {1});
  tree.lose_after(0, 1);  // The second lower aggregator's sum.
  tree.contribute(kRanks - 1, 0, {1});
  EXPECT_TRUE(tree.take(0).empty());
  tree.contribute(kRanks - 1, 0, {1});  // Retransmission.
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
  EXPECT_EQ(tree.take_result(kRanks - 1).gradients, Values{6});
  EXPECT_EQ(tree.lower(1).counted(Outcome::kSentUpstream), 2U);
}

TEST_P(Hierarchy, ProbeRetransmitsALostResult) {
  Tree tree(GetParam());
  for (uint32_t rank = 1; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  // Rank 0's contribution sends one packet up and two results down. The first result is lost.
  tree.lose_after(1, 1);
  tree.contribute(0, 0, {1});
  EXPECT_TRUE(tree.take(0).empty());
  EXPECT_EQ(tree.take_result(5).gradients, Values{6});
  tree.contribute(0, 0, {1});
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
  EXPECT_EQ(tree.upper().counted(Outcome::kLate), 1U);
}

TEST_P(Hierarchy, DuplicateUpperResultChangesNothing) {
  Tree tree(GetParam());
  for (uint32_t rank = 0; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  for (uint32_t rank = 0; rank < kRanks; rank++) static_cast<void>(tree.take(rank));
  const Bytes result = [] {
    Message message = plain(0, 0, 0, {1000});
    message.header.src_cnt = kRanks;
    return encoded(message, {1000});
  }();
  const Counts before = tree.lower(0).counts();
  tree.lower(0).deliver(result, upper_address());
  EXPECT_EQ(tree.lower(0).counted_since(before), (Counts{{"duplicate", 1}}));
  tree.contribute(0, 0, {1});
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
}

TEST_P(Hierarchy, RefusesUpperResultsForBlocksNotSentUp) {
  Tree tree(GetParam());
  tree.contribute(0, 0, {1});
  Message message = plain(0, 0, 0, {1000});
  expect_refused(tree.lower(0), encoded(message, {1000}), upper_address(), Outcome::kDuplicate);
  for (uint32_t rank = 1; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
}

// The partial sum is on its way up again from the buffer that the result is about to overwrite.
TEST_P(Hierarchy, RetransmittedPartialSumSurvivesAResultInTheSameBurst) {
  Bed lower({.jobs = {lower_job(0, false)}, .layer = GetParam(), .local = lower_address(0)});
  for (uint32_t source = 0; source < kBelow; source++) lower.contribute(source, 0, 0, {5});
  ASSERT_EQ(lower.take().size(), 1U);
  Message result = plain(0, 0, 0, {1000});
  result.header.src_cnt = kRanks;
  lower.inject(plain_bytes(0, 0, 0, {5}), worker(0));
  lower.inject(encoded(result, {1000}), upper_address());
  lower.run();
  const auto sent = lower.take();
  ASSERT_EQ(sent.size(), 1U + kBelow);
  EXPECT_EQ(sent[0].to, upper_address());
  EXPECT_EQ(sent[0].gradients, Values{15});
  for (uint32_t i = 0; i < kBelow; i++) EXPECT_EQ(sent[1 + i].gradients, Values{1000});
}

TEST_P(Hierarchy, StragglerBelowOneAggregatorDegradesTheResult) {
  Tree tree(GetParam(), /*mitigation=*/true);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    if (rank != 4) tree.contribute(rank, 0, {int32_t{1} << rank});
  }
  tree.pass(kTimeout * 8);
  const Reply result = tree.take_result(0);
  EXPECT_EQ(result.gradients, Values{63 - 16});
  EXPECT_EQ(result.message.header.src_cnt, kRanks - 1);
  EXPECT_TRUE(result.message.header.degraded);
  EXPECT_EQ(tree.take_result(5).gradients, Values{63 - 16});
}

TEST_P(Hierarchy, LateContributionToASentBlockReactivatesItsSource) {
  Tree tree(GetParam(), /*mitigation=*/true);
  for (const uint32_t rank : {0U, 1U, 3U, 4U, 5U}) tree.contribute(rank, 0, {1});
  tree.pass(seconds(3));
  EXPECT_EQ(tree.lower(0).counted(Outcome::kSourcePermanent), 1U);
  // Block 1 goes up without rank 2 at once, and waits there for the other aggregator.
  for (const uint32_t rank : {0U, 1U}) tree.contribute(rank, 1, {1});
  tree.contribute(2, 1, {1});
  EXPECT_EQ(tree.lower(0).counted(Outcome::kSourceReturned), 1U);
  EXPECT_EQ(tree.lower(0).counted(Outcome::kLate), 1U);
}

TEST_P(Hierarchy, SilentAggregatorDegradesTheResult) {
  Tree tree(GetParam(), /*mitigation=*/true);
  for (uint32_t rank = 0; rank < kBelow; rank++) tree.contribute(rank, 0, {1});
  tree.pass(kTimeout * 8);
  const Reply result = tree.take_result(0);
  EXPECT_EQ(result.gradients, Values{3});
  EXPECT_EQ(result.message.header.src_cnt, kBelow);
  EXPECT_TRUE(result.message.header.degraded);
  // Its workers are late and get the same result as the others.
  for (uint32_t rank = kBelow; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  EXPECT_EQ(tree.take_result(5).gradients, Values{3});
}

/// Sends a worker's join, and reads the replies: a cookie, or its membership.
void ask_to_join(Tree& tree, uint32_t rank, Message& join, Member& member) {
  if (member.key != 0) return;
  tree.send(rank, encoded(join));
  for (const Reply& reply : tree.take(rank)) {
    const wire::ControlBody& body = reply.message.body;
    if (reply.message.extension.type == MessageType::kCookie) join.body.key = body.key;
    if (reply.message.extension.type != MessageType::kWelcome) continue;
    EXPECT_EQ(reply.message.extension.key, join.extension.key);
    EXPECT_EQ(body.value, rank / kBelow * kBelow);  // rank_base.
    member = {.source = rank % kBelow, .key = body.key, .result_key = body.result_key};
  }
}

/// All workers join; each is welcomed through its aggregator. They ask for a window of `window`.
std::vector<Member> join_tree(Tree& tree, uint64_t nonce_base = 100, uint32_t window = 0) {
  std::vector<Message> joins;
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    joins.push_back(join_message(rank % kBelow, nonce_base + rank, kRanks));
    joins[rank].body.window = window;
  }
  std::vector<Member> members(kRanks);
  // For the cookie, to be pending, to confirm, and until the last welcome has arrived.
  for (uint32_t round = 0; round < 5; round++) {
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      ask_to_join(tree, rank, joins[rank], members[rank]);
    }
    tree.pass(milliseconds(50));
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) EXPECT_NE(members[rank].key, 0U) << rank;
  return members;
}

TEST_P(Hierarchy, SessionResultNamesItsRanks) {
  Tree tree(GetParam(), /*mitigation=*/true);
  const auto members = join_tree(tree);
  EXPECT_EQ(tree.upper().counted(Outcome::kSessionStarted), 1U);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {int32_t{1} << rank}));
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    EXPECT_EQ(tree.take_result(rank).gradients, Values{63});
  }
  for (const uint32_t rank : {1U, 3U, 5U}) {
    tree.send(rank, members[rank].contribution_bytes(1, {int32_t{1} << rank}));
  }
  tree.pass(kTimeout * 8);
  const Reply result = tree.take_result(1);
  EXPECT_EQ(result.gradients, Values{2 + 8 + 32});
  EXPECT_EQ(result.message.header.src_cnt, 3);
  EXPECT_TRUE(result.message.header.degraded);
  EXPECT_EQ(result.message.mask, (SourceMask{0b101010, 0, 0, 0}));
}

TEST_P(Hierarchy, SessionEndsAtTheUpperAggregatorToo) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, encoded(members[rank].message(MessageType::kLeave, 0)));
  }
  EXPECT_EQ(tree.lower(0).session().number(), 0U);
  EXPECT_EQ(tree.upper().counted(Outcome::kLeave), kLowerCount);
  EXPECT_EQ(tree.upper().session().number(), 0U);
  // So the next one can start at once.
  const auto again = join_tree(tree, /*nonce_base=*/500);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, again[rank].contribution_bytes(0, {1}));
  }
  EXPECT_EQ(tree.take_result(5).gradients, Values{6});
}

// Lower aggregators with different windows: all workers get the smaller one. A worker with the
// larger window would send blocks whose sums the other aggregator cannot hold.
TEST_P(Hierarchy, LowerAggregatorsAgreeOnTheSmallestWindow) {
  Tree tree(GetParam(), /*mitigation=*/false, {64, 256});
  const auto members = join_tree(tree, /*nonce_base=*/100, /*window=*/256);
  for (uint32_t i = 0; i < kLowerCount; i++) {
    EXPECT_EQ(tree.lower(i).session().welcome_body(0).window, 64U);
  }
  constexpr uint32_t kBlocks = 512;
  std::vector<uint32_t> results(kRanks);
  for (uint32_t first = 0; first < kBlocks; first += 64) {  // Each rank is a window ahead.
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      for (uint32_t block = first; block < first + 64; block++) {
        tree.send(rank, members[rank].contribution_bytes(block, {int32_t{1} << rank}));
      }
    }
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      for (const Reply& result : tree.take(rank)) {
        EXPECT_EQ(result.gradients, Values{63});
        results[rank]++;
      }
    }
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) EXPECT_EQ(results[rank], kBlocks);
  EXPECT_EQ(tree.lower(0).counted(Outcome::kWindowExceeded), 0U);
  EXPECT_EQ(tree.upper().counted(Outcome::kWindowExceeded), 0U);
}

/// Returns the only notice for this reason that a rank has received.
Message notice_to(Tree& tree, uint32_t rank, Reason reason) {
  std::vector<Message> notices;
  for (const Reply& reply : tree.take(rank)) {
    if (reply.message.extension.type == MessageType::kNotice) notices.push_back(reply.message);
  }
  EXPECT_EQ(notices.size(), 1U) << "rank " << rank;
  if (notices.empty()) return {};
  EXPECT_EQ(notices[0].body.reason, reason) << "rank " << rank;
  return notices[0];
}

TEST_P(Hierarchy, AMismatchBetweenAggregatorsNamesTheRanks) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  const auto contribute = [&](uint32_t rank, uint32_t scale_bits) {
    Message message = members[rank].contribution(0, {1});
    message.extension.scale_bits = scale_bits;
    tree.send(rank, encoded(message, {1}));
  };
  for (uint32_t rank = 0; rank < kBelow; rank++) contribute(rank, 0);
  for (uint32_t rank = kBelow; rank < kRanks; rank++) contribute(rank, wire::kScaleBitMean);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    const Message notice = notice_to(tree, rank, Reason::kMismatch);
    EXPECT_EQ(notice.body.mask, (SourceMask{0b111000, 0, 0, 0}));
    EXPECT_EQ(notice.body.given.scale_bits, wire::kScaleBitMean);
    EXPECT_EQ(notice.mask, (SourceMask{0b000111, 0, 0, 0}));
    EXPECT_EQ(notice.extension.scale_bits, 0U);
    EXPECT_EQ(notice.extension.key, members[rank].result_key);
  }
}

TEST_P(Hierarchy, AMismatchBelowOneAggregatorNamesTheRank) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  tree.send(3, members[3].contribution_bytes(0, {1}));
  tree.send(5, members[5].contribution_bytes(0, {1, 2}));
  const Message notice = notice_to(tree, 3, Reason::kMismatch);
  EXPECT_EQ(notice.body.mask, (SourceMask{0b100000, 0, 0, 0}));
  EXPECT_EQ(notice.mask, (SourceMask{0b001000, 0, 0, 0}));
}

// Ranks 0 to 2 leave in order. Those behind the other aggregator have contributed, and probe.
TEST_P(Hierarchy, NoticeNamesALeaverBehindTheOtherAggregator) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t rank = kBelow; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {1}));
  }
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, encoded(members[rank].message(MessageType::kLeave, 0)));
  }
  for (uint32_t rank = kBelow; rank < kRanks; rank++) static_cast<void>(tree.take(rank));
  tree.send(4, encoded(members[4].message(MessageType::kProbe, 0)));
  const Message notice = notice_to(tree, 4, Reason::kPeerLeft);
  EXPECT_EQ(notice.body.mask, (SourceMask{0b000111, 0, 0, 0}));
  EXPECT_EQ(notice.extension.key, members[4].result_key);
}

TEST_P(Hierarchy, KeepAlivesExtendAnIdleSession) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t second = 0; second < 8; second++) {
    tree.pass(seconds(1));
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      tree.send(rank, encoded(members[rank].message(MessageType::kKeepAlive, 0)));
    }
  }
  EXPECT_NE(tree.upper().session().number(), 0U);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {1}));
  }
  EXPECT_EQ(tree.take_result(2).gradients, Values{6});
}

TEST_P(Hierarchy, LossOfTheUpperSessionEndsTheLowerOne) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  tree.upper().session().end();  // The same as a restart.
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {1}));
  }
  const auto notices = tree.take(0);
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices.back().message.extension.type, MessageType::kNotice);
  EXPECT_EQ(notices.back().message.body.reason, Reason::kSessionLost);
  EXPECT_EQ(tree.lower(0).session().number(), 0U);
}

TEST_P(Hierarchy, UpperRefusalReachesTheWorkers) {
  JobConfig small = upper_job(false);
  small.world = kRanks + 1;
  Bed upper({.jobs = {small}, .layer = GetParam(), .local = upper_address()});
  Bed lower({.jobs = {lower_job(0, false)}, .layer = GetParam(), .local = lower_address(0)});
  std::vector<Reply> sent;
  for (uint32_t join = 0; join < 2 * kBelow; join++) {  // Each source joins, and confirms.
    const uint32_t source = join % kBelow;
    for (Reply& packet :
         deliver_join(lower, join_message(source, 100 + source, kRanks), worker(source))) {
      sent.push_back(std::move(packet));
    }
  }
  for (uint32_t trip = 0; trip < 2; trip++) {  // For the cookie, and for the refusal.
    for (const Reply& packet : std::exchange(sent, {})) {
      if (packet.to == upper_address()) upper.deliver(packet.bytes, lower_address(0));
    }
    for (const Reply& packet : upper.take()) lower.deliver(packet.bytes, upper_address());
    sent = lower.take();
  }
  const auto refusals = deliver_join(lower, join_message(1, 101, kRanks), worker(1));
  ASSERT_EQ(refusals.size(), 1U);
  const Message& refusal = refusals[0].message;
  EXPECT_EQ(refusal.extension.type, MessageType::kRefusal);
  EXPECT_EQ(refusal.body.reason, Reason::kWrongWorld);
  EXPECT_EQ(refusal.body.value, kRanks + 1);
}

// Workers send until they have every result; the aggregators' links lose and duplicate packets.
TEST_P(Hierarchy, BadLinksNeverCauseAWrongSum) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Tree tree(GetParam());
  tree.set_faults(prng, 0.2, 0.2);
  constexpr uint32_t kBlocks = 200;
  constexpr uint32_t kWindow = 8;
  std::vector<uint32_t> base(kRanks);
  std::vector<std::vector<bool>> done(kRanks, std::vector<bool>(kBlocks + kWindow));
  const auto value = [](uint32_t rank, uint32_t block) {
    return static_cast<int32_t>(block * 100 + rank);
  };
  const auto all_done = [&] {
    return std::all_of(base.begin(), base.end(), [](uint32_t b) { return b >= kBlocks; });
  };
  for (uint64_t step = 0; !all_done(); step++) {
    ASSERT_LT(step, 500'000U) << "no progress";
    const uint32_t rank = prng.below(kRanks);
    const uint32_t block = base[rank] + prng.below(kWindow);
    if (block < kBlocks && !done[rank][block]) tree.contribute(rank, block, {value(rank, block)});
    for (uint32_t other = 0; other < kRanks; other++) {
      for (const Reply& result : tree.take(other)) {
        const uint32_t its_block = result.message.header.block_id;
        ASSERT_EQ(result.gradients, Values{static_cast<int32_t>(its_block * 100 * kRanks + 15)});
        ASSERT_EQ(result.message.header.src_cnt, kRanks);
        done[other][its_block] = true;
        while (base[other] < kBlocks && done[other][base[other]]) base[other]++;
      }
    }
  }
  EXPECT_EQ(tree.upper().counted(Outcome::kAggregated), kBlocks * kLowerCount);
}

}  // namespace
}  // namespace tributary::trio_ml
