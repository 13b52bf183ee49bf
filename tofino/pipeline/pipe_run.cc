// SPDX-License-Identifier: Apache-2.0
// One pass of a packet: parser and control. All of it runs several times per packet.
#include <array>

#include "base/byte_order.h"
#include "tofino/pipeline/pipe.h"

namespace tributary::tofino {
namespace {

/// CRC-32 of IEEE 802.3 (reflected, polynomial 0xedb88320), one byte at a time.
constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); byte++) {
    uint32_t value = byte;
    for (uint32_t bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xedb88320U : 0U);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

/// Adds the low `bytes` bytes of `word` to the CRC, most significant byte first.
uint32_t crc_add(uint32_t crc, uint32_t word, uint32_t bytes) {
  for (uint32_t i = bytes; i-- > 0;) crc = crc >> 8 ^ kCrcTable[(crc ^ word >> (8 * i)) & 0xff];
  return crc;
}

/// Returns the eight bytes before `end` as one big-endian number, or all of them if there are
/// fewer.
uint64_t bits_before(std::span<const std::byte> bytes, size_t end) {
  if (end >= sizeof(uint64_t)) return load_be<uint64_t>(bytes.data() + end - sizeof(uint64_t));
  if (bytes.size() >= sizeof(uint64_t)) {
    return load_be<uint64_t>(bytes.data()) >> (8 * (sizeof(uint64_t) - end));
  }
  uint64_t bits = 0;
  for (size_t i = 0; i < end; i++) bits = bits << 8 | std::to_integer<uint64_t>(bytes[i]);
  return bits;
}

}  // namespace

template <bool kTraced>
Verdict Pipe::run(const Executable::GressCode& gress, PacketView packet, PacketBuffer& out) {
  ParserCursor cursor;
  const Verdict verdict = parse<kTraced>(gress, packet, cursor);
  if (verdict != Verdict::kPassed) return verdict;
  control<kTraced>(gress);
  if (get(executable_.program->intrinsics.drop) != 0) return Verdict::kDropped;
  deparse(gress, packet, cursor, out);
  return Verdict::kPassed;
}

template Verdict Pipe::run<false>(const Executable::GressCode&, PacketView, PacketBuffer&);
template Verdict Pipe::run<true>(const Executable::GressCode&, PacketView, PacketBuffer&);

// --- Parser -------------------------------------------------------------------------------------

template <bool kTraced>
Verdict Pipe::parse(const Executable::GressCode& gress, PacketView packet, ParserCursor& cursor) {
  if (gress.states.first == gress.states.last) return Verdict::kPassed;
  if constexpr (kTraced) {
    return parse_by_states<true>(gress, packet, cursor);
  } else {
    ParserRoutes& routes = gress.is_ingress ? ingress_routes_ : egress_routes_;
    const uint32_t port = get(executable_.program->intrinsics.ingress_port);
    if (routes.follow(port, packet, phv_.data(), header_at_.data(), cursor)) {
      return Verdict::kPassed;
    }
    const Verdict verdict = parse_by_states<false>(gress, packet, cursor);
    if (verdict == Verdict::kPassed) routes.learn(port, path_);
    return verdict;
  }
}

template <bool kTraced>
Verdict Pipe::parse_by_states(const Executable::GressCode& gress, PacketView packet,
                              ParserCursor& cursor) {
  path_.clear();
  uint16_t at = 0;
  while (at != kAccept) {
    if (at == kReject) return Verdict::kParserReject;
    const Executable::StateCode& state = executable_.states[gress.states.first + size_t{at}];
    if constexpr (kTraced) trace_->state(gress, at);
    for (uint32_t i = state.extracts.first; i < state.extracts.last; i++) {
      const Executable::HeaderCode& header = executable_.headers[executable_.header_ids[i]];
      if (!extract(header, packet, cursor)) return Verdict::kTruncated;
      if constexpr (kTraced) trace_->header(header, phv_.data());
    }
    for (uint32_t i = state.sets.first; i < state.sets.last; i++) {
      phv_[executable_.sets[i].first] = executable_.sets[i].second;
    }
    const uint16_t transition = find_transition(state);
    path_.push_back({at, transition});
    at = transition == ParserRoutes::kOtherwise
             ? state.otherwise
             : executable_.transitions[state.transitions.first + size_t{transition}].next;
  }
  return Verdict::kPassed;
}

