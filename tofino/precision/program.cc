// SPDX-License-Identifier: Apache-2.0
#include "tofino/precision/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "tofino/program/program_builder.h"
#include "wire/headers.h"

namespace tributary::tofino {
namespace {

/// Actions of the registers.
constexpr uint32_t kCompare = 0;
constexpr uint32_t kReplace = 1;
constexpr uint32_t kIncrease = 0;
constexpr uint32_t kRead = 1;
constexpr uint32_t kSetCount = 2;
/// Output of kCompare if both words are equal.
constexpr uint32_t kBothEqual = 3;

class PrecisionBuilder {
 public:
  explicit PrecisionBuilder(const PrecisionVariant& variant) : variant_(variant), b_("precision") {}

  Program build() {
    add_headers();
    add_metadata();
    add_parser();
    std::vector<Statement> first_pass;
    std::vector<Statement> second_pass;
    for (uint32_t row = 0; row < kPrecisionRows; row++) add_registers(row);
    for (uint32_t row = 0; row < kPrecisionRows; row++) {
      for (const Words words : {kAddresses, kPorts}) {
        first_pass.push_back(apply(add_compare(row, words)));
        second_pass.push_back(
            apply(add_replace(row, kWordNames[words], flow_call(row, words, kReplace))));
      }
      RegisterCall count = count_call(row, kSetCount);
      count.inputs[0] = md("count");
      second_pass.push_back(apply(add_replace(row, "count", count)));
    }
    for (uint32_t row = 0; row < kPrecisionRows; row++) {
      first_pass.push_back(apply(add_count(row)));
    }
    first_pass.push_back(apply(add_smaller()));
    first_pass.push_back(apply(add_draw()));
    first_pass.push_back(apply(add_choose()));
    first_pass.push_back(when({{.field = wanted_, .value = 1}, {.field = drawn_, .value = 0}},
                              {apply(add_recirculate())}));
    second_pass.push_back(apply(add_leave()));
    b_.program.ingress.control = {
        apply(add_forward()),
        when({{.field = b_.valid_of(l4_), .value = 1}},
             {apply(add_begin()), when({{.field = b_.valid_of(md_), .value = 1}},
                                       std::move(second_pass), std::move(first_pass))},
             {apply(add_not_measured())})};
    return std::move(b_.program);
  }

 private:
  /// The two registers that hold a flow.
  enum Words : uint8_t { kAddresses, kPorts };
  static constexpr std::array<const char*, 2> kWordNames{"addresses", "ports"};
  using PerRow = std::array<FieldId, kPrecisionRows>;

  void add_headers() {
    // Travels with the packet to its second pass.
    md_ = b_.header("md", {{"row", 8}, {"count", 32}});
    ethernet_ = b_.ethernet_header();
    ip_ = b_.ipv4_header();
    l4_ = b_.header("l4", {{"ports", 32}});
    b_.program.ingress.deparser = {md_, ethernet_, ip_, l4_};
  }

  void add_metadata() {
    Intrinsics& in = b_.program.intrinsics;
    in.ingress_port = b_.metadata("ingress_port", 9);
    in.egress_port = b_.metadata("egress_port", 9);
    in.egress_valid = b_.metadata("egress_valid", 1);
    in.bypass_egress = b_.metadata("bypass_egress", 1);
    random_ = b_.metadata("random", 32);
    drawn_ = b_.metadata("drawn", 32);
    wanted_ = b_.metadata("wanted", 1);
    difference_ = b_.metadata("difference", 32);
    smaller_ = b_.metadata("smaller", 32);
    const auto index_bits = static_cast<uint32_t>(std::bit_width(variant_.slots - 1));
    for (uint32_t row = 0; row < kPrecisionRows; row++) {
      index_[row] = b_.metadata(fmt::format("index{}", row), index_bits);
      same_[row][kAddresses] = b_.metadata(fmt::format("same_addresses{}", row), 2);
      same_[row][kPorts] = b_.metadata(fmt::format("same_ports{}", row), 2);
      count_[row] = b_.metadata(fmt::format("count{}", row), 32);
    }
  }

