// SPDX-License-Identifier: Apache-2.0
// Method:  runs `tributary lab` as users do: a figure's calibration, a sweep's files compared byte
//          by byte across thread counts and interruptions, and one refusal of each command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/system/process.h"

namespace tributary::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

std::string written(const std::string& name, const std::string& text) {
  std::ofstream(scratch(name), std::ios::binary) << text;
  return scratch(name);
}

/// @return the exit status.
std::optional<int> run(const std::vector<std::string>& arguments) {
  Process process(arguments);
  const auto status = process.wait_for_end();
  EXPECT_EQ(process.errors(), "");  // No terminal, so no progress lines.
  return status;
}

/// A sweep of twelve points that takes seconds.
std::string quick_sweep() {
  return written("quick_sweep.toml", R"(backend = "waiting-switch"
iterations = 3
window = 64
model.name = "custom"
model.bucket_bytes = [262144, 524288]
model.forward_ms = 1
straggler.pattern = "slow-worker"
[sweep]
straggler.probability = [0, 0.3]
workers = [2, 3]
repeat = 3
)");
}

TEST(Lab, Trio15MatchesItsCalibration) {
  ASSERT_EQ(run({"lab", "figure", "trio-15", "--quick", "--json", scratch("f15.json")}), 0);
  const auto rows = nlohmann::json::parse(text_of_file(scratch("f15.json")));
  std::map<std::pair<std::string, int>, double> here;
  for (const auto& row : rows) {
    EXPECT_EQ(row["figure"], "trio-15");
    here[{row["series"], row["x"]}] = row["here"];
  }
  EXPECT_NEAR((here[{"latency", 64}]), 30, 3);  // us; Trio paper §6.3.
  EXPECT_NEAR((here[{"latency", 1024}]), 200, 20);
}

TEST(Lab, SweepOutputDoesNotDependOnTheRunners) {
  const std::string sweep = quick_sweep();
  ASSERT_EQ(run({"lab", "sweep", sweep, "--threads", "1", "--json", scratch("a.json"), "--csv",
                 scratch("a.csv")}),
            0);
  // Interrupt it at an arbitrary point, then run it to its end, then repeat it from the kept
  // results.
  const std::vector<std::string> kept{
      "lab",   "sweep",          sweep,       "--out", scratch("kept"), "--json", scratch("b.json"),
      "--csv", scratch("b.csv"), "--threads", "3"};
  {
    Process process(kept);
    process.signal(SIGINT);
    const auto status = process.wait_for_end();
    EXPECT_TRUE(status == 130 || status == 0) << status.value_or(-1) << process.errors();
  }
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(run(kept), 0);
    EXPECT_EQ(text_of_file(scratch("a.json")), text_of_file(scratch("b.json")));
    EXPECT_EQ(text_of_file(scratch("a.csv")), text_of_file(scratch("b.csv")));
  }
  EXPECT_EQ(lines_of(text_of_file(scratch("a.json"))).size(), 12);
}

TEST(Lab, SweepSkipsWhatCannotRunAndDrawsTheRest) {
  const std::string sweep = written("partly.toml", R"(backend = "waiting-switch"
iterations = 1
window = 64
model.name = "custom"
model.bucket_bytes = [262144]
straggler.pattern = "background-flow"
straggler.worker = 2
[sweep]
workers = [2, 3, 4]
)");
  Process process({"lab", "sweep", sweep, "--svg", scratch("partly.svg")});
  EXPECT_EQ(process.wait_for_end(), 0);
  EXPECT_THAT(process.output(), HasSubstr("skipped: workers=2: "));
  EXPECT_THAT(process.output(), HasSubstr("1 of 3 points skipped\n"));
  EXPECT_THAT(text_of_file(scratch("partly.svg")), HasSubstr(">waiting-switch</text>"));
}

