// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures each instruction of a thread: the bytes of the packet head that it reads, its accesses
/// to local memory and registers, and the XTXNs that it issues. Machines that model time have one.
///
/// Model:   An instruction begins at its mark. It ends at the next mark, when the thread awaits a
///          reply, or when the thread ends. Code between a reply and the next mark has no price.
///          Views (metered_head.h, register.h) report what the program touches.
/// Errors:  An instruction that exceeds its budget (Instruction::use) is a bug. It stops the
///          process with the program, the instruction, its place, the budget and the use. So does a
///          thread that makes more than kThreadStepsMax steps.
/// Threads: One.
/// Tests:   tests/microcode/access_meter_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "base/running_program.h"
#include "microcode/frame_pool.h"
#include "microcode/instruction.h"

namespace tributary::microcode {

struct Xtxn;

/// Most bytes of one request of a program: 32 for each of 64 records, as many as a scan visits. The
/// memory serves it in pieces of at most 64 bytes (memory/rmw_bank.h). Assumed.
inline constexpr uint32_t kXtxnBytesMax = 2048;

/// Bytes of one access to local memory, from any byte on (Trio paper §2.2). Assumed: the width of a
/// register. §3.1 limits the accesses of an instruction but does not state their width.
inline constexpr uint32_t kLmemAccessBytes = kRegisterBytes;

/// Most instructions and XTXNs of one thread. One with more is in a loop that does not end.
/// Assumed: the longest threads are timers that visit millions of records and make some steps at
/// each.
inline constexpr uint64_t kThreadStepsMax = 200'000'000;

/// The accesses of one instruction. A byte or register that it accesses twice counts once, because
/// several ALUs can share an operand.
struct AccessCount {
  uint32_t head_bytes = 0;
  /// Accesses of kLmemAccessBytes: those that cover the head's bytes, and each variable's own.
  uint32_t lmem_reads = 0;
  uint32_t lmem_writes = 0;  ///< Accesses of kLmemAccessBytes; each written variable has its own.
  uint32_t register_reads = 0;
  uint32_t register_writes = 0;
  uint32_t xtxns = 0;  ///< Requests that it issues.

  [[nodiscard]] bool is_none() const { return *this == AccessCount(); }
  bool operator==(const AccessCount&) const = default;
};

/// Returns the larger value of each count.
[[nodiscard]] AccessCount largest(const AccessCount& a, const AccessCount& b);

/// Stops the process unless the XTXN has a target and a size that the memory serves: 1 to
/// kXtxnBytesMax. The size of an operation of the program's own (kFetchAndOp) has no upper limit.
/// The machine itself makes requests to the Packet Buffer, which are not checked.
void check_xtxn(const Xtxn& xtxn, const std::source_location& place);

/// Returns "FILE:LINE", with the path that the compiler has for the file: in this project, from the
/// top of the source tree.
[[nodiscard]] std::string place_text(const std::source_location& place);

class AccessMeter {
 public:
  using Place = std::source_location;

  /// The position of a thread: its last mark, and the reply that it has awaited since then.
  struct Position {
    const char* mark = nullptr;   ///< Null: before its first mark.
    const char* reply = nullptr;  ///< Kind of the XTXN or loop; null: none.
    Place place = {};             ///< Source line of the mark.
  };

  struct InstructionRow {
    const char* name;
    InstructionUse budget;
    uint64_t executed = 0;
    AccessCount most = {};  ///< The largest counts of any execution.
  };
  /// Code that runs without a price.
  struct UnpricedRow {
    Position after;
    Place place;  ///< Its first access.
    uint64_t executed = 0;
    AccessCount most = {};  ///< The largest counts of any execution.
  };

  AccessMeter() = default;
  ~AccessMeter();
  AccessMeter(const AccessMeter&) = delete;
  AccessMeter& operator=(const AccessMeter&) = delete;

  /// @param program The name that errors give the program.
  void set_program(std::string program) {
    program_ = std::move(program);
    running_.program = program_;
  }
  [[nodiscard]] const std::string& program() const { return program_; }

