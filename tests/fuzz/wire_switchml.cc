// SPDX-License-Identifier: Apache-2.0
// A SwitchML packet, decoded and encoded: both decoders agree, and the encoding decodes to the same
// message.
#include "tests/fuzz/fuzz_input.h"
#include "wire/switchml.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const auto payload = std::as_bytes(input);
  const auto head = wire::decode_switchml_head(payload);
  const auto message = wire::parse_switchml(payload);
  EXPECT_TRUE(head.has_value() || !message.has_value());
  if (!head) return;
  EXPECT_LE(head->slot, wire::kSwitchmlSlotMax);
  EXPECT_EQ(message.has_value(), payload.size() >= wire::switchml_bytes(head->elements));
  if (!message) return;
  EXPECT_EQ(message->elements.size(), head->elements);
  const auto encoded = wire::switchml_payload(*message);
  EXPECT_EQ(encoded.size(), wire::switchml_bytes(head->elements));
  EXPECT_EQ(wire::parse_switchml(encoded), message);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const uint32_t elements : {64U, 256U}) {
    wire::SwitchmlMessage message{.job_number = 3, .packet_id = 9, .set = true, .slot = 5};
    message.elements.assign(elements, -1);
    all.push_back(input_of(wire::switchml_payload(message)));
  }
  return all;
}

TRIB_FUZZ_TARGET(wire_switchml);

}  // namespace
}  // namespace tributary::fuzz
