// SPDX-License-Identifier: Apache-2.0
// Method: each defect of a message, on a job with a block in progress. Its counter grows by one, it
// has no other effect, and the block still gets its right sum. tests/apps/arrival_test.cc covers
// the headers below the message.
#include <gtest/gtest.h>

#include <array>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;
using wire::ElementFormat;

constexpr JobConfig kJob{.id = 1, .sources = 2, .block_cnt_max = 4, .block_grad_max = 8};

Bytes cut(Bytes bytes, size_t size) {
  bytes.resize(size);
  return bytes;
}

/// Plain messages for block 5 of generation 100, which holds source 0's {1, 2, 3}.
class Refusal : public ::testing::TestWithParam<PacketLayer> {
 protected:
  void start(const JobConfig& job = kJob) {
    bed_ = std::make_unique<Bed>(job, GetParam());
    bed_->contribute(0, 5, 100, {1, 2, 3});
  }
  void refused(const Bytes& payload, Outcome reason) {
    expect_refused(*bed_, payload, worker(1), reason);
  }
  void expect_sum() {
    bed_->contribute(1, 5, 100, {10, 20, 30});
    EXPECT_EQ(bed_->take_result(1).gradients, (Values{11, 22, 33}));
    EXPECT_EQ(bed_->counted(Outcome::kAggregated), 2U);
  }
  std::unique_ptr<Bed> bed_;
};

