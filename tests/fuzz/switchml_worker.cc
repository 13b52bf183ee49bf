// SPDX-License-Identifier: Apache-2.0
// A SwitchML worker's protocol, for the published switch and for the one with timeouts: the switch
// sends any packets at any times.
#include "base/byte_order.h"
#include "host/switchml/switchml_protocol.h"
#include "tests/fuzz/protocol_steps.h"

namespace tributary::fuzz {
namespace {

constexpr uint32_t kPool = 4;
constexpr uint32_t kElements = 64;

host::SwitchmlConfig config_of(uint32_t kind) {
  host::SwitchmlConfig config;
  config.server = Endpoint::ipv4(0x0a000001, wire::kSwitchmlPort);
  config.rank = 1;
  config.world = 2;
  config.elements = kElements;
  config.pool = kPool;
  config.patient_start = (kind & 1) != 0;
  config.switch_times_out = (kind & 2) != 0;
  config.timeouts_to_double = (kind & 1) != 0 ? 2 : 0;
  config.deadline = seconds(1);
  return config;
}

/// Remembers the last packet of each slot and set, and makes its result.
class Switch {
 public:
  void note_sent(std::span<const std::byte> bytes) {
    const auto head = wire::decode_switchml_head(bytes);
    ASSERT_TRUE(head.has_value());
    ASSERT_LT(head->slot, kPool);
    sent_[head->slot][head->set ? 1 : 0] = *head;
  }

  [[nodiscard]] std::vector<std::byte> make(InputReader& in) const {
    const uint32_t slot = in.below(kPool);
    wire::SwitchmlHead head = sent_[slot][in.below(2)];
    const uint32_t flags = in.take<uint8_t>();
    head.degraded = (flags & 1) != 0;
    if ((flags & 2) != 0) head.packet_id += in.take<uint8_t>();
    std::vector<std::byte> bytes(wire::switchml_bytes(head.elements));
    wire::encode_switchml_head(head, bytes.data());
    return bytes;
  }

 private:
  wire::SwitchmlHead sent_[kPool][2] = {
      {{.elements = kElements}, {.elements = kElements}},
      {{.elements = kElements}, {.elements = kElements}},
      {{.elements = kElements}, {.elements = kElements}},
      {{.elements = kElements}, {.elements = kElements}},
  };
};

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  const host::SwitchmlConfig config = config_of(in.below(4));
  ASSERT_TRUE(check(config).has_value());
  host::SwitchmlProtocol protocol(config);
  Switch peer;
  const Peers peers{.addresses = {config.server},
                    .packet = [&](InputReader& from) { return peer.make(from); },
                    .on_sent = [&](auto bytes) { peer.note_sent(bytes); }};
  run_steps(in, protocol, peers,
            {.window = kPool, .packet_bytes = wire::switchml_bytes(kElements)});
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (uint32_t kind = 0; kind < 4; kind++) {
    for (uint32_t type = 0; type < 4; type++) {
      InputWriter session;
      session.put8({kind});
      session.put8({static_cast<uint32_t>(ProtocolStep::kSubmit), 255, type});
      session.put8({static_cast<uint32_t>(ProtocolStep::kSubmit), 200, type});
      for (uint32_t position = 0; position < 12; position++) {
        session.put8({static_cast<uint32_t>(ProtocolStep::kPacket), 0});
        session.put8({position % kPool, position / kPool % 2, position == 5 ? 1U : 0U, 0});
      }
      session.put8({static_cast<uint32_t>(ProtocolStep::kWait)}).put(uint16_t{100});
      session.put8({static_cast<uint32_t>(ProtocolStep::kWait)}).put(uint16_t{20000});
      all.push_back(session.bytes());
    }
  }
  return all;
}

TRIB_FUZZ_TARGET(switchml_worker);

}  // namespace
}  // namespace tributary::fuzz