/// A window of 256 packets of 4 KB overflows a queue of 100 KB; windows of 16 do not.
TEST(Lab, FigureShowsTheOtherPointsIfOneFails) {
  Process process({"lab", "figure", "trio-16", "--quick", "--set", "link.queue_bytes=100000",
                   "--json", scratch("f.json"), "--svg", scratch("f.svg")});
  EXPECT_EQ(process.wait_for_end(), 1);
  EXPECT_THAT(process.errors(), HasSubstr("failed: gradients=1024 window=256: link switch.0>"));
  EXPECT_THAT(process.errors(), HasSubstr("lost "));
  EXPECT_THAT(process.errors(), HasSubstr("1 of 6 points failed"));
  EXPECT_THAT(process.output(), HasSubstr("Trio-ML-1024 throughput"));
  for (const auto& row : nlohmann::json::parse(text_of_file(scratch("f.json")))) {
    const bool is_failed =
        row["x"] == 256 && row["series"].get<std::string>().find("-1024 ") != std::string::npos;
    EXPECT_EQ(row["here"].is_null(), is_failed) << row;
  }
  EXPECT_THAT(text_of_file(scratch("f.svg")), HasSubstr("</svg>"));
}

TEST(Lab, ReportHasTheSameBytesWhenItContinues) {
  const std::string out = scratch("report");
  const std::vector<std::string> command{"lab",       "report",          "--out",  out, "--quick",
                                         "--figures", "trio-15,trio-14", "--seed", "5"};
  ASSERT_EQ(run(command), 0);
  const std::string page = text_of_file(out + "/index.html");
  EXPECT_THAT(page,
              HasSubstr("tributary lab report --out FOLDER --quick --seed 5 --figures trio-15,"));
  EXPECT_THAT(page, HasSubstr("<pre>tributary lab figure trio-15 --quick --seed 5 --json "
                              "trio-15.json --svg trio-15.svg</pre>"));
  EXPECT_THAT(page, HasSubstr("runs, seed 5; version "));
  EXPECT_THAT(text_of_file(out + "/trio-14.svg"), HasSubstr("</svg>"));
  // The figure's own command writes the same values.
  ASSERT_EQ(
      run({"lab", "figure", "trio-15", "--quick", "--seed", "5", "--json", scratch("t.json")}), 0);
  EXPECT_EQ(text_of_file(out + "/trio-15.json"), text_of_file(scratch("t.json")));
  ASSERT_EQ(run(command), 0);  // From the kept points.
  EXPECT_EQ(text_of_file(out + "/index.html"), page);
}

TEST(Lab, RunRecordsScenarioAndResult) {
  ASSERT_EQ(run({"lab", "run", "--backend", "waiting-switch", "--iterations", "1", "--train", "64",
                 "--set", "model.name=resnet18", "--seed", "5", "--json", scratch("r.json")}),
            0);
  const auto json = nlohmann::json::parse(text_of_file(scratch("r.json")));
  EXPECT_EQ(json["scenario"]["seed"], "5");
  EXPECT_EQ(json["scenario"]["model.name"], "resnet18");
  EXPECT_GT(json["result"]["mean_iteration_ns"], 0);
}

TEST(Lab, RunWarnsOfTrainsThatWereLost) {
  const std::string path = scratch("lost.json");
  Process process({"lab",
                   "run",
                   "--backend",
                   "waiting-switch",
                   "--workers",
                   "2",
                   "--iterations",
                   "1",
                   "--train",
                   "8",
                   "--window",
                   "512",
                   "--model.name",
                   "custom",
                   "--model.bucket_bytes",
                   "4194304",
                   "--host.packet_cost_ns",
                   "500",
                   "--host.receive_buffer_bytes",
                   "65536",
                   "--host.retransmission",
                   "true",
                   "--json",
                   path});
  EXPECT_EQ(process.wait_for_end(), 0);
  EXPECT_THAT(process.errors(),
              AllOf(HasSubstr("warning: worker 0 dropped "), HasSubstr("set train=1")));
  const auto json = nlohmann::json::parse(text_of_file(path));
  ASSERT_EQ(json["result"]["warnings"].size(), 1);
  EXPECT_THAT(process.errors(), HasSubstr(json["result"]["warnings"][0].get<std::string>()));
}

