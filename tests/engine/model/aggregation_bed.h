// SPDX-License-Identifier: Apache-2.0
/// @file
/// A modelled PFE with Trio-ML, and servers that send plain contributions as in the Trio paper's
/// §6.3. Each server sends its next block when it has the result of the block one window before.
///
/// Model:   Servers are next to the PFE: a packet takes `link` from a server to the PFE, and back.
///          Links have no rate, so only the PFE is measured.
/// Threads: One.
/// Memory:  For tests: it allocates freely.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "apps/trio_ml/app.h"
#include "base/byte_order.h"
#include "base/event_core.h"
#include "base/prng.h"
#include "engine/model/pfe.h"
#include "memory/shared_memory.h"

namespace tributary::testing {

struct AggregationConfig {
  engine::Parameters parameters;
  uint32_t servers = 4;  ///< Source: Trio paper §6.3.
  uint32_t window = 1;
  uint32_t gradients = 1024;
  uint32_t blocks = 100;  ///< Number of blocks from each server.
  uint32_t train = 1;
  bool fine_slots = false;  ///< Counts the banks' time as finely as without trains.
  bool elided = true;
  bool mitigation = false;
  uint32_t silent_servers = 0;  ///< The last ones, which send nothing.
  Duration link = microseconds(1);
  Duration link_jitter = Duration();  ///< Added to each packet's delay, uniform from 0.
  uint64_t seed = 1;
};

class AggregationBed final : public engine::PfeSink, public EventTarget {
 public:
  explicit AggregationBed(const AggregationConfig& config)
      : config_(config),
        prng_(config.seed),
        memory_(*memory::SharedMemory::create({})),
        shard_(0, 1, wire::kTrioMlPort, memory_),
        servers_(config.servers) {
    TRIB_ASSERT(shard_.place_hash_tables().has_value());
    TRIB_ASSERT(shard_.add_job(job_of(config), session_, core_.now()).has_value());
    engine::Parameters parameters = config.parameters;
    parameters.train_max = config.fine_slots ? 1 : config.train;
    pfe_ = std::make_unique<engine::Pfe<trio_ml::App>>(core_, parameters, memory_,
                                                       trio_ml::App(shard_), *this);
  }

  /// Lets every server send all its blocks. @return whether all got all results.
  bool run(Duration at_most = seconds(10)) {
    for (uint32_t s = 0; s < config_.servers - config_.silent_servers; s++) {
      for (uint32_t i = 0; i < std::min(config_.window, config_.blocks); i++) send_next(s);
    }
    return core_.run_until(core_.now() + at_most, [this] { return finished(); });
  }

  [[nodiscard]] bool finished() const {
    return results_ == uint64_t{config_.servers - config_.silent_servers} * config_.blocks;
  }
  [[nodiscard]] engine::Pfe<trio_ml::App>& pfe() { return *pfe_; }
  [[nodiscard]] trio_ml::Shard& shard() { return shard_; }
  [[nodiscard]] EventCore& core() { return core_; }
  /// Returns a digest of the packets that the PFE has sent and their times: equal for equal runs.
  [[nodiscard]] uint64_t digest() const { return digest_; }
  /// Returns the sums of each block that server 0 received; only if payloads are not elided.
  [[nodiscard]] const std::map<uint32_t, std::vector<int32_t>>& sums() const { return sums_; }
  /// Returns the same results as bytes.
  [[nodiscard]] const std::map<uint32_t, std::vector<std::byte>>& results() const {
    return results_bytes_;
  }
  /// Returns the gradients that the PFE has added, for each second of its work.
  [[nodiscard]] double adds_per_s() const {
    const engine::Report report = pfe_->report();
    return static_cast<double>(report.gradients) / in_seconds(report.active);
  }