  // --- For the machine ---------------------------------------------------------------------------

  /// A thread continues here.
  void resume(const Position& position);
  /// Names the program and a thread's position in errors until the next end_naming(), resume() or
  /// pause().
  void name(const Position& position);
  void end_naming();
  /// Counts an instruction or XTXN of a thread. @param steps The thread's own count, which changes.
  void count_step(uint64_t& steps, const Place& place) const {
    if (++steps > kThreadStepsMax) [[unlikely]]
      stop_endless(place);
  }
  /// The running thread begins an instruction. @param times Threads that this one stands for.
  void begin(const Instruction& mark, uint64_t times, const Place& place);
  /// The running thread awaits a reply. Its next accesses have no price until it begins an
  /// instruction.
  void await(const Position& position) { resume(position); }
  /// The running thread stops running.
  void pause() {
    close();
    end_naming();
  }

  // --- For views ---------------------------------------------------------------------------------

  /// @param offset_bytes In local memory, whose first kHeadroomBytes lie before the head that has
  ///                     arrived. @pre offset_bytes + size_bytes <= kHeadroomBytes + kHeadBytes.
  void read_head(uint32_t offset_bytes, uint32_t size_bytes, const Place& place);
  /// @param name Distinguishes the thread's registers.
  void read_register(const void* name, const Place& place);
  void write_register(const void* name, const Place& place);
  /// @param first The first byte of a variable in local memory; distinguishes it from others. Two
  ///              variables share no access, because their distance depends on the compiler.
  void write_lmem(const void* first, uint32_t size_bytes, const Place& place);
  void read_lmem(const void* first, uint32_t size_bytes, const Place& place);
  void issue_xtxn(const Place& place);

  // --- Results -----------------------------------------------------------------------------------

  /// In order of first use.
  /// Instructions with the same name and different budgets have a row each.
  [[nodiscard]] const std::vector<InstructionRow>& instructions() const { return instructions_; }
  [[nodiscard]] const std::vector<UnpricedRow>& unpriced() const { return unpriced_; }

 private:
  /// A set of registers; those beyond its room count each time.
  struct RegisterSet {
    std::array<const void*, kRegisterCount> names;
    uint32_t count = 0;
    void include(const void* name);
  };
  /// The variables in local memory that an instruction reads or writes. Those beyond its room count
  /// each time.
  struct LocalVariables {
    struct Variable {
      const void* first;
      uint32_t size_bytes;
    };
    std::array<Variable, 16> known;
    uint32_t count = 0;
    uint32_t access_count = 0;
    void include(const void* first, uint32_t size_bytes);
  };
  /// The instruction, or the code without a price, that runs.
  struct Open {
    bool is_priced = false;
    Position after;           ///< If it has no price.
    uint32_t row = 0;         ///< If it has one: its index in instructions_.
    Place place;              ///< Its mark, or its first access.
    bool is_touched = false;  ///< Whether it has accessed anything.
    static_assert((kHeadroomBytes + kHeadBytes) % 64 == 0);
    std::array<uint64_t, (kHeadroomBytes + kHeadBytes) / 64> head = {};  ///< A bit for each byte.
    RegisterSet reads;
    RegisterSet writes;
    LocalVariables lmem_reads;  ///< Outside the head.
    LocalVariables lmem_writes;
    uint32_t xtxns = 0;
  };

  void touch(const Place& place) {
    if (!open_.is_touched && !open_.is_priced) open_.place = place;
    open_.is_touched = true;
  }
  void close();
  void add_unpriced(const AccessCount& used);
  [[nodiscard]] AccessCount count() const;
  void check_budget(const InstructionRow& row, const AccessCount& used) const;
  [[noreturn]] void stop(const InstructionRow& row, const char* what, uint32_t budget,
                         uint32_t used) const;

  [[noreturn]] void stop_endless(const Place& place) const;

  std::string program_ = "unnamed";
  RunningProgram running_;
  Open open_;
  std::vector<InstructionRow> instructions_;
  std::vector<UnpricedRow> unpriced_;
};

}  // namespace tributary::microcode
