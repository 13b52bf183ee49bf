// SPDX-License-Identifier: Apache-2.0
// Method: sessions as a user would type them, with the program's answers. Stepping must not change
// the run.
#include "cli/lab/stepper.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lab/run.h"
#include "tests/support/seed.h"

namespace tributary::cli {
namespace {

/// Plays a script and keeps the text between two prompts.
class ScriptConsole final : public Console {
 public:
  explicit ScriptConsole(std::vector<std::string> commands) : commands_(std::move(commands)) {}

  std::optional<std::string> read_line() override {
    answers.emplace_back();
    if (next_ == commands_.size()) return std::nullopt;
    return commands_[next_++];
  }
  void write(std::string_view text) override { answers.back() += text; }

  /// answers[0] is the text before the first command's answer.
  std::vector<std::string> answers{""};

 private:
  const std::vector<std::string> commands_;
  size_t next_ = 0;
};

lab::Scenario small() {
  lab::Scenario scenario;
  scenario.workers = 2;
  scenario.iterations = 1;
  scenario.window = 64;
  scenario.mitigation.history = 8;
  scenario.model = {
      .kind = lab::Model::kCustom, .bucket_bytes = {8192}, .forward = {}, .backward = {}};
  return scenario;
}

struct Session {
  std::vector<std::string> answers;
  bool quit;
  Result<lab::RunResult> result;
};

Session play(std::vector<std::string> commands, const lab::Scenario& scenario = small()) {
  ScriptConsole console(std::move(commands));
  Stepper stepper(console);
  auto result = lab::run_scenario(scenario, nullptr, &stepper);
  return {console.answers, stepper.quit(), std::move(result)};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(LabStep, StepsFromPacketToPacket) {
  const Session session = play({"packet", "packet", "packet 10", "where", "quit"});
  EXPECT_TRUE(session.quit);
  ASSERT_EQ(session.answers.size(), 6U);
  EXPECT_TRUE(has(session.answers[0], "Nothing has happened yet"));
  // A join of 112 bytes and 66 around it at 100 Gbit/s, and 450 ns: 14.24 + 450.
  EXPECT_EQ(session.answers[1].substr(0, 44), "        464.24  switch     1  arrive       j");
  EXPECT_TRUE(has(session.answers[2], "switch     2  arrive       join"));
  EXPECT_TRUE(has(session.answers[3], "switch    10  arrive       contribution"));
  EXPECT_TRUE(has(session.answers[4], "print shows switch"));
  EXPECT_TRUE(has(session.answers[5], "left at "));
}

TEST(LabStep, PrintsTheTablesOfANode) {
  const Session session = play({"until 100us", "print", "print threads", "print threads 1",
                                "print blocks 1", "print banks 11", "print links", "print queue"});
  ASSERT_EQ(session.answers.size(), 10U);
  EXPECT_TRUE(has(session.answers[2], "threads    4 of 2020 in use, 4 wait for a reply"));
  EXPECT_TRUE(has(session.answers[2], "links "));
  EXPECT_TRUE(has(session.answers[3], "buffer of job 1 block 0"));
  EXPECT_FALSE(has(session.answers[4], "block 0"));
  EXPECT_TRUE(has(session.answers[4], "buffer of job 1 block 1"));
  EXPECT_TRUE(has(session.answers[5], "aggregating         2      0   2  0x3"));
  EXPECT_TRUE(has(session.answers[6], "11  "));
  EXPECT_TRUE(has(session.answers[7], "worker-0.0>switch.0"));
  EXPECT_TRUE(has(session.answers[8], "0 packets before the threads"));
  EXPECT_TRUE(session.quit);  // The script's end.
}

TEST(LabStep, StopsAtTheNextEventOfABlock) {
  const Session session =
      play({"block 1", "where", "print blocks", "slot 0", "show always", "block 1", "quit"});
  ASSERT_GE(session.answers.size(), 7U);
  EXPECT_TRUE(has(session.answers[3], "blocks: 0 in progress"));  // It has only just arrived.
  EXPECT_TRUE(has(session.answers[6], "block=1")) << session.answers[6];
}

TEST(LabStep, RefusesUnknownCommands) {
  const Session session =
      play({"nxt", "next 0", "next many", "next 1 2", "until soon", "until", "block", "block x",
            "print bank", "print threads 999", "print blocks 77", "print threads x", "node leaf",
            "show maybe", "packet -1", "until 90us", "until 80us", "", "quit"});
  const auto answer = [&](size_t index) { return session.answers.at(index); };
  EXPECT_TRUE(has(answer(1), "unknown command 'nxt' (did you mean 'next'?); allowed: next, "));
  EXPECT_TRUE(has(answer(2), "allowed: a whole number, 1 or more"));
  EXPECT_TRUE(has(answer(3), "next: 'many' is not allowed"));
  EXPECT_TRUE(has(answer(4), "next: '1 2' is not allowed"));
  EXPECT_TRUE(has(answer(5), "until: 'soon' is not a time; allowed: a number and its unit"));
  EXPECT_TRUE(has(answer(6), "until: '' is not a time"));
  EXPECT_TRUE(has(answer(7), "block: '' is not allowed"));
  EXPECT_TRUE(has(answer(8), "block: 'x' is not allowed"));
  EXPECT_TRUE(has(answer(9), "unknown table 'bank' (did you mean 'banks'?); allowed: threads"));
  EXPECT_TRUE(has(answer(10), "there is no 999 in threads"));
  EXPECT_TRUE(has(answer(11), "there is no 77 in blocks"));
  EXPECT_TRUE(has(answer(12), "'x' is not allowed"));
  EXPECT_TRUE(has(answer(13), "unknown node 'leaf'; allowed: switch"));
  EXPECT_TRUE(has(answer(14), "unknown choice 'maybe'; allowed: steps, always, never"));
  EXPECT_TRUE(has(answer(15), "packet: '-1' is not allowed"));
  EXPECT_TRUE(has(answer(17), "until: 80us is over; allowed: from "));
}

TEST(LabStep, LimitsTheLinesOfAStep) {
  const Session session = play({"next 5000"});
  const std::string& text = session.answers.at(1);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), int64_t{Stepper::kLinesMax} + 3);
  lab::Scenario longer = small();
  longer.model.bucket_bytes = {409'600};
  EXPECT_TRUE(has(play({"next 2000"}, longer).answers.at(1), " more\n"));
}

TEST(LabStep, StepsThroughABackEndWithoutTables) {
  lab::Scenario scenario = small();
  scenario.backend = lab::Backend::kIdeal;
  const Session session = play({"next", "print", "print threads", "run"}, scenario);
  EXPECT_TRUE(has(session.answers[1], "links and workers"));
  EXPECT_TRUE(has(session.answers[2], "links"));
  EXPECT_TRUE(has(session.answers[3], "unknown table 'threads'; allowed: links"));
  EXPECT_TRUE(session.result);
}

TEST(LabStep, TruncatesRegistersUnlessAllAreRequested) {
  lab::Scenario scenario = small();
  scenario.backend = lab::Backend::kSwitchml64;
  scenario.payload = lab::Payload::kReal;
  scenario.model.bucket_bytes = {256 * 600};
  const Session session = play({"until 5us", "print registers 1", "print registers 1 all",
                                "print slots 50", "print slots", "print slots all", "run"},
                               scenario);
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const std::string& cut = session.answers.at(2);
  EXPECT_TRUE(has(cut, " more\n'print registers 1 all' shows them\n")) << cut;
  EXPECT_LT(lines(cut), 50);
  const std::string& whole = session.answers.at(3);
  EXPECT_FALSE(has(whole, " more\n"));
  EXPECT_GT(lines(whole), 64);  // 32 pairs of both sets, at least.
  // A query for one slot shows a row beyond the cut.
  EXPECT_FALSE(has(session.answers.at(4), "there is no")) << session.answers.at(4);
  EXPECT_TRUE(has(session.answers.at(5), "'print slots all' shows them")) << session.answers.at(5);
  EXPECT_GT(lines(session.answers.at(6)), 60);
}

TEST(LabStep, SteppingChangesNoResult) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  lab::Scenario scenario = small();
  scenario.iterations = 3;
  scenario.link.faults.loss = 0.02;
  scenario.host.retransmission = true;
  const auto plain = lab::run_scenario(scenario);
  ASSERT_TRUE(plain);
  const std::vector<std::string> choices{"next",    "next 7", "packet",        "print threads",
                                         "block 1", "where",  "print blocks",  "slot 0",
                                         "print",   "help",   "print queue 3", "nonsense"};
  for (uint32_t run = 0; run < 20; run++) {
    std::vector<std::string> commands;
    for (uint32_t i = 0; i < 60; i++) {
      commands.push_back(choices[prng.below(static_cast<uint32_t>(choices.size()))]);
    }
    commands.emplace_back("run");
    const Session session = play(commands, scenario);
    ASSERT_TRUE(session.result) << session.result.error().text;
    EXPECT_FALSE(session.quit);
    EXPECT_EQ(session.result->digest, plain->digest);
    EXPECT_EQ(session.result->events, plain->events);
  }
}

}  // namespace
}  // namespace tributary::cli
