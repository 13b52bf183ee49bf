// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tributary in C: all-reduce in place, through an aggregator. The stable interface of libtributary
/// for C and every language that can call C. docs/c-api.md is a tour, with the promises about
/// symbol versions (TRIBUTARY_0.1 or later), numbers and growing structs.
///
/// Shapes:  A tensor is contiguous and of one type. All ranks make the same calls in the same
///          order, or all get TRIBUTARY_MISMATCH.
/// Threads: Any thread may call any function. Do not free a handle that another thread is using.
/// Errors:  Status codes, never exceptions, signals or output; tributary_error_text() explains.
/// Memory:  A tensor stays alive and untouched until its operation is done. The library owns all
///          strings; each comment says how long they last.
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

/// Grows with each addition. A program needs a library whose number is at least the number that it
/// was compiled with. Numbers never change their meaning, and structs only grow at their end.
#define TRIBUTARY_ABI 8

/// Returns TRIBUTARY_ABI of the library.
TRIBUTARY_API uint32_t tributary_abi(void);
/// Returns the version of the library, as in "0.1.0". Never freed.
TRIBUTARY_API const char* tributary_version(void);

/* --- Numbers --- */

/// The outcome of a call or an operation. 0 to 31 are outcomes of the protocol; 32 and above are
/// errors of the call. "Goes on" means that the communicator can still be used. After any other
/// outcome of 3 to 31 it is finished: every later operation ends at once with the same status, and
/// the application may join again.
typedef int32_t tributary_status;
enum {
  TRIBUTARY_OK = 0,
  TRIBUTARY_OVERFLOW = 1,    ///< A value does not fit; the tensor is unspecified. Goes on.
  TRIBUTARY_NOT_FINITE = 2,  ///< A rank has an infinity or NaN; see docs/c-api.md.
  /// The ranks that the text names fell silent (job key `silence`), or did not join or contribute
  /// by the deadline.
  TRIBUTARY_PEER_MISSING = 3,
  TRIBUTARY_PEER_LEFT = 4,  ///< A rank left or restarted while this rank waited for it.
  /// The aggregator was stopped or removed the job, or it did not answer: by the deadline, for
  /// server_silent_ms, or while its machine refused packets to its port.
  TRIBUTARY_AGGREGATOR_GONE = 5,
  TRIBUTARY_SESSION_LOST = 6,    ///< The aggregator was restarted or has ended this session.
  TRIBUTARY_DESYNCHRONISED = 7,  ///< This rank lags too far behind; rejoin with fresh parameters.
  TRIBUTARY_MISMATCH = 8,        ///< Ranks disagree: length, type, scale or operation.
  TRIBUTARY_REFUSED = 9,         ///< No such job, job full, rank taken, wrong world size.
  TRIBUTARY_CLOSED = 10,         ///< tributary_close() or tributary_free() was called.
  TRIBUTARY_PENDING = 32,        ///< Not done yet. No error: the operation continues.
  TRIBUTARY_INVALID = 33,        ///< An argument is not allowed; the text says which and why.
  TRIBUTARY_OVERLAP = 34,        ///< Overlaps a tensor in flight of the same communicator.
  TRIBUTARY_SYSTEM = 35,         ///< The system refuses a socket, memory or a thread.
  TRIBUTARY_INTERNAL = 36        ///< A bug in the library.
};
/// Returns the name, as in "peer_missing"; "unknown" for other numbers. Never freed.
TRIBUTARY_API const char* tributary_status_name(tributary_status status);

/// Types of elements. 16-bit elements are added in 32 bits and rounded once, at the end.
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

/// Returns one line with the cause of the calling thread's latest status, or "" if that status was
/// TRIBUTARY_OK. Valid until the thread's next call that returns a status.
TRIBUTARY_API const char* tributary_error_text(void);

/* --- Communicators --- */

/// One rank's membership in a job.
typedef struct tributary_communicator tributary_communicator;