  void add_parser() {
    constexpr StateId kMd = 1, kEthernet = 2, kIp = 3, kL4 = 4;
    /// The offset of a fragment (RFC 791): not 0 if the packet has no ports.
    constexpr Match kNoOffset{0, 0x1fff};
    b_.program.ingress.parser = {
        {.name = "start",
         .select = {b_.program.intrinsics.ingress_port},
         .transitions = {{{exactly(kPrecisionLoopPort)}, kMd}},
         .otherwise = kEthernet},
        {.name = "md", .extracts = {md_}, .otherwise = kEthernet},
        {.name = "ethernet",
         .extracts = {ethernet_},
         .select = {of(ethernet_, "type")},
         .transitions = {{{exactly(wire::kEtherTypeIpv4)}, kIp}},
         .otherwise = kAccept},
        {.name = "ip",
         .extracts = {ip_},
         .select = {of(ip_, "version_words"), of(ip_, "fragment"), of(ip_, "protocol")},
         .transitions = {{{exactly(0x45), kNoOffset, exactly(wire::kIpProtocolTcp)}, kL4},
                         {{exactly(0x45), kNoOffset, exactly(wire::kIpProtocolUdp)}, kL4}},
         .otherwise = kAccept},
        {.name = "l4", .extracts = {l4_}, .otherwise = kAccept}};
  }

  void add_registers(uint32_t row) {
    const auto equal = [](StatefulSource memory, StatefulSource input) {
      return StatefulComparison{
          .memory = memory, .input = input, .subtract_input = true, .relation = Relation::kEqual};
    };
    const auto flow_register = [&](Words words) {
      return b_.add(Register{
          .name = fmt::format("{}{}", kWordNames[words], row),
          .pair = true,
          .entries = variant_.slots,
          .actions = {{.name = "compare",
                       .comparisons = {equal(StatefulSource::kLow, StatefulSource::kInput0),
                                       equal(StatefulSource::kHigh, StatefulSource::kInput1)},
                       .output = StatefulOutput::kComparisons},
                      {.name = "replace",
                       .low = {{.a = {StatefulSource::kInput0}}},
                       .high = {{.a = {StatefulSource::kInput1}}}}}});
    };
    const PrecisionRegisters expected = precision_registers(row);
    flows_[row][kAddresses] = flow_register(kAddresses);
    flows_[row][kPorts] = flow_register(kPorts);
    counts_[row] =
        b_.add(Register{.name = fmt::format("count{}", row),
                        .entries = variant_.slots,
                        .actions = {{.name = "increase",
                                     .low = {{.op = StatefulOp::kAddSaturated,
                                              .a = {StatefulSource::kLow},
                                              .b = {StatefulSource::kConstant, 1}}}},
                                    {.name = "read", .output = StatefulOutput::kLowBefore},
                                    {.name = "set", .low = {{.a = {StatefulSource::kInput0}}}}}});
    TRIB_ASSERT(flows_[row][kAddresses] == expected.addresses &&
                flows_[row][kPorts] == expected.ports && counts_[row] == expected.count);
  }

  /// Computes the indices. The rows hash the flow's words in different orders, so two flows that
  /// share a slot of one row need not share one of the other.
  TableId add_begin() {
    const FieldId from = of(ip_, "from");
    const FieldId to = of(ip_, "to");
    const FieldId protocol = of(ip_, "protocol");
    const FieldId ports = of(l4_, "ports");
    return b_.always(
        Action{.name = "begin",
               .random_draws = {random_},
               .hashes = {{.target = index_[0], .inputs = {from, to, ports, protocol}},
                          {.target = index_[1], .inputs = {ports, protocol, to, from}}}});
  }

