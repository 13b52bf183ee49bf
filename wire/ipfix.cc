// SPDX-License-Identifier: Apache-2.0
#include "wire/ipfix.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/endpoint.h"
#include "base/time.h"

namespace tributary::wire {
namespace {

constexpr uint32_t kSetHeaderBytes = 4;
constexpr uint32_t kFieldBytes = 4;  ///< A field specifier without an enterprise number.
constexpr uint16_t kTemplateSetId = 2;
constexpr uint16_t kOptionsTemplateSetId = 3;
constexpr uint16_t kDataSetIdMin = 256;
constexpr uint16_t kEnterpriseBit = 0x8000;
constexpr uint16_t kVariableLength = 0xffff;
constexpr uint32_t kTemplatesMax = 64;

/// Seconds from 1900, where NTP begins, to 1970. Source: RFC 5905, Figure 4.
constexpr uint64_t kNtpTo1970 = 2'208'988'800;
constexpr int64_t kNanosecondsPerMillisecond = 1'000'000;

struct Field {
  IpfixElement element;
  uint16_t bytes;
};
using enum IpfixElement;
/// The fields after the two addresses, in order.
constexpr std::array kCommonFields{
    Field{kSourceTransportPort, 2},
    Field{kDestinationTransportPort, 2},
    Field{kProtocolIdentifier, 1},
    Field{kTcpControlBits, 2},
    Field{kVlanId, 2},
    Field{kDot1qCustomerVlanId, 2},
    Field{kPacketDeltaCount, 8},
    Field{kOctetDeltaCount, 8},
    Field{kFlowStartMilliseconds, 8},
    Field{kFlowEndMilliseconds, 8},
    Field{kFlowStartNanoseconds, 8},
    Field{kFlowEndNanoseconds, 8},
    Field{kFlowEndReason, 1},
};
constexpr std::array kAddressesIpv4{Field{kSourceIpv4Address, 4},
                                    Field{kDestinationIpv4Address, 4}};
constexpr std::array kAddressesIpv6{Field{kSourceIpv6Address, 16},
                                    Field{kDestinationIpv6Address, 16}};

constexpr uint32_t sum_of(std::span<const Field> fields) {
  uint32_t sum = 0;
  for (const Field& field : fields) sum += field.bytes;
  return sum;
}
constexpr uint32_t kRecordBytesIpv4 = sum_of(kAddressesIpv4) + sum_of(kCommonFields);
constexpr uint32_t kRecordBytesIpv6 = sum_of(kAddressesIpv6) + sum_of(kCommonFields);
static_assert(kRecordBytesIpv4 == 68 && kRecordBytesIpv6 == 92);
constexpr uint32_t kTemplateBytes = 4 + (2 + kCommonFields.size()) * kFieldBytes;
static_assert(kIpfixPrefixBytes == kIpfixHeaderBytes + kSetHeaderBytes + 2 * kTemplateBytes);
static_assert(kIpfixMessageBytesMin >= kIpfixPrefixBytes + kSetHeaderBytes + kRecordBytesIpv6);

/// Writes numbers one after the other.
class Cursor {
 public:
  explicit Cursor(std::byte* to) : to_(to) {}
  template <std::unsigned_integral T>
  Cursor& put(T value) {
    store_be<T>(to_, value);
    to_ += sizeof(T);
    return *this;
  }
  Cursor& put_bytes(std::span<const uint8_t> bytes) {
    std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
    return *this;
  }
  [[nodiscard]] std::byte* at() const { return to_; }

