// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML on the modelled chip, for comparison with the live machine packet by packet.
///
/// Units:   Virtual time; an exchange takes two milliseconds of it.
/// Threads: One.
/// Memory:  Allocates; for tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/event_core.h"
#include "engine/model/pfe.h"
#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {

/// The program on the modelled chip, with a session of its own.
class Modelled final : private engine::PfeSink {
 public:
  Modelled(const JobConfig& job, Session& session, engine::Fidelity fidelity)
      : memory_(*memory::SharedMemory::create({})), shard_(0, 1, wire::kTrioMlPort, memory_) {
    EXPECT_TRUE(shard_.add_job(job, session, Instant()).has_value());
    engine::Parameters parameters = *engine::preset(5);
    parameters.fidelity = fidelity;
    engine::PfeSink& sink = *this;
    pfe_ = std::make_unique<engine::Pfe<App>>(core_, parameters, memory_, App(shard_), sink);
  }
  std::vector<Bytes> exchange(const Bytes& payload, uint32_t rank) {
    sent_.clear();
    pfe_->arrive(payload, static_cast<uint32_t>(payload.size()), worker(rank));
    core_.run_until(core_.now() + milliseconds(2), [] { return false; });
    std::ranges::sort(sent_);
    return sent_;
  }

 private:
  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations) override {
    EXPECT_EQ(stored.size(), size_bytes);
    for (size_t i = 0; i < destinations.size(); i++)
      sent_.emplace_back(stored.begin(), stored.end());
  }

  EventCore core_;
  memory::SharedMemory memory_;
  Shard shard_;
  std::unique_ptr<engine::Pfe<App>> pfe_;
  std::vector<Bytes> sent_;
};

/// A session that all ranks have joined, without packets.
inline std::unique_ptr<Session> started_session(const JobConfig& job,
                                                std::vector<Member>& members) {
  auto session = std::make_unique<Session>(job, auth::key_of_seed(3));
  for (uint32_t round = 0; round < 2; round++) {
    for (uint32_t source = 0; source < job.sources; source++) {
      (void)session->join(join_message(source, 1 + source, job.sources), worker(source), Instant());
    }
  }
  EXPECT_NE(session->number(), 0U);
  members.resize(job.sources);
  for (uint32_t source = 0; source < job.sources; source++) {
    const wire::ControlBody welcome = session->welcome_body(source);
    members[source] = {.source = source, .key = welcome.key, .result_key = welcome.result_key};
  }
  return session;
}

}  // namespace tributary::trio_ml
