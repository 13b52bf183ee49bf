// SPDX-License-Identifier: Apache-2.0
// The `tributary` program. Each command is defined in a file of its own.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/bench/bench_command.h"
#include "cli/bench/race_command.h"
#include "cli/completion/completion_command.h"
#include "cli/console.h"
#include "cli/demo/demo.h"
#include "cli/demo/demo_worker.h"
#include "cli/doctor/doctor.h"
#include "cli/lab/lab_command.h"
#include "cli/launch/launch_command.h"
#include "cli/operate/job_command.h"
#include "cli/operate/log_command.h"
#include "cli/operate/record_command.h"
#include "cli/operate/status_command.h"
#include "cli/plan/plan_command.h"
#include "cli/programs/run_command.h"
#include "cli/programs/traffic_command.h"
#include "cli/serve/serve_command.h"
#include "cli/settings.h"
#include "cli/version.h"
#include "cli/worker/worker_command.h"

namespace {

void add_demo_commands(CLI::App& app, tributary::demo::DemoConfig& demo,
                       tributary::demo::DemoWorkerConfig& worker, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "demo", "Train a small model through an aggregator: clean, with loss, with a straggler");
  tributary::demo::add_demo_options(*command, demo);
  command->callback([&] { exit_code = tributary::demo::run_demo(demo); });

  CLI::App* hidden = app.add_subcommand("demo-worker", "One worker of the demo; started by it");
  hidden->group("");
  tributary::demo::add_demo_worker_options(*hidden, worker);
  hidden->callback([&] { exit_code = tributary::demo::run_demo_worker(worker); });
}

}  // namespace

int main(int argc, char** argv) {
  tributary::cli::hold_standard_descriptors();
  CLI::App app("Tributary: a software packet processor in the style of Juniper's Trio chipset",
               "tributary");
  app.require_subcommand(1);
  app.set_version_flag("--version", tributary::cli::version_text());
  int exit_code = 0;
  tributary::cli::add_serve_command(app, exit_code);
  tributary::cli::add_worker_command(app, exit_code);
  tributary::cli::add_status_command(app, exit_code);
  tributary::cli::add_who_command(app, exit_code);
  tributary::cli::add_job_command(app, exit_code);
  tributary::cli::add_log_command(app, exit_code);
  tributary::cli::add_record_command(app, exit_code);
  tributary::cli::add_launch_command(app, exit_code);
  tributary::cli::add_bench_command(app, exit_code);
  tributary::cli::add_race_processes(app, exit_code);
  tributary::cli::add_lab_command(app, exit_code);
  tributary::cli::add_program_commands(app, exit_code);
  tributary::cli::add_traffic_command(app, exit_code);
  tributary::demo::DemoConfig demo;
  tributary::demo::DemoWorkerConfig demo_worker;
  add_demo_commands(app, demo, demo_worker, exit_code);
  tributary::cli::DoctorOptions doctor;
  tributary::cli::add_doctor(app, doctor)->callback([&] {
    exit_code = tributary::cli::run_doctor(doctor, tributary::cli::text_stream(), std::cerr);
  });
  tributary::cli::PlanOptions plan;
  tributary::cli::add_plan(app, plan)->callback([&] {
    exit_code = tributary::cli::run_plan(plan, tributary::cli::text_stream(), std::cerr);
  });
  tributary::cli::add_completion_command(app);
  if (const auto ended =
          tributary::cli::parse_command_line(app, argc, argv, std::cout, std::cerr)) {
    return tributary::cli::end_output(*ended);
  }
  return tributary::cli::end_output(exit_code);
}