 private:
  std::byte* to_;
};

void put_template(Cursor& to, uint16_t id, std::span<const Field> addresses) {
  to.put(id).put(static_cast<uint16_t>(addresses.size() + kCommonFields.size()));
  const auto put_field = [&](const Field& field) {
    to.put(static_cast<uint16_t>(field.element)).put(field.bytes);
  };
  std::ranges::for_each(addresses, put_field);
  std::ranges::for_each(kCommonFields, put_field);
}

uint16_t template_of(bool is_ipv6) { return is_ipv6 ? kIpfixTemplateIpv6 : kIpfixTemplateIpv4; }

}  // namespace

const char* to_string(FlowEndReason reason) {
  switch (reason) {
    case FlowEndReason::kIdle:
      return "idle";
    case FlowEndReason::kActive:
      return "active";
    case FlowEndReason::kEndOfFlow:
      return "end_of_flow";
    case FlowEndReason::kForcedEnd:
      return "forced_end";
    case FlowEndReason::kNone:
      break;
  }
  return "none";
}

uint64_t ntp_timestamp(int64_t time_ns) {
  const auto ns = static_cast<uint64_t>(time_ns);
  const uint64_t seconds = ns / kNanosecondsPerSecond + kNtpTo1970;
  const uint64_t part = ns % kNanosecondsPerSecond;
  // Rounded up, so that collectors that round down find the same nanosecond.
  const uint64_t fraction = ((part << 32) + kNanosecondsPerSecond - 1) / kNanosecondsPerSecond;
  return seconds << 32 | fraction;  // The shift drops the era: seconds modulo 2^32.
}

int64_t ntp_time_ns(uint64_t timestamp) {
  // Seconds before 1970 belong to the era that begins in 2036.
  const auto seconds = static_cast<uint32_t>((timestamp >> 32) - kNtpTo1970);
  const uint64_t fraction = timestamp & UINT32_MAX;
  const uint64_t part = (fraction * kNanosecondsPerSecond + (uint64_t{1} << 31)) >> 32;
  return std::min(static_cast<int64_t>(seconds * kNanosecondsPerSecond + part), kIpfixTimeMaxNs);
}

uint32_t ipfix_record_bytes(bool is_ipv6) { return is_ipv6 ? kRecordBytesIpv6 : kRecordBytesIpv4; }

// --- Writer ---

IpfixWriter::IpfixWriter(std::span<std::byte> room) : room_(room) {
  TRIB_ASSERT(room.size() >= kIpfixMessageBytesMin && room.size() <= UINT16_MAX);
}

void IpfixWriter::begin() {
  Cursor to(room_.data() + kIpfixHeaderBytes);
  to.put(kTemplateSetId).put(static_cast<uint16_t>(kSetHeaderBytes + 2 * kTemplateBytes));
  put_template(to, kIpfixTemplateIpv4, kAddressesIpv4);
  put_template(to, kIpfixTemplateIpv6, kAddressesIpv6);
  bytes_ = kIpfixPrefixBytes;
  TRIB_ASSERT(to.at() == room_.data() + bytes_);
  set_begin_ = 0;
  set_id_ = 0;
  records_ = 0;
}

uint32_t IpfixWriter::cost(bool is_ipv6) const {
  return ipfix_record_bytes(is_ipv6) + (set_id_ == template_of(is_ipv6) ? 0 : kSetHeaderBytes);
}

void IpfixWriter::append(const IpfixFlow& flow) {
  TRIB_ASSERT(fits(flow.is_ipv6));
  if (set_id_ != template_of(flow.is_ipv6)) {
    set_id_ = template_of(flow.is_ipv6);
    set_begin_ = bytes_;
    store_be<uint16_t>(room_.data() + set_begin_, set_id_);
    bytes_ += kSetHeaderBytes;
  }
  Cursor to(room_.data() + bytes_);
  const uint32_t skipped = flow.is_ipv6 ? 0 : kMappedPrefixBytes;
  to.put_bytes(std::span(flow.source).subspan(skipped));
  to.put_bytes(std::span(flow.destination).subspan(skipped));
  to.put(flow.source_port).put(flow.destination_port).put(flow.protocol).put(flow.tcp_flags);
  to.put(flow.vlan).put(flow.customer_vlan).put(flow.packets).put(flow.octets);
  to.put(static_cast<uint64_t>(flow.start_ns / kNanosecondsPerMillisecond));
  to.put(static_cast<uint64_t>(flow.end_ns / kNanosecondsPerMillisecond));
  to.put(ntp_timestamp(flow.start_ns)).put(ntp_timestamp(flow.end_ns));
  to.put(static_cast<uint8_t>(flow.end_reason));
  bytes_ += ipfix_record_bytes(flow.is_ipv6);
  TRIB_ASSERT(to.at() == room_.data() + bytes_);
  store_be<uint16_t>(room_.data() + set_begin_ + 2, static_cast<uint16_t>(bytes_ - set_begin_));
  records_++;
}

void IpfixWriter::finish(uint32_t export_time_s, uint32_t sequence, uint32_t domain) {
  Cursor to(room_.data());
  to.put(kIpfixVersion).put(static_cast<uint16_t>(bytes_)).put(export_time_s).put(sequence);
  to.put(domain);
}

// --- Decoder ---

namespace {

/// Reads bytes from the front; the caller checks size() first.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  [[nodiscard]] size_t size() const { return left_.size(); }
  template <std::unsigned_integral T>
  T take() {
    const T value = load_be<T>(left_.data());
    left_ = left_.subspan(sizeof(T));
    return value;
  }
  std::span<const std::byte> take_bytes(size_t count) {
    const auto bytes = left_.first(count);
    left_ = left_.subspan(count);
    return bytes;
  }

