// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/switchml_words.h"

#include "wire/switchml.h"

namespace tributary::lab {

bool is_switchml_port(uint16_t port) {
  return (port & wire::kSwitchmlPortMask) == (wire::kSwitchmlPort & wire::kSwitchmlPortMask);
}

engine::TraceWord switchml_message(std::span<const std::byte> payload, bool to_switch) {
  const auto head = wire::decode_switchml_head(payload);
  if (!head) return {.name = "malformed"};
  return {.name = to_switch ? "contribution" : "result",
          .fields = {{"job", head->job_number},
                     {"slot", head->slot},
                     {"set", head->set ? 1U : 0U},
                     {"packet_id", TraceHex{head->packet_id}},
                     {"elements", head->elements}}};
}

}  // namespace tributary::lab
