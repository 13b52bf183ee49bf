// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sessions of a SwitchML server, their places and workers (the published UdpSession call).
///
/// Model:   A session has a number or is configured. It begins when its first worker registers and
///          serves packets when all have. An address is in one session at a time. A rank that
///          returns from its address with a new number ends its old session. Other requests
///          replace a session silent for `idle_after`: SwitchML has no leave message.
/// Bounds:  As many sessions as places.
/// Threads: None of its own; the caller serialises calls.
/// Errors:  One line with the value given and the values allowed.
/// Source:  p4lang/p4app-switchML, commit b5c74a0: protos/switchml.proto and its controller.
/// Tests:   tests/server/switchml/session_book_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/switchml/switchml.h"
#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::server {

/// Applies session changes to every core of an engine. During a call, the book's entries still show
/// the state before the change.
class SessionPlaces {
 public:
  virtual void begin(uint32_t place, const switchml::SessionConfig& session) = 0;
  /// @param mac The worker's MAC address (low 48 bits), 0 if unknown.
  virtual void set_worker(uint32_t place, uint32_t worker, const Endpoint& address,
                          uint64_t mac) = 0;
  virtual void end(uint32_t place) = 0;
  /// Returns when the last packet of the session's workers arrived.
  [[nodiscard]] virtual Instant last_heard_at(uint32_t place) = 0;

 protected:
  ~SessionPlaces() = default;
};

class SessionBook {
 public:
  struct Config {
    switchml::ShardConfig shard;
    Duration idle_after = seconds(600);
  };
  /// A worker's registration.
  struct Request {
    uint64_t session_id = 0;
    uint32_t rank = 0;
    uint32_t num_workers = 0;
    Endpoint address;  ///< The port is ignored.
    uint32_t elements = 0;
    uint64_t mac = 0;  ///< Low 48 bits; 0 if unknown.
  };
  /// The state of a place, for reports.
  struct Entry {
    uint64_t id = 0;
    bool configured = false;  ///< Never evicted.
    switchml::SessionConfig config;
    std::vector<Endpoint> workers{};  ///< By rank; a zero address is not registered.
    Instant begun_at;
  };

  SessionBook(const Config& config, SessionPlaces& places)
      : config_(config), places_(places), entries_(config.shard.sessions_max) {}

  /// Adds a session that lasts as long as the server.
  /// @param workers The workers' addresses by rank.
  Result<void> configure(const switchml::SessionConfig& session,
                         const std::vector<Endpoint>& workers, Instant now);
  /// Registers a worker. Begins its session if the worker is the first.
  Result<void> join(const Request& request, Instant now);

  /// Returns the sessions by place; an empty place holds no value.
  [[nodiscard]] const std::vector<std::optional<Entry>>& entries() const { return entries_; }

 private:
  [[nodiscard]] Result<void> check_request(const Request& request) const;
  [[nodiscard]] Result<uint32_t> place_for(const Request& request, Instant now);
  [[nodiscard]] Result<void> free_address(const Request& request, Instant now);
  [[nodiscard]] bool is_idle(uint32_t place, Instant now);
  void begin(uint32_t place, Entry entry);
  void set_worker(uint32_t place, uint32_t rank, const Endpoint& address, uint64_t mac);
  void end(uint32_t place);

  const Config config_;
  SessionPlaces& places_;
  std::vector<std::optional<Entry>> entries_;  ///< Shape [places].
};

}  // namespace tributary::server
