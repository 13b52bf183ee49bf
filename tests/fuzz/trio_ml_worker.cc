// SPDX-License-Identifier: Apache-2.0
// A Trio-ML worker's protocol: its aggregator sends any packets at any times.
#include "host/trio_ml/worker_protocol.h"
#include "tests/fuzz/protocol_steps.h"
#include "tests/fuzz/worker_messages.h"

namespace tributary::fuzz {
namespace {

constexpr uint32_t kNonce = 77;
constexpr uint32_t kWindow = 4;
constexpr uint32_t kGradients = 4;

host::CommunicatorConfig config_of(uint32_t kind) {
  host::CommunicatorConfig config;
  config.server = Endpoint::ipv4(0x0a000001, 12000);
  config.job_id = 7;
  config.rank = 1;
  config.world = 4;
  config.gradients = kGradients;
  config.gradients_flexible = (kind & 1) != 0;
  config.repair = (kind & 2) == 0;
  config.window = kWindow;
  config.deadline = seconds(1);
  return config;
}

void run(std::span<const uint8_t> input) {
  InputReader in(input);
  const host::CommunicatorConfig config = config_of(in.below(4));
  host::WorkerProtocol protocol(config, kNonce, Instant(seconds(10)));
  AggregatorMessages messages(config.job_id, kNonce, config.world);
  const Peers peers{.addresses = {config.server},
                    .packet = [&](InputReader& from) { return messages.make(from); },
                    .on_sent = [&](auto bytes) { messages.note_sent(bytes); }};
  run_steps(in, protocol, peers,
            {.window = kWindow,
             .packet_bytes = wire::kControlMessageBytes + kGradients * wire::kGradientBytes});
}

void put_packet(InputWriter& out) { out.put8({static_cast<uint32_t>(ProtocolStep::kPacket), 0}); }
void put_submit(InputWriter& out, uint32_t elements, uint32_t type) {
  out.put8({static_cast<uint32_t>(ProtocolStep::kSubmit), elements, type});
}
void put_wait(InputWriter& out, uint16_t times_100_us) {
  out.put8({static_cast<uint32_t>(ProtocolStep::kWait)}).put(times_100_us);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (uint32_t type = 0; type < 8; type++) {
    InputWriter session;
    session.put8({type % 4});
    put_submit(session, 30, type);
    put_packet(session);
    put_welcome(session);
    for (uint32_t block = 0; block < 12; block++) {
      put_packet(session);
      put_result(session, block);
    }
    put_submit(session, 9, type);
    put_wait(session, 200);  // 20 ms: probes.
    put_packet(session);
    put_have(session, 12);
    put_wait(session, 6000);
    put_wait(session, 6000);  // The deadline.
    all.push_back(session.bytes());
  }
  for (uint8_t reason = 0; reason <= wire::kReasonLast; reason++) {
    InputWriter notice;
    notice.put8({0});
    put_submit(notice, 30, 0);
    put_packet(notice);
    put_welcome(notice);
    put_packet(notice);
    put_notice(notice, static_cast<wire::Reason>(reason), 0);
    all.push_back(notice.bytes());
    // The same reason in a reply to the join: kPending and kRefusal.
    for (const uint32_t type : {6U, 7U}) {
      InputWriter reply;
      reply.put8({reason % 2U});
      put_packet(reply);
      reply.put8({type, 0, reason, 1, 2, 0});
      put_wait(reply, 20000);
      all.push_back(reply.bytes());
    }
  }
  return all;
}

TRIB_FUZZ_TARGET(trio_ml_worker);

}  // namespace
}  // namespace tributary::fuzz
