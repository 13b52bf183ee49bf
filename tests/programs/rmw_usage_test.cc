// SPDX-License-Identifier: Apache-2.0
// Method: runs the shipped programs and the example with a timer on the modelled machine, and
// collects the kinds of their requests. Each operation of the Shared Memory System (Trio paper
// §2.3) must have a user.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>

#include "engine/model/trace_words.h"
#include "examples/programs/limiter.h"
#include "programs/program.h"
#include "programs/traffic_capture.h"
#include "tests/engine/model/aggregation_bed.h"
#include "tests/support/scratch_directory.h"
#include "traffic/generator.h"

namespace tributary::programs {
namespace {

using microcode::XtxnKind;

/// All of §2.3: "read and write operations", "Packet/Byte Counters, Policers, Logical Fetch-and-Ops
/// (And/Or/Xor/Clear), Fetch-and-Swap, Masked Write, and 32-bit add".
constexpr std::array kOperations{XtxnKind::kRead,         XtxnKind::kWrite,
                                 XtxnKind::kFetchAndAnd,  XtxnKind::kFetchAndOr,
                                 XtxnKind::kFetchAndXor,  XtxnKind::kFetchAndClear,
                                 XtxnKind::kFetchAndSwap, XtxnKind::kMaskedWrite,
                                 XtxnKind::kAdd32,        XtxnKind::kCounterIncrement,
                                 XtxnKind::kPolice};
static_assert(kOperations.size() == static_cast<size_t>(XtxnKind::kPolice) + 1,
              "the operations of §2.3 come first among the kinds");

/// The names of the programs that issue each kind of request.
using Users = std::map<std::string, std::set<std::string>>;

void note(Users& users, const std::string& program, const engine::Report& report) {
  for (const engine::XtxnCount& count : report.xtxn_counts) {
    EXPECT_GT(count.issued, 0U);
    users[count.kind].insert(program);
  }
}

void run(Users& users, const CaptureProgram& program, const std::string& settings,
         const std::string& in) {
  const KeyTable& table = program.settings();
  const auto values = settings.empty() ? table.read({}, "") : table.parse(settings);
  ASSERT_TRUE(values) << values.error().text;
  RunRequest request{.in = in};
  request.model = engine::Parameters();
  const auto end = program.run(*values, request);
  ASSERT_TRUE(end) << end.error().text;
  note(users, std::string(program.name), end->report.model->pfe);
}

TEST(RmwUsage, EveryOperationOfTheMemorySystemHasAUser) {
  const testing::ScratchDirectory scratch;
  const std::string in = scratch.path() / "in.pcap";
  traffic::Config traffic;
  traffic.packets = 20'000;
  traffic.background.flows = 200;
  traffic.background.rate = 20'000;
  auto generator = traffic::Generator::create(traffic);
  ASSERT_TRUE(generator);
  ASSERT_TRUE(write_traffic(*generator, in));

  Users users;
  run(users, *find_program("filter"), "", in);
  run(users, *find_program("telemetry"), "inactive-timeout-ms=100,active-timeout-ms=100", in);
  run(users, *find_program("guard"), "", in);
  run(users, capture_program_of<limiter::Limiter>(), "rate-kbps=100,period-ms=100", in);
  testing::AggregationConfig config;
  config.blocks = 10;
  testing::AggregationBed trio_ml(config);
  ASSERT_TRUE(trio_ml.run());
  note(users, "trio-ml", trio_ml.pfe().report());

  for (const XtxnKind kind : kOperations) {
    EXPECT_FALSE(users[engine::to_string(kind)].empty())
        << "no shipped program or example issues '" << engine::to_string(kind) << "'";
  }
  // The table of docs/model.md.
  EXPECT_TRUE(users["fetch-and-and"].contains("limiter"));
  EXPECT_TRUE(users["fetch-and-clear"].contains("guard"));
  EXPECT_TRUE(users["police"].contains("guard"));
  EXPECT_TRUE(users["masked write"].contains("telemetry"));
  EXPECT_TRUE(users["add"].contains("trio-ml"));
  EXPECT_TRUE(users["counter increment"].contains("filter"));
}

}  // namespace
}  // namespace tributary::programs
