// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs any program over a capture: opens the files, chooses the machine, and gathers the report.
///
/// Threads: One.
/// Errors:  As in programs/capture_program.h.
/// Tests:   tests/programs/program_test.cc
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "programs/capture_program.h"
#include "programs/program_instance.h"
#include "programs/run_on_live.h"
#include "programs/run_on_model.h"

namespace tributary::programs {

/// The open files of a run.
struct CaptureFiles {
  CaptureFeed feed;
  std::optional<io::CaptureWriter> writer;
};

/// Opens the input and reads its first packet. A request that was stopped has an empty input. The
/// caller has made sure that no output is the file of the input or of another output.
/// @param headers_cut As CaptureFeed's.
[[nodiscard]] Result<CaptureFiles> open_input(const RunRequest& request, HeadersCut headers_cut);

/// Returns App::headers_cut if the program has it.
template <class App>
[[nodiscard]] constexpr HeadersCut headers_cut_of() {
  if constexpr (requires { HeadersCut{&App::headers_cut}; }) {
    return &App::headers_cut;
  } else {
    return nullptr;
  }
}

/// Opens the output, which empties it. Call it when nothing else can refuse the run.
[[nodiscard]] Result<void> open_output(const RunRequest& request, CaptureFiles& files);

/// Returns the error of a program that did not end each packet once.
[[nodiscard]] std::string wrong_ends_text(const RunReport& report);

/// Runs `instance` over the open files.
template <ProgramInstance Instance>
RunEnd run_over_capture(Instance& instance, const RunRequest& request, CaptureFiles files,
                        CaptureOutput::MessageHandler handler) {
  CaptureOutput::Observer observer;
  if constexpr (requires { instance.score(); }) {
    files.feed.observe([&](const io::CapturedPacket& packet) { instance.score().arrived(packet); });
    observer = [&](const io::CapturedPacket& packet) { instance.score().passed(packet); };
  }
  CaptureOutput output(std::move(files.writer), std::move(handler), std::move(observer));
  RunEnd end;
  end.report.program = Instance::settings().name();
  const auto started_at = std::chrono::steady_clock::now();
  if (request.model) {
    engine::Parameters parameters = *request.model;
    // The program's messages may be longer than the longest packet of the input.
    parameters.packet_bytes_max = std::max(request.packet_bytes_max, parameters.packet_bytes_max);
    end.report.model =
        run_on_model(instance.app(), parameters, instance.memory(), files.feed, output);
    end.report.dropped = end.report.model->pfe.dropped;
    end.report.ended_wrongly = end.report.model->pfe.consumed;
  } else {
    const LiveRun run = run_on_live(instance.app(), files.feed, output);
    end.report.dropped = run.dropped;
    end.report.ended_wrongly = run.ended_wrongly;
  }
  output.finish();
  end.report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_at).count();
  end.report.input = files.feed.counts();
  end.report.output = output.counts();
  end.report.outcomes =
      outcomes_of(instance, {end.report.output.forwarded, end.report.output.forwarded_bytes});
  end.report.details = instance.details();
  end.problem = output.problem() ? output.problem() : files.feed.problem();
  if (!end.problem && end.report.ended_wrongly > 0) {
    end.problem = Error{wrong_ends_text(end.report)};
  }
  return end;
}

/// CaptureProgram::run of a program.
template <ProgramInstance Instance>
Result<RunEnd> run_program(const KeyValues& settings, const RunRequest& request) {
  if constexpr (requires { Instance::check_capture(settings); }) {
    if (const auto good = Instance::check_capture(settings); !good) {
      return tl::unexpected(good.error());
    }
  }
  auto files = open_input(request, headers_cut_of<typename Instance::App>());
  if (!files) return tl::unexpected(files.error());
  auto instance = Instance::create(
      settings, {.start = Instant(), .time_zero = files->feed.time_zero(), .seed = 0});
  if (!instance) return tl::unexpected(instance.error());
  CaptureOutput::MessageHandler handler;
  if constexpr (requires { Instance::message_handler(request); }) {
    auto made = Instance::message_handler(request);
    if (!made) return tl::unexpected(made.error());
    handler = *std::move(made);
  }
  if (const auto opened = open_output(request, *files); !opened) {
    return tl::unexpected(opened.error());
  }
  return run_over_capture(**instance, request, *std::move(files), std::move(handler));
}

}  // namespace tributary::programs