  [[nodiscard]] RegisterCall flow_call(uint32_t row, Words words, uint32_t action) const {
    if (words == kAddresses) {
      return {.reg = flows_[row][kAddresses],
              .action = action,
              .index = index_[row],
              .inputs = {of(ip_, "from"), of(ip_, "to")}};
    }
    return {.reg = flows_[row][kPorts],
            .action = action,
            .index = index_[row],
            .inputs = {of(l4_, "ports"), of(ip_, "protocol")}};
  }

  TableId add_compare(uint32_t row, Words words) {
    RegisterCall call = flow_call(row, words, kCompare);
    call.output = same_[row][words];
    return b_.always(Action{.name = fmt::format("compare_{}{}", kWordNames[words], row),
                            .register_calls = {call}});
  }

  [[nodiscard]] RegisterCall count_call(uint32_t row, uint32_t action) const {
    return {.reg = counts_[row], .action = action, .index = index_[row]};
  }

  /// Increases the count of the slot that holds the flow, or reads the count. Of two slots that
  /// hold the flow, row 0's counts.
  TableId add_count(uint32_t row) {
    const ActionId increase = b_.add(Action{.name = fmt::format("increase{}", row),
                                            .register_calls = {count_call(row, kIncrease)}});
    RegisterCall call = count_call(row, kRead);
    call.output = count_[row];
    const ActionId read =
        b_.add(Action{.name = fmt::format("read{}", row), .register_calls = {call}});
    std::vector<Key> keys;
    std::vector<Entry> entries;
    for (uint32_t one = 0; one <= row; one++) {
      for (const Words words : {kAddresses, kPorts}) {
        keys.push_back({same_[one][words], MatchKind::kTernary});
      }
    }
    // A flow that an earlier row holds is not counted in this one.
    for (uint32_t one = 0; one <= row; one++) {
      Entry holds{.action = one == row ? increase : read};
      for (uint32_t i = 0; i <= row; i++) {
        const Match match = i == one ? exactly(kBothEqual) : any_value();
        holds.keys.insert(holds.keys.end(), {match, match});
      }
      entries.push_back(std::move(holds));
    }
    return b_.add(Table{.name = fmt::format("count{}", row),
                        .keys = std::move(keys),
                        .actions = {increase, read},
                        .default_action = read,
                        .size = static_cast<uint32_t>(entries.size()),
                        .entries = std::move(entries)});
  }

  TableId add_smaller() {
    return b_.always(Action{
        .name = "smaller",
        .operations = {alu(AluOp::kMin, smaller_, field(count_[0]), field(count_[1])),
                       // The sign bit is set if row 1 has the smaller count.
                       alu(AluOp::kSubtract, difference_, field(count_[1]), field(count_[0]))}});
  }

  /// Keeps k random bits, where 2^k is the smallest power of two above the count. All are 0 with a
  /// probability of at most 1 / (count + 1), and of more than half of that.
  TableId add_draw() {
    const ActionId keep =
        b_.add(Action{.name = "keep_bits",
                      .parameter_bits = {32},
                      .operations = {alu(AluOp::kAnd, drawn_, field(random_), parameter(0)),
                                     alu(AluOp::kAdd, md("count"), field(smaller_), constant(1))}});
    std::vector<Entry> entries{{{exactly(0)}, keep, {0}}};
    for (uint32_t k = 1; k <= 32; k++) {
      const uint32_t top = uint32_t{1} << (k - 1);
      entries.push_back(
          {{{top, ~(top - 1)}}, keep, {static_cast<uint32_t>((uint64_t{1} << k) - 1)}});
    }
    return b_.add(Table{.name = "draw",
                        .keys = {{smaller_, MatchKind::kTernary}},
                        .actions = {keep},
                        .size = static_cast<uint32_t>(entries.size()),
                        .entries = std::move(entries)});
  }

