// SPDX-License-Identifier: Apache-2.0
/// @file
/// One pipe: its registers and counters, and one pass of a packet through ingress or egress.
///
/// Model:   A pass parses the packet, runs the control and, unless the packet is dropped, deparses
///          it. All of it happens at one instant; the Switch handles time.
/// Shapes:  A packet is a span of bytes and its size; the size is larger if part of it is elided.
/// Threads: One.
/// Errors:  Each effect of a bad packet is a Verdict or a count. An index past the end of a
///          register or counter has no effect, reads 0 and is counted.
/// Memory:  Registers and counters are taken at the start. A pass allocates only when a packet is
///          longer than all before.
/// Tests:   tests/tofino/pipeline/switch_test.cc
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"
#include "tofino/pipeline/executable.h"
#include "tofino/pipeline/parser_route.h"
#include "tofino/pipeline/pass_trace.h"
#include "tofino/pipeline/tables.h"

namespace tributary::tofino {

enum class Verdict : uint8_t {
  kPassed,
  kDropped,       ///< The program dropped it.
  kParserReject,  ///< No transition matched.
  kTruncated,     ///< The packet ends inside a header.
};

/// A packet that a pass has written. Its memory grows to the longest packet and is kept.
class PacketBuffer {
 public:
  [[nodiscard]] PacketView view() const { return {{bytes_.data(), stored_}, size_bytes_}; }
  [[nodiscard]] uint32_t size_bytes() const { return size_bytes_; }
  /// Returns room for `room` bytes, to be written before finish(). The old contents are lost.
  [[nodiscard]] std::byte* begin(size_t room) {
    if (bytes_.size() < room) bytes_.resize(room);
    return bytes_.data();
  }
  /// Sets the size of the packet. @pre `stored` is at most the room of begin().
  void finish(size_t stored, uint32_t size_bytes) {
    stored_ = stored;
    size_bytes_ = size_bytes;
  }
  void assign(PacketView packet) {
    std::copy(packet.stored.begin(), packet.stored.end(), begin(packet.stored.size()));
    finish(packet.stored.size(), packet.size_bytes);
  }

 private:
  std::vector<std::byte> bytes_;
  size_t stored_ = 0;
  uint32_t size_bytes_ = 0;
};

class Pipe {
 public:
  /// @param executable, tables Must outlive the pipe. @param seed Seed of the random draws.
  Pipe(const Executable& executable, const Tables& tables, uint64_t seed);
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  /// Clears the PHV. Set the fields that the chip sets before the parser, then run a pass.
  void begin();
  void set(FieldId field, uint32_t value) {
    if (field != kNone) phv_[field] = value;
  }
  /// Returns a field as the last pass left it; 0 for kNone.
  [[nodiscard]] uint32_t get(FieldId field) const { return field == kNone ? 0 : phv_[field]; }

  /// Runs one pass. Writes `out` if the verdict is kPassed.
  [[nodiscard]] Verdict run_ingress(PacketView packet, PacketBuffer& out) {
    return trace_ == nullptr ? run<false>(executable_.ingress, packet, out)
                             : run<true>(executable_.ingress, packet, out);
  }
  [[nodiscard]] Verdict run_egress(PacketView packet, PacketBuffer& out) {
    return trace_ == nullptr ? run<false>(executable_.egress, packet, out)
                             : run<true>(executable_.egress, packet, out);
  }

  /// Traces the passes that follow; null stops the trace. A trace does not change a pass.
  void set_trace(const PassTrace* trace) { trace_ = trace; }

  /// Read and write memory for the control plane. @pre The index exists.
  [[nodiscard]] uint32_t register_word(RegisterId reg, uint32_t entry, uint32_t word = 0) const;
  void set_register_word(RegisterId reg, uint32_t entry, uint32_t word, uint32_t value);
  [[nodiscard]] uint64_t counter(CounterId counter, uint32_t entry) const;
  /// Returns the number of accesses to register or counter entries that do not exist.
  [[nodiscard]] uint64_t bad_index_count() const { return bad_index_count_; }

 private:
  /// A register's words, as a call accesses them.
  struct RegisterPort {
    uint32_t* words = nullptr;  ///< The low word of entry 0.
    uint32_t entries = 0;
    uint32_t entry_words = 0;  ///< Distance between entries.
    uint32_t to_high = 0;      ///< Distance from a low word to its high word.
  };
  [[nodiscard]] uint32_t& word_at(RegisterId reg, uint32_t entry, uint32_t word) const;

  /// A header that is copied from the packet and then partly overwritten.
  struct ChangedHeader {
    const Executable::FieldSlice* stores;
    std::byte* to;
  };