/// Joins a job and waits until all its ranks have joined, at most the deadline.
///
/// `url` is tributary://HOST:PORT/job/ID?KEY=VALUE&… . HOST is a name, an IPv4 address or an IPv6
/// address in brackets; ":PORT" may be left out (12000), and so may "/job/ID" (1). Several
/// aggregators are HOST:PORT=WEIGHT,HOST:PORT=WEIGHT,… (docs/many-aggregators.md). The keys:
///
///   key          default      allowed
///   rank         environment  0 to world-1
///   world        environment  1 to 256
///   deadline_ms  60000        1 to 86400000; longest wait for a peer, the aggregator or the join
///   priorities   1            1 to 4; see tributary_all_reduce_priority_async()
///   server_wait_ms 2000       1 to 86400000; longest wait at the join for an aggregator whose
///                             machine answers that nothing listens at its port
///   server_silent_ms 2000     100 to 86400000; silence of an aggregator, in spite of questions,
///                             after which all ranks leave; with one aggregator: deadline_ms
///   gradients    auto         auto, 1 to 4095; elements per packet; the smallest of all ranks
///   window       auto         auto, 1 to 65536; packets in flight of each thread, likewise
///   threads      1            1 to 16; worker threads, likewise (docs/c-api.md)
///   format       exponent     exponent, fixed; how float32 travels (docs/c-api.md)
///   scale        1e8          above 0 and finite; for format=fixed
///   wire         auto         16: float32 in 16 bits, half the bytes (format=exponent only); 32:
///                             all types in 32 bits; auto: 16 for float16 and bfloat16
///   source       the rank     0 to 255; src_id at this worker's aggregator, in a tree of them
///   local        auto         auto, on, off; shared memory to an aggregator on this machine
///   auth         none         none, header, full; as at the server (docs/security.md)
///   secret_file  -            file with the job's secret; default: the variable TRIBUTARY_SECRET
///   asynchronous off          on, off; push changes to an asynchronous job and get its parameters,
///                             with format=fixed (docs/asynchronous.md)
///   record       -            folder for recordings of the rank's recent events, written when it
///                             ends, well or not, when a block stalls, and on signals (SIGUSR2,
///                             SIGTERM, those of bugs), which are then passed on to the program's
///                             handlers; default: the variable TRIBUTARY_RECORD
///   loss         0            0 to below 1; loses packets on purpose, both ways, for experiments
///
/// NULL or "" stands for the variable TRIBUTARY_URL. If the URL has no rank or world, they come
/// from the first of these pairs in the environment: RANK and WORLD_SIZE (torchrun, tributary
/// launch), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH, Slurm).
///
/// @param out Receives the communicator, or NULL on an error. Free it with tributary_free().
/// @return TRIBUTARY_OK, _INVALID (the URL), _SYSTEM, _AGGREGATOR_GONE, _PEER_MISSING, _REFUSED.
TRIBUTARY_API tributary_status tributary_join(const char* url, tributary_communicator** out);

/// Kinds of events. Since ABI 7.
enum {
  /// The join or a block has waited for a second, a join again every 10 s; or an aggregator that a
  /// block waits for does not answer.
  TRIBUTARY_EVENT_WAITING = 0,
  TRIBUTARY_EVENT_DEGRADED = 1,   ///< An operation has blocks that lack a rank, or are imprecise.
  TRIBUTARY_EVENT_STRAGGLER = 2,  ///< The aggregator stopped waiting for these ranks.
  TRIBUTARY_EVENT_RETURNED = 3    ///< It waits for them as before.
};
/// An event of a job.
typedef struct tributary_event {
  int32_t kind;       ///< Ignore numbers that you do not know.
  uint32_t reserved;  ///< 0.
  /// Ranks waited for, missing or lagging: rank r is bit r % 64 of word r / 64. All 0: unknown.
  uint64_t ranks[4];
  uint64_t blocks;     ///< Blocks of a degraded operation; else 0.
  uint64_t waited_ms;  ///< Length of a wait for a block; else 0.
  const char* text;    ///< One line for people. Valid during the call.
} tributary_event;
/// Receives events. A thread of the library makes the calls, one at a time, while it does no other
/// work: return soon. The function must not wait for an operation of its communicator
/// (tributary_all_reduce(), tributary_wait(), tributary_operation_free()), nor call
/// tributary_close() or tributary_free(): the thread that would end the wait is the one that makes
/// the call.
typedef void (*tributary_on_event)(const tributary_event* event, void* context);

/// Joins a job like tributary_join(), and announces events until tributary_free() has returned:
/// waits, degraded results and stragglers. Since ABI 7.
/// @param on_event NULL: no calls.
/// @param context  The function's second argument.
/// @return a value as from tributary_join().
TRIBUTARY_API tributary_status tributary_join_watched(const char* url, tributary_on_event on_event,
                                                      void* context, tributary_communicator** out);

/// Sends leaves to the aggregator and ends all operations with TRIBUTARY_CLOSED. Threads that
/// wait for one of them return. The handle still answers queries.
TRIBUTARY_API tributary_status tributary_close(tributary_communicator* communicator);

/// Closes the communicator if it is open, and frees the handle. NULL is allowed. Its operations are
/// done and stay valid.
TRIBUTARY_API void tributary_free(tributary_communicator* communicator);

