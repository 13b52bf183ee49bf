// SPDX-License-Identifier: Apache-2.0
// The short texts of the command line: an endpoint, a DPDK device, a time, a list of captures. What
// is accepted, written as text, reads back as the same value.
#include "base/endpoint.h"
#include "io/dpdk/port_spec.h"
#include "lab/scenario_file.h"
#include "lab/trace/time_text.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const std::string text(text_of_input(input));
  if (const auto endpoint = Endpoint::parse(text)) {
    EXPECT_TRUE(endpoint->is_set());
    const auto again = Endpoint::parse(endpoint->to_string());
    ASSERT_TRUE(again.has_value()) << endpoint->to_string();
    EXPECT_EQ(*again, *endpoint);
  }
  if (const auto time = lab::parse_time(text)) {
    const auto again = lab::parse_time(lab::time_text(*time));
    EXPECT_GE(*time, Duration());
    if (again) {
      EXPECT_EQ(lab::time_text(*again), lab::time_text(*time));
    }
  }
  if (const auto device = io::parse_dpdk_device(std::string(io::kDpdkPrefix) + text)) {
    EXPECT_FALSE(device->name.empty());
    (void)io::join_dpdk_devices({*device, *device});
    (void)io::join_dpdk_devices({*device});
  }
  if (const auto captures = lab::parse_captures(text)) {
    EXPECT_LE(captures->size(), text.size());
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const char* text :
       {"127.0.0.1:12000", "[::1]:12000", "[fe80::1]:1", "12.5us", "1e3ms", "0", "a=b.pcap,c=d",
        "vhost,iface=/tmp/a,queues=1,address=10.0.0.1/24,mtu=1500",
        "0000:01:00.0,address=fd00::1/64,gateway=fd00::2,hugepages=off",
        "memif0,address=10.0.0.1/24,mbufs=100,poll=on"}) {
    all.push_back(input_of_text(text));
  }
  return all;
}

TRIB_FUZZ_TARGET(short_texts);

}  // namespace
}  // namespace tributary::fuzz
