// SPDX-License-Identifier: Apache-2.0
/// @file
/// A node in the cable of an aggregator. It forwards datagrams, scrambles some of them, and shows
/// them to an observer of the aggregator's input and output.
///
/// Model:   Port 0 faces outward, port 1 the aggregator. Scrambling models errors that UDP's
///          checksum misses. It flips a bit in a field that the protocol checks, so the receiver
///          must refuse the message, and in every gradient. Control messages are not scrambled: a
///          flipped nonce is another worker's join. In a SwitchML message the type flips, because a
///          switch need not check anything else. Tampering flips one bit that a seal protects.
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

  /// Sees every datagram in the form in which it is forwarded.
  class Watcher {
   public:
    virtual void on_arrival(uint32_t aggregator, const net::Packet& packet) = 0;
    virtual void on_departure(uint32_t aggregator, const net::Packet& packet) = 0;
    /// Sees a tampered datagram, in place of the original one.
    virtual void on_tampered(const net::PacketRef& packet) = 0;

   protected:
    ~Watcher() = default;
  };

  /// Scrambles a message in place.
  /// @return false if the message must not be scrambled.
  using Scramble = bool (*)(std::span<std::byte> bytes, Prng& draws);

  FaultWire(net::Network& network, std::string name, uint32_t aggregator, uint64_t seed,
            Watcher& watcher, Scramble scramble_message);

  /// Sets the probability of scrambling a message.
  void set_scramble(double probability) { scramble_ = probability; }
  /// Sets the probability of tampering with a sealed message.
  void set_tamper(double probability) { tamper_ = probability; }
  /// Injects a datagram into the cable.
  void inject(uint32_t port, net::PacketRef packet);

  [[nodiscard]] net::NodeId id() const { return id_; }
  [[nodiscard]] uint32_t aggregator() const { return aggregator_; }
  [[nodiscard]] uint64_t scrambled_count() const { return scrambled_count_; }
  [[nodiscard]] uint64_t tampered_count() const { return tampered_count_; }

  void receive(uint32_t port, net::PacketRef packet) override;

 private:
  void pass_on(uint32_t port, net::PacketRef packet);
  [[nodiscard]] bool scramble(uint32_t onward, const net::Packet& packet);
  [[nodiscard]] bool tamper(uint32_t onward, const net::Packet& packet);

  net::Network& network_;
  const uint32_t aggregator_;
  Prng draws_;
  Watcher& watcher_;
  const Scramble scramble_message_;
  net::NodeId id_;
  double scramble_ = 0;
  uint64_t scrambled_count_ = 0;
  double tamper_ = 0;
  uint64_t tampered_count_ = 0;
};

/// Scrambles a message between a worker and an aggregator.
[[nodiscard]] bool scramble_message(std::span<std::byte> bytes, Prng& draws);
/// Scrambles a message between two aggregators.
[[nodiscard]] bool scramble_tree_message(std::span<std::byte> bytes, Prng& draws);
/// Flips one bit that the seal of a message of a session protects: of the head in mode `header`, of
/// the whole message in mode `full`. Leaves joins and the replies to them intact.
/// @return false if the message is not such a message.
[[nodiscard]] bool tamper_message(std::span<std::byte> bytes, Prng& draws);
[[nodiscard]] bool scramble_switchml_message(std::span<std::byte> bytes, Prng& draws);

}  // namespace tributary::lab