/// A network with a ring beside a Trio-ML job.
std::string two_jobs() {
  return written("two_jobs.toml", R"(workers = 4
iterations = 2
train = 16
model.name = "resnet18"
[[job]]
name = "net"
hosts = [0, 2]
[[job]]
name = "peers"
backend = "ring"
workers = 2
start_ms = 1
)");
}

TEST(Lab, RunRecordsEveryJobOfANetworkOnAnyThreads) {
  std::vector<std::string> files;
  for (const char* threads : {"1", "2"}) {
    files.push_back(scratch(std::string("jobs-") + threads + ".json"));
    ASSERT_EQ(run({"lab", "run", two_jobs(), "--threads", threads, "--json", files.back(), "--svg",
                   scratch("jobs.svg")}),
              0);
  }
  EXPECT_EQ(text_of_file(files[0]), text_of_file(files[1]));
  EXPECT_THAT(text_of_file(scratch("jobs.svg")), HasSubstr("peers: ring"));
  const auto json = nlohmann::json::parse(text_of_file(files[0]));
  EXPECT_EQ(json["scenario"]["network"]["workers"], "4");
  EXPECT_EQ(json["scenario"]["jobs"]["peers"]["backend"], "ring");
  const auto& jobs = json["result"]["jobs"];
  ASSERT_EQ(jobs.size(), 2);
  EXPECT_EQ(jobs[0]["name"], "net");
  EXPECT_EQ(jobs[0]["hosts"], nlohmann::json({0, 2}));
  EXPECT_EQ(jobs[1]["hosts"], nlohmann::json({1, 3}));
  EXPECT_EQ(jobs[1]["slowdown"], 1.0);  // Every cable has one job.
}

