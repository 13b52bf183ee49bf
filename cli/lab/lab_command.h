// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary lab`: experiments in virtual time.
///   list    figures, back ends, models, straggler patterns
///   figure  a figure of a paper, with the paper's numbers beside it
///   run     one scenario
///   sweep   a scenario with lists of values
///   trace   the path of packets through a scenario's machines
///   step    a scenario, step by step
///   compare back ends side by side
///   report  a page with all figures
///   faults  runs with every kind of fault, judged against the promises
/// Tests: tests/system/lab_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds `lab` with its commands. @param exit_code Set by the command that runs; 0 only for success.
void add_lab_command(CLI::App& app, int& exit_code);

// Each adds one command below `lab` and has its own source file.
void add_lab_list(CLI::App& lab, int& exit_code);
void add_lab_figure(CLI::App& lab, int& exit_code);
void add_lab_run(CLI::App& lab, int& exit_code);
void add_lab_sweep(CLI::App& lab, int& exit_code);
void add_lab_compare(CLI::App& lab, int& exit_code);
/// Adds `telemetry` below `lab compare`.
void add_lab_compare_telemetry(CLI::App& compare, int& exit_code);
void add_lab_faults(CLI::App& lab, int& exit_code);
void add_lab_report(CLI::App& lab, int& exit_code);

}  // namespace tributary::cli
