// SPDX-License-Identifier: Apache-2.0
#include "bench/auth_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <span>

#include "auth/session_seal.h"
#include "base/assert.h"
#include "base/prng.h"
#include "bench/library_gmac.h"
#include "bench/measure.h"
#include "bench/member_traffic.h"
#include "memory/lanes.h"
#include "wire/trio_ml.h"

namespace tributary::bench {
namespace {

/// Packets of one pass: they stay in a cache of 256 KiB.
constexpr uint32_t kCacheBytes = 192U << 10;
constexpr uint32_t kPacketsMax = 1024;
/// A core's cost per packet is larger than a MAC's, so fewer packets are enough.
constexpr uint64_t kTrafficPart = 4;
/// Windows that fit into a cache, or nearly.
constexpr uint32_t kTrafficBytes = 2U << 20;
constexpr uint32_t kWindowMin = 16;
constexpr uint32_t kWindowMax = 512;
constexpr uint8_t kJob = 1;
constexpr uint8_t kSource = 0;
constexpr auth::Salt kSalt{1, 2};

/// Sealed packets of one source, and all the work on them that is measured.
class SealedPackets {
 public:
  SealedPackets(auth::Mode mode, uint32_t packet_bytes)
      : auth_{mode, auth::key_of_seed(1)},
        head_bytes_(wire::TrioMlHeader::kBytes + wire::kExtensionBytes + auth::seal_bytes(mode)),
        tagged_bytes_(head_bytes_ - auth::seal_bytes(mode) + auth::kSequenceBytes),
        stride_((packet_bytes + 63) / 64 * 64),
        count_(std::clamp(kCacheBytes / packet_bytes, 1U, kPacketsMax)),
        bytes_(size_t{count_} * stride_),
        sum_((packet_bytes - head_bytes_) / wire::kGradientBytes),
        member_(auth_, kJob, /*lane=*/0),
        aggregator_(auth_, kJob, /*lane=*/0, /*sources=*/1, /*source_lanes=*/1),
        sip_key_(auth::first_half(auth_.key)) {
    Prng prng(packet_bytes);
    std::generate(bytes_.begin(), bytes_.end(),
                  [&prng] { return static_cast<std::byte>(prng.any_u32()); });
    member_.start(kSalt);
    aggregator_.start(kSalt);
    if (mode == auth::Mode::kFull) gmac_.emplace(sip_key_);
  }

  [[nodiscard]] uint32_t count() const { return count_; }
  /// Gives each packet the next sequence number, so that it can be opened once more.
  void seal() {
    for (uint32_t i = 0; i < count_; i++) member_.seal(kSource, head(i), payload(i));
  }
  void open() {
    for (uint32_t i = 0; i < count_; i++) {
      const auto status = aggregator_.open(kSource, head(i), payload(i));
      TRIB_ASSERT(status == auth::OpenStatus::kOpened);
    }
  }
  /// Computes the library's MACs of as many bytes as open() covers.
  void run_library() {
    std::array<std::byte, auth::kGmacTagBytes> tag{};
    for (uint32_t i = 0; i < count_; i++) {
      const std::byte* const packet = &bytes_[size_t{i} * stride_];
      if (gmac_) {
        gmac_->tag({packet, tagged_bytes_ + payload(i).size()}, tag.data());
      } else {
        checksum_ += auth::siphash(sip_key_, {packet, tagged_bytes_});
      }
      checksum_ += std::to_integer<uint64_t>(tag[0]);
    }
  }
  void add() {
    for (uint32_t i = 0; i < count_; i++) {
      memory::add_be32(sum_.data(), payload(i).data(), static_cast<uint32_t>(sum_.size()));
    }
  }
  /// Keeps the compiler from leaving out the work.
  [[nodiscard]] uint64_t checksum() const { return checksum_; }

 private:
  [[nodiscard]] std::span<std::byte> head(uint32_t i) {
    return {&bytes_[size_t{i} * stride_], head_bytes_};
  }
  [[nodiscard]] std::span<const std::byte> payload(uint32_t i) const {
    return {&bytes_[size_t{i} * stride_ + head_bytes_], sum_.size() * wire::kGradientBytes};
  }

