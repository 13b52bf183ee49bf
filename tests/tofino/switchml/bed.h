// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML workers around a modelled switch, for tests: Algorithm 4 of the SwitchML paper over
/// links that lose, duplicate and delay packets.
///
/// Model:   An event list by (time, sequence). Delays stay below the retransmission timeout and
///          below a phase, as the protocol requires (see tofino/switchml/program.h).
/// Threads: One. Nothing sleeps.
/// Tests:   used by tests/tofino/switchml/sums_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "tofino/pipeline/udp_frame.h"
#include "tofino/switchml/control.h"
#include "wire/switchml.h"

namespace tributary::tofino {

using wire::kSwitchmlPort;
using wire::parse_switchml;
using wire::switchml_payload;
using wire::SwitchmlHeader;
using wire::SwitchmlMessage;

namespace testing {

/// Keeps the packets that a switch sends.
class CollectingSink final : public SwitchSink {
 public:
  struct Sent {
    Instant at;
    uint32_t port;
    uint32_t size_bytes;
    std::vector<std::byte> stored;
  };
  void send(Instant at, uint32_t port, PacketView packet) override {
    sent.push_back({at, port, packet.size_bytes, {packet.stored.begin(), packet.stored.end()}});
  }
  std::vector<Sent> sent;
};

inline constexpr uint64_t kSwitchMac = 0x0200'0000'0001;
inline constexpr uint32_t kSwitchIp = 0x0a00'00fe;

/// Worker i: port 4 i of pipe 0, MAC 02:00:00:00:01:i, address 10.0.1.i, UDP port 4000.
[[nodiscard]] FrameAddress worker_address(uint32_t worker);
[[nodiscard]] inline uint32_t worker_port(uint32_t worker) { return 4 * worker; }
[[nodiscard]] SwitchmlSession session_of(uint32_t workers, uint32_t pool_slots);
/// Returns a whole frame from a worker to the switch.
[[nodiscard]] std::vector<std::byte> frame_of(uint32_t worker, const SwitchmlMessage& message);

struct BedFaults {
  double loss = 0;
  double duplicate = 0;
  /// Added to each packet's delay, uniformly. Packets of one link do not overtake each other,
  /// because an overtaken retransmission would count for its slot's next use.
  Duration jitter;
};

/// Sums a tensor; every worker has `elements_each` values.
class SwitchmlBed final : private SwitchSink {
 public:
  SwitchmlBed(const SwitchmlVariant& variant, uint32_t workers, uint32_t pool_slots, uint64_t seed,
              const BedFaults& faults);

  /// Runs until every worker has every result.
  /// @return false if virtual time ran out first.
  [[nodiscard]] bool reduce(const std::vector<std::vector<int32_t>>& tensors, Duration limit);

  [[nodiscard]] SwitchmlSwitch& device() { return *switch_; }
  /// Returns the values that a worker has received.
  [[nodiscard]] const std::vector<int32_t>& result(uint32_t worker) const {
    return workers_[worker].result;
  }
  /// Returns a hash of all packets that left the switch, with their times.
  [[nodiscard]] uint64_t digest() const { return digest_; }
  [[nodiscard]] uint64_t resent() const { return resent_; }

 private:
  struct Slot {
    uint64_t offset = 0;  ///< Offset of the current packet, in elements.
    bool set = false;
    bool busy = false;
    uint64_t attempt = 0;
  };
  struct Worker {
    const std::vector<int32_t>* tensor = nullptr;
    std::vector<int32_t> result;
    std::vector<Slot> slots;
    uint64_t done = 0;  ///< Elements received.
    Instant up_last;    ///< Last arrival at the switch; later packets do not arrive earlier.
    Instant down_last;  ///< Last arrival at the worker, likewise.
  };
  struct Event {
    enum class Kind : uint8_t { kToSwitch, kToWorker, kTimeout } kind;
    uint32_t worker = 0;
    std::vector<std::byte> frame = {};
    uint32_t slot = 0;
    uint64_t attempt = 0;
  };

  void send(Instant at, uint32_t port, PacketView packet) override;
  void push(Instant at, Event event);
  void put_on_link(Instant at, Event event);
  void transmit(Instant at, uint32_t worker, uint32_t slot);
  void receive(Instant at, uint32_t worker, const std::vector<std::byte>& frame);
  void handle(Instant at, Event& event);
  [[nodiscard]] bool complete() const;

  const uint32_t elements_;
  const BedFaults faults_;
  Prng draws_;
  std::unique_ptr<SwitchmlSwitch> switch_;
  std::vector<Worker> workers_;
  std::map<std::pair<Instant, uint64_t>, Event> events_;
  uint64_t sequence_ = 0;
  uint64_t digest_ = 0;
  uint64_t resent_ = 0;
};

}  // namespace testing
}  // namespace tributary::tofino
