// SPDX-License-Identifier: Apache-2.0
// Method: one message of each shape by hand, then refusals, then random round trips, then random
// bytes. Random bytes may decode or not, but must never be read past their end. They lie in blocks
// of exactly their size, so that AddressSanitizer would see it.
#include "wire/trio_ml.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::wire {
namespace {

using Bytes = std::vector<std::byte>;

/// Returns the gradient bytes of a message; control messages have none.
uint32_t gradient_bytes(const Message& message) {
  const bool control = message.header.extended && is_control(message.extension.type);
  if (control) return 0;
  return message.header.grad_cnt *
         (message.header.extended ? gradient_bytes(message.extension.format) : kGradientBytes);
}

/// Returns the message's bytes, with gradients of 0x55.
Bytes encoded(const Message& message) {
  Bytes bytes(kControlMessageBytes, std::byte{0xcc});
  const uint32_t head_bytes = encode_message(message, bytes.data());
  EXPECT_EQ(head_bytes, encoded_head_bytes(message.header, message.extension));
  for (size_t i = head_bytes; i < bytes.size(); i++) {
    EXPECT_EQ(bytes[i], std::byte{0xcc}) << "written past the head at " << i;
  }
  bytes.resize(head_bytes);
  bytes.resize(head_bytes + gradient_bytes(message), std::byte{0x55});
  return bytes;
}

DecodeStatus decode(const Bytes& bytes, Message& message) {
  // A block of exactly the head's size, like a packet's first bytes.
  const Bytes head(bytes.begin(), bytes.begin() + std::min<ptrdiff_t>(std::ssize(bytes), 192));
  return decode_message(head, static_cast<uint32_t>(bytes.size()), message);
}

void expect_same(const Message& a, const Message& b) {
  EXPECT_EQ(a.header.job_id, b.header.job_id);
  EXPECT_EQ(a.header.block_id, b.header.block_id);
  EXPECT_EQ(a.header.age_op, b.header.age_op);
  EXPECT_EQ(a.header.final, b.header.final);
  EXPECT_EQ(a.header.degraded, b.header.degraded);
  EXPECT_EQ(a.header.extended, b.header.extended);
  EXPECT_EQ(a.header.src_id, b.header.src_id);
  EXPECT_EQ(a.header.src_cnt, b.header.src_cnt);
  EXPECT_EQ(a.header.gen_id, b.header.gen_id);
  EXPECT_EQ(a.header.grad_cnt, b.header.grad_cnt);
  if (!a.header.extended) return;
  EXPECT_EQ(a.extension.type, b.extension.type);
  EXPECT_EQ(a.extension.format, b.extension.format);
  EXPECT_EQ(a.extension.flags, b.extension.flags);
  EXPECT_EQ(a.extension.exponent, b.extension.exponent);
  EXPECT_EQ(a.extension.tensor_elements, b.extension.tensor_elements);
  EXPECT_EQ(a.extension.scale_bits, b.extension.scale_bits);
  EXPECT_EQ(a.extension.key, b.extension.key);
  EXPECT_TRUE((a.extension.flags & kFlagSourceMask) == 0 || a.mask == b.mask);
  if (!has_body(a.extension.type)) return;
  if (a.extension.type == MessageType::kReport) {
    EXPECT_EQ(a.body.report, b.body.report);
    return;
  }
  for (bool ControlBody::*flag : {&ControlBody::reports, &ControlBody::names_receiver,
                                  &ControlBody::upstream, &ControlBody::asynchronous}) {
    EXPECT_EQ(a.body.*flag, b.body.*flag);
  }
  EXPECT_EQ(a.body.reason, b.body.reason);
  EXPECT_EQ(a.body.source, b.body.source);
  EXPECT_EQ(a.body.sources, b.body.sources);
  EXPECT_EQ(a.body.channels, b.body.channels);
  EXPECT_EQ(a.body.port_bits, b.body.port_bits);
  EXPECT_EQ(a.body.key, b.body.key);
  if (a.extension.type == MessageType::kWelcome) {
    EXPECT_EQ(a.body.result_key, b.body.result_key);
    EXPECT_EQ(a.body.salt_high, b.body.salt_high);
    EXPECT_EQ(a.body.salt_low, b.body.salt_low);
    EXPECT_EQ(a.body.narrow_max, b.body.narrow_max);
    EXPECT_EQ(a.body.job_window, b.body.job_window);
  } else if (a.extension.type == MessageType::kJoin && a.body.asynchronous) {
    EXPECT_EQ(a.body.share, b.body.share);
  } else {
    EXPECT_EQ(a.body.mask, b.body.mask);
  }
  if (a.extension.type == MessageType::kHave && (a.extension.flags & kFlagRun) != 0) {
    EXPECT_EQ(a.body.present, b.body.present);
    EXPECT_EQ(a.body.complete, b.body.complete);
    return;
  }
  EXPECT_EQ(a.body.window, b.body.window);
  EXPECT_EQ(a.body.gradients_max, b.body.gradients_max);
  if (a.extension.type == MessageType::kJoin && a.body.reason != Reason::kMismatch) {
    EXPECT_EQ(a.body.narrow_max, b.body.narrow_max);
  } else {
    EXPECT_EQ(a.body.timeout_us, b.body.timeout_us);
  }
  EXPECT_EQ(a.body.value, b.body.value);
  if (a.body.reason != Reason::kMismatch) {
    if (a.extension.type == MessageType::kJoin) {
      EXPECT_EQ(a.body.list_digest, b.body.list_digest);
    } else {
      EXPECT_EQ(a.body.group, b.body.group);
    }
    return;
  }
  EXPECT_EQ(a.body.given.format, b.body.given.format);
  EXPECT_EQ(a.body.given.tensor_elements, b.body.given.tensor_elements);
  EXPECT_EQ(a.body.given.scale_bits, b.body.given.scale_bits);
}

// --- By hand -------------------------------------------------------------------------------------

Message plain_message() {
  Message message;
  message.header.job_id = 3;
  message.header.grad_cnt = 2;
  return message;
}

Message extended_message(MessageType type) {
  Message message = plain_message();
  message.header.extended = true;
  message.extension.type = type;
  return message;
}

TEST(TrioMlWire, PlainMessageIsHeaderPlusGradients) {
  const Bytes bytes = encoded(plain_message());
  EXPECT_EQ(bytes.size(), 12U + 8U);
  Message decoded;
  ASSERT_EQ(decode(bytes, decoded), DecodeStatus::kOk);
  EXPECT_EQ(decoded.head_bytes, 12U);
}

TEST(TrioMlWire, SixteenBitGradientsHaveHalfTheBytes) {
  Message message = extended_message(MessageType::kContribution);
  message.extension.format = ElementFormat::kBlockExponent16;
  message.header.grad_cnt = 3;
  Bytes bytes = encoded(message);
  EXPECT_EQ(bytes.size(), 12U + 20U + 6U);
  EXPECT_EQ(bytes[13], std::byte{3});
  Message decoded;
  EXPECT_EQ(decode(bytes, decoded), DecodeStatus::kOk);
  bytes.resize(bytes.size() - 1);
  EXPECT_EQ(decode(bytes, decoded), DecodeStatus::kTooShort);
  bytes.resize(bytes.size() + 2);
  EXPECT_EQ(decode(bytes, decoded), DecodeStatus::kTooLong);
}

TEST(TrioMlWire, WelcomeAndJoinSayHowManySixteenBitGradientsFit) {
  for (const auto& [type, byte] :
       {std::pair{MessageType::kWelcome, 56U}, {MessageType::kJoin, 12U}}) {
    Message message = extended_message(type);
    message.body.narrow_max = 0x0203;
    const Bytes bytes = encoded(message);
    EXPECT_EQ(bytes[32 + byte + 2], std::byte{2});
    EXPECT_EQ(bytes[32 + byte + 3], std::byte{3});
    Message decoded;
    ASSERT_EQ(decode(bytes, decoded), DecodeStatus::kOk);
    EXPECT_EQ(decoded.body.narrow_max, 0x0203U);
    EXPECT_EQ(decoded.body.timeout_us, 0U);
    message.body.narrow_max = kGradientsMax + 1;
    EXPECT_EQ(decode(encoded(message), decoded), DecodeStatus::kBadBody);
  }
}

TEST(TrioMlWire, ExtensionMatchesHandWrittenBytes) {
  Message message = extended_message(MessageType::kResult);
  message.extension.format = ElementFormat::kBlockExponent;
  message.extension.flags = kFlagOverflow;
  message.extension.exponent = -2;
  message.extension.tensor_elements = 0x01020304;
  message.extension.scale_bits = 0x05060708;
  message.extension.key = 0x090a0b0c0d0e0f10;
  const Bytes bytes = encoded(message);
  ASSERT_EQ(bytes.size(), 12U + 20U + 8U);
  const std::array<int, 20> expected{0x21, 2,    0x02, 0xfe, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
                                     0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10};
  for (uint32_t i = 0; i < expected.size(); i++) {
    EXPECT_EQ(std::to_integer<int>(bytes[12 + i]), expected[i]) << "extension byte " << i;
  }
}

TEST(TrioMlWire, SourceMaskFollowsTheExtensionHighestWordBitsFirst) {
  Message message = extended_message(MessageType::kResult);
  message.extension.flags = kFlagSourceMask;
  message.mask = {1, 0, 0, uint64_t{1} << 63};  // Sources 0 and 255.
  const Bytes bytes = encoded(message);
  ASSERT_EQ(bytes.size(), kUnsealedHeadBytesMax + 8U);
  EXPECT_EQ(bytes[32 + 7], std::byte{1});      // Word 0, most significant byte first.
  EXPECT_EQ(bytes[32 + 24], std::byte{0x80});  // Word 3.
}

TEST(TrioMlWire, HeadSizeFollowsTheMessageType) {
  for (uint32_t type = 0; type <= kMessageTypeLast; type++) {
    const Message message = extended_message(static_cast<MessageType>(type));
    // kHave to kNotice, kCookie, kReport.
    const bool body = (type >= 3 && type <= 8) || type == 11 || type == 13;
    EXPECT_EQ(encoded_head_bytes(message.header, message.extension), 32U + (body ? 80U : 0U))
        << type;
  }
}

TEST(TrioMlWire, HaveAboutARunCarriesTwoMasks) {
  Message message = extended_message(MessageType::kHave);
  message.extension.flags = kFlagRun;
  message.body.window = 0x01020304;
  message.body.group = Endpoint::ipv4(0x0a000001, 12000);
  message.body.complete = {1, 0};
  message.body.present = {1, uint64_t{1} << 63};  // The first and the last block of a run.
  const Bytes bytes = encoded(message);
  ASSERT_EQ(bytes.size(), kControlMessageBytes - kSourceMaskBytes - auth::kSealBytesMax);
  const std::byte* body = &bytes[32];
  EXPECT_EQ(body[4 + 7], std::byte{1});  // Word 0, most significant byte first.
  EXPECT_EQ(body[4 + 3], std::byte{});   // The window gives way.
  EXPECT_EQ(body[64 + 7], std::byte{1});
  EXPECT_EQ(body[64 + 8], std::byte{0x80});
}

TEST(TrioMlWire, AReportHasABodyOfItsOwn) {
  Message message = extended_message(MessageType::kReport);
  message.body.window = 0x01020304;  // Not sent.
  message.body.report = {.blocks = 0x0102,
                         .degraded = 3,
                         .retransmitted = 4,
                         .probes = 5,
                         .bytes = 6,
                         .waited_ms = 0x0a0b,
                         .waits_for = {0b100, 0, 0, 0}};
  const Bytes bytes = encoded(message);
  const std::byte* body = &bytes[32];
  EXPECT_EQ(body[0], std::byte{});
  EXPECT_EQ(body[4 + 2], std::byte{0x0a});
  EXPECT_EQ(body[4 + 3], std::byte{0x0b});
  EXPECT_EQ(body[8 + 6], std::byte{1});
  EXPECT_EQ(body[8 + 7], std::byte{2});
  EXPECT_EQ(body[16 + 7], std::byte{3});
  EXPECT_EQ(body[24 + 7], std::byte{4});
  EXPECT_EQ(body[32 + 7], std::byte{0b100});
  EXPECT_EQ(body[64 + 7], std::byte{6});
  EXPECT_EQ(body[72 + 7], std::byte{5});
}

TEST(TrioMlWire, WithoutTheFlagAHaveSaysNothingAboutARun) {
  Message message = extended_message(MessageType::kHave);
  message.body.present = {~uint64_t{0}, ~uint64_t{0}};
  message.body.complete = message.body.present;
  Message decoded;
  ASSERT_EQ(decode(encoded(message), decoded), DecodeStatus::kOk);
  EXPECT_EQ(decoded.body.present, RunMask{});
  EXPECT_EQ(decoded.body.complete, RunMask{});
}

// --- Refusals ------------------------------------------------------------------------------------

TEST(TrioMlWire, EveryTruncationIsRefused) {
  std::vector<Message> messages{plain_message()};
  for (uint32_t type = 0; type <= kMessageTypeLast; type++) {
    messages.push_back(extended_message(static_cast<MessageType>(type)));
    messages.push_back(messages.back());
    messages.back().extension.flags |= kFlagSourceMask;
  }
  for (const Message& message : messages) {
    const Bytes whole = encoded(message);
    const uint32_t head_bytes = encoded_head_bytes(message.header, message.extension);
    for (size_t size = 0; size < whole.size(); size++) {
      Message decoded;
      const DecodeStatus status =
          decode(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)), decoded);
      EXPECT_EQ(status, size < head_bytes ? DecodeStatus::kTruncated : DecodeStatus::kTooShort)
          << "type " << static_cast<int>(message.extension.type) << ", " << size << " bytes";
    }
    Message decoded;
    EXPECT_EQ(decode(whole, decoded), DecodeStatus::kOk);
    Bytes longer = whole;
    longer.push_back({});
    EXPECT_EQ(decode(longer, decoded), DecodeStatus::kTooLong);
  }
}