INSTANTIATE_TEST_SUITE_P(Layers, Refusal,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

TEST_P(Refusal, RefusesAnyTruncation) {
  start();
  const Bytes good = plain_bytes(1, 5, 100, {10, 20, 30});
  for (size_t size = 0; size < good.size(); size++) {
    SCOPED_TRACE(size);
    refused(cut(good, size),
            size < wire::TrioMlHeader::kBytes ? Outcome::kTruncated : Outcome::kLengthBelowGradCnt);
  }
  expect_sum();
}

TEST_P(Refusal, RefusesBytesBeyondGradCnt) {
  start();
  for (const size_t more : {1U, 3U, 4U, 8U}) {
    Bytes longer = plain_bytes(1, 5, 100, {10, 20, 30});
    longer.resize(longer.size() + more);
    refused(longer, Outcome::kLengthAboveGradCnt);
  }
  expect_sum();
}

TEST_P(Refusal, RefusesUnknownJobs) {
  start();
  for (const uint8_t id : std::array<uint8_t, 3>{0, 2, 255}) {
    Message message = plain(1, 5, 100, {10, 20, 30});
    message.header.job_id = id;
    refused(encoded(message, {10, 20, 30}), Outcome::kUnknownJob);
  }
  expect_sum();
}

TEST_P(Refusal, RefusesSourcesOutsideTheJob) {
  start();
  refused(plain_bytes(2, 5, 100, {10, 20, 30}), Outcome::kSourceOutsideJob);
  refused(plain_bytes(255, 5, 100, {10, 20, 30}), Outcome::kSourceOutsideJob);
  expect_sum();
}

TEST_P(Refusal, RefusesTooManyGradients) {
  start();
  refused(plain_bytes(1, 5, 100, Values(9)), Outcome::kTooManyGradients);
  refused(plain_bytes(1, 6, 100, Values(9)),
          Outcome::kTooManyGradients);  // Also refused in a new block.
  expect_sum();
}

TEST_P(Refusal, RefusesEmptyContributions) {
  start();
  refused(plain_bytes(1, 5, 100, {}), Outcome::kNoGradients);
  refused(plain_bytes(1, 6, 100, {}), Outcome::kNoGradients);
  expect_sum();
}

TEST_P(Refusal, RefusesAGradCntThatDiffersFromTheFirst) {
  start();
  refused(plain_bytes(1, 5, 100, {10, 20}), Outcome::kGradCntDiffers);
  refused(plain_bytes(1, 5, 100, {10, 20, 30, 40}), Outcome::kGradCntDiffers);
  expect_sum();
}

// A restarted client with smaller numbers learns the number to continue from.
TEST_P(Refusal, RefusalOfAGenerationStatesTheNewest) {
  constexpr uint32_t kGradients = 32;
  JobConfig job = kJob;
  job.block_grad_max = kGradients;
  bed_ = std::make_unique<Bed>(job, GetParam());
  bed_->contribute(0, 5, 100, Values(kGradients, 1));
  const auto told = [this](uint32_t block_id, uint16_t gen_id, Outcome reason, Reason why) {
    const Counts before = bed_->counts();
    bed_->deliver(plain_bytes(1, block_id, gen_id, Values(kGradients, 10)), worker(1));
    EXPECT_EQ(bed_->counted_since(before), (Counts{{to_string(reason), 1}, {"notice_sent", 1}}));
    const Reply notice = bed_->take_result(1);
    EXPECT_EQ(notice.message.extension.type, MessageType::kNotice);
    EXPECT_EQ(notice.message.body.reason, why);
    EXPECT_EQ(notice.message.body.value, 100U);
    EXPECT_EQ(notice.message.header.block_id, block_id);
    // A client of the paper does not take it for a result of generation 100.
    EXPECT_EQ(notice.message.header.gen_id, gen_id);
    EXPECT_EQ(notice.message.header.grad_cnt, 0);
  };
  told(5, 99, Outcome::kStaleGeneration, Reason::kStaleGeneration);
  told(6, 99, Outcome::kStaleGeneration, Reason::kStaleGeneration);
  told(6, static_cast<uint16_t>(100 - 32768), Outcome::kStaleGeneration, Reason::kStaleGeneration);
  told(6, 109, Outcome::kFutureGeneration, Reason::kFutureGeneration);
  told(6, 100 + 32767, Outcome::kFutureGeneration, Reason::kFutureGeneration);
  bed_->contribute(1, 5, 100, Values(kGradients, 10));
  EXPECT_EQ(bed_->take_result(1).gradients, Values(kGradients, 11));
}

// Nobody can use the notice to send more bytes to a victim than it sends itself.
TEST_P(Refusal, SmallPacketsOfAnotherGenerationGetNoNotice) {
  start();
  const Counts before = bed_->counts();
  bed_->deliver(plain_bytes(1, 5, 99, {10, 20, 30}), stranger());
  EXPECT_EQ(bed_->counted_since(before), (Counts{{"stale_generation", 1}, {"reply_withheld", 1}}));
  EXPECT_TRUE(bed_->take().empty());
  expect_sum();
}

TEST_P(Refusal, RefusesBlocksBeyondTheWindow) {
  start();
  refused(plain_bytes(1, 9, 100, {10, 20, 30}), Outcome::kWindowExceeded);  // Same place as 5.
  refused(plain_bytes(1, 5, 101, {10, 20, 30}), Outcome::kWindowExceeded);
  expect_sum();
}

TEST_P(Refusal, RefusesBlocksPastTheCache) {
  start();
  // Block 1 has block 5's place, and no source has its result.
  refused(plain_bytes(1, 1, 100, {10, 20, 30}), Outcome::kPastCache);
  expect_sum();
}

TEST_P(Refusal, RefusesForeignAddressesIfPinned) {
  JobConfig job = kJob;
  job.pin = true;
  start(job);
  expect_refused(*bed_, plain_bytes(0, 5, 100, {1, 2, 3}), stranger(), Outcome::kForeignAddress);
  expect_refused(*bed_, plain_bytes(0, 6, 100, {1, 2, 3}), stranger(), Outcome::kForeignAddress);
  bed_->contribute(1, 5, 100, {10, 20, 30});
  EXPECT_EQ(bed_->take_result(0).gradients, (Values{11, 22, 33}));
}

TEST_P(Refusal, RefusesBlocksIfAllBuffersAreInUse) {
  // A window of 1024 small blocks has 2 * 1024 - 1024 / 8 buffers: 1024 results and 896 blocks use
  // them up, when source 0 is a whole window ahead.
  JobConfig job = kJob;
  job.block_cnt_max = 1024;
  start(job);
  bed_->contribute(1, 5, 100, {10, 20, 30});  // Completes the block that start() leaves.
  const auto both = [this](uint32_t block) {
    bed_->contribute(0, block, 100, {1});
    bed_->contribute(1, block, 100, {2});
  };
  for (uint32_t block = 6; block < 6 + 1024; block++) {
    both(block);
    static_cast<void>(bed_->take());
  }
  for (uint32_t block = 1030; block < 1030 + 896; block++) bed_->contribute(0, block, 100, {1});
  EXPECT_EQ(bed_->job().window.buffers_free(), 0U);
  bed_->contribute(0, 1926, 100, {1});
  EXPECT_EQ(bed_->counted(Outcome::kNoBuffer), 1U);
  EXPECT_EQ(bed_->job().record.block_curr_cnt, 896U);
  bed_->contribute(1, 1030, 100, {2});  // Frees the buffer of block 6's result.
  EXPECT_EQ(bed_->take_result(0).gradients, Values{3});
  both(1926);
  EXPECT_EQ(bed_->take_result(0).gradients, Values{3});
}

TEST_P(Refusal, ExtendedMessageWithoutASessionGetsAReset) {
  start();
  const Member nobody{.source = 1, .key = 4711};
  const Counts before = bed_->counts();
  bed_->deliver(nobody.contribution_bytes(5, {10, 20, 30}), worker(1));
  EXPECT_EQ(bed_->counted_since(before), (Counts{{"wrong_session", 1}, {"reset_sent", 1}}));
  const auto sent = bed_->take();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, worker(1));
  EXPECT_EQ(sent[0].message.extension.type, MessageType::kReset);
  EXPECT_EQ(sent[0].message.extension.key, 4711U);
  EXPECT_EQ(sent[0].message.header.src_id, 1);
  EXPECT_EQ(sent[0].message.header.grad_cnt, 0);
  expect_sum();
}

