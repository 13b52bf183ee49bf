// SPDX-License-Identifier: Apache-2.0
/// @file
/// Limits the traffic of each IPv4 source to a rate: forwards packets within it, drops the others.
/// A timer thread closes each period and counts the sources that exceeded their rate in it.
///
/// Tests: examples/programs/limiter_test.cc
#pragma once

#include <fmt/format.h>

#include <bit>

#include "cli/program_main.h"
#include "memory/policer.h"
#include "memory/record_store.h"
#include "memory/xtxn.h"
#include "timers/periodic_timers.h"
#include "wire/headers.h"

namespace limiter {

using namespace tributary;
using microcode::Xtxn, microcode::XtxnKind;
using wire::EthernetHeader, wire::Ipv4Header;

constexpr microcode::Instruction kReadSource{"read_source",
                                             {.lmem_reads = 2, .register_writes = 1}};
constexpr microcode::Instruction kJudge{"judge", {.register_reads = 1}};
constexpr microcode::Instruction kVisit{"visit_sources", {.register_reads = 2}};

// Bits of a source's marks. A masked write sets them; only the timer reads them.
constexpr uint32_t kSeen = 1;      ///< A packet came in this period.
constexpr uint32_t kExceeded = 2;  ///< One of them was dropped.
constexpr uint32_t kEver = 4;      ///< The same in any period. The timer keeps this bit.

/// The record of a source.
struct Source {
  memory::Policer policer;
  uint32_t marks = 0;
  int32_t dropped = 0;  ///< Packets.
  int32_t periods = 0;  ///< In which the source exceeded its rate.
};

struct Limiter {
  static constexpr std::string_view kName = "limiter";
  static constexpr std::string_view kSummary = "Limits the traffic of each IPv4 source to a rate";
  /// With several cores, the flows of a source would spread over them, and each core would grant
  /// the source its full rate.
  static constexpr uint32_t kCoresMax = 1;
  static constexpr std::array kKeys{
      KeySpec{"rate-kbps", KeyType::kUint, "Rate of a source, 1,000 bit/s",
              /*default_text=*/"1000", 1, 100'000'000},
      KeySpec{"burst-bytes", KeyType::kUint, "Bytes that a source may send at once",
              /*default_text=*/"15000", 64, 1 << 30},
      KeySpec{"sources-max", KeyType::kUint, "Sources to limit; packets of others pass",
              /*default_text=*/"65536", 1, 1 << 22},
      KeySpec{.name = "period-ms",
              .type = KeyType::kDurationMs,
              .help = "Period after which sources are reported",
              .default_text = "1000",
              .min = 10,
              .max = 3'600'000}};
  using Store = memory::RecordStore<uint32_t, Source>;
  /// Timer threads share the visits of a period; each visits its part of the store.
  static constexpr uint32_t kTimerThreads = 10;

