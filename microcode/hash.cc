// SPDX-License-Identifier: Apache-2.0
#include "microcode/hash.h"

namespace tributary::microcode {

FieldHash& FieldHash::include_bytes(std::span<const uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); i += 4) {
    uint32_t word = 0;
    for (size_t k = i; k < i + 4 && k < bytes.size(); k++) word = word << 8 | bytes[k];
    include(word);
  }
  return *this;
}

}  // namespace tributary::microcode