TEST(TrioMlWire, RefusesUnknownVersionTypeAndFormat) {
  const Bytes good = encoded(extended_message(MessageType::kContribution));
  Message decoded;
  ASSERT_EQ(decode(good, decoded), DecodeStatus::kOk);
  for (int version = 0; version < 16; version++) {
    Bytes bytes = good;
    bytes[12] = static_cast<std::byte>(version << 4);
    EXPECT_EQ(decode(bytes, decoded) == DecodeStatus::kOk, version == kExtensionVersion);
  }
  for (int type = kMessageTypeLast + 1; type < 16; type++) {
    Bytes bytes = good;
    bytes[12] = static_cast<std::byte>(kExtensionVersion << 4 | type);
    EXPECT_EQ(decode(bytes, decoded), DecodeStatus::kBadExtension) << type;
  }
  for (int format = kElementFormatLast + 1; format < 256; format++) {
    Bytes bytes = good;
    bytes[13] = static_cast<std::byte>(format);
    EXPECT_EQ(decode(bytes, decoded), DecodeStatus::kBadExtension) << format;
  }
}

TEST(TrioMlWire, RefusesCountsThatNoJobCanHave) {
  const auto status_of = [](MessageType type, const ControlBody& body) {
    Message message = extended_message(type);
    message.body = body;
    Message decoded;
    return decode(encoded(message), decoded);
  };
  for (const MessageType type : {MessageType::kJoin, MessageType::kWelcome, MessageType::kPending,
                                 MessageType::kRefusal, MessageType::kHave}) {
    SCOPED_TRACE(static_cast<int>(type));
    ControlBody body;
    body.sources = kSourcesMax;
    body.gradients_max = kGradientsMax;
    body.channels = kChannelsMax;
    EXPECT_EQ(status_of(type, body), DecodeStatus::kOk);
    ControlBody bad = body;
    bad.sources = kSourcesMax + 1;
    EXPECT_EQ(status_of(type, bad), DecodeStatus::kBadBody);
    bad.sources = UINT16_MAX;
    EXPECT_EQ(status_of(type, bad), DecodeStatus::kBadBody);
    bad = body;
    bad.gradients_max = kGradientsMax + 1;
    EXPECT_EQ(status_of(type, bad), DecodeStatus::kBadBody);
    bad = body;
    bad.channels = kChannelsMax + 1;
    EXPECT_EQ(status_of(type, bad), DecodeStatus::kBadBody);
  }
}