  static Result<std::unique_ptr<Limiter>> create(memory::SharedMemory& memory,
                                                 const KeyValues& settings, Instant start) {
    const auto sources_max = static_cast<uint32_t>(settings.uint("sources-max"));
    const auto rate = memory::BitRate::bits_per_second(settings.uint("rate-kbps") * 1'000);
    const auto burst_bytes = static_cast<uint32_t>(settings.uint("burst-bytes"));
    const auto policer = memory::Policer::create({.committed_rate = rate,
                                                  .committed_burst_bytes = burst_bytes,
                                                  .peak_rate = rate,
                                                  .peak_burst_bytes = burst_bytes});
    if (!policer) return tl::unexpected(policer.error());
    const auto place = Store::place_in(memory, sources_max);
    if (!place) return tl::unexpected(place.error());
    // A timer's record is a word of 64 sources.
    constexpr uint32_t kPerWord = memory::kRecordsPerScan;
    const auto timers =
        timers::PeriodicTimers::create({.thread_count = kTimerThreads,
                                        .period = settings.duration("period-ms"),
                                        .record_count = (sources_max + kPerWord - 1) / kPerWord},
                                       start);
    if (!timers) return tl::unexpected(timers.error());
    return std::make_unique<Limiter>(Store::Config{.capacity = sources_max, .place = *place},
                                     *policer, *timers);
  }
  Limiter(const Store::Config& config, const memory::Policer& full,
          const timers::PeriodicTimers& of_periods)
      : store(config), full_policer(full), timers(of_periods) {}

  /// Runs the thread of one packet. Packets without an IPv4 header pass.
  template <microcode::Machine M>
  static microcode::Thread process(M& m, Limiter& state) {
    m.instruction(kReadSource);
    const auto ether = m.head().template view<EthernetHeader>(0);
    const auto ip = m.head().template view<Ipv4Header>(EthernetHeader::kBytes);
    const bool is_ip = ip && ether->template get<EthernetHeader::EtherType>() == 0x0800;
    if (!is_ip) {
      m.forward();
      co_return;
    }
    const uint32_t address = ip->template get<Ipv4Header::SourceAddress>();
    // Finds the record, or makes it with a full policer.
    Source* const source =
        co_await m.issue(memory::hash_request(XtxnKind::kHashInsert, state.store, address), [&] {
          const auto made = state.store.create(address);
          if (made.status == memory::CreateStatus::kCreated) {
            made.record->policer = state.full_policer;
          }
          return made.record;
        });
    if (source == nullptr) {  // Every record is taken: counted by the store.
      m.forward();
      co_return;
    }
    const memory::Colour colour =
        co_await memory::xtxn_police(m, source->policer, m.arrived_at(), m.packet_size());
    m.instruction(kJudge);
    const bool exceeds = colour == memory::Colour::kRed;
    const uint32_t marks = exceeds ? kSeen | kExceeded | kEver : kSeen;
    co_await memory::xtxn_masked_write(m, source->marks, marks, marks);
    if (exceeds) {
      memory::post_add32(m, source->dropped, 1);
      m.drop(0);
    } else {
      m.forward();
    }
  }

  /// Runs a timer thread over its words of 64 sources. One transaction returns a source's marks and
  /// clears them, so no mark of a packet in between is lost.
  template <microcode::Machine M>
  static microcode::Thread visit(M& m, Limiter& state, timers::TimerSlice slice) {
    for (uint32_t word = slice.begin; word < slice.end; word++) {
      m.instruction(kVisit);
      const uint32_t first = word * memory::kRecordsPerScan;
      uint64_t live = co_await m.issue(
          Xtxn{XtxnKind::kRead, state.store.ref_flag_of(first), memory::kRefFlagBytes},
          [&state, first] { return state.store.live_mask(first); });
      for (; live != 0; live &= live - 1) {
        Source& source = state.store.at(first + static_cast<uint32_t>(std::countr_zero(live)));
        const uint32_t marks = co_await memory::xtxn_fetch_and_and(m, source.marks, kEver);
        if ((marks & kExceeded) != 0) memory::post_add32(m, source.periods, 1);
      }
    }
  }

  /// Returns this program's part of the report: the sources that ever exceeded their rate.
  nlohmann::ordered_json details() const {
    const auto& counts = store.counters();
    nlohmann::ordered_json json{
        {"sources", store.size()},
        {"unlimited", counts.refused_store_full + counts.refused_index_full},
        {"limited", nlohmann::ordered_json::object()}};
    for (uint32_t slot = 0; slot < store.size(); slot++) {
      const Source& source = store.at(slot);
      if ((source.marks & kEver) == 0) continue;
      const uint32_t ip = store.key_at(slot);
      const auto text =
          fmt::format("{}.{}.{}.{}", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
      json["limited"][text] = {{"dropped", source.dropped}, {"periods", source.periods}};
    }
    return json;
  }

  Store store;
  const memory::Policer full_policer;
  timers::PeriodicTimers timers;  ///< visit() runs when one is due.
};

}  // namespace limiter
