// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tributary in C: all-reduce through an aggregator, in place. The stable interface of
/// libtributary, for programs in C and for every language that can call C. A guided tour is
/// docs/c-api.md.
///
/// Shapes:  A tensor is `element_count` elements, contiguous, of one type. Every rank calls with
/// the
///          same lengths, types and operations in the same order, or all get TRIBUTARY_MISMATCH.
/// Units:   Milliseconds; elements unless a name says bytes.
/// Threads: Every function may be called from any thread. What is freed must not be in use by
///          another thread at that moment; the rest is locked inside.
/// Errors:  Status codes, never exceptions or signals, and never output. Every function that
/// returns
///          a status leaves a line of text for tributary_error_text() if it is not TRIBUTARY_OK.
/// Memory:  A tensor stays alive and untouched until its operation is done. Strings belong to the
///          library; each says how long it lasts.
/// Compatibility: Symbols carry the version TRIBUTARY_0.1 or later. Numbers here never change their
/// meaning;
///          structs grow only at their end, and callers pass the size that they know.
/// Tests:   tests/host/c_api/c_api_test.cc, tests/host/c_api/c_api_c11.c
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TRIBUTARY_API __attribute__((visibility("default")))
#else
#define TRIBUTARY_API
#endif

/* --- Version --- */

/// Grows when something is added; a program needs a library whose number is at least the one that
/// it was compiled with.
#define TRIBUTARY_ABI 3

/// TRIBUTARY_ABI of the library.
TRIBUTARY_API uint32_t tributary_abi(void);
/// Version of the library as in "0.1.0". Lasts for ever.
TRIBUTARY_API const char* tributary_version(void);

/* --- Numbers --- */

/// What became of a call or an operation. 0 to 31 are outcomes of the protocol, from 32 on errors
/// of the call. "Goes on": the communicator can still be used; after any other outcome of 3 to 31
/// it is finished, every later operation ends with the same status at once, and the application
/// joins again if it wants to.
typedef int32_t tributary_status;
enum {
  TRIBUTARY_OK = 0,
  TRIBUTARY_OVERFLOW = 1,         ///< A value does not fit; the tensor is unspecified. Goes on.
  TRIBUTARY_NOT_FINITE = 2,       ///< A rank has an infinity or NaN; likewise. Goes on.
  TRIBUTARY_PEER_MISSING = 3,     ///< Deadline over: the ranks named in the text are missing.
  TRIBUTARY_PEER_LEFT = 4,        ///< A rank said good-bye or was restarted while it was needed.
  TRIBUTARY_AGGREGATOR_GONE = 5,  ///< Deadline over without an answer from the aggregator.
  TRIBUTARY_SESSION_LOST = 6,     ///< The aggregator was restarted or has ended this session.
  TRIBUTARY_DESYNCHRONISED = 7,   ///< This rank lags too far behind; rejoin with fresh parameters.
  TRIBUTARY_MISMATCH = 8,         ///< Ranks disagree: length, type, scale or operation.
  TRIBUTARY_REFUSED = 9,          ///< No such job, job full, rank taken, wrong world size.
  TRIBUTARY_CLOSED = 10,          ///< tributary_close() or tributary_free() was called.
  TRIBUTARY_PENDING = 32,         ///< Not done yet. No error: the operation goes on.
  TRIBUTARY_INVALID = 33,         ///< An argument is not allowed; the text says which and why.
  TRIBUTARY_OVERLAP = 34,         ///< The tensor shares memory with one that is on its way.
  TRIBUTARY_SYSTEM = 35,          ///< The system refuses a socket, memory or a thread.
  TRIBUTARY_INTERNAL = 36         ///< A bug in the library.
};
/// As in "peer_missing"; "unknown" for other numbers. Lasts for ever.
TRIBUTARY_API const char* tributary_status_name(tributary_status status);

/// Types of elements. The 16-bit ones are added up in 32 bits and rounded once, at the end.
enum {
  TRIBUTARY_INT32 = 0,    ///< Sums wrap modulo 2^32; means round toward zero.
  TRIBUTARY_FLOAT32 = 1,  ///< IEEE 754 binary32.
  TRIBUTARY_FLOAT16 = 2,  ///< IEEE 754 binary16.
  TRIBUTARY_BFLOAT16 = 3  ///< Upper half of a binary32.
};

enum {
  TRIBUTARY_SUM = 0,
  TRIBUTARY_MEAN = 1  ///< Sum divided by the number of ranks in it, block by block.
};

