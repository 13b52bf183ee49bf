// SPDX-License-Identifier: Apache-2.0
// Parser, receive, next step and egress of SwitchML's switch program.
#include "tofino/switchml/program.h"

#include <fmt/format.h>

#include <array>

#include "tofino/limits.h"
#include "tofino/switchml/builder.h"
#include "wire/headers.h"
#include "wire/switchml.h"

namespace tributary::tofino {
namespace {

/// Rows of the plain forwarding table.
constexpr uint32_t kForwardEntries = 1'024;
struct HarvestStep {
  uint32_t type;
  uint32_t port;
};
constexpr uint32_t loop_port(uint32_t pipe, bool second) {
  return pipe * kPortsPerPipe + (second ? kLoopLocalPortSecond : kLoopLocalPortFirst);
}
/// The harvest passes of a 256-element result: their types and ports.
constexpr std::array<HarvestStep, 7> kHarvest{{{8, loop_port(2, true)},
                                               {9, loop_port(3, true)},
                                               {10, loop_port(3, false)},
                                               {11, loop_port(1, true)},
                                               {12, loop_port(1, false)},
                                               {13, loop_port(0, true)},
                                               {14, loop_port(0, false)}}};
/// The pipes of the consume passes 1, 2 and 3.
constexpr std::array<uint32_t, 3> kConsumePipes{1, 3, 2};

}  // namespace

SwitchmlBuilder::SwitchmlBuilder(const SwitchmlVariant& variant)
    : variant_(variant),
      b_(fmt::format("switchml-{}{}", variant.elements, variant.timeout ? "-timeout" : "")) {}

Program SwitchmlBuilder::build() {
  add_headers();
  add_metadata();
  build_ingress_parser();
  if (variant_.timeout) {
    build_timeout_ingress();
  } else {
    build_ingress();
  }
  build_egress();
  return std::move(b_.program);
}

void SwitchmlBuilder::add_headers() {
  // This header travels with the packet between passes and from ingress to egress.
  md_ = b_.header("md", {{"type", 8},
                         {"mode", 8},
                         {"worker", 16},
                         {"port", 16},
                         {"slot", 16},
                         {"index", 16},
                         {"group", 16},
                         {"worker_last", 8},
                         {"bit", 32}});
  if (variant_.timeout) {
    // The generator's header for timers: TNA p.69-73.
    tick_ = b_.header("tick", {{"application", 8}, {"unused", 8}, {"batch", 16}, {"packet", 16}});
  }
  ethernet_ = b_.ethernet_header();
  ip_ = b_.ipv4_header();
  udp_ = b_.header("udp", {{"from", 16}, {"to", 16}, {"length", 16}, {"checksum", 16}});
  sml_ = b_.header("sml", {{"message", 4},
                           {"unused0", 1},
                           {"size", 3},
                           {"job", 8},
                           {"packet_id", 32},
                           {"set", 1},
                           {"unused1", 1},
                           {"slot", 14}});
  exponents_ = b_.header("exponents", {{"e0", 8}, {"e1", 8}});
  std::vector<ProgramBuilder::FieldShape> values;
  for (uint32_t i = 0; i < variant_.processors; i++) values.push_back({fmt::format("{}", i), 32});
  low_ = b_.header("low", values, true);
  high_ = b_.header("high", values, true);
}

void SwitchmlBuilder::add_metadata() {
  Intrinsics& in = b_.program.intrinsics;
  in.ingress_port = b_.metadata("ingress_port", 9);
  in.egress_port = b_.metadata("egress_port", 9);
  in.egress_valid = b_.metadata("egress_valid", 1);
  in.multicast_group = b_.metadata("multicast_group", 16);
  in.drop = b_.metadata("drop", 1);
  in.bypass_egress = b_.metadata("bypass_egress", 1);
  in.replication_id = b_.metadata("replication_id", 16);
  random_ = b_.metadata("random", 16);
  slots_left_ = b_.metadata("room", 16);
  bitmap_before_ = b_.metadata("bitmap_before", 32);
  if (variant_.timeout) {
    phase_ = b_.metadata("phase", 8);
    age_ = b_.metadata("age", 8);
  } else {
    seen_ = b_.metadata("seen", 32);
  }
  count_ = b_.metadata("count", 8);
  egress_random_ = b_.metadata("egress_random", 16);
  client_port_ = b_.metadata("client_port", 16);
}

void SwitchmlBuilder::build_ingress_parser() {
  auto& states = b_.program.ingress.parser;
  constexpr StateId kMd = 1, kEthernet = 2, kIp = 3, kUdp = 4, kSml = 5, kValues = 6, kTick = 7;
  ParserState start{.name = "start", .select = {in().ingress_port}, .otherwise = kEthernet};
  // One of the inner loops belongs to the packet generator.
  if (variant_.timeout) start.transitions.push_back({{exactly(kLoopLocalPortSecond)}, kTick});
  // The inner loops have local ports from 64 on. With four pipes, all ports of pipes 1 to 3 loop.
  start.transitions.push_back({{{kLoopLocalPortFirst, kLoopLocalPortFirst}}, kMd});
  if (four_pipes()) {
    for (uint32_t pipe = 1; pipe < kPipes; pipe++) {
      start.transitions.push_back({{{pipe * kPortsPerPipe, 3 * kPortsPerPipe}}, kMd});
    }
  }
  states.push_back(start);
  states.push_back({.name = "md", .extracts = {md_}, .otherwise = kEthernet});
  states.push_back({.name = "ethernet",
                    .extracts = {ethernet_},
                    .select = {of(ethernet_, "type")},
                    .transitions = {{{exactly(wire::kEtherTypeIpv4)}, kIp}},
                    .otherwise = kAccept});
  // Options and fragments are not parsed further.
  states.push_back(
      {.name = "ip",
       .extracts = {ip_},
       .select = {of(ip_, "version_words"), of(ip_, "fragment"), of(ip_, "protocol")},
       .transitions = {{{exactly(0x45), {0, 0x3fff}, exactly(wire::kIpProtocolUdp)}, kUdp}},
       .otherwise = kAccept});
  states.push_back({.name = "udp",
                    .extracts = {udp_},
                    .select = {of(udp_, "to")},
                    .transitions = {{{{wire::kSwitchmlPort, wire::kSwitchmlPortMask}}, kSml}},
                    .otherwise = kAccept});
  // In harvest passes the values are in registers. The parser rejects sizes that the program does
  // not support.
  const uint32_t size_code = wire::switchml_size_code(variant_.elements).value_or(0);
  states.push_back(
      {.name = "sml",
       .extracts = {sml_, exponents_},
       .select = {md("type"), of(sml_, "message"), of(sml_, "size")},
       .transitions = {{{{kHarvestFirst, kHarvestFirst}, any_value(), any_value()}, kAccept},
                       {{any_value(), exactly(wire::kSwitchmlMessageType), exactly(size_code)},
                        kValues}},
       .otherwise = kReject});
  states.push_back({.name = "values", .extracts = {low_, high_}, .otherwise = kAccept});
  if (variant_.timeout) {
    states.push_back({.name = "tick", .extracts = {tick_}, .otherwise = kEthernet});
  }
  b_.program.ingress.deparser = {md_, ethernet_, ip_, udp_, sml_, exponents_, low_, high_};
}

void SwitchmlBuilder::build_ingress() {
  std::vector<Statement> aggregation{apply(add_seen_table()), apply(add_count_table()),
                                     apply(add_exponent_table())};
  for (uint32_t i = 0; i < variant_.processors; i++) {
    aggregation.push_back(apply(add_processor(i)));
  }
  aggregation.push_back(apply(add_next_step()));
  b_.program.ingress.control = {
      when({{.field = b_.valid_of(sml_), .value = 1}},
           {when({{.field = b_.valid_of(md_), .value = 0}}, {apply(add_receive())}),
            when({{.field = b_.valid_of(md_), .value = 1}},
                 {apply(add_bitmap()),
                  when({{.field = in().drop, .value = 0}}, std::move(aggregation))})},
           {apply(add_forward())})};
}

/// Identifies the sender by its address, as published: it may send through any port of pipe 0. Sets
/// its limits and the values for later passes.
TableId SwitchmlBuilder::add_receive() {
  const CounterId unknown = b_.add(Counter{.name = "unknown_worker", .entries = 1});
  const ActionId refuse = dropping("unknown_worker", {{unknown, kNone}});
  const ActionId admit = b_.add(Action{
      .name = "admit",
      .parameter_bits = {16, 32, 8, 16, 16},  // worker, bit, worker_last, group, slot_last.
      .random_draws = {random_},
      .operations = {valid(md_, true), set(md("worker"), parameter(0)),
                     set(md("bit"), parameter(1)), set(md("worker_last"), parameter(2)),
                     set(md("group"), parameter(3)), set(md("port"), field(in().ingress_port)),
                     set(md("slot"), field(of(sml_, "slot"))),
                     set(md("index"), field(of(sml_, "slot"))),
                     alu(AluOp::kSubtract, slots_left_, parameter(4), field(of(sml_, "slot")))}});
  return b_.add(Table{.name = "receive",
                      .keys = {{in().ingress_port, MatchKind::kTernary}, {of(ip_, "from")}},
                      .actions = {admit},
                      .default_action = refuse,
                      .size = kSwitchmlWorkersMax});
}

SwitchmlBuilder::NextStepActions SwitchmlBuilder::add_next_step_actions() {
  const uint32_t entries = 2 * variant_.slots;
  const auto counter = [&](const char* name) {
    return CounterCall{b_.add(Counter{.name = name, .entries = entries}), md("index")};
  };
  const CounterCall recirculate = counter("recirculate");
  const std::vector<Operation> to_port{set(in().egress_valid, constant(1))};
  const std::vector<Operation> to_loop{set(in().egress_valid, constant(1)),
                                       set(in().bypass_egress, constant(1)),
                                       set(md("type"), parameter(0))};
  const auto with = [](std::vector<Operation> list, std::vector<Operation> more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  };
  NextStepActions actions{};
  // Same port, another pipe: the consumed values are removed, and the others move up.
  actions.consume_on = b_.add(
      Action{.name = "consume_on",
             .parameter_bits = {8, 9},
             .counts = {recirculate},
             .operations =
                 with(to_loop, {alu(AluOp::kAdd, in().egress_port, field(md("port")), parameter(1)),
                                valid(low_, false), valid(high_, false)})});
  actions.harvest_first = b_.add(
      Action{.name = "harvest_first",
             .parameter_bits = {8, 9, 8},
             .counts = {recirculate},
             .operations = with(to_loop, {set(in().egress_port, parameter(1)),
                                          set(md("mode"), parameter(2)), valid(low_, false)})});
  actions.harvest_on = b_.add(Action{
      .name = "harvest_on",
      .parameter_bits = {8, 9},
      .counts = {recirculate},
      .operations = with(to_loop, {set(in().egress_port, parameter(1)), valid(low_, true)})});
  actions.finish = dropping("finish", {counter("drop")});
  actions.broadcast = b_.add(
      Action{.name = "broadcast",
             .counts = {counter("broadcast")},
             .operations = {set(in().multicast_group, field(md("group"))), valid(low_, true)}});
  actions.retransmit = b_.add(Action{
      .name = "retransmit",
      .counts = {counter("retransmit")},
      .operations = with(to_port, {set(in().egress_port, field(md("port"))), valid(low_, true)})});
  return actions;
}

TableId SwitchmlBuilder::add_next_step() {
  const NextStepActions actions = add_next_step_actions();
  std::vector<Entry> entries;
  const auto add = [&](uint32_t type, Match seen, Match count, Match mode, ActionId action,
                       std::vector<uint32_t> parameters) {
    entries.push_back({{exactly(type), seen, count, mode}, action, std::move(parameters)});
  };
  const Match any = any_value();
  const Match complete = exactly(0);
  uint32_t consume_last = kConsumeFirst;
  if (four_pipes()) {
    // Pipe 0 passes on new packets, and repeated ones when its slot is complete. A later pipe
    // passes on all packets, so that they stay in order.
    const std::vector<uint32_t> first_step{kConsumeFirst + 1, kConsumePipes[0] * kPortsPerPipe};
    add(kConsumeFirst, exactly(0), any, any, actions.consume_on, first_step);
    add(kConsumeFirst, any, complete, any, actions.consume_on, first_step);
    add(kConsumeFirst, any, any, any, actions.finish, {});
    for (consume_last = 1; consume_last < kConsumePipes.size(); consume_last++) {
      add(consume_last, any, any, any, actions.consume_on,
          {consume_last + 1, kConsumePipes[consume_last] * kPortsPerPipe});
    }
  }
  // One pipe needs only the last harvest pass.
  const HarvestStep first =
      four_pipes() ? kHarvest.front() : HarvestStep{kHarvestLast, loop_port(0, true)};
  add(consume_last, exactly(0), complete, any, actions.harvest_first,
      {first.type, first.port, kSwitchmlBroadcast});
  add(consume_last, any, complete, any, actions.harvest_first,
      {first.type, first.port, kSwitchmlUnicast});
  add(consume_last, any, any, any, actions.finish, {});
  for (size_t i = 0; four_pipes() && i + 1 < kHarvest.size(); i++) {
    add(kHarvest[i].type, any, any, any, actions.harvest_on,
        {kHarvest[i + 1].type, kHarvest[i + 1].port});
  }
  add(kHarvestLast, any, any, exactly(kSwitchmlBroadcast), actions.broadcast, {});
  add(kHarvestLast, any, any, exactly(kSwitchmlUnicast), actions.retransmit, {});
  return b_.add(Table{.name = "next_step",
                      .keys = {{md("type"), MatchKind::kTernary},
                               {seen_, MatchKind::kTernary},
                               {count_, MatchKind::kTernary},
                               {md("mode"), MatchKind::kTernary}},
                      .actions = {actions.consume_on, actions.harvest_first, actions.harvest_on,
                                  actions.finish, actions.broadcast, actions.retransmit},
                      .size = static_cast<uint32_t>(entries.size()),
                      .entries = std::move(entries)});
}

/// Forwards any other traffic by destination address.
TableId SwitchmlBuilder::add_forward() {
  const ActionId forward = b_.add(Action{
      .name = "forward",
      .parameter_bits = {9},
      .operations = {set(in().egress_port, parameter(0)), set(in().egress_valid, constant(1)),
                     set(in().bypass_egress, constant(1))}});
  const CounterId unknown = b_.add(Counter{.name = "unknown_destination", .entries = 1});
  const ActionId miss = dropping("unknown_destination", {{unknown, kNone}});
  return b_.add(Table{.name = "forward",
                      .keys = {{of(ethernet_, "to_high")}, {of(ethernet_, "to_low")}},
                      .actions = {forward},
                      .default_action = miss,
                      .size = kForwardEntries});
}

/// Addresses each copy to its worker.
void SwitchmlBuilder::build_egress() {
  Gress& egress = b_.program.egress;
  egress.parser = {
      {.name = "start", .extracts = {md_, ethernet_, ip_, udp_}, .otherwise = kAccept}};
  egress.deparser = {ethernet_, ip_, udp_};
  egress.checksums = {{ip_, of(ip_, "checksum")}};
  const TableId draw_table =
      b_.always(Action{.name = "egress_draw",
                       .random_draws = {egress_random_},
                       .operations = {set(client_port_, field(of(udp_, "from")))}});
  const TableId copy_table = b_.always(
      Action{.name = "copy_worker", .operations = {set(md("worker"), field(in().replication_id))}});
  egress.control = {apply(draw_table),
                    when({{.field = md("mode"), .value = kSwitchmlBroadcast}}, {apply(copy_table)}),
                    apply(add_address()), apply(add_egress_loss())};
}

TableId SwitchmlBuilder::add_address() {
  const auto mac_high = static_cast<uint32_t>(variant_.switch_mac >> 16);
  const auto mac_low = static_cast<uint32_t>(variant_.switch_mac & 0xffff);
  const ActionId address = b_.add(Action{
      .name = "address",
      .parameter_bits = {32, 16, 32},  // MAC high, MAC low, IP.
      .operations = {
          set(of(ethernet_, "to_high"), parameter(0)), set(of(ethernet_, "to_low"), parameter(1)),
          set(of(ethernet_, "from_high"), constant(mac_high)),
          set(of(ethernet_, "from_low"), constant(mac_low)), set(of(ip_, "to"), parameter(2)),
          set(of(ip_, "from"), constant(variant_.switch_ip)),
          set(of(ip_, "time_to_live"), constant(wire::kSwitchmlTimeToLive)),
          set(of(udp_, "from"), field(of(udp_, "to"))), set(of(udp_, "to"), field(client_port_)),
          set(of(udp_, "checksum"), constant(0))}});
  const CounterId unknown = b_.add(Counter{.name = "unknown_copy", .entries = 1});
  const ActionId miss = dropping("unknown_copy", {{unknown, kNone}});
  return b_.add(Table{.name = "address",
                      .keys = {{md("worker")}},
                      .actions = {address},
                      .default_action = miss,
                      .size = kSwitchmlWorkersMax});
}

TableId SwitchmlBuilder::add_egress_loss() {
  const CounterId simulated = b_.add(Counter{.name = "simulated_egress_loss", .entries = 1});
  const ActionId lose = dropping("simulated_egress_loss", {{simulated, kNone}});
  return b_.add(Table{.name = "egress_loss",
                      .keys = {{egress_random_, MatchKind::kTernary}},
                      .actions = {lose},
                      .size = kSwitchmlLossEntries});
}

Program switchml_program(const SwitchmlVariant& variant) {
  return SwitchmlBuilder(variant).build();
}

}  // namespace tributary::tofino
