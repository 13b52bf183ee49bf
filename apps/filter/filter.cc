// SPDX-License-Identifier: Apache-2.0
#include "apps/filter/filter.h"

namespace tributary::filter {

const char* to_string(Drop reason) {
  switch (reason) {
    case Drop::kNonIp:
      return "non_ip";
    case Drop::kIpOptions:
      return "ip_options";
    case Drop::kNoHeader:
      return "no_header";
  }
  return "unknown";
}

Result<FilterState> FilterState::create(memory::SharedMemory& memory) {
  const auto address = memory.allocate(memory::Range::kSram,
                                       kDropCount * sizeof(memory::PacketByteCounter), kWordBytes);
  if (!address) return tl::unexpected(address.error());
  return FilterState(memory, address->value() / kWordBytes);
}

}  // namespace tributary::filter