/* --- Errors --- */

/// Why the calling thread's latest function that returned a status did not return TRIBUTARY_OK: one
/// line that names the cause, "" after TRIBUTARY_OK. Lasts until the thread's next such call.
TRIBUTARY_API const char* tributary_error_text(void);

/* --- Communicators --- */

/// One rank's membership in a job.
typedef struct tributary_communicator tributary_communicator;

/// Joins a job and waits until all its ranks have, at most the deadline.
///
/// `url` is tributary://HOST:PORT/job/ID?KEY=VALUE&… . HOST is a name, an IPv4 address or an IPv6
/// address in brackets; ":PORT" may be left out (12000), and so may "/job/ID" (1). The keys:
///
///   key          default      allowed
///   rank         environment  0 to world-1
///   world        environment  1 to 256
///   deadline_ms  60000        1 to 86400000; longest wait for a peer, the aggregator or the join
///   gradients    auto         auto, 1 to 4095; elements a packet, the ranks agree on the least
///   window       auto         auto, 1 to 65536; packets on their way of each thread, likewise
///   threads      1            1 to 16; worker threads, likewise (docs/c-api.md)
///   format       exponent     exponent, fixed; how float32 travels (docs/c-api.md)
///   scale        1e8          above 0 and finite; for format=fixed
///   source       the rank     0 to 255; src_id at this worker's aggregator, in a tree of them
///   loss         0            0 to below 1; loses packets on purpose, both ways, for experiments
///
/// NULL or "" stands for the variable TRIBUTARY_URL. rank and world that the URL lacks come from
/// the environment, from the first pair that is there: RANK and WORLD_SIZE (torchrun, tributary
/// launch), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH, Slurm).
///
/// @param out Receives the communicator, NULL unless TRIBUTARY_OK. To be freed by tributary_free().
/// @return TRIBUTARY_OK, _INVALID (the URL), _SYSTEM, _AGGREGATOR_GONE, _PEER_MISSING, _REFUSED.
TRIBUTARY_API tributary_status tributary_join(const char* url, tributary_communicator** out);

/// Tells the aggregator good-bye, ends what is on its way with TRIBUTARY_CLOSED. The handle can
/// still be asked. Other threads may be waiting for operations of it; they return.
TRIBUTARY_API tributary_status tributary_close(tributary_communicator* communicator);

/// Closes if need be and gives the handle back. NULL is allowed. Operations of it live on, done.
TRIBUTARY_API void tributary_free(tributary_communicator* communicator);

/// What was agreed with the aggregator.
typedef struct tributary_info {
  uint32_t rank;
  uint32_t world;
  uint32_t job;
  uint32_t gradients;             ///< Elements a packet: the grain of degraded ranges.
  uint32_t window;                ///< Packets on their way of each thread, at most.
  uint32_t straggler_timeout_us;  ///< 0: blocks wait for every rank (no mitigation).
  uint64_t deadline_ms;
  uint32_t threads;   ///< Worker threads, as agreed. Since ABI 3.
  uint32_t reserved;  ///< 0.
} tributary_info;
/// @param info_bytes sizeof(tributary_info) as the caller knows it.
TRIBUTARY_API tributary_status tributary_get_info(const tributary_communicator* communicator,
                                                  tributary_info* info, size_t info_bytes);

/// What a communicator has done so far; brought up to date whenever an operation ends.
typedef struct tributary_counters {
  uint64_t packets_sent;
  uint64_t packets_received;
  uint64_t retransmitted;  ///< Contributions sent again.
  uint64_t probes;         ///< Questions about a block, without its elements.
  uint64_t blocks;         ///< Results taken.
  uint64_t degraded_blocks;
  uint64_t duplicate_results;
  uint64_t invalid_packets;  ///< Malformed, foreign or of another session; ignored.
} tributary_counters;
/// @param counters_bytes sizeof(tributary_counters) as the caller knows it.
TRIBUTARY_API tributary_status tributary_get_counters(const tributary_communicator* communicator,
                                                      tributary_counters* counters,
                                                      size_t counters_bytes);

/* --- All-reduce --- */

/// One all-reduce on its way, or done.
typedef struct tributary_operation tributary_operation;

/// Replaces the tensor by its sum or mean over all ranks; returns when that is done.
/// 0 elements are done at once; then `data` may be NULL.
/// @return An outcome, or TRIBUTARY_INVALID, _OVERLAP.
TRIBUTARY_API tributary_status tributary_all_reduce(tributary_communicator* communicator,
                                                    void* data, uint64_t element_count,
                                                    int32_t type, int32_t op);

