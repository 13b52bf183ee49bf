// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/fault_wire.h"

#include <algorithm>
#include <array>

#include "wire/switchml.h"
#include "wire/trio_ml.h"

namespace tributary::lab {

using wire::MessageType;

namespace {

/// Bits of a message that may flip.
struct BitRange {
  uint32_t byte;
  uint32_t bit_count;
};
// Offsets as in docs/wire-format.md, of the header and of the extension after its 12 bytes. The
// upper four bits of byte 10 do not belong to grad_cnt.
constexpr BitRange kJob{0, 8};
constexpr BitRange kSource{6, 8};
constexpr BitRange kGeneration{8, 16};
constexpr BitRange kGradientCount{11, 8};
constexpr BitRange kElements{16, 32};
constexpr BitRange kKey{24, 64};
constexpr std::array kContributionFields{kJob, kSource, kGradientCount, kKey};
constexpr std::array kProbeFields{kJob, kSource, kKey};
constexpr std::array kResultFields{kJob, kGeneration, kGradientCount, kKey, kElements};
// A lower aggregator may learn of the block only from its result, so it has no terms to compare.
constexpr std::array kResultFieldsInTree{kJob, kKey};

template <size_t N>
void flip_one(const std::array<BitRange, N>& fields, std::span<std::byte> bytes, Prng& draws) {
  const BitRange& field = fields[draws.below(N)];
  const uint32_t bit = draws.below(field.bit_count);
  bytes[field.byte + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

template <size_t N>
bool scramble_with(const std::array<BitRange, N>& result_fields, std::span<std::byte> bytes,
                   Prng& draws) {
  wire::MessageHead message;
  const auto head = bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
  if (decode_head(head, static_cast<uint32_t>(bytes.size()), message) != wire::DecodeStatus::kOk ||
      !message.header.extended) {
    return false;
  }
  switch (message.extension.type) {
    case MessageType::kContribution:
      flip_one(kContributionFields, bytes, draws);
      break;
    case MessageType::kProbe:
      flip_one(kProbeFields, bytes, draws);
      break;
    case MessageType::kResult:
    case MessageType::kReceipt:
      flip_one(result_fields, bytes, draws);
      break;
    default:
      return false;
  }
  for (std::byte& byte : bytes.subspan(message.head_bytes)) {
    byte ^= static_cast<std::byte>(1 + draws.below(255));
  }
  return true;
}

}  // namespace

bool scramble_message(std::span<std::byte> bytes, Prng& draws) {
  return scramble_with(kResultFields, bytes, draws);
}

bool scramble_tree_message(std::span<std::byte> bytes, Prng& draws) {
  return scramble_with(kResultFieldsInTree, bytes, draws);
}

bool tamper_message(std::span<std::byte> bytes, Prng& draws) {
  wire::MessageHead message;
  const auto head = bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
  if (decode_head(head, static_cast<uint32_t>(bytes.size()), message) != wire::DecodeStatus::kOk ||
      !message.header.extended) {
    return false;
  }
  const MessageType type = message.extension.type;
  const auth::Mode mode = wire::seal_mode(message.extension.flags);
  const bool of_session = !is_join_reply(type) && type != MessageType::kJoin &&
                          type != MessageType::kLeave && type != MessageType::kReset;
  if (!of_session || mode == auth::Mode::kNone) return false;
  const size_t end = mode == auth::Mode::kFull ? bytes.size() : message.head_bytes;
  constexpr uint32_t kBits = 8;
  const uint32_t bit = draws.below(static_cast<uint32_t>(end) * kBits);
  bytes[bit / kBits] ^= static_cast<std::byte>(1U << (bit % kBits));
  return true;
}

bool scramble_switchml_message(std::span<std::byte> bytes, Prng& draws) {
  if (!wire::decode_switchml_head(bytes)) return false;
  constexpr uint32_t kTypeShift = 4;  // The upper half of the first byte.
  bytes[0] ^= static_cast<std::byte>(1U << (kTypeShift + draws.below(4)));
  for (std::byte& byte : bytes.subspan(wire::SwitchmlHeader::kBytes)) {
    byte ^= static_cast<std::byte>(1 + draws.below(255));
  }
  return true;
}

FaultWire::FaultWire(net::Network& network, std::string name, uint32_t aggregator, uint64_t seed,
                     Watcher& watcher, Scramble scramble_message)
    : network_(network),
      aggregator_(aggregator),
      draws_(seed),
      watcher_(watcher),
      scramble_message_(scramble_message),
      id_(network.add_node(*this, std::move(name))) {}

void FaultWire::pass_on(uint32_t port, net::PacketRef packet) {
  if (port == kInnerPort) {
    watcher_.on_arrival(aggregator_, *packet);
  } else {
    watcher_.on_departure(aggregator_, *packet);
  }
  network_.transmit(id_, port, std::move(packet));
}

void FaultWire::inject(uint32_t port, net::PacketRef packet) { pass_on(port, std::move(packet)); }

bool FaultWire::scramble(uint32_t onward, const net::Packet& packet) {
  if (scramble_ <= 0 || !draws_.chance(scramble_)) return false;
  net::PacketRef changed = network_.packets().copy(packet);
  if (!scramble_message_(changed->stored, draws_)) return false;
  scrambled_count_++;
  if (onward == kOuterPort) watcher_.on_departure(aggregator_, packet);  // In its original form.
  if (onward == kInnerPort) watcher_.on_arrival(aggregator_, *changed);
  network_.transmit(id_, onward, std::move(changed));
  return true;
}

bool FaultWire::tamper(uint32_t onward, const net::Packet& packet) {
  if (tamper_ <= 0 || !draws_.chance(tamper_)) return false;
  net::PacketRef changed = network_.packets().copy(packet);
  if (!tamper_message(changed->stored, draws_)) return false;
  tampered_count_++;
  if (onward == kOuterPort) watcher_.on_departure(aggregator_, packet);  // In its original form.
  watcher_.on_tampered(changed);
  network_.transmit(id_, onward, std::move(changed));
  return true;
}

void FaultWire::receive(uint32_t port, net::PacketRef packet) {
  const uint32_t onward = port == kOuterPort ? kInnerPort : kOuterPort;
  if (scramble(onward, *packet) || tamper(onward, *packet)) return;
  pass_on(onward, std::move(packet));
}

}  // namespace tributary::lab