 private:
  std::span<const std::byte> left_;
};

struct TemplateField {
  uint16_t element = 0;  ///< 0: of an enterprise, which has elements of its own.
  uint16_t bytes = 0;
};
struct Template {
  uint16_t id = 0;
  uint32_t record_bytes_min = 0;
  std::vector<TemplateField> fields;
};

/// Reads a big-endian number of any length; only its last eight bytes count.
uint64_t number_of(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<uint64_t>(byte);
  return value;
}

int64_t time_of_milliseconds(uint64_t milliseconds) {
  constexpr auto kMax = static_cast<uint64_t>(kIpfixTimeMaxNs / kNanosecondsPerMillisecond);
  return milliseconds > kMax ? kIpfixTimeMaxNs
                             : static_cast<int64_t>(milliseconds) * kNanosecondsPerMillisecond;
}

void copy_address(std::span<const std::byte> bytes, uint32_t offset,
                  std::array<uint8_t, 16>& address) {
  if (bytes.size() != address.size() - offset) return;
  std::memcpy(address.data() + offset, bytes.data(), bytes.size());
}

/// Decodes the records of one message.
class Decoder {
 public:
  explicit Decoder(IpfixMessage& message) : message_(message) {}

  Result<void> read_sets(Reader from) {
    while (from.size() >= kSetHeaderBytes) {
      const auto id = from.take<uint16_t>();
      const auto length = from.take<uint16_t>();
      if (length < kSetHeaderBytes || length - kSetHeaderBytes > from.size()) {
        return failure("IPFIX set " + std::to_string(id) + " has the length " +
                       std::to_string(length) + "; allowed: 4 to the rest of the message");
      }
      const Reader set(from.take_bytes(length - kSetHeaderBytes));
      Result<void> read;
      if (id == kTemplateSetId) {
        read = read_templates(set);
      } else if (id >= kDataSetIdMin) {
        read = read_records(id, set);
      } else if (id != kOptionsTemplateSetId) {
        read = failure("IPFIX set id " + std::to_string(id) + "; allowed: 2, 3, 256 or more");
      }
      if (!read) return read;
    }
    if (from.size() != 0) return failure("IPFIX message ends inside a set header");
    return {};
  }

 private:
  Result<void> read_templates(Reader from) {
    while (from.size() >= 4) {
      Template parsed;
      parsed.id = from.take<uint16_t>();
      const auto count = from.take<uint16_t>();
      if (parsed.id == 0 && count == 0) return {};  // Padding.
      if (parsed.id < kDataSetIdMin) {
        return failure("IPFIX template id " + std::to_string(parsed.id) + "; allowed: 256 or more");
      }
      if (templates_.size() == kTemplatesMax) return failure("more than 64 IPFIX templates");
      for (uint32_t i = 0; i < count; i++) {
        if (Result<void> read = read_field(from, parsed); !read) return read;
      }
      message_.templates++;
      std::erase_if(templates_, [&](const Template& old) { return old.id == parsed.id; });
      if (count > 0) templates_.push_back(std::move(parsed));  // No field: a withdrawal.
    }
    return {};
  }

  static Result<void> read_field(Reader& from, Template& to) {
    const auto cut = [&] {
      return failure("IPFIX template " + std::to_string(to.id) + " is longer than its set");
    };
    if (from.size() < kFieldBytes) return cut();
    TemplateField field;
    field.element = from.take<uint16_t>();
    field.bytes = from.take<uint16_t>();
    if ((field.element & kEnterpriseBit) != 0) {
      if (from.size() < 4) return cut();
      (void)from.take<uint32_t>();
      field.element = 0;
    }
    // A field without bytes would cost time in every record and carry nothing.
    if (field.bytes == 0) {
      return failure("IPFIX template " + std::to_string(to.id) + " has a field of no length");
    }
    to.record_bytes_min += field.bytes == kVariableLength ? 1 : field.bytes;
    to.fields.push_back(field);
    return {};
  }

  Result<void> read_records(uint16_t id, Reader from) {
    const auto known = std::ranges::find(templates_, id, &Template::id);
    if (known == templates_.end()) {
      message_.sets_without_template++;
      return {};
    }
    // Fewer bytes than the shortest record are padding.
    while (from.size() >= known->record_bytes_min) {
      if (!read_record(*known, from)) {
        return failure("IPFIX set " + std::to_string(id) + " ends inside a record");
      }
    }
    return {};
  }

