// SPDX-License-Identifier: Apache-2.0
// One rank of a job in C: averages a vector with the other ranks, several times.
//
//   cc all_reduce.c $(pkg-config --cflags --libs tributary) -o all_reduce
//   tributary serve --listen 127.0.0.1:12000 --job id=1,sources=2 &
//   ./all_reduce 'tributary://127.0.0.1:12000/job/1?rank=1&world=2' &
//   ./all_reduce 'tributary://127.0.0.1:12000/job/1?rank=0&world=2'
//
// Without an argument, the URL comes from TRIBUTARY_URL, and rank and world from the launcher.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tributary.h>

enum { kElements = 100000, kSteps = 3 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tributary_error_text());
  return EXIT_FAILURE;
}

/// Prints which ranks are missing from any block of this operation; none if blocks are imprecise
/// only.
static void print_missing(const tributary_report* report, uint32_t world) {
  printf("%" PRIu64 " of %" PRIu64 " blocks are degraded; missing ranks:", report->degraded_blocks,
         report->blocks);
  for (uint32_t rank = 0; rank < world; rank++) {
    if (report->missing[rank / 64] >> (rank % 64) & 1) printf(" %" PRIu32, rank);
  }
  printf("\n");
}

/// Averages `gradients` over all ranks. The program could do other work before the wait.
static int average(tributary_communicator* communicator, float* gradients, uint32_t world) {
  tributary_operation* operation = NULL;
  if (tributary_all_reduce_async(communicator, gradients, kElements, TRIBUTARY_FLOAT32,
                                 TRIBUTARY_MEAN, &operation) != TRIBUTARY_OK) {
    return fail("all-reduce");
  }
  int result = EXIT_SUCCESS;
  tributary_report report;
  if (tributary_wait(operation, -1) != TRIBUTARY_OK ||
      tributary_operation_report(operation, &report, sizeof report) != TRIBUTARY_OK) {
    result = fail("all-reduce");
  } else if (report.degraded_blocks > 0) {
    print_missing(&report, world);
  }
  const char* warning = tributary_operation_warning(operation);
  if (warning[0] != '\0') fprintf(stderr, "all-reduce: %s\n", warning);
  tributary_operation_free(operation);
  return result;
}

int main(int argc, char** argv) {
  tributary_communicator* communicator = NULL;
  if (tributary_join(argc > 1 ? argv[1] : NULL, &communicator) != TRIBUTARY_OK) {
    return fail("join");
  }
  tributary_info info;
  float* gradients = malloc(kElements * sizeof *gradients);
  int result = gradients == NULL ? EXIT_FAILURE : EXIT_SUCCESS;
  if (tributary_get_info(communicator, &info, sizeof info) != TRIBUTARY_OK) result = fail("info");

  for (int step = 0; step < kSteps && result == EXIT_SUCCESS; step++) {
    for (int i = 0; i < kElements; i++) gradients[i] = (float)info.rank + (float)step;
    result = average(communicator, gradients, info.world);
    if (result == EXIT_SUCCESS) printf("step %d: mean %g\n", step, (double)gradients[0]);
  }
  free(gradients);
  tributary_free(communicator);
  return result;
}
