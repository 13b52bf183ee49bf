// SPDX-License-Identifier: Apache-2.0
// A file of recorded delays.
#include "lab/workload/delay_trace.h"

#include "host/straggler_pattern.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

constexpr uint32_t kWorkers = 6;

void run(std::span<const uint8_t> input) {
  const InputFile file(input);
  const auto trace = lab::DelayTrace::read(file.path(), kWorkers);
  if (!trace) {
    EXPECT_LE(trace.error().text.size(), error_bytes_max(input.size()));
    return;
  }
  EXPECT_GT(trace->row_count(), 0U);
  EXPECT_LE(trace->row_count(), input.size() / 8);  // "0,0,0,0" and a line end.
  EXPECT_LE(trace->total(), lab::DelayTrace::kTotalMax);
  Duration first_iteration;
  for (uint32_t worker = 0; worker < kWorkers; worker++) {
    for (uint64_t point = 0; point < host::kDelayPoints; point++) {
      const Duration delay = trace->delay_at(worker, point);
      EXPECT_GE(delay, Duration());
      first_iteration += delay;
    }
  }
  EXPECT_LE(first_iteration, trace->total());
}

std::vector<Bytes> seeds() {
  const std::string header = "worker,iteration,point,delay_ms\n";
  return {input_of_text(header + "4,10,0,850\n\"0\",\"0\",\"2\",\"0.5\"\r\n0,0,1,1e3\n"),
          input_of_text(header + "5,999999,2,1000000000\n")};
}

TRIB_FUZZ_TARGET(delay_trace);

}  // namespace
}  // namespace tributary::fuzz
