// SPDX-License-Identifier: Apache-2.0
/// @file
/// Goes through a run step by step: reads commands, lets the run go on as far as they say, and
/// prints what happened or what is inside.
///
/// Model:   The run stands between two events while a command is read. A command that goes on says
///          where to stop next: after so many events, at the next packet, at a time, at the next
///          event that concerns a block or slot, or at the end. Nothing it does changes the run.
/// Threads: One, the run's.
/// Errors:  A command that is none, or has wrong words, says what is allowed; the run stays where
///          it is. The end of the input ends the run.
/// Memory:  Nothing is kept of what was printed.
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

/// Where commands come from and answers go to.
class Console {
 public:
  /// The next line without its end; nothing when there is no more.
  virtual std::optional<std::string> read_line() = 0;
  virtual void write(std::string_view text) = 0;

 protected:
  ~Console() = default;
};

class Stepper final : public lab::RunObserver, private TraceSink {
 public:
  /// Lines of one step that are printed; the rest is counted.
  static constexpr uint64_t kLinesMax = 200;

  explicit Stepper(Console& console) : console_(console) {}

  Result<void> begin(const lab::RunInside& inside) override;
  bool before_event(Instant next) override;
  void end() override;

  /// The user has ended the run, with quit or the end of the input.
  [[nodiscard]] bool quit() const { return quit_; }

 private:
  /// What the run goes on for.
  enum class Goal : uint8_t { kEvents, kPacket, kTime, kMatch, kEnd };
  enum class Show : uint8_t { kSteps, kAlways, kNever };
  using Words = std::vector<std::string>;
  /// Whether the run is to go on; nothing: read another command.
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
  /// The number in words[1], or `fallback`; nothing if it is no number, which has been said.
  [[nodiscard]] std::optional<uint64_t> number(const Words& words,
                                               std::optional<uint64_t> fallback);
  Next complain(std::string_view text);
  void go_for(Goal goal);
  [[nodiscard]] lab::SnapshotTable links_table() const;
  void print_table(const lab::NodeSnapshot& snapshot, const std::string& name,
                   std::optional<uint64_t> row);

  Console& console_;
  std::optional<lab::RunInside> inside_;
  lab::InspectedNode* node_ = nullptr;  ///< The one that is printed; null: there is none.
  Goal goal_ = Goal::kEvents;
  uint64_t events_left_ = 0;
  std::optional<uint64_t> packet_wanted_;
  Instant until_;
  std::unique_ptr<lab::TraceSelector> match_;
  bool hit_ = false;  ///< What the goal waits for has happened.
  Show show_ = Show::kSteps;
  Instant here_;        ///< Where the run stands: not before the last event,
  Instant next_at_;     ///< … and before the next, at this time.
  uint64_t lines_ = 0;  ///< Of this step.
  bool quit_ = false;
};

}  // namespace tributary::cli