  const auth::JobAuth auth_;
  const uint32_t head_bytes_;
  const uint32_t tagged_bytes_;  ///< Bytes of the head that the tag covers.
  const size_t stride_;
  const uint32_t count_;
  std::vector<std::byte> bytes_;
  std::vector<int32_t> sum_;
  auth::MemberEnd member_;
  auth::AggregatorEnd aggregator_;
  const auth::Key128 sip_key_;
  std::optional<LibraryGmac> gmac_;
  uint64_t checksum_ = 0;
};

/// Returns the least time of `work`, a pass over `packets`, in nanoseconds for each packet.
/// @param prepare Called before each pass; its time does not count.
template <class Prepare, class Work>
double time_of(const AuthBenchConfig& config, const SealedPackets& packets, uint64_t packet_bytes,
               Prepare prepare, Work work) {
  const uint64_t passes =
      std::max<uint64_t>(1, config.bytes_each / (packet_bytes * packets.count()));
  double least_ns = std::numeric_limits<double>::max();
  for (uint64_t i = 0; i < std::max<uint64_t>(passes, config.repetitions); i++) {
    prepare();
    // A pass takes microseconds: reading the thread's CPU time would cost more than some packets.
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    least_ns = std::min(least_ns, taken.count());
  }
  return least_ns / packets.count();
}

/// Measures the MAC, the library and the sum.
void measure_opening(const AuthBenchConfig& config, AuthBenchRow& row) {
  SealedPackets packets(row.mode, row.packet_bytes);
  const auto nothing = [] {};
  row.ns_per_packet = time_of(
      config, packets, row.packet_bytes, [&] { packets.seal(); }, [&] { packets.open(); });
  row.library_ns =
      time_of(config, packets, row.packet_bytes, nothing, [&] { packets.run_library(); });
  const double sum_ns = time_of(config, packets, row.packet_bytes, nothing, [&] { packets.add(); });
  row.ratio_to_sum = row.ns_per_packet / sum_ns;
}

/// Measures the goodput of a core with and without forged packets, in turn.
void measure_goodput(const AuthBenchConfig& config, AuthBenchRow& row) {
  uint32_t window = kWindowMax;
  while (window > kWindowMin &&
         window * MemberTraffic::kSources * 2 * row.packet_bytes > kTrafficBytes) {
    window /= 2;
  }
  MemberTraffic traffic({.mode = row.mode, .packet_bytes = row.packet_bytes, .window = window});
  uint64_t windows = 0;
  const auto run = [&](bool with_forged, uint64_t passes) {
    double seconds = 0;
    for (uint64_t i = 0; i < passes; i++, windows++) seconds += traffic.run(with_forged);
    return seconds;
  };
  run(false, 2);
  run(true, 2);
  const uint64_t passes = std::max<uint64_t>(
      1, config.bytes_each / kTrafficPart / (uint64_t{row.packet_bytes} * traffic.packets()));
  std::vector<double> ratios;
  double least_s = std::numeric_limits<double>::max();
  uint64_t forged_windows = 2;
  for (uint32_t i = 0; i < config.repetitions; i++) {
    const double alone_s = run(false, passes);
    const double flooded_s = run(true, passes);
    forged_windows += passes;
    ratios.push_back(alone_s / flooded_s);
    least_s = std::min(least_s, alone_s);
  }
  row.goodput_ratio = median(ratios);
  row.members_mpps = static_cast<double>(passes * traffic.packets()) / least_s * 1e-6;
  row.all_in_place = traffic.added() == windows * traffic.packets() &&
                     traffic.wrong_keys() == forged_windows * traffic.packets();
}

}  // namespace

std::vector<AuthBenchRow> run_auth_bench(const AuthBenchConfig& config,
                                         void (*progress)(const std::string&)) {
  std::vector<AuthBenchRow> rows;
  for (uint32_t i = 0; i < auth::kModeCount; i++) {
    const auto mode = static_cast<auth::Mode>(i);
    if (mode == auth::Mode::kFull && !auth::Gmac::is_available()) continue;
    for (const uint32_t packet_bytes : config.packet_bytes) {
      progress(fmt::format("{}, {} bytes", auth::to_string(mode), packet_bytes));
      AuthBenchRow row{.mode = mode, .packet_bytes = packet_bytes};
      if (mode != auth::Mode::kNone) measure_opening(config, row);
      measure_goodput(config, row);
      rows.push_back(row);
    }
  }
  return rows;
}

std::string as_table(const std::vector<AuthBenchRow>& rows) {
  std::string table = fmt::format(
      "Authentication of packets in memory ({}): opening, the library's MAC, the sum; goodput with "
      "an equal flood of forged packets\n"
      "{:<7} {:>6} {:>10} {:>11} {:>8} {:>8} {:>8} {:>13}\n",
      memory::lanes_isa(), "mode", "bytes", "open ns", "library ns", "of sum", "goodput", "Mpps",
      "sums");
  for (const AuthBenchRow& row : rows) {
    table += fmt::format("{:<7} {:>6} {:>10.1f} {:>11.1f} {:>8.2f} {:>8.2f} {:>8.2f} {:>13}\n",
                         auth::to_string(row.mode), row.packet_bytes, row.ns_per_packet,
                         row.library_ns, row.ratio_to_sum, row.goodput_ratio, row.members_mpps,
                         row.all_in_place ? "complete" : "INCOMPLETE");
  }
  return table;
}

nlohmann::json as_json(const std::vector<AuthBenchRow>& rows) {
  nlohmann::json json{
      {"bench", "auth"}, {"lanes_isa", memory::lanes_isa()}, {"rows", nlohmann::json::array()}};
  for (const AuthBenchRow& row : rows) {
    json["rows"].push_back({{"mode", auth::to_string(row.mode)},
                            {"packet_bytes", row.packet_bytes},
                            {"ns_per_packet", row.ns_per_packet},
                            {"library_ns", row.library_ns},
                            {"ratio_to_sum", row.ratio_to_sum},
                            {"goodput_ratio", row.goodput_ratio},
                            {"members_mpps", row.members_mpps},
                            {"all_in_place", row.all_in_place}});
  }
  return json;
}

}  // namespace tributary::bench