TEST(TrioMlWire, RefusesRanksBeyondTheLast) {
  Message decoded;
  for (const MessageType type : {MessageType::kWelcome, MessageType::kPending}) {
    Message message = extended_message(type);
    message.body.sources = 4;
    message.body.value = kSourcesMax - 4;  // The rank of source 0.
    EXPECT_EQ(decode(encoded(message), decoded), DecodeStatus::kOk);
    message.body.value++;
    EXPECT_EQ(decode(encoded(message), decoded), DecodeStatus::kBadBody);
    message.body.value = UINT32_MAX;
    EXPECT_EQ(decode(encoded(message), decoded), DecodeStatus::kBadBody);
  }
  // In other messages the value is not a rank.
  Message notice = extended_message(MessageType::kNotice);
  notice.body.value = UINT32_MAX;
  EXPECT_EQ(decode(encoded(notice), decoded), DecodeStatus::kOk);
}

TEST(TrioMlWire, RefusesAnUnknownFormatInAMismatch) {
  Message notice = extended_message(MessageType::kNotice);
  notice.body.reason = Reason::kMismatch;
  for (uint32_t format = 0; format < 256; format++) {
    notice.body.given.format = static_cast<ElementFormat>(format);
    Message decoded;
    EXPECT_EQ(decode(encoded(notice), decoded),
              format <= kElementFormatLast ? DecodeStatus::kOk : DecodeStatus::kBadBody);
  }
}