/// The terms agreed with the aggregator.
typedef struct tributary_info {
  uint32_t rank;
  uint32_t world;
  uint32_t job;
  uint32_t gradients;             ///< Elements per packet: the grain of degraded ranges.
  uint32_t window;                ///< Packets in flight of each thread, at most.
  uint32_t straggler_timeout_us;  ///< 0: blocks wait for every rank (no mitigation).
  uint64_t deadline_ms;
  uint32_t threads;   ///< Channels: worker threads times aggregators. Since ABI 3.
  uint32_t reserved;  ///< 0.
} tributary_info;
/// Writes the agreed terms. @param info_bytes The caller's sizeof(tributary_info).
TRIBUTARY_API tributary_status tributary_get_info(const tributary_communicator* communicator,
                                                  tributary_info* info, size_t info_bytes);

/// Events since the communicator joined. Updated whenever an operation ends.
typedef struct tributary_counters {
  uint64_t packets_sent;
  uint64_t packets_received;
  uint64_t retransmitted;  ///< Contributions sent again.
  uint64_t probes;         ///< Questions about a block, without its elements.
  uint64_t blocks;         ///< Results accepted.
  uint64_t degraded_blocks;
  uint64_t duplicate_results;
  uint64_t invalid_packets;  ///< Malformed, foreign or of another session; ignored.
  uint64_t underflowed;      ///< Non-zero elements of this rank that counted as 0. Since ABI 4.
} tributary_counters;
/// Writes the counters. @param counters_bytes The caller's sizeof(tributary_counters).
TRIBUTARY_API tributary_status tributary_get_counters(const tributary_communicator* communicator,
                                                      tributary_counters* counters,
                                                      size_t counters_bytes);

/* --- All-reduce --- */

/// One all-reduce, in flight or done.
typedef struct tributary_operation tributary_operation;

/// Replaces the tensor by its sum or mean over all ranks. Returns when that is done. An empty
/// tensor is done at once without a packet, so it is not compared with the other ranks' calls. Its
/// `data` may be NULL.
/// @return An outcome, or TRIBUTARY_INVALID, _OVERLAP.
TRIBUTARY_API tributary_status tributary_all_reduce(tributary_communicator* communicator,
                                                    void* data, uint64_t element_count,
                                                    int32_t type, int32_t op);

/// Starts an all-reduce and returns at once. Several may be in flight if their tensors do not
/// overlap, which the library checks within one communicator. They travel in the order of these
/// calls. With format=exponent, the gradients of a tensor smaller than a window of blocks go a
/// round trip after its exponents, and later tensors overtake them.
/// @param out Receives the operation, or NULL on an error. Free it with tributary_operation_free().
///            Operations of a finished communicator are done at once.
/// @return TRIBUTARY_OK, _INVALID, _OVERLAP, _SYSTEM.
TRIBUTARY_API tributary_status tributary_all_reduce_async(tributary_communicator* communicator,
                                                          void* data, uint64_t element_count,
                                                          int32_t type, int32_t op,
                                                          tributary_operation** out);

/// Starts an all-reduce of this priority: with `priorities=N` in the URL, packets of a lower number
/// leave first, and tensors of each priority travel in the order of these calls. All ranks must
/// give a tensor the same priority. tributary_all_reduce_async() has priority 0. Since ABI 5.
/// @param priority 0: the most urgent. From N - 1 on, all are the same.
/// @return a value as from tributary_all_reduce_async().
TRIBUTARY_API tributary_status tributary_all_reduce_priority_async(
    tributary_communicator* communicator, void* data, uint64_t element_count, int32_t type,
    int32_t op, uint32_t priority, tributary_operation** out);

/* --- A result for one rank --- */

/// Starts a reduction: the tensor of the rank `root` becomes the sum or mean over all ranks. Those
/// of the other ranks are only read, and must stay as they are until the operation is done. So a
/// rank other than the root receives no elements, but learns the outcome, as in tributary_report.
/// Operations of all kinds travel in the order of these calls. All ranks must give a tensor the
/// same root. With format=fixed the aggregator still sends float32 results to all ranks. Since ABI
/// 8.
/// @param root     Below the world. Not allowed with asynchronous=on.
/// @param priority See tributary_all_reduce_priority_async().
/// @return a value as from tributary_all_reduce_async().
TRIBUTARY_API tributary_status tributary_reduce_async(tributary_communicator* communicator,
                                                      void* data, uint64_t element_count,
                                                      int32_t type, int32_t op, uint32_t root,
                                                      uint32_t priority, tributary_operation** out);

/* --- A rank that is behind --- */