TEST(Lab, RefusalsAreOneLineAndStatusTwo) {
  const std::string bad = written("bad.toml", "workers = 6\n[link]\nrate_gbps = 0\n");
  std::string jobs = text_of_file(two_jobs());
  jobs.replace(jobs.find("ring"), 4, "rung");
  const std::string bad_jobs = written("two_jobs.toml", jobs);
  const std::string no_lists = written("no_lists.toml", "workers = 6\n");
  const std::string no_numbers =
      written("no_numbers.toml", "[sweep]\nbackend = [\"ring\", \"ideal\"]\n");
  const std::string no_seeds = written("no_seeds.toml", "[sweep]\nseed = [1, 2]\n");
  const std::string ring =
      written("ring.toml", "backend = \"ring\"\n[sweep]\nmitigation.timeout_ms = [5, 20]\n");
  const std::string compared = written("compared.toml", "[compare]\nworkers = [2]\n");
  const std::map<std::string, std::vector<std::string>> cases{
      {"bad.toml:3: link.rate_gbps=0 is out of range; allowed: ", {"lab", "run", bad}},
      {"two_jobs.toml:10: backend=rung is refused: unknown name 'rung' (did you mean 'ring'?)",
       {"lab", "run", bad_jobs}},
      {"no_lists.toml: [sweep] is missing or empty; allowed: keys with lists of values, and "
       "repeat; "
       "for a single run use: tributary lab run " +
           no_lists,
       {"lab", "sweep", no_lists, "--set", "seed=2"}},
      {"no_numbers.toml:2: this is a sweep; use: tributary lab sweep " + no_numbers,
       {"lab", "run", no_numbers}},
      {"two_jobs.toml:5: this is a run of several jobs; use: tributary lab run ",
       {"lab", "sweep", bad_jobs}},
      {"two_jobs.toml:5: this is a run of several jobs; use: ", {"lab", "trace", bad_jobs}},
      {"two_jobs.toml:5: this is a run of several jobs; ", {"lab", "compare", bad_jobs}},
      {"straggler.probability=0.2 has no effect; allowed: 0, or any with "
       "straggler.pattern=slow-worker, slow-worker-each or slow-worker-fixed",
       {"lab", "run", "--straggler.probability", "0.2", "--iterations", "1"}},
      {"model.bucket_bytes=4096 has no effect; allowed: none, or any with model.name=custom",
       {"lab", "run", "--model.bucket_bytes", "4096"}},
      {"no key in [sweep] has numbers", {"lab", "sweep", no_numbers, "--svg", scratch("no.svg")}},
      {"unknown figure 'trio-17'", {"lab", "figure", "trio-17"}},
      {"--figures: unknown figure 'trio-17'",
       {"lab", "report", "--out", scratch("r"), "--figures", "trio-15,trio-17"}},
      {"bad.toml: cannot be made: ", {"lab", "report", "--out", bad}},
      {"--set: unknown key 'wrkers' (did you mean 'workers'?)",
       {"lab", "figure", "trio-15", "--set", "wrkers=3"}},
      {"--set: gradients is not allowed, because trio-15 varies it",
       {"lab", "figure", "trio-15", "--set", "gradients=64"}},
      {"--set: mitigation.timeout_ms=50 has no effect in any run; allowed: 10, or any with ",
       {"lab", "figure", "trio-15", "--quick", "--set", "mitigation.timeout_ms=50"}},
      {"ring.toml:3: mitigation.timeout_ms=5 has no effect in any run; allowed: 10, or any with ",
       {"lab", "sweep", ring}},
      {"--set: leaves=3 has no effect in any run; allowed: 2, or any with ",
       {"lab", "compare", "--backends", "ideal,ring", "--set", "leaves=3"}},
      {"link.loss=0.05 has no effect; allowed: any with a topology other than file",
       {"lab", "run", "--topology", "file", "--topology_file", "t.toml", "--link.loss", "0.05"}},
      {"no_seeds.toml:2: seed=1,2 cannot be swept; allowed: repeat = 2",
       {"lab", "sweep", no_seeds}},
      {"compared.toml:2: this is a comparison; use: tributary lab compare ",
       {"lab", "run", compared}},
      {"compared.toml:2: this is a comparison; use: ", {"lab", "sweep", compared}},
      {"no_numbers.toml:2: this is a sweep; use: tributary lab sweep ",
       {"lab", "compare", no_numbers}},
      {"--workers: workers=2 stands twice", {"lab", "compare", "--workers", "2,4,2"}},
      {"window=1000 is not allowed", {"lab", "run", "--window", "1000"}},
      {"unknown name 'rings' (did you mean 'ring'?)", {"lab", "compare", "--backends", "rings"}},
      {"--workers: workers='' is not allowed", {"lab", "compare", "--workers", ","}},
      {"--memory=64KB is not allowed", {"lab", "compare", "telemetry", "--memory", "64KB"}},
      {"straggler.trace: ",
       {"lab", "run", "--straggler.pattern", "trace", "--straggler.trace", scratch("absent.csv")}},
      {"--top=0 is out of range", {"lab", "compare", "telemetry", "--top", "0"}},
      {"--models stands before 'telemetry'",
       {"lab", "compare", "--models", "vgg11", "telemetry", "--quick"}},
  };
  for (const auto& [expected, arguments] : cases) {
    Process process(arguments);
    EXPECT_EQ(process.wait_for_end(), 2) << expected;
    EXPECT_THAT(process.errors(), HasSubstr(expected));
    EXPECT_EQ(lines_of(process.errors()).size(), 1) << process.errors();
    EXPECT_EQ(process.output(), "");
  }
}

