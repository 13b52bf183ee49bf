// SPDX-License-Identifier: Apache-2.0
#include "programs/flow_records.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/endpoint.h"
#include "base/errno_text.h"
#include "base/result_file.h"

namespace tributary::programs {
namespace {

/// Returns an address without brackets and port.
std::string address_text(const std::array<uint8_t, 16>& address) {
  Endpoint endpoint;
  endpoint.address = address;
  std::string text = endpoint.to_string();
  text.resize(text.rfind(':'));
  return text.starts_with('[') ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

nlohmann::ordered_json as_json(const wire::IpfixFlow& flow) {
  return {{"source", address_text(flow.source)},
          {"source_port", flow.source_port},
          {"destination", address_text(flow.destination)},
          {"destination_port", flow.destination_port},
          {"protocol", flow.protocol},
          {"vlan", flow.vlan},
          {"customer_vlan", flow.customer_vlan},
          {"packets", flow.packets},
          {"octets", flow.octets},
          {"start_ns", flow.start_ns},
          {"end_ns", flow.end_ns},
          {"tcp_flags", flow.tcp_flags},
          {"end_reason", to_string(flow.end_reason)}};
}

Result<FlowRecords> FlowRecords::create(const std::string& json_lines, const std::string& ipfix) {
  FlowRecords records;
  auto lines = open("--records", json_lines);
  if (!lines) return tl::unexpected(lines.error());
  auto messages = open("--ipfix", ipfix);
  if (!messages) return tl::unexpected(messages.error());
  records.json_lines_ = *std::move(lines);
  records.ipfix_ = *std::move(messages);
  return records;
}

Result<FlowRecords::File> FlowRecords::open(const char* flag, const std::string& path) {
  File file{.path = path, .stream = {}};
  if (path.empty()) return file;
  errno = 0;
  const bool is_output = path == kStandardOutput;
  file.stream.open(is_output ? "/dev/stdout" : path,
                   is_output ? std::ios::binary | std::ios::app : std::ios::binary);
  if (!file.stream) return failure(fmt::format("{} {}: {}", flag, path, errno_text(errno)));
  return file;
}

Result<void> FlowRecords::append(File& file, std::string_view bytes) {
  // Flushes, so that a failed write is known and a run that is cut off leaves its records.
  if (file.stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
    return {};
  }
  return failure(fmt::format("{}: {}", file.path, errno_text(errno)));
}

Result<void> FlowRecords::write(std::span<const std::byte> message) {
  if (!ipfix_.path.empty()) {
    const auto done =
        append(ipfix_, {reinterpret_cast<const char*>(message.data()), message.size()});
    if (!done) return done;
  }
  if (json_lines_.path.empty()) return {};
  const auto decoded = wire::decode_ipfix(message);
  if (!decoded) return tl::unexpected(decoded.error());
  std::string lines;
  for (const wire::IpfixFlow& flow : decoded->flows) lines += as_json(flow).dump() + "\n";
  return append(json_lines_, lines);
}

}  // namespace tributary::programs
