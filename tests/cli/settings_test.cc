// SPDX-License-Identifier: Apache-2.0
// Method:  one small command, declared like the program's own. Each test gives it a command line
//          and perhaps a file, and checks the values or the whole error line.
#include "cli/settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tributary::cli {
namespace {

constexpr std::array<KeySpec, 3> kJobKeys{{
    {.name = "id", .type = KeyType::kUint, .help = "job", .max = 255, .required = true},
    {.name = "sources", .type = KeyType::kUint, .help = "workers", .default_text = "2", .max = 256},
    {.name = "mitigation", .type = KeyType::kBool, .help = "stragglers", .default_text = "off"},
}};

struct Parsed {
  std::optional<int> exit;
  std::string out;
  std::string err;
  uint32_t window = 64;
  Endpoint listen = Endpoint::ipv4(0x7f000001, 12000);
  Duration timeout = milliseconds(10);
  bool verify = false;
  bool cache = true;
  double loss = 0;
  std::string json;
  std::string scheme = "fixed";
  wire::Protocol protocol = wire::Protocol::kTrioMl;
  std::vector<std::string> peers;
  std::vector<KeyValues> jobs;
};

/// Provides a folder for one test's files and removes it.
class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("tributary-settings-{}-{}", ::getpid(), info->name());
    std::filesystem::create_directories(folder_);
  }
  ~SettingsTest() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) {
    const std::string path = folder_ / "c.toml";
    std::ofstream(path) << text;
    return path;
  }

  /// Returns the error of a run with `text` as its file, without the program's name and the folder.
  std::string file_refusal(const std::string& text, std::vector<std::string> more = {}) {
    std::vector<std::string> args{"serve", "--config", file(text)};
    args.insert(args.end(), more.begin(), more.end());
    const Parsed parsed = parse(args);
    EXPECT_EQ(parsed.exit, kExitUsage);
    const std::string prefix = "tributary serve: " + folder_.string() + "/";
    EXPECT_TRUE(parsed.err.starts_with(prefix)) << parsed.err;
    return parsed.err.substr(std::min(prefix.size(), parsed.err.size()));
  }

  static Parsed parse(const std::vector<std::string>& args) {
    static const KeyTable job("job", kJobKeys);
    Parsed parsed;
    CLI::App app("test", "tributary");
    app.require_subcommand(1);
    app.add_subcommand("doctor", "looks");
    CLI::App* serve = app.add_subcommand("serve", "serves");
    Settings settings(*serve);
    add_uint(*serve, "--window", parsed.window, 1, 4096, "packets in flight");
    add_key(*serve, "--listen", {.type = KeyType::kEndpoint}, parsed.listen.to_string(),
            "where to listen",
            [&parsed](const KeyValue& written) { parsed.listen = std::get<Endpoint>(written); });
    add_milliseconds(*serve, "--timeout-ms", parsed.timeout, 1, 1000, "timeout");
    serve->add_flag("--verify", parsed.verify, "check sums");
    serve->add_option("--loss", parsed.loss, "loss")->check(CLI::Range(0.0, 0.5));
    serve->add_option("--json", parsed.json, "result file")->type_name("FILE");
    serve->add_option("--scheme", parsed.scheme, "format")
        ->check(CLI::IsMember({"fixed", "block"}));
    serve->add_option("--peer", parsed.peers, "peers");
    add_protocol(*serve, parsed.protocol, "what is spoken");
    add_on_off(*serve, "--cache", parsed.cache, "keep results");
    settings.add_table(job, parsed.jobs, "a job")->required();
    std::vector<const char*> argv{"tributary"};
    for (const std::string& arg : args) argv.push_back(arg.c_str());
    std::ostringstream out;
    std::ostringstream err;
    parsed.exit = parse_command_line(app, static_cast<int>(argv.size()), argv.data(), out, err);
    parsed.out = out.str();
    parsed.err = err.str();
    return parsed;
  }

  static std::string refusal(std::vector<std::string> args) {
    args.insert(args.begin(), "serve");
    const Parsed parsed = parse(args);
    EXPECT_EQ(parsed.exit, kExitUsage);
    EXPECT_EQ(std::count(parsed.err.begin(), parsed.err.end(), '\n'), 1) << parsed.err;
    return parsed.err;
  }

  std::filesystem::path folder_;
};

