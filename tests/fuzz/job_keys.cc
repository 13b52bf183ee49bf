// SPDX-License-Identifier: Apache-2.0
// The text after --job. An accepted job passes the check of a job, and so does each of its
// channels.
#include "server/job_keys.h"

#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const auto row = server::job_keys().parse(text_of_input(input));
  if (!row) {
    EXPECT_LE(row.error().text.size(), error_bytes_max(input.size()));
    return;
  }
  const auto job = server::to_job(*row);
  if (!job) return;
  ASSERT_TRUE(trio_ml::check(*job).has_value());
  EXPECT_GT(trio_ml::memory_bytes(*job, 1), 0U);
  for (uint32_t channel = 0; channel < job->channels; channel++) {
    EXPECT_TRUE(trio_ml::check(channel_of(*job, channel)).has_value());
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all{
      input_of_text("id=1,sources=4"),
      input_of_text("id=255,sources=256,window=64,block_grad_max=4095,history=2"),
      input_of_text("id=1,sources=2,channels=4,group=239.1.1.1:12000,pin=on"),
      input_of_text("id=1,sources=2,upstream=10.0.0.1:12000,world=8,rank_base=2")};
  for (const KeySpec& key : server::job_keys().keys()) {
    all.push_back(input_of_text(std::string("id=1,sources=2,") + std::string(key.name) + "=" +
                                std::string(key.default_text)));
  }
  return all;
}

TRIB_FUZZ_TARGET(job_keys);

}  // namespace
}  // namespace tributary::fuzz
