// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Dispatch module chooses the PPE thread for a packet (Trio paper §2.1, "sends the packet head
/// to a PPE for processing based on availability, and the PPE spawns a new thread").
///
/// Model:   The PPE with the fewest active threads gets the packet. Ties go to the next PPE in a
///          circle after the last choice. The paper does not define ties ("assumed"); this rule is
///          deterministic and spreads the first packets.
/// Threads: Owned by one engine thread.
/// Errors:  If no thread is free, start() returns nullopt and the packet waits.
/// Memory:  All of it is taken in the constructors.
/// Tests:   tests/engine/model/dispatch_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tributary::engine {

/// One thread of one PPE.
struct PpeThread {
  uint32_t ppe = 0;
  uint32_t thread = 0;

  friend bool operator==(const PpeThread&, const PpeThread&) = default;
};

/// Chooses the PPE with the fewest threads at work. Among equals it takes the next one after the
/// PPE chosen last, round-robin. The paper does not say how ties are broken ("assumed"); this rule
/// is deterministic and spreads the first packets.
class AvailabilityDispatch {
 public:
  struct Config {
    uint32_t ppe_count = 0;     ///< At least 1.
    uint32_t threads_each = 0;  ///< 1 to kThreadsEachMax.
  };
  /// A PPE has "tens of threads" (Trio paper §2.1); they fit one word of flags.
  static constexpr uint32_t kThreadsEachMax = 64;

  explicit AvailabilityDispatch(const Config& config);

  /// Takes a thread for the next packet: the lowest free one of the chosen PPE.
  /// @return nullopt while all threads of all PPEs work.
  [[nodiscard]] std::optional<PpeThread> start();
  /// Appends a thread for each of `count` packets to `to`, as `count` calls of start() would choose
  /// them. @pre so many are free.
  void start(uint32_t count, std::vector<PpeThread>& to);
  /// Frees threads that start() returned. @pre none of them is free.
  void finish(std::span<const PpeThread> threads);

  /// Returns the number of threads at work on a PPE.
  [[nodiscard]] uint32_t load(uint32_t ppe) const { return load_[ppe]; }
  [[nodiscard]] uint32_t busy_count() const { return busy_count_; }

 private:
  static constexpr uint32_t kBitsPerWord = 64;

  /// Takes up to `count` threads of PPEs whose bits lie in one word. @return how many.
  uint32_t start_in_word(uint32_t count, std::vector<PpeThread>& to);
  /// Frees the first threads, as far as their PPEs have one load, are distinct and lie in one word
  /// of a set. @pre threads is not empty. @return how many.
  size_t finish_in_word(std::span<const PpeThread> threads);
  /// Returns the first PPE with this load at or after `from`, round-robin. @pre There is one.
  [[nodiscard]] uint32_t next_with(uint32_t load, uint32_t from) const;

  const Config config_;
  const uint32_t words_;              ///< In a set of PPEs.
  std::vector<uint64_t> busy_;        ///< Shape [ppe_count]; bit t: thread t is at work.
  std::vector<PpeThread> started_;    ///< Scratch of start().
  std::vector<uint32_t> load_;        ///< Shape [ppe_count]; bits of busy_.
  std::vector<uint64_t> ppes_with_;   ///< Shape [threads_each + 1][words]: sets of PPEs by load.
  std::vector<uint32_t> count_with_;  ///< Shape [threads_each + 1].
  uint32_t lowest_load_ = 0;          ///< Load of the PPE with the fewest busy threads.
  uint32_t next_ppe_ = 0;             ///< The search among equally loaded PPEs begins here.
  uint32_t busy_count_ = 0;
};

}  // namespace tributary::engine