/// Extended messages for block 5 of a session, which holds member 0's {1, 2, 3}.
class RefusalInSession : public ::testing::Test {
 protected:
  RefusalInSession() : bed_(kJob), members_(join_all(bed_)) {
    bed_.deliver(members_[0].contribution_bytes(5, kFirst), worker(0));
  }
  void refused(const Message& message, Outcome reason) {
    expect_refused(bed_, encoded(message, kSecond), worker(1), reason);
  }
  /// Expects a refusal under `reason` and notices to `told`.
  void refused_with_notice(const Bytes& payload, Outcome reason, Reason why, size_t told) {
    const Counts before = bed_.counts();
    bed_.deliver(payload, worker(1));
    const auto sent = bed_.take();
    Counts expected{{to_string(reason), 1}};
    if (told > 0) expected["notice_sent"] = told;
    EXPECT_EQ(bed_.counted_since(before), expected);
    ASSERT_EQ(sent.size(), told);
    for (const Reply& reply : sent) {
      EXPECT_EQ(reply.message.extension.type, MessageType::kNotice);
      EXPECT_EQ(reply.message.body.reason, why);
    }
  }
  /// Expects a refusal, and a reset that repeats the key.
  void refused_with_reset(const Message& message, const Values& gradients = {},
                          const char* outcome = "wrong_key") {
    const Bytes payload = encoded(message, gradients);
    const Counts before = bed_.counts();
    bed_.deliver(payload, worker(1));
    EXPECT_EQ(bed_.counted_since(before), (Counts{{outcome, 1}, {"reset_sent", 1}}));
    const auto sent = bed_.take();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].to, worker(1));
    EXPECT_EQ(sent[0].message.extension.type, MessageType::kReset);
    EXPECT_EQ(sent[0].message.extension.key, message.extension.key);
    EXPECT_EQ(sent[0].message.header.src_id, message.header.src_id);
    EXPECT_LE(sent[0].bytes.size(), payload.size());
  }
  [[nodiscard]] Message good() const { return members_[1].contribution(5, kSecond); }
  void expect_sum() {
    bed_.deliver(encoded(good(), kSecond), worker(1));
    EXPECT_EQ(bed_.take_result(1).gradients, (Values{11, 22, 33}));
  }

  const Values kFirst{1, 2, 3};
  const Values kSecond{10, 20, 30};
  Bed bed_;
  std::vector<Member> members_;
};

TEST_F(RefusalInSession, RefusesAnyTruncation) {
  Message masked = good();
  masked.extension.flags = wire::kFlagSourceMask;
  for (const Bytes& whole : {encoded(good(), kSecond), encoded(masked, kSecond)}) {
    const size_t head_bytes = whole.size() - 12;
    for (size_t size = 0; size < whole.size(); size++) {
      SCOPED_TRACE(size);
      expect_refused(bed_, cut(whole, size), worker(1),
                     size < head_bytes ? Outcome::kTruncated : Outcome::kLengthBelowGradCnt);
    }
  }
  expect_sum();
}

