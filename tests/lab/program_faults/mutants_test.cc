// SPDX-License-Identifier: Apache-2.0
// Method: the campaign must notice each program with a planted bug, and pass the same program
//         without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "apps/filter/app.h"
#include "lab/program_faults/program_faults.h"
#include "programs/capture_run.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

enum class Bug : uint8_t {
  kNone,
  kUncounted,   ///< Drops packets without counting them.
  kOneMachine,  ///< Drops other packets on the modelled machine than on the live one.
};

template <microcode::Machine M>
microcode::Thread drop(M& m) {
  m.drop(0);
  co_return;
}

/// The filter, with a bug that each tenth packet meets.
template <Bug kBug>
class BuggyApp : public filter::App {
 public:
  using filter::App::App;

  template <microcode::Machine M>
  void process(M& m) {
    const bool is_tenth = ++packets_ % 10 == 0;
    if constexpr (M::kSuspends) {
      if (kBug != Bug::kNone && is_tenth) {
        drop(m);
        return;
      }
    } else {
      if (kBug == Bug::kUncounted && is_tenth) return m.drop(0);
    }
    filter::App::process(m);
  }

 private:
  uint32_t packets_ = 0;
};

template <Bug kBug>
class BuggyFilter {
 public:
  using App = BuggyApp<kBug>;
  static constexpr io::Steering kSteering = io::Steering::kByFlow;
  static constexpr bool kPortsCountForwarded = true;

  static const KeyTable& settings() {
    static const KeyTable kNone("filter", {});
    return kNone;
  }
  static Result<std::unique_ptr<BuggyFilter>> create(const KeyValues&,
                                                     const programs::InstanceTerms&) {
    return std::make_unique<BuggyFilter>();
  }
  App app() { return App(state_); }
  memory::SharedMemory& memory() { return memory_; }
  [[nodiscard]] std::vector<programs::OutcomeCount> outcomes() const {
    std::vector<programs::OutcomeCount> counts;
    for (uint32_t i = 0; i < filter::kDropCount; i++) {
      const auto reason = static_cast<filter::Drop>(i);
      counts.push_back({filter::to_string(reason), state_.dropped(reason)});
    }
    return counts;
  }
  [[nodiscard]] static nlohmann::ordered_json details() { return nlohmann::ordered_json::object(); }

 private:
  memory::SharedMemory memory_ = *memory::SharedMemory::create({});
  filter::FilterState state_ = *filter::FilterState::create(memory_);
};

/// Returns the first promise that five seeds of the program break; empty: none.
std::string first_breach(const programs::Program& program) {
  const auto report = run_program_campaign(program, {.first_seed = 1, .seeds = 5});
  if (!report) return "the campaign ended: " + report.error().text;
  EXPECT_EQ(report->failures.empty(), report->failed_seeds == 0);
  return report->failures.empty() ? std::string() : report->failures.front().breaches.front();
}

template <Bug kBug>
std::string breach_of_filter() {
  programs::Program filter = *programs::find_program("filter");
  filter.run = programs::run_program<BuggyFilter<kBug>>;
  return first_breach(filter);
}

TEST(ProgramMutants, FilterWithoutABugPasses) { EXPECT_EQ(breach_of_filter<Bug::kNone>(), ""); }

TEST(ProgramMutants, UncountedDropIsNoticed) {
  EXPECT_THAT(breach_of_filter<Bug::kUncounted>(), HasSubstr("outcome"));
}

TEST(ProgramMutants, DifferenceBetweenTheMachinesIsNoticed) {
  EXPECT_NE(breach_of_filter<Bug::kOneMachine>(), "");
}

/// Runs telemetry, and then changes the lines of the records that it wrote.
template <void (*kEdit)(std::vector<std::string>& lines)>
Result<programs::RunEnd> run_and_edit(const KeyValues& settings,
                                      const programs::RunRequest& request) {
  auto end = programs::find_program("telemetry")->run(settings, request);
  std::ifstream file(request.records);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  kEdit(lines);
  std::ofstream edited(request.records, std::ios::trunc);
  for (const std::string& line : lines) edited << line << '\n';
  return end;
}

template <void (*kEdit)(std::vector<std::string>& lines)>
std::string breach_of_telemetry() {
  programs::Program telemetry = *programs::find_program("telemetry");
  telemetry.run = run_and_edit<kEdit>;
  return first_breach(telemetry);
}

void keep(std::vector<std::string>&) {}
void lose_one(std::vector<std::string>& lines) {
  if (!lines.empty()) lines.pop_back();
}
void repeat_one(std::vector<std::string>& lines) {
  if (!lines.empty()) lines.push_back(lines.front());
}
/// Names other flows, so that the sums stay.
void swap_flows(std::vector<std::string>& lines) {
  for (std::string& line : lines) {
    auto record = nlohmann::ordered_json::parse(line);
    std::swap(record["source_port"], record["destination_port"]);
    line = record.dump();
  }
}

TEST(ProgramMutants, TelemetryWithoutABugPasses) { EXPECT_EQ(breach_of_telemetry<keep>(), ""); }

TEST(ProgramMutants, LostAndRepeatedRecordsAreNoticed) {
  EXPECT_THAT(breach_of_telemetry<lose_one>(), HasSubstr("record"));
  EXPECT_THAT(breach_of_telemetry<repeat_one>(), HasSubstr("record"));
}

TEST(ProgramMutants, RecordsOfOtherFlowsAreNoticed) {
  EXPECT_NE(breach_of_telemetry<swap_flows>(), "");
}

}  // namespace
}  // namespace tributary::lab
