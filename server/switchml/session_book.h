// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which sessions a SwitchML server has, in which places, and who their workers are: what the
/// published controller's UdpSession call does, for several sessions at once.
///
/// Model:   A session is known by the number that its workers agreed on, or was configured. It
///          begins when the first worker registers and serves packets when the last one has. An
///          address is in one session at a time: a job that starts again from the same workers
///          replaces what is left of it, any other must wait until the old session has been silent
///          for `idle_after`. Nothing says good-bye in SwitchML, so a silent session also gives its
///          place up when somebody else needs one.
/// Bounds:  As many sessions as places.
/// Threads: None of its own; the caller keeps it to one at a time.
/// Errors:  One line that names what was asked and what is allowed.
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

/// Where sessions are served: every core of an engine at once.
class SessionPlaces {
 public:
  virtual void begin(uint32_t place, const switchml::SessionConfig& session) = 0;
  virtual void set_worker(uint32_t place, uint32_t worker, const Endpoint& address) = 0;
  virtual void end(uint32_t place) = 0;
  /// When the last packet of the session's workers came.
  [[nodiscard]] virtual Instant heard_at(uint32_t place) = 0;

 protected:
  ~SessionPlaces() = default;
};

class SessionBook {
 public:
  struct Config {
    switchml::ShardConfig shard;
    Duration idle_after = seconds(600);
  };
  /// What a worker asks for.
  struct Request {
    uint64_t session_id = 0;
    uint32_t rank = 0;
    uint32_t num_workers = 0;
    Endpoint address;  ///< The port plays no part.
    uint32_t elements = 0;
  };
  /// What is known of a place, for reports.
  struct Entry {
    uint64_t id = 0;
    bool configured = false;  ///< Never gives its place up.
    switchml::SessionConfig config;
    std::vector<Endpoint> workers{};  ///< By rank; an address of zeros: not registered.
    Instant begun_at;
  };

  SessionBook(const Config& config, SessionPlaces& places)
      : config_(config), places_(places), entries_(config.shard.sessions_max) {}

  /// A session that lasts as long as the server. @param workers Their addresses by rank.
  Result<void> configure(const switchml::SessionConfig& session,
                         const std::vector<Endpoint>& workers, Instant now);
  /// A worker registers.
  Result<void> join(const Request& request, Instant now);

  /// By place; none where no session is.
  [[nodiscard]] const std::vector<std::optional<Entry>>& entries() const { return entries_; }

 private:
  [[nodiscard]] Result<void> check_request(const Request& request) const;
  [[nodiscard]] Result<uint32_t> place_for(const Request& request, Instant now);
  [[nodiscard]] Result<void> free_address(const Request& request, Instant now);
  [[nodiscard]] bool is_idle(uint32_t place, Instant now);
  void begin(uint32_t place, Entry entry);
  void set_worker(uint32_t place, uint32_t rank, const Endpoint& address);
  void end(uint32_t place);

  const Config config_;
  SessionPlaces& places_;
  std::vector<std::optional<Entry>> entries_;  ///< Shape [places].
};

}  // namespace tributary::server
