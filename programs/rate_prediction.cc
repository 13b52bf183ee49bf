// SPDX-License-Identifier: Apache-2.0
#include "programs/rate_prediction.h"

#include "io/memory_file.h"
#include "programs/traffic_capture.h"
#include "traffic/generator.h"

namespace tributary::programs {
Result<RateLimit> predict_rate(const Program& program, const engine::Parameters& chip,
                               const traffic::Config& traffic) {
  const auto capture = io::MemoryFile::create();
  if (!capture) return tl::unexpected(capture.error());
  auto generator = traffic::Generator::create(traffic);
  if (!generator) return tl::unexpected(generator.error());
  if (const auto written = write_traffic(*generator, capture->path()); !written) {
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
