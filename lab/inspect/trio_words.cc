// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/trio_words.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <optional>

namespace tributary::lab {
namespace {

using trio_ml::BlockPhase;
using trio_ml::BlockRecord;
using trio_ml::Job;
using wire::MessageType;

const char* name_of(MessageType type) {
  static constexpr std::array<const char*, wire::kMessageTypeLast + 1> kNames{
      "contribution", "result", "probe",      "have",   "join",  "welcome", "pending", "refusal",
      "notice",       "leave",  "keep-alive", "cookie", "reset", "report",  "receipt"};
  static_assert(kNames.back() != nullptr, "every type has a name");
  return kNames[static_cast<uint32_t>(type)];
}

/// Other messages carry block number 0, which says nothing.
bool is_about_block(MessageType type) {
  return type <= MessageType::kHave || type == MessageType::kReceipt;
}

/// Returns whether `at` lies in the `count` objects from `first` on. std::less orders any two
/// pointers.
bool lies_in(const void* at, const void* first, size_t size_bytes) {
  const std::less<const std::byte*> before;
  const auto* byte = static_cast<const std::byte*>(at);
  const auto* begin = static_cast<const std::byte*>(first);
  return !before(byte, begin) && before(byte, begin + size_bytes);
}

engine::TraceWord word_of(const Job& job, const BlockRecord& block) {
  engine::TraceWord word{.name = "a free block record"};
  if (block.phase == BlockPhase::kFree) return word;
  word.name = fmt::format("record of job {} block {}", job.config.id, block.block_id);
  word.fields = {{"state", to_string(block.phase)},
                 {"admitted", block.admitted},
                 {"added", block.rcvd_cnt},
                 {"of", trio_ml::count(block.expected)},
                 {"sources", TraceHex{block.rcvd_mask[0]}}};
  if (block.degraded) word.fields.emplace_back("degraded", true);
  return word;
}

/// Returns the number of the bucket that `target` is, if it lies in the table.
std::optional<uint64_t> bucket_of(const memory::HashBuckets& buckets, const void* target) {
  if (!lies_in(target, buckets.first(), buckets.size_bytes())) return std::nullopt;
  const auto offset = static_cast<const std::byte*>(target) - buckets.first();
  return static_cast<uint64_t>(offset) / memory::kHashBucketBytes;
}

/// Describes a target in the job's block table; no name if it lies elsewhere.
engine::TraceWord find_in_table(const Job& job, const void* target) {
  const std::string name = fmt::format("block table of job {}", job.config.id);
  const TraceField blocks{"blocks_in_progress", job.record.block_curr_cnt};
  if (target == &job.record) return {.name = name, .fields = {blocks}};
  if (job.table == nullptr) return {};
  if (const auto bucket = bucket_of(job.table->buckets(), target)) {
    return {.name = name, .fields = {{"bucket", *bucket}, blocks}};
  }
  if (!job.table->has_ref_flag(target)) return {};
  return {.name = fmt::format("REF flags of job {}", job.config.id), .fields = {blocks}};
}

/// Returns the word of this job at an address; without a name if there is none.
engine::TraceWord find_in(Job& job, const void* target) {
  if (engine::TraceWord word = find_in_table(job, target); !word.name.empty()) return word;
  const uint32_t places = job.window.place_count();
  BlockRecord* const first = &job.window.at_place(0);
  if (lies_in(target, first, places * sizeof(BlockRecord))) {
    const auto offset = static_cast<const std::byte*>(target) - reinterpret_cast<std::byte*>(first);
    return word_of(job, first[static_cast<size_t>(offset) / sizeof(BlockRecord)]);
  }
  for (uint32_t place = 0; place < places; place++) {
    const BlockRecord& block = job.window.at_place(place);
    if (block.phase == BlockPhase::kFree) continue;
    // A loop that is done stands just behind its last lane.
    const size_t size_bytes = block.grad_cnt * sizeof(int32_t) + 1;
    if (!lies_in(target, job.window.lanes(block.aggr_buffer), size_bytes)) continue;
    return {.name = fmt::format("buffer of job {} block {}", job.config.id, block.block_id)};
  }
  return {};
}

}  // namespace

const char* to_string(BlockPhase phase) {
  static constexpr std::array<const char*, 6> kNames{
      "free", "aggregating", "sent up", "publishing", "publishing a receipt", "discarded"};
  return kNames[static_cast<uint32_t>(phase)];
}

engine::TraceWord trio_message(std::span<const std::byte> stored, uint32_t size_bytes) {
  wire::Message message;
  const auto status = wire::decode_message(stored, size_bytes, message);
  if (status != wire::DecodeStatus::kOk) return {.name = "malformed"};
  const wire::TrioMlFields& header = message.header;
  engine::TraceWord word{.name = name_of(message.extension.type),
                         .fields = {{"job", header.job_id}, {"source", header.src_id}}};
  if (!is_about_block(message.extension.type)) return word;
  word.fields.emplace_back("block", header.block_id);
  word.fields.emplace_back("gradients", header.grad_cnt);
  const bool is_result = message.extension.type == MessageType::kResult;
  if (is_result) word.fields.emplace_back("sources_added", header.src_cnt);
  if (header.degraded) word.fields.emplace_back("degraded", true);
  if (header.final) word.fields.emplace_back("final", true);
  if ((message.extension.flags & wire::kFlagRetransmission) != 0) {
    word.fields.emplace_back("repeated", true);
  }
  if (!header.extended) word.fields.emplace_back("generation", header.gen_id);
  return word;
}

engine::TraceWord TrioWords::message(std::span<const std::byte> stored, uint32_t size_bytes) const {
  engine::TraceWord word = trio_message(stored, size_bytes);
  const auto number = [&](const char* name) -> std::optional<uint64_t> {
    for (const TraceField& field : word.fields) {
      if (field.name == name) return std::get<uint64_t>(field.value);
    }
    return std::nullopt;
  };
  const auto job_id = number("job");
  const auto block = number("block");
  if (!job_id || !block) return word;
  const Job* const job = shard_.job(static_cast<uint8_t>(*job_id));
  // With one shard a block's place is its number modulo the window (a power of two).
  if (job != nullptr && shard_.shard_count() == 1) {
    word.fields.emplace_back("slot", *block & (job->window.place_count() - 1));
  }
  return word;
}

engine::TraceWord TrioWords::target(const void* target) const {
  if (target == &shard_) return {.name = "job table"};
  if (const trio_ml::JobTable* const jobs = shard_.job_table()) {
    if (const auto bucket = bucket_of(jobs->buckets(), target)) {
      return {.name = "job table", .fields = {{"bucket", *bucket}}};
    }
  }
  const trio_ml::Counters& counters = shard_.counters();
  if (lies_in(target, counters.data(), sizeof(counters))) {
    const auto offset =
        static_cast<const std::byte*>(target) - reinterpret_cast<const std::byte*>(counters.data());
    const auto index = static_cast<size_t>(offset) / sizeof(counters[0]);
    return {.name = fmt::format("counter {}", drop_reason(static_cast<uint32_t>(index)))};
  }
  for (Job* const job : shard_.jobs()) {
    engine::TraceWord word = find_in(*job, target);
    if (!word.name.empty()) return word;
  }
  return {};
}

std::string TrioWords::drop_reason(uint32_t reason) const {
  if (reason >= trio_ml::kOutcomeCount) return "unknown reason";
  return trio_ml::to_string(static_cast<trio_ml::Outcome>(reason));
}

}  // namespace tributary::lab
