// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/switchml_words.h"

#include "microcode/switchml_wire.h"

namespace tributary::lab {

bool is_switchml_port(uint16_t port) {
  return (port & microcode::kSwitchmlPortMask) ==
         (microcode::kSwitchmlPort & microcode::kSwitchmlPortMask);
}

engine::TraceWord switchml_message(std::span<const std::byte> payload, bool to_switch) {
  const auto head = microcode::decode_switchml_head(payload);
  if (!head) return {.name = "malformed"};
  return {.name = to_switch ? "contribution" : "result",
          .fields = {{"job", head->job_number},
                     {"slot", head->slot},
                     {"set", head->set ? 1U : 0U},
                     {"packet_id", TraceHex{head->packet_id}},
                     {"elements", head->elements}}};
}

}  // namespace tributary::lab