uint16_t Pipe::find_transition(const Executable::StateCode& state) const {
  uint32_t key = 0;
  for (uint32_t i = state.select.first; i < state.select.last; i++) {
    const Executable::SelectField& one = executable_.selects[i];
    key |= phv_[one.field] << one.shift;
  }
  for (uint32_t i = state.transitions.first; i < state.transitions.last; i++) {
    const Executable::TransitionCode& to = executable_.transitions[i];
    if ((key & to.mask) == to.value) return static_cast<uint16_t>(i - state.transitions.first);
  }
  return ParserRoutes::kOtherwise;
}

/// Loads a header's fields. Fields of whole bytes come first, by size. Each other field takes one
/// load of the eight bytes that end with it, or of the packet's first eight bytes if there are
/// fewer.
inline void Pipe::load(const Executable::HeaderCode& header, PacketView packet, size_t at) {
  const std::byte* const from = packet.stored.data() + at;
  uint32_t* const phv = phv_.data();
  const Executable::HeaderField* one = executable_.header_fields.data() + header.loads.first;
  const auto until = [&](uint32_t last) { return executable_.header_fields.data() + last; };
  if (header.words && header.loads.last - header.loads.first == header.bytes / 4) {
    uint32_t* to = phv + header.first_field;
    for (uint32_t i = 0; i < header.bytes / 4; i++) to[i] = load_be<uint32_t>(from + 4 * size_t{i});
    return;
  }
  for (const auto* end = until(header.loads.words_end); one != end; one++) {
    phv[one->field] = load_be<uint32_t>(from + one->byte);
  }
  for (const auto* end = until(header.loads.halves_end); one != end; one++) {
    phv[one->field] = load_be<uint16_t>(from + one->byte);
  }
  for (const auto* end = until(header.loads.bytes_end); one != end; one++) {
    phv[one->field] = std::to_integer<uint32_t>(from[one->byte]);
  }
  for (const auto* end = until(header.loads.last); one != end; one++) {
    const uint64_t bits = bits_before(packet.stored, at + one->byte + one->byte_count);
    phv[one->field] = static_cast<uint32_t>(bits >> one->shift) & one->mask;
  }
}

inline bool Pipe::extract(const Executable::HeaderCode& header, PacketView packet,
                          ParserCursor& cursor) {
  const uint32_t bytes = header.bytes;
  if (packet.size_bytes - cursor.size_at < bytes) return false;
  if (header.elided) [[unlikely]] {
    cursor.at = std::min(cursor.at + bytes, packet.stored.size());
  } else {
    if (packet.stored.size() - cursor.at < bytes) return false;
    load(header, packet, cursor.at);
    header_at_[header.id] = static_cast<uint32_t>(cursor.at);
    cursor.at += bytes;
  }
  cursor.size_at += bytes;
  phv_[header.valid] = 1;
  return true;
}

// --- Control ------------------------------------------------------------------------------------

template <bool kTraced>
void Pipe::control(const Executable::GressCode& gress) {
  uint32_t entry = MatchTable::kMiss;  // The entry that the previous table has found.
  const StepCode* const steps = steps_.data();
  uint32_t at = gress.steps.first;
  while (at < gress.steps.last) {
    const StepCode& step = steps[at];
    switch (step.kind) {
      case Executable::StepKind::kTable: {
        if (!kTraced && step.row != kNoRow) {
          at = run_row(rows_[step.row]);
          break;
        }
        if (!step.same_entry_as_previous) entry = step.match->lookup(phv_.data());
        const bool hit = entry != MatchTable::kMiss;
        if constexpr (kTraced) trace_->table(executable_.steps[at].table, entry, phv_.data());
        act<kTraced>(step.rows[hit ? entry : step.miss]);
        at = hit ? step.then : step.otherwise;
        break;
      }
      case Executable::StepKind::kCondition:
        if constexpr (kTraced) trace_->gateway(step.terms, holds(step.terms));
        at = holds(step.terms) ? step.then : step.otherwise;
        break;
      case Executable::StepKind::kJump:
        at = step.then;
        break;
    }
  }
}

uint32_t Pipe::run_row(const RowOfTables& row) {
  const TableId table = executable_.steps[row.first_step].table;
  const uint32_t entry = tables_.match(table).lookup(phv_.data());
  const uint32_t call = entry == MatchTable::kMiss ? row.calls.back() : row.calls[entry];
  if (call != kNoCall) call_many(call, row.count);
  return row.first_step + row.count;
}

void Pipe::call_many(uint32_t first, uint32_t count) {
  const Executable::CallCode& call = executable_.calls[first];
  const RegisterPort& port = ports_[call.reg];
  const uint32_t index = phv_[call.index];
  if (index >= port.entries) [[unlikely]] {
    bad_index_count_ += count;
    std::fill_n(&phv_[call.output], count, 0);
    return;
  }
  uint32_t* low = port.words + size_t{index} * port.entry_words;
  executable_.register_actions[call.action].execute_many(
      low, low + port.to_high, &phv_[call.inputs[0]], &phv_[call.inputs[1]], &phv_[call.output],
      count);
}

