// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/port_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "io/frames/link_inspect.h"
#include "io/frames/port_keys.h"

namespace tributary::io {
namespace {

constexpr std::array<std::string_view, 9> kDrivers{
    "vhost", "virtio_user", "memif", "af_packet", "af_xdp", "tap", "ring", "null", "pcap"};
constexpr std::string_view kDriverPrefix = "net_";
constexpr std::string_view kKeys = "ip, gw, mtu, mbufs, hugepages, poll";

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// Returns "0000:01:00.0" for that text and for "01:00.0"; empty if `text` is not a PCI address.
std::string pci_address(std::string_view text) {
  const std::string whole = text.size() == 7 ? "0000:" + std::string(text) : std::string(text);
  constexpr std::string_view kPattern = "xxxx:xx:xx.x";
  if (whole.size() != kPattern.size()) return "";
  for (size_t i = 0; i < whole.size(); i++) {
    if (kPattern[i] == 'x' ? !is_hex(whole[i]) : whole[i] != kPattern[i]) return "";
  }
  return whole;
}

/// Parses "vhost", "net_vhost" or "net_vhost3". @return false if it is not a known driver.
bool read_driver(std::string_view text, DpdkDeviceSpec& spec) {
  std::string_view base = text;
  if (base.starts_with(kDriverPrefix)) base.remove_prefix(kDriverPrefix.size());
  const size_t digits = base.find_last_not_of("0123456789") + 1;
  const std::string_view number = base.substr(digits);
  base = base.substr(0, digits);
  if (std::find(kDrivers.begin(), kDrivers.end(), base) == kDrivers.end()) return false;
  spec.driver = std::string(kDriverPrefix) + std::string(base);
  spec.name = spec.driver + std::string(number);
  return true;
}

Result<bool> read_switch(const std::string& key, const std::string& value) {
  if (value == "on" || value == "off") return value == "on";
  return failure(fmt::format("{}={} is not allowed; allowed: on, off", key, value));
}

/// Reads a key of this program. @return true if `key` is one.
Result<bool> read_own_key(const std::string& key, const std::string& value, DpdkDeviceSpec& spec) {
  const auto store = [](auto result, auto& target) -> Result<bool> {
    if (!result) return tl::unexpected(result.error());
    target = *result;
    return true;
  };
  const auto shared = read_address_key(key, value, spec);
  if (!shared || *shared) return shared;
  if (key == "mtu") return store(read_number(key, value, kDpdkMtuMin, kDpdkMtuMax), spec.mtu);
  if (key == "mbufs") return store(read_number(key, value, 1, 1U << 22), spec.mbufs);
  if (key == "poll") return store(read_switch(key, value), spec.poll);
  if (key == "hugepages") {
    const auto on = read_switch(key, value);
    if (!on) return tl::unexpected(on.error());
    spec.hugepages = *on ? HugepageUse::kOn : HugepageUse::kOff;
    return true;
  }
  return false;
}

Result<void> read_key(const std::string& part, DpdkDeviceSpec& spec) {
  const auto pair = split_key(part);
  if (!pair) return tl::unexpected(pair.error());
  const auto& [key, value] = *pair;
  const auto own = read_own_key(key, value, spec);
  if (!own) return tl::unexpected(own.error());
  if (*own) return {};
  if (spec.is_pci()) {
    // Drivers of network cards take arguments too, but then a mistyped key would go unnoticed.
    return failure(fmt::format("unknown key '{}' for a PCI device; allowed: {}", key, kKeys));
  }
  spec.arguments += (spec.arguments.empty() ? "" : ",") + part;
  return {};
}

}  // namespace

std::string DpdkDeviceSpec::argument(std::string_view key) const {
  for (const std::string& part : split(arguments, ',')) {
    const size_t equals = part.find('=');
    if (equals != std::string::npos && part.substr(0, equals) == key) {
      return part.substr(equals + 1);
    }
  }
  return "";
}

std::string dpdk_socket_path(const DpdkDeviceSpec& spec) {
  if (spec.driver == "net_vhost") return spec.argument("iface");
  if (spec.driver == "net_virtio_user") return spec.argument("path");
  if (spec.driver == "net_memif") return spec.argument("socket");
  return "";
}

Result<DpdkDeviceSpec> parse_dpdk_device(std::string_view text) {
  const auto wrong = [text](const std::string& reason) {
    return failure(fmt::format("'{}': {}", text, reason));
  };
  if (!text.starts_with(kDpdkPrefix)) {
    return wrong("is not a port; allowed: dpdk:DEVICE[,key=value]...");
  }
  DpdkDeviceSpec spec;
  spec.text = std::string(text);
  std::vector<std::string> parts = split(text.substr(kDpdkPrefix.size()), ',');
  const std::string device = parts.front();
  spec.name = pci_address(device);
  if (spec.name.empty() && !read_driver(device, spec)) {
    return wrong(
        fmt::format("'{}' is not a device; allowed: a PCI address such as 0000:01:00.0, or "
                    "one of {}",
                    device, fmt::join(kDrivers, ", ")));
  }
  for (size_t i = 1; i < parts.size(); i++) {
    const auto read = read_key(parts[i], spec);
    if (!read) return wrong(read.error().text);
  }
  return spec;
}

Result<DpdkPortSpec> join_wire_devices(std::vector<DpdkDeviceSpec> devices) {
  DpdkPortSpec port;
  std::set<std::string> names;
  std::map<std::string, uint32_t> numbers;
  for (DpdkDeviceSpec& device : devices) {
    if (device.name == device.driver) {
      device.name += std::to_string(numbers[device.driver]++);
    }
    if (!names.insert(device.name).second) {
      return failure(fmt::format("'{}': the device {} is named twice", device.text, device.name));
    }
    const std::string socket = dpdk_socket_path(device);
    const std::string end = socket.empty() ? device.argument("iface") : socket;
    if (!end.empty() && !names.insert(end).second) {
      return failure(fmt::format("'{}': {} is named twice", device.text, end));
    }
    if (device.hugepages != HugepageUse::kAuto) port.hugepages = device.hugepages;
    port.poll |= device.poll;
  }
  port.devices = std::move(devices);
  return port;
}

Result<DpdkPortSpec> join_dpdk_devices(std::vector<DpdkDeviceSpec> devices) {
  auto joined = join_wire_devices(std::move(devices));
  if (!joined) return joined;
  DpdkPortSpec& port = *joined;
  bool has_address = false;
  for (const DpdkDeviceSpec& device : port.devices) {
    if (device.address) {
      if (has_address && !same_address(port.address, *device.address)) {
        return failure(
            fmt::format("'{}': a second ip; a port has one ip for all its devices", device.text));
      }
      has_address = true;
      port.address = *device.address;
      port.prefix_bits = device.prefix_bits;
    }
    if (device.gateway) port.gateway = device.gateway;
  }
  if (!has_address) {
    return failure(
        "ip: DPDK takes the device from the kernel, so the port needs an address of its "
        "own; add it as in --port dpdk:...,ip=10.0.0.1/24");
  }
  if (const auto good = check_gateway(port.gateway, port.address); !good) {
    return tl::unexpected(good.error());
  }
  return joined;
}

}  // namespace tributary::io
