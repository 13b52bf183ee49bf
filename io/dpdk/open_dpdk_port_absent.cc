// SPDX-License-Identifier: Apache-2.0
// Takes the place of dpdk_port.cc in a build without DPDK.
#include "io/dpdk/open_dpdk_port.h"

namespace tributary::io {

bool has_dpdk() { return false; }

Result<OpenedDpdkPort> open_dpdk_port(const DpdkPortConfig&) {
  return failure(
      "this program was built without DPDK; mend it with: tools/install-deps.sh --with-dpdk, then "
      "configure and build again");
}

}  // namespace tributary::io