/// The progress of this rank's streams of tensors and of the other ranks', added up over all
/// channels. In packets: of gradients, and with format=exponent of exponents sent ahead. Since ABI
/// 2.
typedef struct tributary_progress {
  uint64_t submitted;  ///< Packets of the tensors that this rank has submitted.
  uint64_t heard;      ///< One past the last packet with a result. Larger than `submitted` if the
                       ///< others continued without this rank (straggler mitigation).
  /// Ranks that an aggregator does not wait for, because they contributed nothing for
  /// `permanent_ms`: rank r is bit r % 64 of word r / 64. Updated whenever an operation ends. Since
  /// ABI 6.
  uint64_t permanent_stragglers[4];
} tributary_progress;
/// Writes the progress. It is up to date within one burst of packets for operations that were
/// awaited. @param progress_bytes The caller's sizeof(tributary_progress).
TRIBUTARY_API tributary_status tributary_get_progress(const tributary_communicator* communicator,
                                                      tributary_progress* progress,
                                                      size_t progress_bytes);

/// Starts to receive the sum or mean of the other ranks and contributes nothing. Use it instead of
/// tributary_all_reduce_async() on a rank that would be late anyway. `data` is only written. The
/// operation waits until the others have done this all-reduce without this rank. Without straggler
/// mitigation it ends at the deadline. Not allowed with asynchronous=on. Since ABI 2.
/// @return a value as from tributary_all_reduce_async().
TRIBUTARY_API tributary_status tributary_receive_async(tributary_communicator* communicator,
                                                       void* data, uint64_t element_count,
                                                       int32_t type, int32_t op,
                                                       tributary_operation** out);

/* --- Waiting, and outcomes --- */

/// Waits until the operation is done. May be called any number of times, from any thread.
/// @param timeout_ms Below 0: no timeout; the communicator's deadline bounds the wait. 0: returns
///                   at once.
/// @return The operation's outcome, or TRIBUTARY_PENDING after the timeout.
TRIBUTARY_API tributary_status tributary_wait(tributary_operation* operation, int64_t timeout_ms);

/// The outcome of an operation that is done.
typedef struct tributary_report {
  tributary_status status;
  uint32_t range_count;       ///< Degraded ranges, see tributary_operation_degraded().
  uint64_t blocks;            ///< Packets' worth of elements.
  uint64_t degraded_blocks;   ///< Blocks that lack at least one rank, or are imprecise.
  uint64_t missing[4];        ///< Ranks that some block lacks: rank r is bit r % 64 of word r / 64.
  uint64_t imprecise_blocks;  ///< Less precise than docs/number-formats.md promises. Since ABI 4.
  uint64_t nonzero;           ///< Floats of this rank's tensor that were not 0. Since ABI 4.
  uint64_t underflowed;       ///< Nonzero floats that were too small and counted as 0. Since ABI 4.
  /// Asynchronous jobs: pushes of other ranks since this rank's previous result, over all blocks
  /// and of the block with most. Since ABI 5.
  uint64_t staleness_sum;
  uint64_t staleness_max;
} tributary_report;
/// Writes the outcome. @param report_bytes The caller's sizeof(tributary_report).
/// @return TRIBUTARY_OK, _PENDING (nothing is written), _INVALID.
TRIBUTARY_API tributary_status tributary_operation_report(const tributary_operation* operation,
                                                          tributary_report* report,
                                                          size_t report_bytes);

/// Elements of the tensor that were summed without every rank, or imprecisely (straggler
/// mitigation).
typedef struct tributary_degraded_range {
  uint64_t element_first;
  uint64_t element_count;
  uint64_t missing[4];  ///< Ranks whose values are not in the sum, bits as in tributary_report.
  uint32_t imprecise;   ///< 1: see tributary_report.imprecise_blocks. Since ABI 4.
  uint32_t reserved;    ///< 0.
} tributary_degraded_range;
/// Writes the index-th range, ascending by element_first. Neighbouring blocks form one range if
/// they lack the same ranks and all or none of them are imprecise.
/// @param range_bytes The caller's sizeof(tributary_degraded_range).
/// @return TRIBUTARY_OK, _PENDING, _INVALID (also for an index of range_count or more).
TRIBUTARY_API tributary_status tributary_operation_degraded(const tributary_operation* operation,
                                                            uint32_t index,
                                                            tributary_degraded_range* range,
                                                            size_t range_bytes);

/// Returns one line with the cause of the operation's failure, or "" if it succeeded or is not
/// done. Valid as long as the operation.
TRIBUTARY_API const char* tributary_operation_text(const tributary_operation* operation);

/// Returns one line if the operation succeeded but its result is less precise than one may expect:
/// many elements counted as 0, or blocks are imprecise. Else "". Valid as long as the operation.
/// Since ABI 4.
TRIBUTARY_API const char* tributary_operation_warning(const tributary_operation* operation);

/// Frees an operation. Waits first if it is not done, so the tensor may be reused afterwards. NULL
/// is allowed.
TRIBUTARY_API void tributary_operation_free(tributary_operation* operation);

#ifdef __cplusplus
}  // extern "C"
#endif