  /// Returns the gradient that a server contributes.
  [[nodiscard]] static int32_t gradient(uint32_t server, uint32_t block, uint32_t lane) {
    return Prng(uint64_t{server} << 48 | uint64_t{block} << 16 | lane).any_i32();
  }
  /// Returns the sum of all servers' contributions.
  [[nodiscard]] int32_t expected(uint32_t block, uint32_t lane) const {
    uint32_t sum = 0;
    for (uint32_t s = 0; s < config_.servers - config_.silent_servers; s++) {
      sum += static_cast<uint32_t>(gradient(s, block, lane));
    }
    return static_cast<int32_t>(sum);
  }
  [[nodiscard]] std::vector<std::byte> contribution(uint32_t server, uint32_t block) const {
    wire::TrioMlFields header;
    header.job_id = kJob;
    header.block_id = block;
    header.src_id = static_cast<uint8_t>(server);
    header.gen_id = 1;
    header.grad_cnt = static_cast<uint16_t>(config_.gradients);
    const uint32_t lanes = config_.elided ? 0 : config_.gradients;
    std::vector<std::byte> bytes(wire::TrioMlHeader::kBytes + lanes * 4);
    wire::encode_header(header, bytes.data());
    for (uint32_t i = 0; i < lanes; i++) {
      store_be(&bytes[wire::TrioMlHeader::kBytes + i * 4],
               static_cast<uint32_t>(gradient(server, block, i)));
    }
    return bytes;
  }
  [[nodiscard]] static Endpoint address(uint32_t server) {
    return Endpoint::ipv4(0x0a000001 + server, 5000);
  }

 private:
  static constexpr uint8_t kJob = 1;
  enum class Event : uint32_t { kArrive, kResult };

  struct Server {
    uint32_t next = 0;
    uint32_t got = 0;
  };

  [[nodiscard]] static trio_ml::JobConfig job_of(const AggregationConfig& config) {
    trio_ml::JobConfig job;
    job.id = kJob;
    job.sources = config.servers;
    // Twice the window, so that places share no buffers: these servers never retransmit.
    job.block_cnt_max = std::max(2 * std::bit_ceil(config.window), 64U);
    job.block_grad_max = config.gradients;
    job.mitigation = config.mitigation;
    return job;
  }
  Duration link_delay() {
    const auto jitter = static_cast<double>(config_.link_jitter.ticks()) * prng_.unit();
    return config_.link + Duration::from_ticks(static_cast<int64_t>(jitter));
  }
  void schedule(Event event, uint32_t server, uint32_t block) {
    core_.schedule(core_.now() + link_delay(), EventPriority::kHost, *this,
                   uint64_t{static_cast<uint32_t>(event)} << 60 | uint64_t{server} << 32 | block);
  }
  void send_next(uint32_t server) {
    if (servers_[server].next == config_.blocks) return;
    schedule(Event::kArrive, server, servers_[server].next++);
  }

  void on_event(uint64_t argument) override {
    const auto server = static_cast<uint32_t>(argument >> 32) & 0xffff;
    const auto block = static_cast<uint32_t>(argument);
    if (argument >> 60 == 0) {
      const uint32_t size = wire::TrioMlHeader::kBytes + config_.gradients * 4;
      pfe_->arrive(contribution(server, block), size, address(server), config_.train);
    } else {
      results_++;
      servers_[server].got++;
      send_next(server);
    }
  }

  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations) override {
    constexpr uint64_t kFnvPrime = 0x100000001b3;
    const auto add = [this](uint64_t value) { digest_ = (digest_ ^ value) * kFnvPrime; };
    add(static_cast<uint64_t>(core_.now().since_start().ticks()));
    add(size_bytes);
    add(destinations.size());
    for (const std::byte byte : stored) add(std::to_integer<uint64_t>(byte));
    wire::TrioMlFields header;
    wire::decode_header(wire::View<wire::TrioMlHeader>(stored.data()), header);
    if (stored.size() == size_bytes && !config_.elided) {
      results_bytes_[header.block_id].assign(stored.begin(), stored.end());
      std::vector<int32_t>& lanes = sums_[header.block_id];
      lanes.clear();
      for (uint32_t at = wire::TrioMlHeader::kBytes; at < size_bytes; at += 4) {
        lanes.push_back(static_cast<int32_t>(load_be<uint32_t>(&stored[at])));
      }
    }
    for (uint32_t s = 0; s < config_.servers; s++) {
      for (const Endpoint& to : destinations) {
        if (to == address(s)) schedule(Event::kResult, s, header.block_id);
      }
    }
  }

  const AggregationConfig config_;
  Prng prng_;
  EventCore core_;
  memory::SharedMemory memory_;
  trio_ml::Session session_{job_of(config_), auth::key_of_seed(config_.seed)};
  trio_ml::Shard shard_;
  std::unique_ptr<engine::Pfe<trio_ml::App>> pfe_;
  std::vector<Server> servers_;
  uint64_t results_ = 0;
  uint64_t digest_ = 0;
  std::map<uint32_t, std::vector<int32_t>> sums_;
  std::map<uint32_t, std::vector<std::byte>> results_bytes_;
};

}  // namespace tributary::testing
