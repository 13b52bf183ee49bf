// SPDX-License-Identifier: Apache-2.0
/// @file
/// Other traffic: a host that sends datagrams to one address at a constant rate.
///
/// Model:   Datagrams of kPayloadBytes without content, evenly spaced. With trains, each simulated
///          datagram represents several.
/// Threads: One.
/// Tests:   tests/lab/cluster/background_flow_test.cc
#pragma once

#include <string>

#include "net/network.h"

namespace tributary::lab {

class BackgroundFlow final : public net::Node, private EventTarget {
 public:
  /// The UDP payload of a frame of 1500 bytes.
  static constexpr uint32_t kPayloadBytes = 1472;

  struct Config {
    std::string name;
    Endpoint from;
    Endpoint to;
    uint64_t bits_per_s = 0;  ///< On the wire, not 0.
  };

  BackgroundFlow(net::Network& network, const Config& config);

  [[nodiscard]] net::NodeId id() const { return id_; }
  /// Starts to send. The flow continues until the network is destroyed.
  void start();

  void receive(uint32_t, net::PacketRef) override {}

 private:
  void on_event(uint64_t argument) override;

  net::Network& network_;
  const Config config_;
  net::NodeId id_;
};

}  // namespace tributary::lab
