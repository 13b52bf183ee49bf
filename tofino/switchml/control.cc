// SPDX-License-Identifier: Apache-2.0
#include "tofino/switchml/control.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "tofino/limits.h"
#include "tofino/pipeline/udp_frame.h"
#include "wire/switchml.h"

namespace tributary::tofino {
namespace {

/// Probabilities are in units of 1/65536, which matches the width of the random field.
constexpr uint32_t kCertain = 65'536;

/// Worker ports of a 256-element session: those whose counterparts in the other pipes loop back.
constexpr uint32_t kFourPipeWorkersMax = kFrontPanelPortsPerPipe;

Result<void> check_session(const SwitchmlSession& session, const SwitchmlVariant& variant) {
  const auto count = session.workers.size();
  const uint32_t most = variant.elements > 64 ? kFourPipeWorkersMax : kSwitchmlWorkersMax;
  if (count < 1 || count > most) {
    return failure(fmt::format("workers={}; allowed: 1 to {} with {} elements", count, most,
                               variant.elements));
  }
  if (session.pool_slots < 1 || session.pool_slots > variant.slots) {
    return failure(
        fmt::format("pool_slots={}; allowed: 1 to {}", session.pool_slots, variant.slots));
  }
  for (size_t i = 0; i < count; i++) {
    const SwitchmlWorker& worker = session.workers[i];
    if (worker.port >= kLoopLocalPortFirst) {
      return failure(
          fmt::format("worker {}: port {}; allowed: front-panel ports of pipe 0, 0 to "
                      "{} (registers are not shared between pipes)",
                      i, worker.port, kLoopLocalPortFirst - 1));
    }
    if (variant.elements > 64 && worker.port % kPortStride != 0) {
      return failure(
          fmt::format("worker {}: port {}; allowed with {} elements: multiples of {}, "
                      "whose counterparts in the other pipes loop back",
                      i, worker.port, variant.elements, kPortStride));
    }
    for (size_t j = 0; j < i; j++) {
      if (session.workers[j].ip == worker.ip) {
        return failure(
            fmt::format("workers {} and {} have the same address; allowed: one for each, because "
                        "it identifies the worker",
                        j, i));
      }
    }
  }
  return {};
}

/// Returns the ports from which workers are admitted: those of pipe 0, which holds the registers.
/// With 256 elements, only those whose counterparts in the other pipes loop back.
Match ports_of_workers(const SwitchmlVariant& variant) {
  const uint32_t other_pipes = (kPipes - 1) * kPortsPerPipe;
  return {.value = 0, .mask = other_pipes | (variant.elements > 64 ? kPortStride - 1 : 0)};
}

Result<uint32_t> threshold_of(double probability, const char* key) {
  if (!(probability >= 0.0 && probability <= 1.0)) {
    return failure(fmt::format("{}={}; allowed: 0 to 1", key, probability));
  }
  return static_cast<uint32_t>(probability * kCertain + 0.5);
}

/// The packet generator's application that sweeps the slots.
constexpr uint32_t kSweepApplication = 0;

}  // namespace

std::vector<Match> matches_below(uint32_t threshold) {
  if (threshold >= kCertain) return {{0, 0}};
  std::vector<Match> matches;
  // A number is below the threshold if it has a 0 at one of the threshold's set bits, and equals
  // the threshold in all higher bits.
  for (uint32_t bit = 16; bit-- > 0;) {
    if ((threshold >> bit & 1) == 0) continue;
    const uint32_t mask = (kCertain - 1) & ~((1U << bit) - 1);
    matches.push_back({(threshold ^ (1U << bit)) & mask, mask});
  }
  return matches;
}

Result<SwitchmlSwitch> SwitchmlSwitch::make(const SwitchmlVariant& variant, SwitchSink& sink,
                                            Payload payload, uint64_t seed, uint32_t train) {
  if (variant.elements != 64 && variant.elements != 256) {
    return failure(fmt::format("elements={}; allowed: 64 or 256", variant.elements));
  }
  if (variant.timeout && variant.elements != 64) {
    return failure(
        fmt::format("elements={} with timeouts; allowed: 64 (with more, the pipes would "
                    "have to agree when to close a slot)",
                    variant.elements));
  }
  SwitchConfig config{.payload = payload, .seed = seed, .train = train};
  if (variant.elements == 256) {
    for (uint32_t pipe = 1; pipe < kPipes; pipe++) {
      for (uint32_t i = 0; i < kFrontPanelPortsPerPipe; i++) {
        config.loopback_ports.push_back(pipe * kPortsPerPipe + i * kPortStride);
      }
    }
  }
  auto device = Switch::make(switchml_program(variant), config, sink);
  if (!device) return tl::unexpected(device.error());
  return SwitchmlSwitch(variant, payload, std::move(*device));
}

SwitchmlSwitch::SwitchmlSwitch(const SwitchmlVariant& variant, Payload payload,
                               std::unique_ptr<Switch> device)
    : variant_(variant), payload_(payload), switch_(std::move(device)) {
  admission_ = *switch_->tables().find(variant.timeout ? "phase" : "bitmap");
  admission_entries_ = switch_->tables().entries(admission_);
}

Result<void> SwitchmlSwitch::set_session(const SwitchmlSession& session) {
  if (auto good = check_session(session, variant_); !good) return good;
  Tables& tables = switch_->tables();
  switch_->stop_generator(0, kSweepApplication);
  const ActionId admit = *tables.find_action("admit");
  const ActionId address = *tables.find_action("address");
  std::vector<Entry> receive;
  std::vector<Entry> addresses;
  std::vector<MulticastCopy> copies;
  const auto count = static_cast<uint32_t>(session.workers.size());
  const Match any_port = ports_of_workers(variant_);
  for (uint32_t i = 0; i < count; i++) {
    const SwitchmlWorker& worker = session.workers[i];
    receive.push_back(
        {.keys = {any_port, {worker.ip}},
         .action = admit,
         .parameters = {i, 1U << i, count - 1, session.multicast_group, session.pool_slots - 1}});
    addresses.push_back({.keys = {{i}},
                         .action = address,
                         .parameters = {static_cast<uint32_t>(worker.mac >> 16 & 0xffff'ffff),
                                        static_cast<uint32_t>(worker.mac & 0xffff), worker.ip}});
    copies.push_back({worker.port, static_cast<uint16_t>(i)});
  }
  if (auto good = switch_->set_multicast_group(session.multicast_group, std::move(copies)); !good) {
    return good;
  }
  if (auto good = tables.set_entries(*tables.find("receive"), std::move(receive)); !good) {
    return good;
  }
  session_ = session;
  return tables.set_entries(*tables.find("address"), std::move(addresses));
}

Result<void> SwitchmlSwitch::set_timeout(const SwitchmlTimeout& timeout) {
  if (!variant_.timeout) {
    return failure("timeouts: the program has none; build it with SwitchmlVariant::timeout");
  }
  const auto count = static_cast<uint32_t>(session_.workers.size());
  TRIB_ASSERT(count > 0);
  // The packet looks like a worker's, so that the result has all headers.
  wire::SwitchmlMessage message;
  message.elements.resize(variant_.elements);
  const FrameAddress from{session_.workers[0].mac, session_.workers[0].ip, timeout.client_port};
  const FrameAddress to{variant_.switch_mac, variant_.switch_ip, wire::kSwitchmlPort};
  auto frame = udp_frame(from, to, switchml_payload(message));
  const auto size_bytes = static_cast<uint32_t>(frame.size());
  if (payload_ == Payload::kElided) {
    frame.resize(kUdpFrameHeaderBytes + wire::SwitchmlHeader::kBytes);
  }
  auto good = switch_->set_generator({.pipe = 0,
                                      .application = kSweepApplication,
                                      .first_at = timeout.first_at,
                                      .period = timeout.period,
                                      .batches = 2,
                                      .packets = session_.pool_slots,
                                      .packet = {frame, size_bytes}});
  if (!good) return good;
  Tables& tables = switch_->tables();
  const uint32_t all = count == 32 ? 0xffffffff : (1U << count) - 1;
  std::vector<Entry> entries;
  for (uint32_t set = 0; set < 2; set++) {
    entries.push_back({.keys = {{set}},
                       .action = *tables.find_action(set == 0 ? "sweep_set0" : "sweep_set1"),
                       .parameters = {all, count - 1, session_.multicast_group}});
  }
  return tables.set_entries(*tables.find("sweep"), std::move(entries));
}

Result<void> SwitchmlSwitch::set_loss(double ingress, double egress) {
  const auto below_in = threshold_of(ingress, "ingress_loss");
  if (!below_in) return tl::unexpected(below_in.error());
  const auto below_out = threshold_of(egress, "egress_loss");
  if (!below_out) return tl::unexpected(below_out.error());
  Tables& tables = switch_->tables();
  const ActionId lose_in = *tables.find_action("simulated_loss");
  const ActionId lose_out = *tables.find_action("simulated_egress_loss");
  // Insert these entries after the refusal of a slot and before the entries that mark the worker.
  std::vector<Entry> entries = admission_entries_;
  for (const Match& match : matches_below(*below_in)) {
    entries.insert(entries.begin() + 1,
                   {.keys = {{kConsumeFirst}, {0, 0}, {0, 0}, match}, .action = lose_in});
  }
  if (auto good = tables.set_entries(admission_, std::move(entries)); !good) return good;
  std::vector<Entry> egress_entries;
  for (const Match& match : matches_below(*below_out)) {
    egress_entries.push_back({.keys = {match}, .action = lose_out});
  }
  return tables.set_entries(*tables.find("egress_loss"), std::move(egress_entries));
}

uint64_t SwitchmlSwitch::sum(std::string_view counter, uint32_t entry) {
  const auto& counters = switch_->program().counters;
  const auto found = std::find_if(counters.begin(), counters.end(),
                                  [&](const Counter& one) { return one.name == counter; });
  TRIB_ASSERT(found != counters.end() && entry < found->entries);
  uint64_t total = 0;
  for (uint32_t i = 0; i < switch_->pipe_count(); i++) {
    total += switch_->pipe(i).counter(static_cast<CounterId>(found - counters.begin()), entry);
  }
  return total;
}

uint64_t SwitchmlSwitch::count(std::string_view name) { return sum(name, 0); }

SwitchmlSlotCounters SwitchmlSwitch::slot_counters(uint32_t slot, bool set) {
  TRIB_ASSERT(slot < variant_.slots);
  const uint32_t entry = slot + (set ? variant_.slots : 0);
  return {sum("broadcast", entry), sum("retransmit", entry), sum("recirculate", entry),
          sum("drop", entry)};
}

}  // namespace tributary::tofino
