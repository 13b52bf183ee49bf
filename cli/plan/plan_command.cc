// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_command.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>

#include "base/result_file.h"
#include "cli/settings.h"
#include "io/udp/path_mtu.h"

namespace tributary::cli {
namespace {

constexpr uint32_t kMtuMax = 65'536;
constexpr uint64_t kBytesMax = uint64_t{1} << 40;

}  // namespace

CLI::Option* add_gbit(CLI::App& command, const char* flag, double& value,
                      const std::string& fallback, const char* help) {
  return add_key(
      command, flag, {.type = KeyType::kNumber, .number_min = kGbitMin, .number_max = kGbitMax},
      fallback, help, [&value](const KeyValue& written) { value = std::get<double>(written); });
}

CLI::Option* add_plan_machines(CLI::App& command, PlanFlags& flags) {
  CLI::Option* workers =
      command
          .add_option("--workers", flags.workers,
                      "Worker machines: their number, or a list of ADDRESS[:PORT][@GBIT[/SUM]]")
          ->type_name("LIST");
  command
      .add_option("--servers", flags.servers,
                  "Spare machines, which only aggregate: their number, or a list")
      ->type_name("LIST")
      ->capture_default_str();
  add_gbit(command, "--gbit", flags.link_gbit, fmt::format("{}", flags.link_gbit),
           "Gbit/s of each machine's link, each way, unless its @GBIT says otherwise");
  add_gbit(command, "--sum-gbit", flags.sum_gbit, "",
           "Gbit/s of gradients that each aggregator's CPU can add, unless its SUM says otherwise; "
           "see tributary doctor --measure-sum; default: no limit");
  return workers;
}

void add_colocated(CLI::App& command, PlanFlags& flags) {
  add_on_off(command, "--colocated", flags.colocated,
             "Whether the worker machines run aggregators, too");
}

CLI::App* add_plan(CLI::App& app, PlanOptions& options) {
  CLI::App* command = app.add_subcommand(
      "plan", "Plan a job with several aggregators: shares, predicted time, URL for the workers");
  add_plan_machines(*command, options.request.flags)->required();
  add_colocated(*command, options.request.flags);
  add_uint(*command, "--bytes", options.request.bytes, 1, kBytesMax,
           "Bytes of gradients in one all-reduce");
  add_uint(*command, "--mtu", options.request.mtu, io::kPathMtuMin, kMtuMax,
           "Bytes of the largest IP packet on the path");
  add_uint(*command, "--job", options.request.job_id, 0, UINT8_MAX, "Job id in the URL");
  command->add_option("--json", options.json, "Write the result to this file")->type_name("FILE");
  return command;
}

int run_plan(const PlanOptions& options, std::ostream& out, std::ostream& err) {
  const auto report = make_plan_report(options.request);
  if (!report) {
    err << "tributary plan: " << report.error().text << "\n";
    return kExitUsage;
  }
  out << as_text(*report);
  if (options.json.empty()) return 0;
  const auto written = write_result_file(options.json, as_json(*report).dump(2) + "\n");
  if (written) return 0;
  err << "tributary plan: --json " << written.error().text << "\n";
  return 1;
}

}  // namespace tributary::cli