  /// @return false if the set ends inside the record.
  bool read_record(const Template& layout, Reader& from) {
    IpfixFlow& flow = message_.flows.emplace_back();
    has_start_ = has_end_ = false;
    for (const TemplateField& field : layout.fields) {
      size_t bytes = field.bytes;
      if (bytes == kVariableLength) {
        if (from.size() < 1) return false;
        bytes = from.take<uint8_t>();
        if (bytes == UINT8_MAX) {
          if (from.size() < 2) return false;
          bytes = from.take<uint16_t>();
        }
      }
      if (bytes > from.size()) return false;
      set_field(flow, field.element, from.take_bytes(bytes));
    }
    if (!flow.is_ipv6) {
      for (auto* address : {&flow.source, &flow.destination}) {
        std::fill_n(address->begin(), kMappedPrefixBytes - 2, uint8_t{0});
        std::fill_n(address->begin() + kMappedPrefixBytes - 2, 2, uint8_t{0xff});
      }
    }
    return true;
  }

  void set_field(IpfixFlow& flow, uint16_t element, std::span<const std::byte> bytes) {
    const uint64_t value = number_of(bytes);
    switch (static_cast<IpfixElement>(element)) {
      case kOctetDeltaCount:
        flow.octets = value;
        break;
      case kPacketDeltaCount:
        flow.packets = value;
        break;
      case kProtocolIdentifier:
        flow.protocol = static_cast<uint8_t>(value);
        break;
      case kTcpControlBits:
        flow.tcp_flags = static_cast<uint16_t>(value);
        break;
      case kSourceTransportPort:
        flow.source_port = static_cast<uint16_t>(value);
        break;
      case kDestinationTransportPort:
        flow.destination_port = static_cast<uint16_t>(value);
        break;
      case kVlanId:
        flow.vlan = static_cast<uint16_t>(value);
        break;
      case kDot1qCustomerVlanId:
        flow.customer_vlan = static_cast<uint16_t>(value);
        break;
      case kFlowEndReason:
        flow.end_reason = static_cast<FlowEndReason>(value);
        break;
      case kSourceIpv4Address:
        copy_address(bytes, kMappedPrefixBytes, flow.source);
        break;
      case kDestinationIpv4Address:
        copy_address(bytes, kMappedPrefixBytes, flow.destination);
        break;
      case kSourceIpv6Address:
        flow.is_ipv6 = true;
        copy_address(bytes, 0, flow.source);
        break;
      case kDestinationIpv6Address:
        flow.is_ipv6 = true;
        copy_address(bytes, 0, flow.destination);
        break;
      case kFlowStartMilliseconds:
        if (!has_start_) flow.start_ns = time_of_milliseconds(value);
        break;
      case kFlowEndMilliseconds:
        if (!has_end_) flow.end_ns = time_of_milliseconds(value);
        break;
      case kFlowStartNanoseconds:
        flow.start_ns = ntp_time_ns(value);
        has_start_ = true;
        break;
      case kFlowEndNanoseconds:
        flow.end_ns = ntp_time_ns(value);
        has_end_ = true;
        break;
    }
  }

  IpfixMessage& message_;
  std::vector<Template> templates_;
  bool has_start_ = false;  ///< The record has given its start in nanoseconds.
  bool has_end_ = false;
};

}  // namespace

Result<IpfixMessage> decode_ipfix(std::span<const std::byte> message) {
  if (message.size() < kIpfixHeaderBytes) return failure("IPFIX message shorter than its header");
  Reader from(message);
  const auto version = from.take<uint16_t>();
  const auto length = from.take<uint16_t>();
  if (version != kIpfixVersion) {
    return failure("IPFIX version " + std::to_string(version) + "; allowed: 10");
  }
  if (length != message.size()) {
    return failure("IPFIX message of " + std::to_string(message.size()) + " bytes states " +
                   std::to_string(length));
  }
  IpfixMessage decoded;
  decoded.export_time_s = from.take<uint32_t>();
  decoded.sequence = from.take<uint32_t>();
  decoded.domain = from.take<uint32_t>();
  if (Result<void> read = Decoder(decoded).read_sets(from); !read) {
    return tl::unexpected(read.error());
  }
  return decoded;
}

}  // namespace tributary::wire
