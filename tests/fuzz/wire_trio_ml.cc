// SPDX-License-Identifier: Apache-2.0
// A Trio-ML message, decoded and encoded: what decodes has bounded counts, and its encoding decodes
// to the same bytes.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/fuzz/fuzz_input.h"
#include "wire/trio_ml.h"

namespace tributary::fuzz {
namespace {

using wire::Message;
using wire::MessageType;

constexpr uint32_t kHeadBytesMax = wire::kControlMessageBytes;

std::span<const std::byte> head_of(std::span<const std::byte> payload) {
  return payload.first(std::min<size_t>(payload.size(), kHeadBytesMax));
}

void expect_bounded(const wire::ControlBody& body) {
  EXPECT_LE(body.sources, wire::kSourcesMax);
  EXPECT_LE(body.channels, wire::kChannelsMax);
  EXPECT_LE(1U << body.port_bits, wire::kServerPortsMax);
  EXPECT_LE(static_cast<uint8_t>(body.given.format), wire::kElementFormatLast);
}

void run(std::span<const uint8_t> input) {
  const auto payload = std::as_bytes(input);
  Message message;
  if (decode_message(head_of(payload), static_cast<uint32_t>(payload.size()), message) !=
      wire::DecodeStatus::kOk) {
    return;
  }
  EXPECT_LE(message.head_bytes, payload.size());
  expect_bounded(message.body);

  // Bits that nobody uses are lost, so the bytes are compared after one encoding.
  std::array<std::byte, kHeadBytesMax> first{};
  std::array<std::byte, kHeadBytesMax> second{};
  const uint32_t size = encode_message(message, first.data());
  EXPECT_EQ(size, message.head_bytes);
  Message again;
  const auto whole = static_cast<uint32_t>(payload.size());
  ASSERT_EQ(decode_message(std::span(first).first(size), whole, again), wire::DecodeStatus::kOk);
  EXPECT_EQ(encode_message(again, second.data()), size);
  EXPECT_EQ(std::memcmp(first.data(), second.data(), size), 0);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (uint8_t type = 0; type <= wire::kMessageTypeLast; type++) {
    for (const bool masked : {false, true}) {
      Message message;
      message.header = {.job_id = 1, .block_id = 7, .extended = true, .gen_id = 3};
      message.extension.type = static_cast<MessageType>(type);
      if (masked) message.extension.flags = wire::kFlagSourceMask;
      message.body.reason = masked ? wire::Reason::kMismatch : wire::Reason::kNone;
      message.body.sources = 4;
      message.body.key = 77;
      message.body.window = 64;
      message.body.gradients_max = 352;
      message.body.channels = 2;
      std::array<std::byte, kHeadBytesMax> bytes{};
      all.push_back(input_of(std::span(bytes).first(encode_message(message, bytes.data()))));
    }
  }
  // The paper's header with one gradient.
  std::array<std::byte, wire::TrioMlHeader::kBytes + wire::kGradientBytes> plain{};
  wire::encode_header({.job_id = 1, .block_id = 7, .gen_id = 3, .grad_cnt = 1}, plain.data());
  all.push_back(input_of(plain));
  return all;
}

TRIB_FUZZ_TARGET(wire_trio_ml);

}  // namespace
}  // namespace tributary::fuzz
