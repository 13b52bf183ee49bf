// SPDX-License-Identifier: Apache-2.0
#include "programs/capture_run.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace tributary::programs {

Result<CaptureFiles> open_input(const RunRequest& request, HeadersCut headers_cut) {
  auto opened = io::CaptureReader::open(request.in);
  // A signal may have interrupted the read of the capture's beginning. Then it has no packet.
  const bool is_stopped = request.stop != nullptr && request.stop->load();
  if (!opened && !is_stopped) return failure_in("--in ", opened.error());
  std::optional<io::CaptureReader> reader;
  if (opened) reader = *std::move(opened);
  CaptureFiles files{
      CaptureFeed(std::move(reader), request.packet_bytes_max, request.stop, headers_cut),
      std::nullopt};
  files.feed.read_ahead();
  return files;
}

Result<void> open_output(const RunRequest& request, CaptureFiles& files) {
  if (request.out.empty()) return {};
  auto writer = io::CaptureWriter::open(request.out);
  if (!writer) return failure_in("--out ", writer.error());
  files.writer = *std::move(writer);
  return {};
}

std::string wrong_ends_text(const RunReport& report) {
  return fmt::format(
      "the program {} is wrong: of {} packets it forwarded {} and dropped {}, and {} did not end "
      "once; process() must call forward() or drop() once for each packet",
      report.program, report.input.packets - report.input.too_long, report.output.forwarded,
      report.dropped, report.ended_wrongly);
}

}  // namespace tributary::programs
