// SPDX-License-Identifier: Apache-2.0
/// @file
/// IPFIX messages with flow records (RFC 7011), as a router's inline flow monitoring exports them.
///
/// Shapes:  A message is a header of 16 bytes, one set with both templates (256: IPv4, 257: IPv6),
///          then sets of records. Every message carries the templates, so a collector that starts
///          late understands the next one. docs/wire-format.md lists the fields.
/// Units:   Times are nanoseconds since 1970, 0 to kIpfixTimeMaxNs.
/// Threads: Pure functions; a writer belongs to one thread.
/// Errors:  decode_ipfix() accepts any bytes and returns an Error for a malformed message.
/// Memory:  The writer never allocates. The decoder's flows take at most 96 bytes for each byte.
/// Tests:   tests/wire/ipfix_test.cc, tests/fuzz/ipfix.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace tributary::wire {

inline constexpr uint16_t kIpfixVersion = 10;
/// UDP port of collectors. Source: RFC 7011 §10.3.4.
inline constexpr uint16_t kIpfixPort = 4739;
inline constexpr uint32_t kIpfixHeaderBytes = 16;
/// Template identifiers of this project's messages. Data sets carry the same number.
inline constexpr uint16_t kIpfixTemplateIpv4 = 256;
inline constexpr uint16_t kIpfixTemplateIpv6 = 257;

/// The information elements in use. Source: IANA, "IP Flow Information Export (IPFIX) Entities".
enum class IpfixElement : uint16_t {
  kOctetDeltaCount = 1,  ///< Bytes of IP packets: headers and payloads.
  kPacketDeltaCount = 2,
  kProtocolIdentifier = 4,
  kTcpControlBits = 6,
  kSourceTransportPort = 7,
  kSourceIpv4Address = 8,
  kDestinationTransportPort = 11,
  kDestinationIpv4Address = 12,
  kSourceIpv6Address = 27,
  kDestinationIpv6Address = 28,
  kVlanId = 58,
  kFlowEndReason = 136,
  kFlowStartMilliseconds = 152,
  kFlowEndMilliseconds = 153,
  kFlowStartNanoseconds = 156,  ///< In NTP format (RFC 7011 §6.1.10).
  kFlowEndNanoseconds = 157,
  kDot1qCustomerVlanId = 245,
};

/// flowEndReason. Source: RFC 5102 §5.11.3.
enum class FlowEndReason : uint8_t {
  kNone = 0,
  kIdle = 1,
  kActive = 2,
  kEndOfFlow = 3,  ///< FIN or RST.
  kForcedEnd = 4,
};
inline constexpr uint32_t kFlowEndReasonCount = 5;

/// Returns "idle", "active", "end_of_flow", "forced_end", or "none" for any other value.
[[nodiscard]] const char* to_string(FlowEndReason reason);

/// The last time that the seconds of an NTP timestamp, taken as 1970 to 2106, can express.
inline constexpr int64_t kIpfixTimeMaxNs = (int64_t{1} << 32) * 1'000'000'000 - 1;

/// One exported record.
struct IpfixFlow {
  std::array<uint8_t, 16> source{};  ///< Network order; IPv4 mapped (::ffff:a.b.c.d).
  std::array<uint8_t, 16> destination{};
  bool is_ipv6 = false;
  uint8_t protocol = 0;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t vlan = 0;           ///< 0: no tag.
  uint16_t customer_vlan = 0;  ///< Inner tag; 0: none.
  uint16_t tcp_flags = 0;
  FlowEndReason end_reason = FlowEndReason::kNone;
  uint64_t packets = 0;
  uint64_t octets = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;

  friend bool operator==(const IpfixFlow&, const IpfixFlow&) = default;
};
static_assert(sizeof(IpfixFlow) <= 96);

/// Converts a time to an NTP timestamp and back: seconds since 1900 modulo 2^32 in the upper half,
/// a fraction in units of 2^-32 s in the lower. Whole nanoseconds survive both ways.
/// @pre 0 <= time_ns <= kIpfixTimeMaxNs.
[[nodiscard]] uint64_t ntp_timestamp(int64_t time_ns);
[[nodiscard]] int64_t ntp_time_ns(uint64_t timestamp);

/// Returns the bytes of a data record.
[[nodiscard]] uint32_t ipfix_record_bytes(bool is_ipv6);
/// The header and both templates, and the smallest room in which any record fits.
inline constexpr uint32_t kIpfixPrefixBytes = 148;
inline constexpr uint32_t kIpfixMessageBytesMin = 256;

/// Writes one message into a caller's room: begin(), append() while fits(), finish().
class IpfixWriter {
 public:
  IpfixWriter() = default;
  /// @pre room has kIpfixMessageBytesMin to 65,535 bytes and outlives the writer.
  explicit IpfixWriter(std::span<std::byte> room);

  /// Writes the templates and forgets the records of an earlier message.
  void begin();
  [[nodiscard]] bool fits(bool is_ipv6) const { return bytes_ + cost(is_ipv6) <= room_.size(); }
  /// @pre fits(flow.is_ipv6), and both times are in [0, kIpfixTimeMaxNs].
  void append(const IpfixFlow& flow);
  /// Writes the header. The message is then complete.
  /// @param sequence Records that the domain has sent before this message, modulo 2^32.
  void finish(uint32_t export_time_s, uint32_t sequence, uint32_t domain);

  [[nodiscard]] uint32_t record_count() const { return records_; }
  /// Returns where the next record, or its set header, begins.
  [[nodiscard]] const std::byte* end() const { return room_.data() + bytes_; }
  [[nodiscard]] std::span<const std::byte> message() const { return room_.first(bytes_); }

 private:
  /// Returns the bytes that a record takes, with a set header if it needs a new set.
  [[nodiscard]] uint32_t cost(bool is_ipv6) const;

  std::span<std::byte> room_;
  uint32_t bytes_ = 0;
  uint32_t set_begin_ = 0;  ///< Offset of the open set; 0: none.
  uint16_t set_id_ = 0;
  uint16_t records_ = 0;
};

/// A decoded message.
struct IpfixMessage {
  uint32_t export_time_s = 0;
  uint32_t sequence = 0;
  uint32_t domain = 0;
  uint32_t templates = 0;              ///< Template records in the message.
  uint32_t sets_without_template = 0;  ///< Data sets whose template is not in the message.
  std::vector<IpfixFlow> flows;

  friend bool operator==(const IpfixMessage&, const IpfixMessage&) = default;
};

/// Decodes a message of any exporter whose templates are in the same message. Elements that
/// IpfixFlow lacks are skipped, as are option templates. A nanosecond time has priority over one in
/// milliseconds; times outside the range are clamped.
/// @return an Error for a wrong version, a length that contradicts the bytes, a template with
///         fields of no length, more than 64 templates, or a record that its set cuts off.
[[nodiscard]] Result<IpfixMessage> decode_ipfix(std::span<const std::byte> message);

}  // namespace tributary::wire