TEST(Lab, CompareTelemetryWritesTheSameBytesOnAnyThreads) {
  const std::string one = scratch("t1.json");
  const std::string two = scratch("t2.json");
  const std::vector<std::string> command{"lab",    "compare",  "telemetry", "--flows", "200",
                                         "--rate", "20000",    "--packets", "4000",    "--top",
                                         "10",     "--memory", "2K,512K"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return more;
  };
  ASSERT_EQ(run(with({"--json", one, "--threads", "1"})), 0);
  ASSERT_EQ(run(with({"--json", two, "--threads", "3"})), 0);
  EXPECT_EQ(text_of_file(one), text_of_file(two));
  const auto json = nlohmann::json::parse(text_of_file(one));
  ASSERT_EQ(json["rows"].size(), 4U);
  EXPECT_EQ(json["rows"][2]["machine"], "trio");
  EXPECT_EQ(json["rows"][2]["recall"], 1.0);
  EXPECT_EQ(json["rows"][3]["machine"], "tofino");
  EXPECT_EQ(json["rows"][3]["recall"], 1.0);
}

TEST(Lab, CompareOutputIsTheSameFromFileAndFlags) {
  const std::string file = written("compare.toml", R"(iterations = 2
train = 8
window = 256
model.bucket_bytes = [1048576]
[compare]
backends = ["ring", "ps-dedicated", "ideal"]
models = ["custom"]
workers = [2, 4]
straggling = [0]
)");
  const std::string kept = scratch("compare_kept");
  ASSERT_EQ(run({"lab", "compare", file, "--out", kept, "--json", scratch("c1.json")}), 0);
  ASSERT_EQ(run({"lab", "compare", file, "--out", kept, "--json", scratch("c2.json"), "--csv",
                 scratch("c.csv"), "--svg", scratch("c.svg")}),
            0);
  ASSERT_EQ(run({"lab",          "compare",
                 "--backends",   "ring,ps-dedicated,ideal",
                 "--models",     "custom",
                 "--workers",    "2,4",
                 "--straggling", "0",
                 "--set",        "iterations=2",
                 "--set",        "train=8",
                 "--set",        "window=256",
                 "--set",        "model.bucket_bytes=1048576",
                 "--threads",    "1",
                 "--json",       scratch("c3.json")}),
            0);
  const std::string json = text_of_file(scratch("c1.json"));
  EXPECT_EQ(text_of_file(scratch("c2.json")), json);
  EXPECT_EQ(text_of_file(scratch("c3.json")), json);
  const auto rows = nlohmann::json::parse(json);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[3]["backend"], "ring");
  EXPECT_EQ(rows[3]["workers"], 4);
  EXPECT_EQ(rows[3]["speedup"], 1.0);
  EXPECT_EQ(lines_of(text_of_file(scratch("c.csv"))).size(), 7U);
  EXPECT_THAT(text_of_file(scratch("c.svg")), HasSubstr("<svg"));
}

// trio-ml has no result within 1 ms. The others' results are shown all the same.
TEST(Lab, CompareShowsTheOthersIfABackEndFails) {
  const std::vector<std::string> settings{"--models",     "custom",
                                          "--workers",    "2",
                                          "--set",        "iterations=2",
                                          "--set",        "train=32",
                                          "--set",        "limit_s=0.001",
                                          "--set",        "model.bucket_bytes=4194304",
                                          "--straggling", "0"};
  std::vector<std::string> command{"lab", "compare", "--backends", "ideal,trio-ml"};
  command.insert(command.end(), settings.begin(), settings.end());
  Process process(command);
  EXPECT_EQ(process.wait_for_end(), 0);
  EXPECT_THAT(process.output(), HasSubstr("  ideal *  "));
  EXPECT_THAT(process.output(),
              HasSubstr("trio-ml was not run: worker 0 is not done after 0.001 s"));
  command[3] = "trio-ml";
  Process alone(command);
  EXPECT_EQ(alone.wait_for_end(), 1);
  EXPECT_THAT(alone.errors(), HasSubstr("tributary lab compare: no back end could run"));
}

TEST(Lab, ListNamesEveryChoice) {
  Process process({"lab", "list"});
  EXPECT_EQ(process.wait_for_end(), 0);
  for (const char* name : {"trio-12", "trio-16", "waiting-switch", "densenet161", "slow-worker",
                           "mitigation.timeout_ms"}) {
    EXPECT_THAT(process.output(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace tributary::system_test