TEST_F(RefusalInSession, RefusesAnyTruncatedControlMessage) {
  for (uint8_t type = 2; type <= wire::kMessageTypeLast; type++) {
    const Bytes whole = encoded(members_[1].message(static_cast<MessageType>(type), 5));
    for (size_t size = 0; size < whole.size(); size++) {
      SCOPED_TRACE(::testing::Message() << "type " << int{type} << ", " << size << " bytes");
      expect_refused(bed_, cut(whole, size), worker(1), Outcome::kTruncated);
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    expect_refused(bed_, longer, worker(1), Outcome::kLengthAboveGradCnt);
  }
  expect_sum();
}

TEST_F(RefusalInSession, RefusesCountsThatNoJobCanHave) {
  Message join = join_message(1, 5000, 2);
  join.body.sources = UINT16_MAX;
  expect_refused(bed_, encoded(join), worker(1), Outcome::kBadExtension);
  join = join_message(1, 5000, 2);
  join.body.gradients_max = wire::kGradientsMax + 1;
  expect_refused(bed_, encoded(join), worker(1), Outcome::kBadExtension);
  join = join_message(1, 5000, 2);
  join.body.channels = wire::kChannelsMax + 1;
  expect_refused(bed_, encoded(join), worker(1), Outcome::kBadExtension);
}

TEST_F(RefusalInSession, RefusesBadExtensions) {
  const Bytes whole = encoded(good(), kSecond);
  constexpr uint32_t kExtensionAt = wire::TrioMlHeader::kBytes;
  for (const uint8_t first : std::array<uint8_t, 4>{0x00, 0x10, 0xf0, 0x2f}) {  // Version and type.
    Bytes bad = whole;
    bad[kExtensionAt] = std::byte{first};
    expect_refused(bed_, bad, worker(1), Outcome::kBadExtension);
  }
  for (const uint8_t format : std::array<uint8_t, 2>{4, 255}) {
    Bytes bad = whole;
    bad[kExtensionAt + 1] = std::byte{format};
    expect_refused(bed_, bad, worker(1), Outcome::kBadExtension);
  }
  expect_sum();
}

TEST_F(RefusalInSession, RefusesPlainMessages) {
  expect_refused(bed_, plain_bytes(1, 5, 1, kSecond), worker(1), Outcome::kSessionRequired);
  expect_sum();
}

TEST_F(RefusalInSession, RefusesWrongKeys) {
  Message message = good();
  for (const uint32_t bit : {0U, 31U, 32U, 63U}) {
    message.extension.key = members_[1].key ^ uint64_t { 1 } << bit;
    refused_with_reset(message, kSecond);
  }
  message.extension.key = 0;
  refused_with_reset(message, kSecond);
  message.extension.key = members_[0].key;  // Another member's.
  refused_with_reset(message, kSecond);
  message.extension.key = members_[0].result_key;  // Every member knows it.
  refused_with_reset(message, kSecond);
  expect_sum();
}

TEST_F(RefusalInSession, RefusesControlMessagesWithWrongKeys) {
  for (const MessageType type : {MessageType::kProbe, MessageType::kKeepAlive}) {
    Message message = members_[1].message(type, 5);
    message.extension.key++;
    refused_with_reset(message);
  }
  // A leave gets no answer: workers send several, and the later ones may come after the end.
  Message leave = members_[1].message(MessageType::kLeave, 0);
  leave.extension.key++;
  expect_refused(bed_, encoded(leave), worker(1), Outcome::kWrongKey);
  expect_sum();
}

// A forger that floods an aggregator cannot make it flood its victim.
TEST_F(RefusalInSession, ResetsAreFew) {
  Message message = good();
  message.extension.key = 0;
  for (uint32_t i = 0; i < 1000; i++) bed_.deliver(encoded(message, kSecond), stranger());
  EXPECT_EQ(bed_.counted(Outcome::kWrongKey), 1000U);
  EXPECT_EQ(bed_.counted(Outcome::kResetSent), bed_.take().size());
  EXPECT_EQ(bed_.counted(Outcome::kReplyWithheld) + bed_.counted(Outcome::kResetSent), 1000U);
  EXPECT_LE(bed_.counted(Outcome::kResetSent), 256U);
  expect_sum();
}

TEST_F(RefusalInSession, RefusesSourcesOutsideTheJob) {
  Message message = good();
  message.header.src_id = 2;
  refused_with_reset(message, kSecond, "source_outside_job");
  for (const MessageType type :
       {MessageType::kProbe, MessageType::kKeepAlive, MessageType::kReport}) {
    Message other = members_[1].message(type, 5);
    other.header.src_id = 2;
    refused_with_reset(other, {}, "source_outside_job");
  }
  Message leave = members_[1].message(MessageType::kLeave, 0);
  leave.header.src_id = 2;
  expect_refused(bed_, encoded(leave), worker(1), Outcome::kSourceOutsideJob);
  expect_sum();
}

// As after a restart with other jobs. Aggregators' messages get no answer: two aggregators would
// answer each other for ever.
TEST_F(RefusalInSession, MembersOfAnUnknownJobGetAReset) {
  const auto about_job_2 = [](Message message) {
    message.header.job_id = 2;
    return message;
  };
  refused_with_reset(about_job_2(good()), kSecond, "unknown_job");
  for (const MessageType type :
       {MessageType::kProbe, MessageType::kKeepAlive, MessageType::kReport}) {
    refused_with_reset(about_job_2(members_[1].message(type, 5)), {}, "unknown_job");
  }
  for (const MessageType type :
       {MessageType::kLeave, MessageType::kResult, MessageType::kHave, MessageType::kWelcome,
        MessageType::kPending, MessageType::kRefusal, MessageType::kNotice, MessageType::kCookie,
        MessageType::kReset, MessageType::kReceipt}) {
    expect_refused(bed_, encoded(about_job_2(members_[1].message(type, 5))), worker(1),
                   Outcome::kUnknownJob);
  }
  expect_sum();
}

TEST_F(RefusalInSession, EmptyContributionMustCarryAnExponent) {
  Message empty = members_[1].contribution(6, {});
  expect_refused(bed_, encoded(empty), worker(1), Outcome::kNoGradients);
  empty.extension.format = ElementFormat::kBlockExponent;
  bed_.deliver(encoded(empty), worker(1));
  EXPECT_EQ(bed_.counted(Outcome::kAggregated), 2U);
  expect_sum();
}

TEST_F(RefusalInSession, RefusesMessagesThatOnlyAggregatorsSend) {
  for (const MessageType type :
       {MessageType::kResult, MessageType::kHave, MessageType::kWelcome, MessageType::kPending,
        MessageType::kRefusal, MessageType::kNotice, MessageType::kCookie, MessageType::kReset}) {
    expect_refused(bed_, encoded(members_[1].message(type, 5)), worker(1),
                   Outcome::kNotExpectedHere);
  }
  expect_sum();
}

TEST_F(RefusalInSession, EveryKindOfMismatchGetsANotice) {
  Message length = good();
  length.extension.tensor_elements++;
  Message scale = good();
  scale.extension.scale_bits++;
  Message format = good();
  format.extension.format = ElementFormat::kFixedScale;
  Message op = good();
  op.extension.scale_bits |= wire::kScaleBitMean;
  Message tensor = good();
  tensor.header.gen_id++;
  // The first mismatch of a block sends a notice to every known address.
  refused_with_notice(encoded(length, kSecond), Outcome::kTensorDiffers, Reason::kMismatch, 2);
  // Later ones send a notice to the sender, uncounted.
  for (const Message& message : {scale, op, format, tensor}) {
    const Counts before = bed_.counts();
    bed_.deliver(encoded(message, kSecond), worker(1));
    EXPECT_EQ(bed_.counted_since(before), (Counts{{"tensor_differs", 1}}));
    EXPECT_EQ(bed_.take().size(), 1U);
  }
  expect_sum();
}

TEST_F(RefusalInSession, MismatchNoticeNamesBothSourcesAndTheirTerms) {
  Message mean = good();
  mean.extension.format = ElementFormat::kFixedScale;
  mean.extension.tensor_elements = 4000;
  mean.extension.scale_bits = wire::kScaleBitMean | 17;
  bed_.deliver(encoded(mean, kSecond), worker(1));
  const auto sent = bed_.take();
  ASSERT_EQ(sent.size(), 2U);
  for (const Reply& reply : sent) {
    const Message& notice = reply.message;
    EXPECT_EQ(notice.body.reason, Reason::kMismatch);
    EXPECT_EQ(notice.body.mask, (SourceMask{0b10, 0, 0, 0}));  // Source 1 gives this:
    EXPECT_EQ(notice.body.given.format, ElementFormat::kFixedScale);
    EXPECT_EQ(notice.body.given.tensor_elements, 4000U);
    EXPECT_EQ(notice.body.given.scale_bits, wire::kScaleBitMean | 17);
    EXPECT_EQ(notice.mask, (SourceMask{0b01, 0, 0, 0}));  // Source 0 gave this before:
    EXPECT_EQ(notice.extension.format, ElementFormat::kInt32);
    EXPECT_EQ(notice.extension.tensor_elements, 3U);
    EXPECT_EQ(notice.extension.scale_bits, 0U);
  }
  expect_sum();
}

TEST_F(RefusalInSession, AnotherGradCntGetsANotice) {
  const Message shorter = members_[1].contribution(5, {10, 20});
  refused_with_notice(encoded(shorter, {10, 20}), Outcome::kGradCntDiffers, Reason::kMismatch, 2);
  expect_sum();
}

TEST_F(RefusalInSession, BlockPastTheCacheGetsANotice) {
  const Message old = members_[1].contribution(1, kSecond);
  refused_with_notice(encoded(old, kSecond), Outcome::kPastCache, Reason::kPastCache, 1);
  expect_sum();
}

TEST_F(RefusalInSession, RefusesBlocksBeyondTheWindow) {
  refused(members_[1].contribution(9, kSecond), Outcome::kWindowExceeded);
  expect_sum();
}

}  // namespace
}  // namespace tributary::trio_ml