  /// The operations of a table for one of its entries, or for a miss.
  struct RowCode {
    const Executable::MicroOp* first = nullptr;
    const Executable::MicroOp* last = nullptr;
    const uint32_t* parameters = nullptr;
  };
  // pipe_run.cc
  template <bool kTraced>
  [[nodiscard]] Verdict run(const Executable::GressCode& gress, PacketView packet,
                            PacketBuffer& out);
  template <bool kTraced>
  [[nodiscard]] Verdict parse(const Executable::GressCode& gress, PacketView packet,
                              ParserCursor& cursor);
  void load(const Executable::HeaderCode& header, PacketView packet, size_t at);
  [[nodiscard]] bool extract(const Executable::HeaderCode& header, PacketView packet,
                             ParserCursor& cursor);
  template <bool kTraced>
  [[nodiscard]] Verdict parse_by_states(const Executable::GressCode& gress, PacketView packet,
                                        ParserCursor& cursor);
  [[nodiscard]] uint16_t find_transition(const Executable::StateCode& state) const;
  template <bool kTraced>
  void control(const Executable::GressCode& gress);
  [[nodiscard]] bool holds(Slice terms) const;
  template <bool kTraced>
  void act(const RowCode& row);
  template <bool kTraced>
  void call(const Executable::CallCode& call);
  void count(const CounterCall& count);
  [[nodiscard]] uint32_t hash(Slice inputs) const;
  [[nodiscard]] uint32_t compute(const Executable::MicroOp& op, const uint32_t* parameters) const;
  void call_many(uint32_t first, uint32_t count);

  // pipe_deparse.cc
  void deparse(const Executable::GressCode& gress, PacketView packet, const ParserCursor& cursor,
               PacketBuffer& out);
  void emit_whole(const Executable::HeaderCode& header, std::byte* to) const;
  void store(const Executable::FieldSlice& fields, std::byte* to) const;
  void checksum(const Executable::HeaderCode& header, FieldId target);

  /// Several tables in a row that have the same keys and entries, and do the same to adjacent
  /// registers. One loop replaces their look-ups and calls.
  struct RowOfTables {
    uint32_t first_step = 0;
    uint32_t count = 0;
    std::vector<uint32_t> calls = {};  ///< First call (or kNoCall) by entry; the last for a miss.
  };
  static constexpr uint32_t kNoCall = UINT32_MAX;
  static constexpr uint32_t kNoRow = UINT32_MAX;

  // pipe_rows.cc: the parts that depend on the tables' entries. They are rebuilt when entries
  // change.
  void compile_steps();
  void find_rows();
  [[nodiscard]] bool joins_row(const RowOfTables& row, uint32_t step) const;
  [[nodiscard]] bool calls_follow(uint32_t call, uint32_t next, uint32_t distance) const;
  [[nodiscard]] uint32_t only_call(const Tables::Row& row) const;
  /// Runs a row of tables. @return the step after the row.
  [[nodiscard]] uint32_t run_row(const RowOfTables& row);

  /// A step of the control with its table's entries, so that a pass follows only one pointer.
  struct StepCode {
    Executable::StepKind kind = Executable::StepKind::kJump;
    bool same_entry_as_previous = false;  ///< True if the previous table finds the same entry.
    uint32_t row = kNoRow;                ///< Index into rows_.
    const MatchTable* match = nullptr;
    const RowCode* rows = nullptr;  ///< Shape [entries + 1]; the last is for a miss.
    uint32_t miss = 0;              ///< Index of the row for a miss.
    uint32_t then = 0;
    uint32_t otherwise = 0;
    Slice terms = {};
  };

  const Executable& executable_;
  const Tables& tables_;
  const PassTrace* trace_ = nullptr;
  Prng prng_;
  std::vector<uint32_t> phv_;
  std::vector<uint32_t> header_at_;  ///< Offset of each header in the packet, or kNotParsed.
  static constexpr uint32_t kNotParsed = UINT32_MAX;
  std::vector<std::vector<uint32_t>> banks_;  ///< Each has shape [entries][words][registers].
  std::vector<RegisterPort> ports_;           ///< Shape [registers]; point into banks_.
  std::vector<ChangedHeader> changed_;        ///< Used while deparsing.
  uint64_t tables_generation_ = 0;
  std::vector<RowOfTables> rows_;
  std::vector<StepCode> steps_;  ///< Shape [steps].
  std::vector<RowCode> row_codes_;
  ParserRoutes ingress_routes_;
  ParserRoutes egress_routes_;
  std::vector<ParserRoutes::Step> path_;  ///< The path so far, while parsing.
  std::vector<std::vector<uint64_t>> counters_;
  uint64_t bad_index_count_ = 0;
};

}  // namespace tributary::tofino