// --- Random --------------------------------------------------------------------------------------

/// Returns any flags, with at most one of those that name the mode of a seal.
uint8_t random_flags(Prng& prng) {
  const auto mode = static_cast<auth::Mode>(prng.below(auth::kModeCount));
  return static_cast<uint8_t>((prng.any_u32() & ~uint32_t{kFlagsOfSeal}) | seal_flag(mode));
}

Message random_message(Prng& prng) {
  Message message;
  message.header = {.job_id = static_cast<uint8_t>(prng.any_u32()),
                    .block_id = prng.any_u32(),
                    .age_op = static_cast<uint8_t>(prng.below(16)),
                    .final = prng.chance(0.5),
                    .degraded = prng.chance(0.5),
                    .extended = prng.chance(0.8),
                    .src_id = static_cast<uint8_t>(prng.any_u32()),
                    .src_cnt = static_cast<uint8_t>(prng.any_u32()),
                    .gen_id = static_cast<uint16_t>(prng.any_u32()),
                    .grad_cnt = static_cast<uint16_t>(prng.below(4096))};
  if (!message.header.extended) return message;
  message.extension = {.type = static_cast<MessageType>(prng.below(kMessageTypeLast + 1)),
                       .format = static_cast<ElementFormat>(prng.below(kElementFormatLast + 1)),
                       .flags = random_flags(prng),
                       .exponent = static_cast<int8_t>(prng.any_u32()),
                       .tensor_elements = prng.any_u32(),
                       .scale_bits = prng.any_u32(),
                       .key = prng.any_u64()};
  for (uint64_t& word : message.mask) word = prng.any_u64();
  ControlBody& body = message.body;
  body = {.reason = static_cast<Reason>(prng.below(kReasonLast + 1)),
          .source = static_cast<uint8_t>(prng.any_u32()),
          .sources = static_cast<uint16_t>(prng.below(200)),
          .window = prng.any_u32(),
          .gradients_max = prng.below(kGradientsMax + 1),
          .timeout_us = prng.any_u32(),
          .narrow_max = prng.below(kGradientsMax + 1),
          .job_window = prng.any_u32(),
          .value = prng.below(57),
          .key = prng.any_u64(),
          .result_key = prng.any_u64(),
          .salt_high = prng.any_u64(),
          .salt_low = prng.any_u64(),
          .upstream = prng.chance(0.5),
          .channels = static_cast<uint8_t>(prng.below(kChannelsMax + 1)),
          .port_bits = static_cast<uint8_t>(prng.below(8)),
          .mask = {},
          .group = Endpoint::ipv4(prng.any_u32(), static_cast<uint16_t>(prng.any_u32())),
          .list_digest = prng.any_u64(),
          .given = {.format = static_cast<ElementFormat>(prng.below(kElementFormatLast + 1)),
                    .tensor_elements = prng.any_u32(),
                    .scale_bits = prng.any_u32()}};
  for (uint64_t& word : body.mask) word = prng.any_u64();
  body.reports = prng.chance(0.5);
  body.names_receiver = prng.chance(0.5);
  body.asynchronous = prng.chance(0.5);
  body.share = {.before = prng.any_u32(), .own = 1 + prng.below(1000)};
  body.share.all = body.share.before + body.share.own + prng.any_u32();
  body.report = {.blocks = prng.any_u64(),
                 .degraded = prng.any_u64(),
                 .retransmitted = prng.any_u64(),
                 .probes = prng.any_u64(),
                 .bytes = prng.any_u64(),
                 .waited_ms = prng.any_u32(),
                 .waits_for = body.mask,
                 .begun = prng.any_u32()};
  for (uint64_t& word : body.present) word = prng.any_u64();
  for (uint64_t& word : body.complete) word = prng.any_u64();
  return message;
}

