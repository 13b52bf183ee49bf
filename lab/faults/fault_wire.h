// SPDX-License-Identifier: Apache-2.0
/// @file
/// A bump in a cable in front of an aggregator: it passes datagrams on, sometimes scrambled, and
/// shows them to whoever watches what the aggregator gets and says.
///
/// Model:   Port 0 looks outward, port 1 to the aggregator. Scrambling is what UDP's checksum did
///          not see: a bit flips in a field that the protocol checks (job, source, session, key,
///          number of gradients; of a result: job, session, generation, length of the tensor,
///          number of gradients), and with it every gradient. The receiver has to refuse the
///          message. Joins and the like are left alone: a flipped nonce is another worker's join.
///          Of a SwitchML message it is the type that flips: whatever else is there, no switch has
///          to check.
/// Threads: One.
/// Tests:   tests/lab/faults/fault_wire_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "base/prng.h"
#include "net/network.h"

namespace tributary::lab {

class FaultWire final : public net::Node {
 public:
  static constexpr uint32_t kOuterPort = 0;
  static constexpr uint32_t kInnerPort = 1;

  /// Shown everything that goes through, as it goes on.
  class Watcher {
   public:
    virtual void on_arrival(uint32_t aggregator, const net::Packet& packet) = 0;
    virtual void on_departure(uint32_t aggregator, const net::Packet& packet) = 0;

   protected:
    ~Watcher() = default;
  };

  /// Scrambles a message in place. @return false if it is none that may be.
  using Scramble = bool (*)(std::span<std::byte> bytes, Prng& draws);

  FaultWire(net::Network& network, std::string name, uint32_t aggregator, uint64_t seed,
            Watcher& watcher, Scramble scramble);

  /// From now on, of the messages that can be.
  void set_scramble(double probability) { scramble_ = probability; }
  /// Puts a datagram onto the cable as if somebody had sent it.
  void inject(uint32_t port, net::PacketRef packet);

  [[nodiscard]] net::NodeId id() const { return id_; }
  [[nodiscard]] uint32_t aggregator() const { return aggregator_; }
  [[nodiscard]] uint64_t scrambled_count() const { return scrambled_count_; }

  void receive(uint32_t port, net::PacketRef packet) override;

 private:
  void pass_on(uint32_t port, net::PacketRef packet);

  net::Network& network_;
  const uint32_t aggregator_;
  Prng draws_;
  Watcher& watcher_;
  const Scramble scramble_message_;
  net::NodeId id_;
  double scramble_ = 0;
  uint64_t scrambled_count_ = 0;
};

[[nodiscard]] bool scramble_message(std::span<std::byte> bytes, Prng& draws);
[[nodiscard]] bool scramble_switchml_message(std::span<std::byte> bytes, Prng& draws);

}  // namespace tributary::lab
