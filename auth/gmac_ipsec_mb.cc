// SPDX-License-Identifier: Apache-2.0
#include <intel-ipsec-mb.h>

#include <algorithm>
#include <cstring>

#include "auth/gmac.h"
#include "base/assert.h"

namespace tributary::auth {
namespace {

/// Returns the library's function table for this processor. It does not change, so all threads
/// share it.
IMB_MGR* functions() {
  static IMB_MGR* const table = [] {
    IMB_MGR* made = alloc_mb_mgr(0);
    TRIB_ASSERT(made != nullptr);
    init_mb_mgr_auto(made, nullptr);
    return made;
  }();
  return table;
}

/// Block of AES; the longest head of a message fits into the first piece with one more block.
constexpr size_t kBlockBytes = 16;
constexpr size_t kFirstPieceBytesMax = 192;

const uint8_t* octets(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }

}  // namespace

struct Gmac::ExpandedKey {
  // The library's aligned stores need 16 bytes, which its type does not ask for; 64 keeps it in as
  // few cache lines as possible.
  alignas(64) gcm_key_data data;
};

bool Gmac::is_available() { return true; }

Gmac::Gmac(const Key128& key) : key_(std::make_unique<ExpandedKey>()) {
  IMB_AES128_GCM_PRE(functions(), key.data(), &key_->data);
}
Gmac::~Gmac() = default;
Gmac::Gmac(Gmac&&) noexcept = default;
Gmac& Gmac::operator=(Gmac&&) noexcept = default;

void Gmac::tag(const std::array<std::byte, kGmacNonceBytes>& nonce, std::span<const std::byte> head,
               std::span<const std::byte> payload, std::byte* tag) const {
  IMB_MGR* const library = functions();
  gcm_context_data context;
  IMB_AES128_GMAC_INIT(library, &key_->data, &context, octets(nonce.data()), nonce.size());
  // The library is slow with pieces that are not whole blocks, so the first one is the head and
  // enough of the payload to fill its last block.
  std::array<std::byte, kFirstPieceBytesMax> first;
  if (head.size() + kBlockBytes <= first.size()) {
    const size_t filling = std::min(-head.size() % kBlockBytes, payload.size());
    if (!head.empty()) std::memcpy(first.data(), head.data(), head.size());
    if (filling > 0) std::memcpy(first.data() + head.size(), payload.data(), filling);
    head = std::span(first).first(head.size() + filling);
    payload = payload.subspan(filling);
  }
  IMB_AES128_GMAC_UPDATE(library, &key_->data, &context, octets(head.data()), head.size());
  if (!payload.empty()) {
    IMB_AES128_GMAC_UPDATE(library, &key_->data, &context, octets(payload.data()), payload.size());
  }
  IMB_AES128_GMAC_FINALIZE(library, &key_->data, &context, reinterpret_cast<uint8_t*>(tag),
                           kGmacTagBytes);
}

}  // namespace tributary::auth
