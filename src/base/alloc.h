/* Memory of the host. Every allocation of the library goes through here, so that tests can make the nth one fail. */
#ifndef BTI_BASE_ALLOC_H
#define BTI_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when memory is short or a test asked for it. Sizes of 0 give a valid pointer. */
void *bti_alloc(size_t bytes);
void *bti_calloc(size_t count, size_t bytes);
void *bti_realloc(void *memory, size_t bytes);
char *bti_strdup(const char *text);
/* `alignment` is a power of two, at least the size of a pointer. */
void *bti_alloc_aligned(size_t alignment, size_t bytes);
/* Memory that is about to be used from end to end: in huge pages, where it is large and the system has some. */
void *bti_alloc_large(size_t bytes);
void bti_free(void *memory);

/* Memory of devices that lies on the host: counted by bti_host_memory_claim until it is freed. NULL: the system does not have it. */
void *bti_alloc_claimed(size_t alignment, size_t bytes);
void bti_free_claimed(void *memory, size_t bytes); /* as it was asked for; NULL is fine */

/* a * b and a + b, false on overflow. */
static inline bool bti_mul_size(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }
static inline bool bti_add_size(size_t a, size_t b, size_t *sum) { return !__builtin_add_overflow(a, b, sum); }

/* For tests: the nth allocation from now fails (1 is the next; 0 turns it off); once, or every one from there on.
 * bti_alloc_count tells how many were asked for since the last call of either. */
void bti_alloc_fail_at(uint64_t nth, bool and_after);
uint64_t bti_alloc_count(void);
bool bti_alloc_is_tested(void); /* some are to fail */

#endif
