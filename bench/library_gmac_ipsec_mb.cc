// SPDX-License-Identifier: Apache-2.0
#include <intel-ipsec-mb.h>

#include <array>
#include <cstring>

#include "auth/gmac.h"
#include "base/assert.h"
#include "bench/library_gmac.h"

namespace tributary::bench {

struct LibraryGmac::State {
  IMB_MGR* library;
  alignas(64) gcm_key_data key;  // As in auth/gmac_ipsec_mb.cc.
  std::array<uint8_t, auth::kGmacNonceBytes> nonce{};
};

LibraryGmac::LibraryGmac(const auth::Key128& key) : state_(std::make_unique<State>()) {
  state_->library = alloc_mb_mgr(0);
  TRIB_ASSERT(state_->library != nullptr);
  init_mb_mgr_auto(state_->library, nullptr);
  IMB_AES128_GCM_PRE(state_->library, key.data(), &state_->key);
}
LibraryGmac::~LibraryGmac() { free_mb_mgr(state_->library); }

void LibraryGmac::tag(std::span<const std::byte> bytes, std::byte* tag) {
  State& s = *state_;
  for (size_t i = s.nonce.size(); i-- > 0 && ++s.nonce[i] == 0;) {
  }
  gcm_context_data context;
  IMB_AES128_GMAC_INIT(s.library, &s.key, &context, s.nonce.data(), s.nonce.size());
  IMB_AES128_GMAC_UPDATE(s.library, &s.key, &context,
                         reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  IMB_AES128_GMAC_FINALIZE(s.library, &s.key, &context, reinterpret_cast<uint8_t*>(tag),
                           auth::kGmacTagBytes);
}

}  // namespace tributary::bench
