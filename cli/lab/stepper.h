// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a scenario step by step: reads commands, continues the run as far as they ask, and prints
/// the events of each step or the state of a node.
///
/// Model:   The run pauses between two events while a command is read. A command that continues it
///          names the next stop: after a number of events, at the next packet, at a time, at the
///          next event of a block or slot, or at the end. No command changes the run's outcome.
/// Threads: One, the run's.
/// Errors:  An unknown command or a wrong argument prints the allowed ones; the run does not move.
///          The end of the input ends the run.
/// Memory:  Printed text is not kept.
/// Tests:   tests/cli/lab/stepper_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/trace.h"
#include "lab/inspect/run_tracer.h"
#include "lab/run_observer.h"
#include "lab/trace/trace_filter.h"

namespace tributary::cli {

/// The source of commands and the destination of answers.
class Console {
 public:
  /// Returns the next line without its end, or nothing at the end of the input.
  virtual std::optional<std::string> read_line() = 0;
  virtual void write(std::string_view text) = 0;

 protected:
  ~Console() = default;
};

class Stepper final : public lab::RunObserver, private TraceSink {
 public:
  /// Most lines that one step prints; further ones are counted.
  static constexpr uint64_t kLinesMax = 200;

  explicit Stepper(Console& console) : console_(console) {}

  Result<void> begin(const lab::RunInside& inside) override;
  bool before_event(Instant next) override;
  void end() override;

  /// Tells whether the user ended the run, by `quit` or by the end of the input.
  [[nodiscard]] bool quit() const { return quit_; }

 private:
  /// The event at which the run stops next.
  enum class Goal : uint8_t { kEvents, kPacket, kTime, kMatch, kEnd };
  enum class Show : uint8_t { kSteps, kAlways, kNever };
  using Words = std::vector<std::string>;
  /// Whether to continue the run; nothing: read another command.
  using Next = std::optional<bool>;
  struct Command;

  void on_event(const TraceEvent& event) override;
  [[nodiscard]] bool reached(Instant next) const;
  [[nodiscard]] bool shows() const;
  void report_stop();
  [[nodiscard]] Next execute(const Words& words);

  // Commands: words[0] is the command's name.
  Next next(const Words& words);
  Next packet(const Words& words);
  Next until(const Words& words);
  Next match(const Words& words);
  Next run(const Words& words);
  Next print(const Words& asked);
  Next where(const Words& words);
  Next node(const Words& words);
  Next show(const Words& words);
  Next help(const Words& words);
  Next leave(const Words& words);

  [[nodiscard]] static const std::vector<Command>& commands();
  /// Returns the number in words[1], or `fallback` without one. Returns nothing, after an error
  /// message, if words[1] is not a number.
  [[nodiscard]] std::optional<uint64_t> number(const Words& words,
                                               std::optional<uint64_t> fallback);
  Next complain(std::string_view text);
  void go_for(Goal goal);
  [[nodiscard]] lab::SnapshotTable links_table() const;
  void print_table(const lab::NodeSnapshot& snapshot, const std::string& name,
                   std::optional<uint64_t> row);

  Console& console_;
  std::optional<lab::RunInside> inside_;
  lab::InspectedNode* node_ = nullptr;  ///< The node that `print` shows; null: none.
  Goal goal_ = Goal::kEvents;
  uint64_t events_left_ = 0;
  std::optional<uint64_t> packet_wanted_;
  Instant until_;
  std::unique_ptr<lab::TraceSelector> match_;
  bool hit_ = false;  ///< The goal has been reached.
  Show show_ = Show::kSteps;
  Instant here_;        ///< The run's time: at or after the last event, before next_at_.
  Instant next_at_;     ///< The time of the next event.
  uint64_t lines_ = 0;  ///< Event lines of this step, shown or not.
  bool quit_ = false;
};

}  // namespace tributary::cli
