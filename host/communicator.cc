// SPDX-License-Identifier: Apache-2.0
#include "host/communicator.h"

#include <fmt/format.h>

#include "host/channel_group.h"
#include "host/communicator_join.h"
#include "host/worker_port.h"

namespace tributary::host {

Communicator::Communicator(std::unique_ptr<ChannelGroup> group, WireBits wire)
    : group_(std::move(group)), wire_(wire) {}

Communicator::~Communicator() = default;

std::shared_ptr<const WorkerRecorder> Communicator::recorder() const { return group_->recorder(); }

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         Status* status) {
  const auto open = [&config](uint32_t, const Endpoint& server) {
    return open_worker_port(server, config.local);
  };
  return join(config, open, status);
}

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         const PortOpener& open_port,
                                                         Status* status) {
  auto joined = join_channels(config, open_port, status);
  if (!joined) return tl::unexpected(joined.error());
  return std::unique_ptr<Communicator>(new Communicator(*std::move(joined), config.wire));
}

Result<std::unique_ptr<Communicator>> Communicator::join(const CommunicatorConfig& config,
                                                         std::unique_ptr<engine::Port> port,
                                                         Status* status) {
  if (config.threads * config.priorities > 1) {
    return failure(
        fmt::format("threads={} and priorities={} are not allowed over one port; allowed: 1",
                    config.threads, config.priorities));
  }
  if (config.aggregators.size() > 1) {
    return failure(fmt::format("{} aggregators are not allowed over one port; allowed: 1",
                               config.aggregators.size()));
  }
  const auto take = [&port](uint32_t, const Endpoint&) -> Result<std::unique_ptr<engine::Port>> {
    if (port != nullptr) return std::move(port);
    // A second join follows only a directory's list.
    return failure("the server is a directory; join it with ports that the library opens");
  };
  return join(config, take, status);
}

Result<std::unique_ptr<Communicator>> Communicator::drive(std::unique_ptr<TensorProtocol> protocol,
                                                          std::unique_ptr<engine::Port> port,
                                                          Status* status) {
  auto group = std::make_unique<ChannelGroup>();
  const auto added = group->add_channel(std::move(protocol), std::move(port));
  if (!added) return tl::unexpected(added.error());
  if (const auto joined = group->wait_for_joins(status); !joined) {
    return tl::unexpected(joined.error());
  }
  group->set_cut(group->channels().front()->snapshot().gradients, 0, {1});
  return std::unique_ptr<Communicator>(new Communicator(std::move(group), WireBits::k32));
}

Ticket Communicator::all_reduce_async(std::span<float> tensor, const AllReduceOptions& options) {
  Transfer transfer;
  transfer.floats = tensor;
  transfer.op = options.op;
  transfer.receive_only = options.receive_only;
  transfer.owner = options.owner;
  transfer.priority = options.priority;
  transfer.scale = options.scale;
  if (options.format == FloatFormat::kFixedScale) {
    transfer.format = wire::ElementFormat::kFixedScale;
  } else {
    transfer.format = float_wire_bits() == 16 ? wire::ElementFormat::kBlockExponent16
                                              : wire::ElementFormat::kBlockExponent;
  }
  return Ticket(group_->submit(transfer));
}

Ticket Communicator::all_reduce_async(HalfTensor tensor, ReduceOp op, bool receive_only,
                                      uint32_t priority, std::optional<uint32_t> owner) {
  Transfer transfer;
  transfer.owner = owner;
  transfer.priority = priority;
  transfer.halves = tensor;
  transfer.op = op;
  transfer.receive_only = receive_only;
  transfer.format = half_wire_bits() == 16 ? wire::ElementFormat::kBlockExponent16
                                           : wire::ElementFormat::kBlockExponent;
  return Ticket(group_->submit(transfer));
}

Ticket Communicator::all_reduce_async(std::span<int32_t> tensor, ReduceOp op, bool receive_only,
                                      uint32_t priority, std::optional<uint32_t> owner) {
  Transfer transfer;
  transfer.owner = owner;
  transfer.priority = priority;
  transfer.integers = tensor;
  transfer.op = op;
  transfer.receive_only = receive_only;
  return Ticket(group_->submit(transfer));
}

Outcome Communicator::wait(Ticket ticket) { return group_->wait(ticket.number()); }

Outcome Communicator::all_reduce(std::span<float> tensor, const AllReduceOptions& options) {
  return wait(all_reduce_async(tensor, options));
}

Outcome Communicator::all_reduce(std::span<int32_t> tensor, ReduceOp op) {
  return wait(all_reduce_async(tensor, op));
}

Outcome Communicator::all_reduce(HalfTensor tensor, ReduceOp op) {
  return wait(all_reduce_async(tensor, op));
}

bool Communicator::wait_until_done(Ticket ticket, Duration at_most) {
  return group_->wait_until_done(ticket.number(), at_most);
}

void Communicator::close() { group_->close(); }

CommunicatorCounters Communicator::counters() const {
  CommunicatorCounters sum;
  for (const auto& channel : group_->channels()) sum += channel->snapshot().counters;
  return sum;
}

Progress Communicator::progress() const {
  Progress sum;
  for (const auto& channel : group_->channels()) {
    const Progress one = channel->progress();
    sum.submitted += one.submitted;
    sum.heard += one.heard;
  }
  return sum;
}

SourceSet Communicator::permanent_stragglers() const {
  SourceSet all{};
  for (const auto& channel : group_->channels()) {
    const SourceSet ranks = channel->snapshot().permanent_stragglers;
    for (uint32_t i = 0; i < all.size(); i++) all[i] |= ranks[i];
  }
  return all;
}

// The first channel's values hold for all.

uint32_t Communicator::window() const { return group_->channels().front()->snapshot().window; }

std::vector<uint32_t> Communicator::windows() const {
  std::vector<uint32_t> windows;
  for (const auto& channel : group_->channels()) windows.push_back(channel->snapshot().window);
  return windows;
}

Duration Communicator::straggler_timeout() const {
  return group_->channels().front()->snapshot().straggler_timeout;
}

uint32_t Communicator::gradients() const { return group_->gradients(); }

uint32_t Communicator::narrow_gradients() const { return group_->narrow_gradients(); }

uint32_t Communicator::float_wire_bits() const {
  return wire_ == WireBits::k16 && narrow_gradients() > 0 ? 16 : 32;
}

uint32_t Communicator::half_wire_bits() const {
  return wire_ != WireBits::k32 && narrow_gradients() > 0 ? 16 : 32;
}

uint32_t Communicator::threads() const { return static_cast<uint32_t>(group_->channels().size()); }

}  // namespace tributary::host