inline bool Pipe::holds(Slice terms) const {
  for (uint32_t i = terms.first; i < terms.last; i++) {
    const Executable::TermCode& term = executable_.terms[i];
    if (((phv_[term.field] & term.mask) == term.value) == term.negated) return false;
  }
  return true;
}

/// always_inline: four calls per pass take a tenth of the control's time.
template <bool kTraced>
[[gnu::always_inline]] inline void Pipe::act(const RowCode& row) {
  using Kind = Executable::MicroKind;
  uint32_t* phv = phv_.data();
  const uint32_t* const parameters = row.parameters;
  for (const Executable::MicroOp* op = row.first; op != row.last; op++) {
    const bool writes = op->target != kNone;  // Used only by a trace.
    const uint32_t before = kTraced && writes ? phv[op->target] : 0;
    switch (op->kind) {
      case Kind::kSetConstant:
        phv[op->target] = op->a & op->mask;
        break;
      case Kind::kSetField:
        phv[op->target] = phv[op->a] & op->mask;
        break;
      case Kind::kSetParameter:
        phv[op->target] = parameters[op->a] & op->mask;
        break;
      case Kind::kCompute:
        phv[op->target] = compute(*op, parameters) & op->mask;
        break;
      case Kind::kCall:
        call<kTraced>(executable_.calls[op->a]);
        break;
      case Kind::kCount:
        count(executable_.counts[op->a]);
        break;
      case Kind::kDraw:
        phv[op->target] = prng_.any_u32() >> op->a;
        break;
      case Kind::kHash:
        phv[op->target] = hash(executable_.hashes[op->a]) & op->mask;
        break;
    }
    if constexpr (kTraced) {
      if (writes) trace_->field(op->target, before, phv[op->target]);
    }
  }
}

template <bool kTraced>
inline void Pipe::call(const Executable::CallCode& call) {
  const RegisterPort& port = ports_[call.reg];
  const uint32_t index = phv_[call.index];
  if (index >= port.entries) [[unlikely]] {
    bad_index_count_++;
    if constexpr (kTraced) trace_->bad_index(call, index);
    phv_[call.output] = 0;
    return;
  }
  uint32_t* low = port.words + size_t{index} * port.entry_words;
  const auto words = [&] {
    const bool pair = executable_.program->registers[call.reg].pair;
    return RegisterWords{*low, pair ? low[port.to_high] : 0};
  };
  const RegisterWords before = kTraced ? words() : RegisterWords{};
  phv_[call.output] = executable_.register_actions[call.action].execute(
      low, low + port.to_high, phv_[call.inputs[0]], phv_[call.inputs[1]]);
  if constexpr (kTraced) trace_->access(call, index, before, words(), phv_[call.output]);
}

inline void Pipe::count(const CounterCall& count) {
  const uint32_t index = phv_[count.index];
  if (index < counters_[count.counter].size()) {
    counters_[count.counter][index]++;
  } else {
    bad_index_count_++;
  }
}

uint32_t Pipe::hash(Slice inputs) const {
  uint32_t value = 0xffffffff;
  for (uint32_t i = inputs.first; i < inputs.last; i++) {
    const FieldId input = executable_.field_ids[i];
    const uint32_t bytes = (executable_.program->fields[input].bits + 7) / 8;
    value = crc_add(value, phv_[input], bytes);
  }
  return ~value;
}

inline uint32_t Pipe::compute(const Executable::MicroOp& op, const uint32_t* parameters) const {
  const auto fetch = [&](OperandKind kind, uint32_t value) {
    if (kind == OperandKind::kField) return phv_[value];
    return kind == OperandKind::kConstant ? value : parameters[value];
  };
  const uint32_t a = fetch(op.a_kind, op.a);
  const uint32_t b = fetch(op.b_kind, op.b);
  switch (op.op) {
    case AluOp::kSet:
      return a;
    case AluOp::kAdd:
      return a + b;
    case AluOp::kSubtract:
      return a - b;
    case AluOp::kAddSaturated:
      return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{a} + b, op.mask));
    case AluOp::kAnd:
      return a & b;
    case AluOp::kOr:
      return a | b;
    case AluOp::kXor:
      return a ^ b;
    case AluOp::kAndNot:
      return a & ~b;
    case AluOp::kMin:
      return std::min(a, b);
    case AluOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

}  // namespace tributary::tofino