/// The same without waiting. Several may be on their way, in tensors that do not overlap; they
/// travel in the order of these calls.
/// @param out Receives the operation, NULL unless TRIBUTARY_OK. To be freed by
///            tributary_operation_free(). Operations of a finished communicator are done at once.
/// @return TRIBUTARY_OK, _INVALID, _OVERLAP, _SYSTEM.
TRIBUTARY_API tributary_status tributary_all_reduce_async(tributary_communicator* communicator,
                                                          void* data, uint64_t element_count,
                                                          int32_t type, int32_t op,
                                                          tributary_operation** out);

/* --- A rank that is behind --- */

/// How far a rank's stream of tensors and the others' have come, in packets' worth (gradients, and
/// with format=exponent the exponents that travel ahead), of the first thread's part. Since ABI 2.
typedef struct tributary_progress {
  uint64_t submitted;  ///< Of what this rank has submitted.
  uint64_t heard;      ///< One past the last of which a result has come. Above `submitted` when the
                       ///< others have gone on without this rank (straggler mitigation).
} tributary_progress;
/// Up to date within a burst of packets for operations that were waited for.
/// @param progress_bytes sizeof(tributary_progress) as the caller knows it.
TRIBUTARY_API tributary_status tributary_get_progress(const tributary_communicator* communicator,
                                                      tributary_progress* progress,
                                                      size_t progress_bytes);

/// Takes the sum or mean that the other ranks have made in this all-reduce, and adds nothing to it:
/// in the place of tributary_all_reduce_async() on a rank that would be late anyway. `data` is only
/// written. What the others have not done yet is waited for, without this rank; without straggler
/// mitigation that ends at the deadline. Since ABI 2.
/// @return As tributary_all_reduce_async().
TRIBUTARY_API tributary_status tributary_receive_async(tributary_communicator* communicator,
                                                       void* data, uint64_t element_count,
                                                       int32_t type, int32_t op,
                                                       tributary_operation** out);

/* --- Waiting, and what became of it --- */

/// Waits until the operation is done. As often as one likes, from any number of threads.
/// @param timeout_ms Below 0: until it is done, which the communicator's deadline bounds. 0: asks
///                   without waiting.
/// @return Its outcome, or TRIBUTARY_PENDING when the time is over.
TRIBUTARY_API tributary_status tributary_wait(tributary_operation* operation, int64_t timeout_ms);

/// What became of an operation that is done.
typedef struct tributary_report {
  tributary_status status;
  uint32_t range_count;      ///< Degraded ranges, see tributary_operation_degraded().
  uint64_t blocks;           ///< Packets' worth of elements.
  uint64_t degraded_blocks;  ///< Of these, how many lack a rank.
  uint64_t missing[4];       ///< Ranks that some block lacks: rank r is bit r % 64 of word r / 64.
} tributary_report;
/// @param report_bytes sizeof(tributary_report) as the caller knows it.
/// @return TRIBUTARY_OK, _PENDING (nothing is written), _INVALID.
TRIBUTARY_API tributary_status tributary_operation_report(const tributary_operation* operation,
                                                          tributary_report* report,
                                                          size_t report_bytes);

/// A stretch of the tensor that was summed without every rank (straggler mitigation).
typedef struct tributary_degraded_range {
  uint64_t element_first;
  uint64_t element_count;
  uint64_t missing[4];  ///< Ranks whose values are not in the sum, bits as in tributary_report.
} tributary_degraded_range;
/// The index-th range, ascending by element_first; neighbours that lack the same ranks are one.
/// @param range_bytes sizeof(tributary_degraded_range) as the caller knows it.
/// @return TRIBUTARY_OK, _PENDING, _INVALID (also for an index of range_count or more).
TRIBUTARY_API tributary_status tributary_operation_degraded(const tributary_operation* operation,
                                                            uint32_t index,
                                                            tributary_degraded_range* range,
                                                            size_t range_bytes);

/// Why a done operation did not end with TRIBUTARY_OK, one line; "" if it did or is not done. Lasts
/// as long as the operation.
TRIBUTARY_API const char* tributary_operation_text(const tributary_operation* operation);

/// Gives an operation back; if it is not done, waits for it first, so that the tensor is free
/// afterwards. NULL is allowed.
TRIBUTARY_API void tributary_operation_free(tributary_operation* operation);

#ifdef __cplusplus
}  // extern "C"
#endif
