// SPDX-License-Identifier: Apache-2.0
// Method: the header in C11, and the library linked from C, as far as neither needs an aggregator.
// Exits with the number of the first line that is wrong.
#include <string.h>
#include <tributary.h>

#define CHECK(condition) \
  do {                   \
    if (!(condition)) {  \
      return __LINE__;   \
    }                    \
  } while (0)

// Callers in other languages write these layouts by hand.
_Static_assert(sizeof(tributary_info) == 40, "info has no holes");
_Static_assert(offsetof(tributary_info, deadline_ms) == 24, "info");
_Static_assert(offsetof(tributary_info, reserved) == 36, "info");
_Static_assert(sizeof(tributary_counters) == 72, "counters");
_Static_assert(sizeof(tributary_report) == 96, "report");
_Static_assert(offsetof(tributary_report, blocks) == 8, "report has no holes");
_Static_assert(sizeof(tributary_degraded_range) == 56, "range");

int main(void) {
  CHECK(tributary_abi() == TRIBUTARY_ABI);
  CHECK(strcmp(tributary_version(), "0.1.0") == 0);
  CHECK(strcmp(tributary_status_name(TRIBUTARY_MISMATCH), "mismatch") == 0);

  tributary_communicator* communicator = (tributary_communicator*)&communicator;
  CHECK(tributary_join("ftp://nowhere", &communicator) == TRIBUTARY_INVALID);
  CHECK(communicator == NULL);
  CHECK(strstr(tributary_error_text(), "tributary://HOST:PORT") != NULL);

  tributary_operation* operation = (tributary_operation*)&operation;
  int32_t value = 1;
  CHECK(tributary_all_reduce_async(NULL, &value, 1, TRIBUTARY_INT32, TRIBUTARY_SUM, &operation) ==
        TRIBUTARY_INVALID);
  CHECK(operation == NULL);
  tributary_operation_free(operation);
  tributary_free(communicator);
  return 0;
}
