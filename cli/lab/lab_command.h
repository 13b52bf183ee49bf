// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command `tributary lab`: experiments in virtual time.
///   list    what there is: figures, back ends, models, straggler patterns
///   figure  a figure of a paper, with the paper's numbers beside it
///   run     one scenario
///   sweep   a scenario with lists of values
///   trace   what happens to packets inside a scenario's machines
///   step    through a scenario step by step
///   compare back ends side by side
///   report  a page with all figures
///   faults  runs in which everything goes wrong, judged against the promises
/// Tests: tests/system/lab_test.cc
#pragma once

#include <CLI/CLI.hpp>

namespace tributary::cli {

/// Adds the command and what is in it. @param exit_code Set when one has run; 0 only for success.
void add_lab_command(CLI::App& app, int& exit_code);

// Each in a file of its own, below `lab`.
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