TEST_F(SettingsTest, ParsesFlagsAndDefaults) {
  const Parsed parsed =
      parse({"serve", "--window", "128", "--listen", "0.0.0.0:13000", "--timeout-ms=50", "--verify",
             "--job", "id=1,mitigation=on", "--job", "id=2,sources=4"});
  ASSERT_FALSE(parsed.exit.has_value()) << parsed.err;
  EXPECT_EQ(parsed.window, 128U);
  EXPECT_EQ(parsed.listen.to_string(), "0.0.0.0:13000");
  EXPECT_EQ(parsed.timeout, milliseconds(50));
  EXPECT_TRUE(parsed.verify);
  EXPECT_EQ(parsed.scheme, "fixed");
  EXPECT_EQ(parsed.protocol, wire::Protocol::kTrioMl);
  ASSERT_EQ(parsed.jobs.size(), 2U);
  EXPECT_TRUE(parsed.jobs[0].flag("mitigation"));
  EXPECT_EQ(parsed.jobs[1].uint("id"), 2U);
  EXPECT_EQ(parsed.jobs[1].uint("sources"), 4U);
}

TEST(ParseCommandLine, ASeparatorMayStandBeforeTheCommandThatIsRun) {
  using Arguments = std::vector<std::string>;
  const auto remaining = [](const Arguments& given) {
    CLI::App app("test", "tributary");
    CLI::App* const launch = app.add_subcommand("launch", "runs a command");
    launch->prefix_command();
    uint32_t ranks = 0;
    bool keeps_going = false;
    launch->add_option("-n", ranks, "ranks");
    launch->add_flag("--keep-going", keeps_going, "goes on");
    std::vector<const char*> argv{"tributary", "launch"};
    for (const std::string& argument : given) argv.push_back(argument.c_str());
    std::ostringstream out;
    EXPECT_FALSE(parse_command_line(app, static_cast<int>(argv.size()), argv.data(), out, out))
        << out.str();
    return launch->remaining();
  };
  const Arguments script{"train.py", "--", "--flag"};
  EXPECT_EQ(remaining({"train.py", "--", "--flag"}), script);
  EXPECT_EQ(remaining({"--", "train.py", "--", "--flag"}), script);
  EXPECT_EQ(remaining({"-n", "2", "--", "train.py", "--", "--flag"}), script);
  EXPECT_EQ(remaining({"--keep-going", "--", "train.py", "--", "--flag"}), script);
  EXPECT_EQ(remaining({"--keep-going", "train.py", "--", "--flag"}), script);
}

