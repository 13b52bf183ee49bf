// SPDX-License-Identifier: Apache-2.0
// Method:  hand-worked addresses.
#include "io/local/client_address.h"

#include <gtest/gtest.h>

namespace tributary::io {
namespace {

TEST(ClientAddressTest, CountsInTheDiscardPrefix) {
  const Endpoint client = client_address(258, 3);
  EXPECT_EQ(client.to_string(), "[100::102]:4");
  EXPECT_EQ(sender_text(client), "local/258");
  EXPECT_EQ(sender_text(Endpoint::ipv4(0x7f000001, 9)), "127.0.0.1:9");
  EXPECT_EQ(place_of(client), 3U);
  EXPECT_TRUE(is_local_client(client));
  EXPECT_TRUE(client.is_set());
}

TEST(ClientAddressTest, NamesTheProcessIfItIsKnown) {
  const Endpoint client = client_address(258, 3, 4'194'304);
  EXPECT_EQ(client.to_string(), "[100::4000:0:0:102]:4");  // 2^22, the largest id of Linux.
  EXPECT_EQ(sender_text(client), "local pid 4194304");
  EXPECT_EQ(pid_of(client), 4'194'304U);
  EXPECT_EQ(pid_of(client_address(258, 3)), 0U);
  EXPECT_EQ(place_of(client), 3U);
  EXPECT_TRUE(is_local_client(client));
  EXPECT_FALSE(client.is_same_peer(client_address(259, 3, 4'194'304)));
}

TEST(ClientAddressTest, NoPacketHasSuchASender) {
  // The kernel gives a scope to link-local addresses only, and never this one.
  Endpoint forged = client_address(1, 0);
  forged.scope_id = 0;
  EXPECT_FALSE(is_local_client(forged));
  EXPECT_FALSE(forged.is_same_peer(client_address(1, 0)));
}

}  // namespace
}  // namespace tributary::io
