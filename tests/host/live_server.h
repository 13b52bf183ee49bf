// SPDX-License-Identifier: Apache-2.0
/// @file
/// A live aggregator in this process on a loopback socket, and on request over shared memory, for
/// tests of its clients.
///
/// Threads: The engine has its own thread, which stops when the Server is destroyed.
/// Tests:   used by tests/host/communicator_test.cc, tests/host/c_api/c_api_test.cc
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "apps/trio_ml/app.h"
#include "base/clock.h"
#include "engine/live/live_engine.h"
#include "io/local/udp_and_local_port.h"
#include "io/udp/udp_port.h"
#include "memory/shared_memory.h"

namespace tributary::testing {

/// An aggregator with one job of one or more channels, on a given port or on one that the kernel
/// chooses.
class Server {
 public:
  explicit Server(uint32_t sources, uint16_t port = 0) : Server(job_of(sources), port) {}
  explicit Server(const trio_ml::JobConfig& wanted, uint16_t port = 0,
                  uint32_t receive_buffer_bytes = io::UdpPortConfig{}.receive_buffer_bytes,
                  bool local = false) {
    auto memory = memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 64 << 20});
    EXPECT_TRUE(memory.has_value());
    memory_ = std::make_unique<memory::SharedMemory>(*std::move(memory));
    io::UdpPortConfig port_config;
    port_config.local = Endpoint::ipv4(0x7f000001, port);
    port_config.receive_buffer_bytes = receive_buffer_bytes;
    if (local) {
      auto opened = io::UdpAndLocalPort::open(port_config);
      EXPECT_TRUE(opened.has_value());
      local_server_ = (*opened)->local_server();
      port_ = *std::move(opened);
    } else {
      auto opened = io::UdpPort::open(port_config);
      EXPECT_TRUE(opened.has_value());
      port_ = *std::move(opened);
    }
    trio_ml::JobConfig job = wanted;
    job.room_bytes = port_->receive_room_bytes();
    const Instant now = monotonic_now();
    shard_ = std::make_unique<trio_ml::Shard>(0, 1, port_->local().port, *memory_);
    for (uint32_t channel = 0; channel < job.channels; channel++) {
      const trio_ml::JobConfig one = trio_ml::channel_of(job, channel);
      sessions_.push_back(std::make_unique<trio_ml::Session>(one, auth::random_key()));
      EXPECT_TRUE(shard_->add_job(one, *sessions_.back(), now).has_value());
    }
    engine_ = std::make_unique<engine::LiveEngine<trio_ml::App>>(
        *port_, std::vector{trio_ml::App(*shard_)}, engine::LiveEngineConfig{});
    engine_->start();
  }
  [[nodiscard]] Endpoint local() const { return port_->local(); }
  /// Null unless the server was made with `local`.
  [[nodiscard]] io::LocalServer* local_server() const { return local_server_; }

  /// Job 1 with a window of 1024 blocks of at most 1024 gradients.
  [[nodiscard]] static trio_ml::JobConfig job_of(uint32_t sources) {
    trio_ml::JobConfig job;
    job.sources = sources;
    job.block_cnt_max = 1024;
    job.block_grad_max = 1024;
    return job;
  }

 private:
  std::unique_ptr<memory::SharedMemory> memory_;
  std::unique_ptr<engine::Port> port_;
  io::LocalServer* local_server_ = nullptr;
  std::vector<std::unique_ptr<trio_ml::Session>> sessions_;  ///< One for each channel.
  std::unique_ptr<trio_ml::Shard> shard_;
  std::unique_ptr<engine::LiveEngine<trio_ml::App>> engine_;
};

}  // namespace tributary::testing
