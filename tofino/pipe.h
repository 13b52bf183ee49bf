// SPDX-License-Identifier: Apache-2.0
/// @file
/// One pipe at work: its registers and counters, and one pass of a packet through ingress or
/// egress.
///
/// Model:   A pass parses, runs the control and, unless the packet was dropped, writes the packet
///          anew: the valid headers in the deparser's order, then what the parser did not read. All
///          of it happens at one instant; time is the Switch's business.
/// Shapes:  A packet is a span of bytes and its size; it is longer than the span if part of it is
///          elided. Register entries of a pair lie low word first.
/// Threads: One.
/// Errors:  What a packet can cause is a Verdict or a count. An index beyond a register or counter
///          touches nothing, gives 0 and is counted.
/// Memory:  Registers and counters are taken at the start, nothing during a pass but the output's
///          growth to the longest packet.
/// Tests:   tests/tofino/switch_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"
#include "tofino/executable.h"
#include "tofino/tables.h"

namespace tributary::tofino {

enum class Verdict : uint8_t {
  kPassed,
  kDropped,       ///< The program said so.
  kParserReject,  ///< No transition matched.
  kParserShort,   ///< It ends inside a header.
};

/// A packet, or what the modelled chip has of it.
struct PacketView {
  std::span<const std::byte> stored;  ///< At most size_bytes.
  uint32_t size_bytes = 0;
};

/// A packet that a pass has written.
struct PacketBuffer {
  std::vector<std::byte> stored;
  uint32_t size_bytes = 0;
  [[nodiscard]] PacketView view() const { return {stored, size_bytes}; }
};

class Pipe {
 public:
  /// @param executable, tables Must outlive the pipe. @param seed Of the random draws.
  Pipe(const Executable& executable, const Tables& tables, uint64_t seed);

  /// The PHV is cleared; set what the chip sets before the parser, then run.
  void begin();
  void set(FieldId field, uint32_t value) {
    if (field != kNone) phv_[field] = value;
  }
  /// A field as the last pass has left it; 0 for kNone.
  [[nodiscard]] uint32_t get(FieldId field) const { return field == kNone ? 0 : phv_[field]; }

  /// One pass. `out` is written if the verdict is kPassed.
  [[nodiscard]] Verdict run_ingress(PacketView packet, PacketBuffer& out) {
    return run(executable_.ingress, packet, out);
  }
  [[nodiscard]] Verdict run_egress(PacketView packet, PacketBuffer& out) {
    return run(executable_.egress, packet, out);
  }

  /// The control plane's view. @pre the index exists.
  [[nodiscard]] uint32_t register_word(RegisterId reg, uint32_t entry, uint32_t word = 0) const;
  void set_register_word(RegisterId reg, uint32_t entry, uint32_t word, uint32_t value);
  [[nodiscard]] uint64_t counter(CounterId counter, uint32_t entry) const;
  /// Accesses to registers and counters with an index that does not exist.
  [[nodiscard]] uint64_t bad_index_count() const { return bad_index_count_; }

 private:
  struct Cursor {
    size_t at = 0;         ///< Of the stored bytes.
    uint32_t size_at = 0;  ///< Of the whole packet.
  };

  [[nodiscard]] Verdict run(const Executable::GressCode& gress, PacketView packet,
                            PacketBuffer& out);
  [[nodiscard]] Verdict parse(const Executable::GressCode& gress, PacketView packet,
                              Cursor& cursor);
  void load(const Executable::HeaderCode& header, PacketView packet, size_t at);
  [[nodiscard]] bool extract(const Executable::HeaderCode& header, PacketView packet,
                             Cursor& cursor);
  [[nodiscard]] const Executable::HeaderCode& header_code(const Executable::GressCode& gress,
                                                          uint32_t id) const {
    return executable_.headers[&gress == &executable_.ingress ? id : id + header_count_];
  }
  [[nodiscard]] uint16_t next_state(const Executable::StateCode& state) const;
  void control(const Executable::GressCode& gress);
  [[nodiscard]] bool holds(const Executable::Step& step) const;
  void act(const Executable::ActionCode& action, const uint32_t* parameters);
  void call(const Executable::CallCode& call);
  void hash(const Executable::HashCode& hash);
  void operate(const Executable::OperationCode& operation, const uint32_t* parameters);
  [[nodiscard]] uint32_t operand(OperandKind kind, uint32_t value,
                                 const uint32_t* parameters) const;
  void deparse(const Executable::GressCode& gress, PacketView packet, const Cursor& cursor,
               PacketBuffer& out);
  void emit(const Executable::HeaderCode& header, PacketView packet, std::byte* to) const;
  void emit_whole(const Executable::HeaderCode& header, std::byte* to) const;
  void store(const Slice& fields, std::byte* to) const;
  void checksum(const Executable::HeaderCode& header, FieldId target);
  [[nodiscard]] size_t word_index(RegisterId reg, uint32_t entry, uint32_t word) const;

  /// Several tables in a row that look at the same keys, with the same entries, and do the same to
  /// registers side by side: one loop instead of as many look-ups and calls.
  struct RowOfTables {
    uint32_t first_step = 0;
    uint32_t count = 0;
    std::vector<uint32_t> calls =
        {};  ///< By entry, the last for a miss: the first call, or kNoCall.
  };
  static constexpr uint32_t kNoCall = UINT32_MAX;
  static constexpr uint32_t kNoRow = UINT32_MAX;
  void find_rows();
  [[nodiscard]] bool joins_row(const RowOfTables& row, uint32_t step) const;
  [[nodiscard]] bool calls_follow(uint32_t call, uint32_t next, uint32_t distance) const;
  [[nodiscard]] uint32_t only_call(const Tables::Row& row) const;
  void call_many(uint32_t first, uint32_t count);
  /// @return the step behind the row.
  [[nodiscard]] uint32_t run_row(const RowOfTables& row);

  const Executable& executable_;
  const Tables& tables_;
  Prng prng_;
  std::vector<uint32_t> phv_;
  const uint32_t header_count_;
  std::vector<uint32_t> header_at_;  ///< Where a header came from; kNotParsed if it did not.
  static constexpr uint32_t kNotParsed = UINT32_MAX;
  std::vector<std::vector<uint32_t>> banks_;  ///< Shape [entries][words][registers] each.
  uint64_t tables_generation_ = 0;
  std::vector<RowOfTables> rows_;
  std::vector<uint32_t> row_at_step_;  ///< Shape [steps]: into rows_, or kNoRow.
  std::vector<std::vector<uint64_t>> counters_;
  uint64_t bad_index_count_ = 0;
};

}  // namespace tributary::tofino
