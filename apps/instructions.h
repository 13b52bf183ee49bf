// SPDX-License-Identifier: Apache-2.0
/// @file
/// Microcode instructions that several programs execute, with the registers and the local memory
/// that each of them reads and writes.
///
/// Tests: tests/apps/trio_ml/program_test.cc
#pragma once

#include "microcode/instruction.h"

namespace tributary::apps {

inline constexpr microcode::Instruction kParseEthernet{"parse_ethernet",
                                                       {.lmem_reads = 1, .register_writes = 1}};
inline constexpr microcode::Instruction kParseIp{"parse_ip",
                                                 {.lmem_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kParseVlan{"parse_vlan",
                                                   {.lmem_reads = 1, .register_writes = 2}};
/// Reads both addresses of an IPv4 header.
inline constexpr microcode::Instruction kParseAddresses{"parse_addresses",
                                                        {.lmem_reads = 2, .lmem_writes = 2}};
/// Each reads one address of an IPv6 header.
inline constexpr microcode::Instruction kParseSource{"parse_source",
                                                     {.lmem_reads = 2, .lmem_writes = 2}};
inline constexpr microcode::Instruction kParseDestination{"parse_destination",
                                                          {.lmem_reads = 2, .lmem_writes = 2}};
inline constexpr microcode::Instruction kParseUdp{"parse_udp",
                                                  {.lmem_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kParseHeader{"parse_header",
                                                     {.lmem_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kCheckHeader{"check_header", {.lmem_reads = 2}};
inline constexpr microcode::Instruction kBuildHeader{"build_header",
                                                     {.register_reads = 4, .lmem_writes = 2}};
inline constexpr microcode::Instruction kCount{"count", {.register_reads = 2}};

}  // namespace tributary::apps
