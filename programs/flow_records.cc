// SPDX-License-Identifier: Apache-2.0
#include "programs/flow_records.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cerrno>

#include "base/endpoint.h"
#include "base/errno_text.h"
#include "base/result_file.h"

namespace tributary::programs {
namespace {

/// Returns an address without brackets and port. An IPv6 packet may hold a mapped address, too.
std::string address_text(const std::array<uint8_t, 16>& address, bool is_ipv6) {
  if (is_ipv6) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    return inet_ntop(AF_INET6, address.data(), text.data(), text.size());
  }
  Endpoint endpoint;
  endpoint.address = address;
  return endpoint.host_text();
}

}  // namespace

nlohmann::ordered_json as_json(const wire::IpfixFlow& flow) {
  return {{"source", address_text(flow.source, flow.is_ipv6)},
          {"source_port", flow.source_port},
          {"destination", address_text(flow.destination, flow.is_ipv6)},
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
  File file{.path = path, .owned = nullptr};
  if (path.empty()) return file;
  if (path == kStandardOutput) {
    file.stream = stdout;
    return file;
  }
  file.owned.reset(std::fopen(path.c_str(), "wb"));
  file.stream = file.owned.get();
  if (!file.owned) return system_failure(errno, fmt::format("{} {}", flag, path));
  return file;
}

Result<void> FlowRecords::append(File& file, std::string_view bytes) {
  // Flushes, so that a failed write is known and a run that is cut off leaves its records.
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.stream) == bytes.size() &&
      std::fflush(file.stream) == 0) {
    return {};
  }
  const int cause = errno;
  file.stream = nullptr;
  return system_failure(cause, file.path);
}

Result<void> FlowRecords::append_lines(std::span<const std::byte> message) {
  const auto decoded = wire::decode_ipfix(message);
  if (!decoded) return tl::unexpected(decoded.error());
  std::string lines;
  for (const wire::IpfixFlow& flow : decoded->flows) lines += as_json(flow).dump() + "\n";
  return append(json_lines_, lines);
}

Result<void> FlowRecords::write(std::span<const std::byte> message) {
  Result<void> done;
  if (ipfix_.stream != nullptr) {
    done = append(ipfix_, {reinterpret_cast<const char*>(message.data()), message.size()});
  }
  if (json_lines_.stream == nullptr) return done;
  const Result<void> lines_done = append_lines(message);
  return done ? lines_done : done;
}

}  // namespace tributary::programs
