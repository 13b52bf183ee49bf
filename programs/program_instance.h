// SPDX-License-Identifier: Apache-2.0
/// @file
/// The concept of a program with its state, as a run over a capture and each core of a server make
/// it.
///
/// Tests: tests/programs/program_test.cc, tests/system/inline_test.cc
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "io/capture/capture_reader.h"
#include "io/inline/steering.h"
#include "memory/shared_memory.h"
#include "programs/run_report.h"

namespace tributary::programs {

/// The needs of an instance besides its settings.
struct InstanceTerms {
  Instant start;                ///< Before the first packet.
  io::CaptureTime time_zero{};  ///< The time of day of Instant 0.
  uint64_t seed = 0;            ///< For hashes. Live: random.
  uint32_t core = 0;            ///< Index of its core.
};

/// An amount of state that a program holds at a moment, such as flows.
struct Gauge {
  std::string name;
  uint64_t value = 0;
};

/// An event of a program on live traffic that an operator wants to read about, for the log.
struct ProgramEvent {
  Instant at;
  bool is_warning = false;
  std::string name;               ///< To search for, as in docs/programs.md.
  nlohmann::ordered_json fields;  ///< An object of numbers and texts.
};

/// `App` is the program for an engine. kSteering says which packets must meet at one core.
/// outcomes(), details() and set_time_zero() are called between bursts. These members are optional:
///
/// | member                   | define it if the program           | when it is used              |
/// | ------------------------ | ---------------------------------- | ---------------------------- |
/// | message_handler(request) | makes messages: returns a handler  | at the start                 |
/// | check_capture(settings)  | has settings only for live traffic | before a run over a capture  |
/// | score()                  | drops floods                       | arriving, forwarded packets  |
/// | kPortsCountForwarded     | counts only packets that it drops  | see outcomes_of()            |
/// | kCoresMax                | is wrong on more cores             | before a live start          |
/// | take_events()            | has events to log                  | every second, between bursts |
/// | gauges()                 | holds state                        | for a status, between bursts |
/// | notices(now)             | has facts for an operator          | for a status, between bursts |
/// | set_time_zero(time)      | reports times of day               | when the clock is set        |
///
/// message_handler() and check_capture() are static. take_events() returns the events since the
/// previous call; notices() returns a line for each fact.
template <class I>
concept ProgramInstance = requires(I instance, const I& c, const KeyValues& settings,
                                   const InstanceTerms& terms) {
  typename I::App;
  { I::kSteering } -> std::convertible_to<io::Steering>;
  { I::settings() } -> std::same_as<const KeyTable&>;
  { I::create(settings, terms) } -> std::same_as<Result<std::unique_ptr<I>>>;
  { instance.app() } -> std::same_as<typename I::App>;
  { instance.memory() } -> std::same_as<memory::SharedMemory&>;
  { c.outcomes() } -> std::same_as<std::vector<OutcomeCount>>;
  { c.details() } -> std::same_as<nlohmann::ordered_json>;
};

/// Returns the outcomes of an instance. If it leaves forwarded packets to the output ports of its
/// machine, their count comes first, as "forwarded".
template <ProgramInstance I>
std::vector<OutcomeCount> outcomes_of(const I& instance, const memory::PacketByteCounter& sent_on) {
  std::vector<OutcomeCount> counts = instance.outcomes();
  if constexpr (requires { requires I::kPortsCountForwarded; }) {
    counts.insert(counts.begin(), {"forwarded", sent_on});
  }
  return counts;
}

/// Returns a program's counters by name.
/// @param name_of     Returns the name of the counter at an index.
/// @param first_event Index of the first counter of events; those before it count packets.
template <class Counters, class Name>
std::vector<OutcomeCount> outcome_counts(const Counters& counters, Name&& name_of,
                                         uint32_t first_event = UINT32_MAX) {
  std::vector<OutcomeCount> counts;
  for (uint32_t i = 0; i < counters.size(); i++) {
    counts.push_back({name_of(i), counters[i], i >= first_event});
  }
  return counts;
}

}  // namespace tributary::programs