TEST(TrioMlWire, RandomMessagesSurviveARoundTrip) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 5'000 && !::testing::Test::HasFailure(); step++) {
    const Message message = random_message(prng);
    const Bytes bytes = encoded(message);
    Message decoded;
    ASSERT_EQ(decode(bytes, decoded), DecodeStatus::kOk) << "step " << step;
    EXPECT_EQ(decoded.head_bytes + gradient_bytes(message), bytes.size());
    expect_same(message, decoded);
  }
}

TEST(TrioMlWire, RandomBytesAreNeverReadPastTheirEnd) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  uint32_t accepted = 0;
  for (uint32_t step = 0; step < 50'000; step++) {
    Bytes bytes(prng.below(220));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.any_u32());
    // Make most of them look right at first, to reach the later checks too.
    if (bytes.size() > 5 && prng.chance(0.9)) bytes[5] |= std::byte{0x02};
    if (bytes.size() > 13 && prng.chance(0.9)) {
      bytes[12] = static_cast<std::byte>(kExtensionVersion << 4 | prng.below(16));
      bytes[13] = static_cast<std::byte>(prng.below(4));
    }
    Message message;
    const DecodeStatus status = decode(bytes, message);
    if (status != DecodeStatus::kOk) continue;
    accepted++;
    ASSERT_EQ(message.head_bytes + gradient_bytes(message), bytes.size());
  }
  EXPECT_GT(accepted, 0U);  // Otherwise the test checks nothing.
}

