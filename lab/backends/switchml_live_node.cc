// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/switchml_live_node.h"

#include "base/assert.h"
#include "engine/live/live_core.h"
#include "memory/shared_memory.h"

namespace tributary::lab {
namespace {

switchml::ShardConfig shard_config(const switchml::SessionConfig& session) {
  return {.sessions_max = 1, .slots_max = session.slots};
}

}  // namespace

struct SwitchmlLiveNode::Switchml final : Process {
  Switchml(engine::PortQueue& queue, memory::SharedMemory memory_in,
           std::unique_ptr<switchml::Shard> shard_in)
      : memory(std::move(memory_in)),
        shard(std::move(shard_in)),
        core(0, queue, switchml::App(*shard), {}) {}
  void run_once(Instant now) override { core.run_once(now); }
  Instant next_due() override { return switchml::App::next_due(); }

  memory::SharedMemory memory;
  std::unique_ptr<switchml::Shard> shard;
  engine::LiveCore<switchml::App> core;
};

SwitchmlLiveNode::SwitchmlLiveNode(net::Network& network, const AggregatorSpec& spec,
                                   const switchml::SessionConfig& session)
    : LiveHost(network, spec), session_(session) {}

SwitchmlLiveNode::~SwitchmlLiveNode() = default;

Result<std::unique_ptr<SwitchmlLiveNode>> SwitchmlLiveNode::create(
    net::Network& network, const AggregatorSpec& spec, const switchml::SessionConfig& session) {
  if (const auto good = check(session, shard_config(session)); !good) {
    return tl::unexpected(good.error());
  }
  std::unique_ptr<SwitchmlLiveNode> node(new SwitchmlLiveNode(network, spec, session));
  if (const auto begun = node->begin_process(); !begun) return tl::unexpected(begun.error());
  return node;
}

Result<std::unique_ptr<LiveHost::Process>> SwitchmlLiveNode::make_process(engine::PortQueue& queue,
                                                                          Instant) {
  constexpr uint64_t kSlackBytes = 64 << 10;  // Its arrays may be aligned to a page.
  const switchml::ShardConfig config = shard_config(session_);
  auto memory = memory::SharedMemory::create(
      {.sram_size_bytes = 0, .dram_size_bytes = memory_bytes(config, 1) + kSlackBytes});
  if (!memory) return tl::unexpected(memory.error());
  auto shard = switchml::Shard::create(config, 0, 1, *memory);
  if (!shard) return tl::unexpected(shard.error());
  if (const auto begun = begin_session_on(**shard); !begun) return tl::unexpected(begun.error());
  return std::unique_ptr<Process>(
      std::make_unique<Switchml>(queue, *std::move(memory), *std::move(shard)));
}

Result<void> SwitchmlLiveNode::begin_session_on(switchml::Shard& shard) const {
  shard.begin_session(0, session_);
  for (uint32_t rank = 0; rank < session_.workers; rank++) {
    if (const auto set = shard.set_worker(0, rank, spec().workers.at(rank)); !set) return set;
  }
  return {};
}

void SwitchmlLiveNode::begin_session() {
  if (!runs()) return;
  TRIB_ASSERT(begin_session_on(*static_cast<Switchml*>(process())->shard).has_value());
}

const switchml::Shard* SwitchmlLiveNode::shard() const {
  return runs() ? static_cast<Switchml*>(process())->shard.get() : nullptr;
}

}  // namespace tributary::lab