  /// Chooses the row that loses its slot, unless a row holds the flow. Equal counts: row 0.
  TableId add_choose() {
    const ActionId known =
        b_.add(Action{.name = "known", .operations = {set(wanted_, constant(0))}});
    const ActionId take =
        b_.add(Action{.name = "take",
                      .parameter_bits = {8},
                      .operations = {set(wanted_, constant(1)), set(md("row"), parameter(0))}});
    const Match any = any_value();
    const Match equal = exactly(kBothEqual);
    constexpr uint32_t kSign = uint32_t{1} << 31;
    std::vector<Entry> entries{{{equal, equal, any, any, any}, known, {}},
                               {{any, any, equal, equal, any}, known, {}},
                               {{any, any, any, any, {kSign, kSign}}, take, {1}},
                               {{any, any, any, any, any}, take, {0}}};
    return b_.add(Table{.name = "choose",
                        .keys = {{same_[0][kAddresses], MatchKind::kTernary},
                                 {same_[0][kPorts], MatchKind::kTernary},
                                 {same_[1][kAddresses], MatchKind::kTernary},
                                 {same_[1][kPorts], MatchKind::kTernary},
                                 {difference_, MatchKind::kTernary}},
                        .actions = {known, take},
                        .size = static_cast<uint32_t>(entries.size()),
                        .entries = std::move(entries)});
  }

  TableId add_recirculate() {
    return b_.always(Action{
        .name = "recirculate",
        .operations = {set(b_.valid_of(md_), constant(1)),
                       set(b_.program.intrinsics.egress_port, constant(kPrecisionLoopPort))}});
  }

  /// Writes a part of the slot that the first pass chose. Each register has a table of its own,
  /// because each has its own stage.
  TableId add_replace(uint32_t row, const char* what, const RegisterCall& call) {
    const std::string name = fmt::format("replace_{}{}", what, row);
    const ActionId replace = b_.add(Action{.name = name, .register_calls = {call}});
    return b_.add(Table{.name = name,
                        .keys = {{md("row")}},
                        .actions = {replace},
                        .size = 1,
                        .entries = {{{exactly(row)}, replace, {}}}});
  }

  TableId add_leave() {
    return b_.always(Action{.name = "leave", .operations = {set(b_.valid_of(md_), constant(0))}});
  }

  TableId add_forward() {
    const Intrinsics& in = b_.program.intrinsics;
    return b_.always(Action{
        .name = "forward",
        .operations = {set(in.egress_port, constant(variant_.out_port)),
                       set(in.egress_valid, constant(1)), set(in.bypass_egress, constant(1))}});
  }

  TableId add_not_measured() {
    const CounterId counter = b_.add(Counter{.name = "not_measured", .entries = 1});
    return b_.always(Action{.name = "not_measured", .counts = {{counter, kNone}}});
  }

  [[nodiscard]] FieldId md(const char* name) const { return b_.field_of(md_, name); }
  [[nodiscard]] FieldId of(HeaderId header, const char* name) const {
    return b_.field_of(header, name);
  }

  const PrecisionVariant variant_;
  ProgramBuilder b_;
  HeaderId md_ = kNone;
  HeaderId ethernet_ = kNone;
  HeaderId ip_ = kNone;
  HeaderId l4_ = kNone;
  FieldId random_ = kNone;
  FieldId drawn_ = kNone;       ///< The random bits that decide; 0: recirculate.
  FieldId wanted_ = kNone;      ///< 1 if no slot holds the flow.
  FieldId difference_ = kNone;  ///< Row 1's count minus row 0's.
  FieldId smaller_ = kNone;     ///< The smaller of the two counts.
  PerRow index_{};
  PerRow count_{};
  std::array<std::array<FieldId, 2>, kPrecisionRows> same_{};      ///< By row and Words.
  std::array<std::array<RegisterId, 2>, kPrecisionRows> flows_{};  ///< By row and Words.
  std::array<RegisterId, kPrecisionRows> counts_{};
};

}  // namespace

Program precision_program(const PrecisionVariant& variant) {
  return PrecisionBuilder(variant).build();
}

}  // namespace tributary::tofino