TEST(TrioMlWire, JoinOfAsynchronousTrainingStatesItsShare) {
  Message join = extended_message(MessageType::kJoin);
  join.body.asynchronous = true;
  join.body.share = {.before = 2, .own = 3, .all = 7};
  Bytes bytes = encoded(join);
  const std::byte* body = &bytes[32];
  EXPECT_EQ(body[32 + 7], std::byte{2});
  EXPECT_EQ(body[40 + 7], std::byte{7});
  EXPECT_EQ(body[48 + 3], std::byte{3});
  Message decoded;
  ASSERT_EQ(decode(bytes, decoded), DecodeStatus::kOk);
  EXPECT_EQ(decoded.body.share, join.body.share);
  EXPECT_EQ(decoded.body.mask, SourceMask{});
  // Weights that no list has: 2 + 6 > 7, and 0.
  for (const uint32_t own : {6U, 0U}) {
    bytes[32 + 48 + 3] = static_cast<std::byte>(own);
    EXPECT_EQ(decode(bytes, decoded), DecodeStatus::kBadBody) << own;
    EXPECT_EQ(decode(encoded(extended_message(MessageType::kJoin)), decoded), DecodeStatus::kOk);
  }
  join.body.share = {};  // A job with one aggregator states no weights.
  ASSERT_EQ(decode(encoded(join), decoded), DecodeStatus::kOk);
  EXPECT_EQ(decoded.body.share, ParameterShare{});
}

}  // namespace
}  // namespace tributary::wire
