// SPDX-License-Identifier: Apache-2.0
#include "wire/switchml.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"
#include "base/byte_order.h"

namespace tributary::wire {
namespace {

/// Number of elements, indexed by size code.
constexpr uint32_t kElements[] = {32, 64, 128, 256};

}  // namespace

std::optional<uint32_t> switchml_size_code(uint32_t elements) {
  for (uint32_t code = 0; code < std::size(kElements); code++) {
    if (kElements[code] == elements) return code;
  }
  return std::nullopt;
}

std::optional<uint32_t> switchml_elements(uint32_t size_code) {
  if (size_code >= std::size(kElements)) return std::nullopt;
  return kElements[size_code];
}

void encode_switchml_head(const SwitchmlHead& head, std::byte* to) {
  const auto code = switchml_size_code(head.elements);
  TRIB_ASSERT(code.has_value());
  TRIB_ASSERT(head.slot <= kSwitchmlSlotMax);
  std::fill_n(to, SwitchmlHeader::kBytes, std::byte{});
  SwitchmlHeader::MessageType::store(to, kSwitchmlMessageType);
  SwitchmlHeader::Size::store(to, *code);
  SwitchmlHeader::JobNumber::store(to, head.job_number);
  SwitchmlHeader::PacketId::store(to, byte_swapped(head.packet_id));
  SwitchmlHeader::Set::store(to, head.set ? 1 : 0);
  SwitchmlHeader::Degraded::store(to, head.degraded ? 1 : 0);
  SwitchmlHeader::Slot::store(to, head.slot);
  SwitchmlHeader::Exponent0::store(to, static_cast<uint8_t>(head.exponent0));
  SwitchmlHeader::Exponent1::store(to, static_cast<uint8_t>(head.exponent1));
}

std::optional<SwitchmlHead> decode_switchml_head(std::span<const std::byte> payload) {
  if (payload.size() < SwitchmlHeader::kBytes) return std::nullopt;
  const std::byte* header = payload.data();
  if (SwitchmlHeader::MessageType::load(header) != kSwitchmlMessageType) return std::nullopt;
  const auto elements = switchml_elements(SwitchmlHeader::Size::load(header));
  if (!elements) return std::nullopt;
  return SwitchmlHead{.job_number = static_cast<uint8_t>(SwitchmlHeader::JobNumber::load(header)),
                      .packet_id = byte_swapped(SwitchmlHeader::PacketId::load(header)),
                      .set = SwitchmlHeader::Set::load(header) != 0,
                      .slot = static_cast<uint16_t>(SwitchmlHeader::Slot::load(header)),
                      .exponent0 = static_cast<int8_t>(SwitchmlHeader::Exponent0::load(header)),
                      .exponent1 = static_cast<int8_t>(SwitchmlHeader::Exponent1::load(header)),
                      .elements = *elements,
                      .degraded = SwitchmlHeader::Degraded::load(header) != 0};
}

std::vector<std::byte> switchml_payload(const SwitchmlMessage& message) {
  const auto elements = static_cast<uint32_t>(message.elements.size());
  std::vector<std::byte> bytes(switchml_bytes(elements));
  encode_switchml_head({.job_number = message.job_number,
                        .packet_id = message.packet_id,
                        .set = message.set,
                        .slot = message.slot,
                        .exponent0 = message.exponent0,
                        .exponent1 = message.exponent1,
                        .elements = elements},
                       bytes.data());
  std::byte* to = bytes.data() + SwitchmlHeader::kBytes;
  for (const int32_t element : message.elements) {
    store_be(to, static_cast<uint32_t>(element));
    to += sizeof element;
  }
  return bytes;
}

std::optional<SwitchmlMessage> parse_switchml(std::span<const std::byte> payload) {
  const auto head = decode_switchml_head(payload);
  if (!head || payload.size() < switchml_bytes(head->elements)) return std::nullopt;
  SwitchmlMessage message{.job_number = head->job_number,
                          .packet_id = head->packet_id,
                          .set = head->set,
                          .slot = head->slot,
                          .exponent0 = head->exponent0,
                          .exponent1 = head->exponent1};
  message.elements.resize(head->elements);
  const std::byte* from = payload.data() + SwitchmlHeader::kBytes;
  for (int32_t& element : message.elements) {
    element = static_cast<int32_t>(load_be<uint32_t>(from));
    from += sizeof element;
  }
  return message;
}

}  // namespace tributary::wire