TEST_F(SettingsTest, FileSetsTheSameValuesAsFlags) {
  const Parsed parsed = parse({"serve", "--config", file(R"(
window = 128
listen = "0.0.0.0:13000"
timeout-ms = 50
verify = true
loss = 0.25
peer = ["a", "b"]
protocol = "switchml"
[[job]]
id = 1
mitigation = true
[[job]]
id = 2
sources = 4
)")});
  ASSERT_FALSE(parsed.exit.has_value()) << parsed.err;
  EXPECT_EQ(parsed.window, 128U);
  EXPECT_EQ(parsed.listen.to_string(), "0.0.0.0:13000");
  EXPECT_EQ(parsed.timeout, milliseconds(50));
  EXPECT_TRUE(parsed.verify);
  EXPECT_EQ(parsed.loss, 0.25);
  EXPECT_EQ(parsed.peers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parsed.protocol, wire::Protocol::kSwitchml);
  ASSERT_EQ(parsed.jobs.size(), 2U);
  EXPECT_TRUE(parsed.jobs[0].flag("mitigation"));
  EXPECT_EQ(parsed.jobs[1].uint("sources"), 4U);
  EXPECT_TRUE(parsed.jobs[1].where().ends_with("c.toml:12")) << parsed.jobs[1].where();
}

TEST_F(SettingsTest, AcceptsASingleTable) {
  const Parsed parsed = parse({"serve", "--config", file("[job]\nid = 3\n")});
  ASSERT_FALSE(parsed.exit.has_value()) << parsed.err;
  ASSERT_EQ(parsed.jobs.size(), 1U);
  EXPECT_EQ(parsed.jobs[0].uint("id"), 3U);
}

TEST_F(SettingsTest, FlagOverridesFileAndFileOverridesDefault) {
  const std::string path = file("window = 32\ntimeout-ms = 20\nverify = true\n[job]\nid = 3\n");
  // The order of --config and the flag makes no difference.
  for (const auto& args : {std::vector<std::string>{"serve", "--config", path, "--window", "8"},
                           std::vector<std::string>{"serve", "--window", "8", "--config", path}}) {
    const Parsed parsed = parse(args);
    ASSERT_FALSE(parsed.exit.has_value()) << parsed.err;
    EXPECT_EQ(parsed.window, 8U);
    EXPECT_EQ(parsed.timeout, milliseconds(20));
    EXPECT_TRUE(parsed.verify);
    EXPECT_EQ(parsed.scheme, "fixed");
  }
  const Parsed flags = parse({"serve", "--config", path, "--job", "id=9", "--verify=false"});
  ASSERT_FALSE(flags.exit.has_value()) << flags.err;
  ASSERT_EQ(flags.jobs.size(), 1U);  // Flags replace the file's jobs.
  EXPECT_EQ(flags.jobs[0].uint("id"), 9U);
  EXPECT_FALSE(flags.verify);
}

TEST_F(SettingsTest, HelpReturnsSuccess) {
  const Parsed parsed = parse({"serve", "--help"});
  EXPECT_EQ(parsed.exit, 0);
  EXPECT_TRUE(parsed.err.empty());
  EXPECT_NE(parsed.out.find("packets in flight: a whole number from 1 to 4096"), std::string::npos)
      << parsed.out;
  EXPECT_NE(parsed.out.find("sources: workers"), std::string::npos) << parsed.out;
}

TEST_F(SettingsTest, RefusesUnknownFlagsAndCommands) {
  EXPECT_EQ(refusal({"--job", "id=1", "--windw", "8"}),
            "tributary serve: unknown flag '--windw' (did you mean '--window'?); allowed: --help, "
            "--config, --window, --listen, --timeout-ms, --verify, --loss, --json, --scheme, "
            "--peer, --protocol, --cache, --job\n");
  const Parsed parsed = parse({"serv"});
  EXPECT_EQ(parsed.exit, kExitUsage);
  EXPECT_EQ(parsed.err,
            "tributary: unknown command 'serv' (did you mean 'serve'?); allowed: doctor, serve\n");
}

TEST_F(SettingsTest, RefusesMissingFlagsAndValues) {
  EXPECT_TRUE(refusal({}).starts_with("tributary serve: --job is missing; allowed: KEY=VALUE"));
  EXPECT_EQ(refusal({"--job", "id=1", "--window"}),
            "tributary serve: --window has no value; allowed: NUMBER\n");
  const Parsed parsed = parse({});
  EXPECT_EQ(parsed.exit, kExitUsage);
  EXPECT_EQ(parsed.err,
            "tributary: give a command; allowed: doctor, serve; see tributary --help\n");
}

TEST_F(SettingsTest, RefusesEmptyValues) {
  for (const std::string flag : {"--listen", "--window", "--job"}) {
    EXPECT_EQ(refusal({flag, ""}), "tributary serve: " + flag + " has an empty value\n");
    EXPECT_TRUE(
        refusal({flag + "="}).starts_with("tributary serve: " + flag + " has no value; allowed: "));
  }
  EXPECT_EQ(refusal({"--scheme", ""}),
            "tributary serve: --scheme= is refused; allowed: {fixed,block}\n");
}

TEST(ParseCommandLine, AWrongFlagBeforeACommandThatIsRunIsNamed) {
  const auto refusal = [](const char* flag, const char* value, const char* second) {
    CLI::App app("test", "tributary");
    CLI::App* const launch = app.add_subcommand("launch", "runs a command");
    launch->prefix_command();
    uint32_t ranks = 0;
    std::string auth;
    launch->add_option("-n", ranks, "ranks");
    launch->add_option("--auth", auth, "seals")->check(CLI::IsMember({"none", "full"}));
    std::ostringstream out;
    const std::array argv{"tributary", "launch", flag, value, flag, second, "train.py"};
    EXPECT_EQ(parse_command_line(app, static_cast<int>(argv.size()), argv.data(), out, out),
              kExitUsage);
    return out.str();
  };
  EXPECT_EQ(refusal("-n", "2", "3"), "tributary launch: -n is given 2 times; allowed: once\n");
  EXPECT_EQ(refusal("--auth", "ful", "ful"),
            "tributary launch: --auth=ful ful is refused; allowed: {none,full}\n");
}

TEST(ParseCommandLine, ARefusalNamesTheWholeCommand) {
  const auto refusal = [](const std::vector<const char*>& words) {
    CLI::App app("test", "tributary");
    CLI::App* const lab = app.add_subcommand("lab", "experiments");
    lab->require_subcommand(1);
    CLI::App* const run = lab->add_subcommand("run", "runs");
    double loss = 0.25;
    add_decimal(*run, "--loss", loss, 0, 0.5, "share of lost packets");
    std::vector<const char*> argv{"tributary", "lab"};
    argv.insert(argv.end(), words.begin(), words.end());
    std::ostringstream out;
    EXPECT_EQ(parse_command_line(app, static_cast<int>(argv.size()), argv.data(), out, out),
              kExitUsage);
    return out.str();
  };
  EXPECT_EQ(refusal({}), "tributary lab: give a command; allowed: run; see tributary lab --help\n");
  EXPECT_EQ(refusal({"run", "--wide"}),
            "tributary lab run: unknown flag '--wide'; allowed: --help, --loss\n");
  EXPECT_EQ(refusal({"run", "--loss", "0.9"}),
            "tributary lab run: --loss=0.9 is out of range; allowed: a number from 0 to 0.5\n");
}

TEST(ParseCommandLine, HelpShowsARangeAndTheDefault) {
  CLI::App app("test", "tributary");
  double loss = 0.25;
  add_decimal(app, "--loss", loss, 0, 0.5, "share of lost packets");
  const std::array argv{"tributary", "--loss", "0.125"};
  std::ostringstream out;
  EXPECT_FALSE(parse_command_line(app, static_cast<int>(argv.size()), argv.data(), out, out));
  EXPECT_EQ(loss, 0.125);
  const std::string help = app.help();
  EXPECT_NE(help.find("--loss NUMBER=0.25"), std::string::npos) << help;
  EXPECT_NE(help.find("share of lost packets: a number from 0 to 0.5"), std::string::npos) << help;
}

TEST_F(SettingsTest, RefusesValuesOnTheCommandLine) {
  const std::string number = "; allowed: a whole number from 1 to 4096\n";
  EXPECT_EQ(refusal({"--window", "abc"}),
            "tributary serve: --window=abc is not a whole number" + number);
  EXPECT_EQ(refusal({"--window", "0"}), "tributary serve: --window=0 is out of range" + number);
  EXPECT_EQ(refusal({"--window=-1"}),
            "tributary serve: --window=-1 is not a whole number" + number);
  EXPECT_EQ(refusal({"--window", "0x10"}),
            "tributary serve: --window=0x10 is not a whole number" + number);
  EXPECT_EQ(refusal({"--protocol", "tcp"}),
            "tributary serve: --protocol=tcp is refused; allowed: {trio-ml,switchml}\n");
  EXPECT_EQ(refusal({"--timeout-ms", "1001"}),
            "tributary serve: --timeout-ms=1001 is out of range; "
            "allowed: whole milliseconds from 1 to 1000\n");
  EXPECT_EQ(refusal({"--listen", "here"}),
            "tributary serve: --listen=here is not an endpoint; "
            "allowed: address:port, as in 127.0.0.1:12000 or [::1]:12000\n");
  EXPECT_EQ(refusal({"--loss", "0.9"}),
            "tributary serve: --loss=0.9 is refused; allowed: a number from 0 to 0.5\n");
  EXPECT_EQ(refusal({"--scheme", "none"}),
            "tributary serve: --scheme=none is refused; allowed: {fixed,block}\n");
  EXPECT_EQ(
      refusal({"--job", "id=300"}),
      "tributary serve: --job: id=300 is out of range; allowed: a whole number from 0 to 255\n");
}

TEST_F(SettingsTest, RefusesAResultFileThatAnotherFlagNames) {
  const std::string config = file("[[job]]\nid = 1\n");
  EXPECT_EQ(refusal({"--config", config, "--json", config}),
            "tributary serve: --json " + config +
                ": it is the file of --config; allowed: another file\n");
  EXPECT_EQ(std::filesystem::file_size(config), 15U);
}

TEST_F(SettingsTest, RefusesResultFilesThatCannotBeWritten) {
  const std::string path = folder_ / "absent" / "r.json";
  const std::string line =
      "--json " + path +
      ": cannot be written: no file can be created in its folder: No such file "
      "or directory\n";
  EXPECT_EQ(refusal({"--job", "id=1", "--json", path}), "tributary serve: " + line);
  EXPECT_NE(file_refusal("json = \"" + path + "\"\n[[job]]\nid = 1\n"), "");
  const Parsed parsed = parse({"serve", "--job", "id=1", "--json", folder_ / "r.json"});
  EXPECT_FALSE(parsed.exit.has_value()) << parsed.err;
}

TEST_F(SettingsTest, RefusesFilesThatCannotBeRead) {
  EXPECT_EQ(
      refusal({"--config", "/nonexistent/c.toml"}),
      "tributary serve: --config /nonexistent/c.toml: cannot be read: No such file or directory\n");
  EXPECT_TRUE(file_refusal("window = 8\nwindow 9\n").starts_with("c.toml:2: is not TOML: "));
}

TEST_F(SettingsTest, RefusesKeysOfAFile) {
  EXPECT_EQ(file_refusal("\nwindw = 8\n"),
            "c.toml:2: unknown key 'windw' (did you mean 'window'?); allowed: window, listen, "
            "timeout-ms, verify, loss, json, scheme, peer, protocol, cache, job\n");
  EXPECT_EQ(file_refusal("[job]\nid = 1\nsorces = 4\n"),
            "c.toml:3: unknown key 'sorces' (did you mean 'sources'?); "
            "allowed: id, sources, mitigation\n");
  EXPECT_EQ(file_refusal("[[job]]\nid = 1\n\n[[job]]\nsources = 4\n"),
            "c.toml:4: key 'id' is missing; allowed: a whole number from 0 to 255\n");
}

TEST_F(SettingsTest, OnAndOffMayBeBooleansOfAFile) {
  EXPECT_FALSE(parse({"serve", "--config", file("cache = false\n")}).cache);
  EXPECT_FALSE(parse({"serve", "--config", file("cache = \"off\"\n")}).cache);
  EXPECT_TRUE(parse({"serve", "--config", file("cache = false\n"), "--cache", "on"}).cache);
  EXPECT_EQ(file_refusal("cache = 1\n"),
            "c.toml:1: cache=1 has the wrong type; allowed: true, false\n");
  EXPECT_EQ(file_refusal("cache = \"maybe\"\n"),
            "c.toml:1: --cache=maybe is neither on nor off; allowed: on, off, true, false\n");
}

TEST_F(SettingsTest, RefusesValuesOfAFile) {
  const std::string number = "; allowed: a whole number from 1 to 4096\n";
  EXPECT_EQ(file_refusal("window = 0\n"), "c.toml:1: --window=0 is out of range" + number);
  EXPECT_EQ(file_refusal("window = 1.5\n"),
            "c.toml:1: --window=1.5 is not a whole number" + number);
  EXPECT_EQ(file_refusal("window = \"8\"\n"),
            "c.toml:1: window=8 has the wrong type; allowed: a number, without quotes\n");
  EXPECT_EQ(file_refusal("verify = \"on\"\n"),
            "c.toml:1: verify=on has the wrong type; allowed: true, false\n");
  EXPECT_EQ(file_refusal("listen = 12000\n"),
            "c.toml:1: listen=12000 has the wrong type; allowed: text in quotes\n");
  EXPECT_EQ(file_refusal("window = [1, 2]\n"),
            "c.toml:1: window=[…] has the wrong type; allowed: a number, without quotes\n");
  EXPECT_EQ(file_refusal("[window]\na = 1\n"),
            "c.toml:1: window={…} has the wrong type; allowed: a number, without quotes\n");
  EXPECT_EQ(file_refusal("loss = 0.9\n"),
            "c.toml:1: --loss=0.9 is refused; allowed: a number from 0 to 0.5\n");
  EXPECT_EQ(file_refusal("scheme = \"none\"\n"),
            "c.toml:1: --scheme=none is refused; allowed: {fixed,block}\n");
}

TEST_F(SettingsTest, RefusesTablesOfAFile) {
  EXPECT_EQ(file_refusal("job = 1\n"),
            "c.toml:1: job=1 is not a table; allowed: [job] or [[job]]\n");
  EXPECT_EQ(file_refusal("job = [1]\n"), "c.toml:1: job holds 1, not a table; allowed: [[job]]\n");
  EXPECT_EQ(file_refusal("[job]\nid = \"1\"\n"),
            "c.toml:2: id=1 is text; allowed: a whole number from 0 to 255\n");
  EXPECT_EQ(file_refusal("[job]\nid = -1\n"),
            "c.toml:2: id=-1 is not a whole number; allowed: a whole number from 0 to 255\n");
  EXPECT_EQ(file_refusal("[job]\nid = 1\nmitigation = 1\n"),
            "c.toml:3: mitigation=1 is a whole number; allowed: true, false\n");
}

TEST_F(SettingsTest, RefusesAWrongFileEvenIfAFlagOverridesIt) {
  EXPECT_EQ(file_refusal("[job]\nid = 300\n", {"--job", "id=1"}),
            "c.toml:2: id=300 is out of range; allowed: a whole number from 0 to 255\n");
}

}  // namespace
}  // namespace tributary::cli
