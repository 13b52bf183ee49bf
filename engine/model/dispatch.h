// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Dispatch module chooses the PPE thread for a packet (Trio paper §2.1, "sends the packet head
/// to a PPE for processing based on availability, and the PPE spawns a new thread").
///
/// Model:   The PPE with the fewest active threads gets the packet. Ties go to the next PPE in a
///          circle after the last choice. The paper does not define ties ("assumed"); this rule is
///          deterministic and spreads the first packets.
/// Threads: Owned by one engine thread.
/// Memory:  All of it is taken in the constructor; TakenThreads keep their capacity.
/// Tests:   tests/engine/model/dispatch_test.cc
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tributary::engine {

/// One thread of one PPE.
struct PpeThread {
  uint32_t ppe = 0;
  uint32_t thread = 0;

  friend bool operator==(const PpeThread&, const PpeThread&) = default;
};

/// PPEs whose flags lie in one word.
struct PpeGroup {
  static constexpr uint32_t kBits = 64;

  uint32_t word = 0;  ///< Number of the word, from 0.
  uint64_t ppes = 0;  ///< Bit b: PPE word * kBits + b.
};

/// The threads that a packet or a train takes.
struct TakenThreads {
  PpeThread first;               ///< Only the first one has a number, for traces.
  uint32_t count = 0;            ///< 0: none.
  std::vector<PpeGroup> groups;  ///< A PPE is in as many groups as it has threads here.

  [[nodiscard]] bool empty() const { return count == 0; }
  void clear() {
    count = 0;
    groups.clear();
  }
  /// Calls visit(PPE) for each thread.
  template <class F>
  void for_each_ppe(F&& visit) const {
    for (const PpeGroup& group : groups) {
      for (uint64_t left = group.ppes; left != 0; left &= left - 1) {
        visit(group.word * PpeGroup::kBits + static_cast<uint32_t>(std::countr_zero(left)));
      }
    }
  }
};

/// Counts the threads of each PPE. One word holds the same bit of the counts of 64 PPEs, so the
/// threads of a train start and finish in a few operations.
class AvailabilityDispatch {
 public:
  struct Config {
    uint32_t ppe_count = 0;     ///< At least 1.
    uint32_t threads_each = 0;  ///< 1 to kThreadsEachMax.
  };
  /// A PPE has "tens of threads" (Trio paper §2.1); their numbers fit one word of flags.
  static constexpr uint32_t kThreadsEachMax = 64;

  explicit AvailabilityDispatch(const Config& config);

  /// Takes a thread for each of `count` packets, one after the other.
  /// @param to Receives them. @pre It is empty; count is at least 1, and so many threads are free.
  void start(uint32_t count, TakenThreads& to);
  /// Frees threads that start() has taken. @pre They are not free.
  void finish(const TakenThreads& threads);

  /// Returns the number of threads at work on a PPE.
  [[nodiscard]] uint32_t load(uint32_t ppe) const;
  [[nodiscard]] uint32_t busy_count() const { return busy_count_; }

 private:
  /// Bit p of the loads of 64 PPEs is plane p.
  using Planes = std::array<uint64_t, std::bit_width(kThreadsEachMax)>;

  /// Takes one thread each of up to `count` PPEs of one word.
  PpeGroup start_group(uint32_t count);
  /// Fills lowest_ and lowest_count_.
  void find_lowest();
  /// Returns the first word from that of next_ppe_ on, round-robin, with a flag in lowest_, and
  /// these flags. Those of the first word begin with next_ppe_.
  [[nodiscard]] PpeGroup next_lowest() const;
  static void add_one(Planes& planes, uint64_t ppes);
  static void subtract_one(Planes& planes, uint64_t ppes);
  /// Takes the lowest number that no other first thread of the PPE has.
  [[nodiscard]] uint32_t take_number(uint32_t ppe);

  const Config config_;
  const uint32_t plane_count_;     ///< Planes in use.
  std::vector<Planes> loads_;      ///< Shape [words].
  std::vector<uint64_t> lowest_;   ///< Shape [words]; the PPEs with the lowest load.
  uint32_t lowest_count_ = 0;      ///< Flags in lowest_; 0: lowest_ is out of date.
  std::vector<uint64_t> numbers_;  ///< Shape [ppe_count]; bit t: a first thread has the number t.
  uint32_t next_ppe_ = 0;          ///< The search among equally loaded PPEs begins here.
  uint32_t busy_count_ = 0;
};

}  // namespace tributary::engine
