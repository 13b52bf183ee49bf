// SPDX-License-Identifier: Apache-2.0
#include "programs/rate_prediction.h"

#include <chrono>
#include <string>

#include "io/capture/capture_writer.h"
#include "io/memory_file.h"
#include "traffic/generator.h"

namespace tributary::programs {
namespace {

Result<void> write_traffic(const traffic::Config& config, const std::string& path) {
  auto generator = traffic::Generator::create(config);
  if (!generator) return tl::unexpected(generator.error());
  auto writer = io::CaptureWriter::open(path);
  if (!writer) return tl::unexpected(writer.error());
  while (const auto packet = generator->next()) {
    const auto at = std::chrono::nanoseconds(in_nanoseconds(packet->at - Instant()));
    const auto written = writer->write(
        {io::CaptureTime(at), packet->frame, static_cast<uint32_t>(packet->frame.size())});
    if (!written) return written;
  }
  return writer->finish();
}

}  // namespace

Result<RateLimit> predict_rate(const Program& program, const engine::Parameters& chip,
                               const traffic::Config& traffic) {
  const auto capture = io::MemoryFile::create();
  if (!capture) return tl::unexpected(capture.error());
  if (const auto written = write_traffic(traffic, capture->path()); !written) {
    return tl::unexpected(written.error());
  }
  const auto settings = program.settings().read({}, "");
  if (!settings) return tl::unexpected(settings.error());
  const auto end = program.run(*settings, {.in = capture->path(), .model = chip});
  if (!end) return tl::unexpected(end.error());
  if (end->problem) return tl::unexpected(*end->problem);
  const auto limit = rate_limit(end->report.model->pfe);
  if (!limit) return failure("no packet reached the chip");
  return *limit;
}

}  // namespace tributary::programs
