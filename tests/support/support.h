/* What the tests of the public library share: settings as in a new process, expectations, the log. */
#ifndef BERTH_TESTS_SUPPORT_SUPPORT_H
#define BERTH_TESTS_SUPPORT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "support/soon.h"

#define MIB ((size_t)1 << 20)
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* Shuts berth down, sets every flag to its default and then these: "devices=sim:gpu*2,memory_limit=8M"; last those of
 * BERTH_TEST_FLAGS in the environment, with which a test is run once more in another way. From here on the
 * log goes to log_text(), not to standard error. Fails the test when anything is still held. */
void fresh(const char *settings);
int fresh_end(void **state); /* a group's teardown */

int end_runtime(void **state); /* a test's teardown: bt_runtime_shutdown */
void sleep_ms(int64_t milliseconds);

/* The lines logged since fresh() or log_forget(), each ended by a newline. */
const char *log_text(void);
void log_forget(void);
/* How many lines hold a text. */
int log_count(const char *text);

/* The call succeeds. */
#define OK(call) expect_ok((call), #call, __FILE__, __LINE__)
void expect_ok(bt_status status, const char *what, const char *file, int line);

/* The call fails with that status; the thread's record says each of the texts (a NULL ends them). */
#define FAILS(call, status, ...) \
    expect_failure((call), status, (const char *const[]){"", ##__VA_ARGS__, NULL}, #call, __FILE__, __LINE__)
void expect_failure(bt_status got, bt_status status, const char *const *texts, const char *what, const char *file,
                    int line);

/* Reading the array fails like that. */
#define POISONED(x, status, ...) FAILS(try_read(x), status, ##__VA_ARGS__)
bt_status try_read(bt_array *x);

/* The array's elements (of any dtype, as doubles, row-major) are these. */
#define READS(x, ...)                                                                                                  \
    expect_elements((x), (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__}, \
                    #x, __FILE__, __LINE__)
void expect_elements(bt_array *x, int count, const double *elements, const char *what, const char *file, int line);

/* A text holds another. */
#define SAYS(text, part) expect_part((text), (part), __FILE__, __LINE__)
void expect_part(const char *text, const char *part, const char *file, int line);

/* Whether BERTH_TEST_DEVICES names GPUs of NVIDIA's: "cuda", or "cuda-emulated". */
bool on_cuda(void);
/* Where BERTH_TEST_DEVICES names "cuda-emulated": goes on as the same program on the machine of tests/fakes/emulated.c. */
void restart_emulated(void);

bt_device *device(const char *name);
bt_memory_info memory(const char *device_name);

/* "memory_test.c:12": this line, as errors name it; of the line `below` lines further. */
#define HERE(below) place_text(__FILE__, __LINE__ + (below))
const char *place_text(const char *file, int line); /* one of eight texts, used in turn */

#endif
