// SPDX-License-Identifier: Apache-2.0
/// @file
/// A packet program as a run over a capture sees it: its name, its settings, and the function that
/// runs it.
///
/// Threads: A run belongs to one thread.
/// Errors:  A refused setting or file is one line. A run that ends early (damaged input, failed
///          write) returns its report so far together with the problem.
/// Tests:   tests/programs/program_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/key_table.h"
#include "base/result.h"
#include "engine/model/parameters.h"
#include "programs/run_report.h"

namespace tributary::programs {

/// Largest packet of a run: Ethernet, two VLAN tags, and the largest packet of IPv6, such as a
/// train of packets that a card has joined (GRO). Source: RFC 8200 §3 (16-bit length behind 40
/// bytes of header).
inline constexpr uint32_t kPacketBytesLimit = 14 + 2 * 4 + 40 + 65'535;

/// The files and the machine of a run. The program's settings are separate.
struct RunRequest {
  std::string in = {};       ///< Capture file to read.
  std::string out = {};      ///< Capture file of forwarded packets; empty for none.
  std::string records = {};  ///< File of flow records, JSON lines; empty for none.
  std::string ipfix = {};    ///< File of flow records, IPFIX; empty for none.
  /// The modelled machine; none: the live one.
  std::optional<engine::Parameters> model = {};
  uint32_t packet_bytes_max =
      kPacketBytesLimit;  ///< Longer input packets are counted and left out.
  /// When it becomes true, the run ends as at the end of the input; null: never.
  const std::atomic<bool>* stop = nullptr;
};

struct RunEnd {
  RunReport report;
  std::optional<Error> problem;  ///< Reason why the run ended early; not set: it did not.
};

struct CaptureProgram {
  std::string_view name;
  std::string_view summary;
  bool has_flow_records = false;  ///< Whether RunRequest's records and ipfix apply.
  /// Returns its settings. A key's name is its flag without dashes.
  const KeyTable& (*settings)() = nullptr;
  Result<RunEnd> (*run)(const KeyValues& settings, const RunRequest& request) = nullptr;
};

}  // namespace tributary::programs
