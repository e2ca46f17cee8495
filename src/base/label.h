/* Labels that programs give to what they record: texts that live to the end of the process, each once. */
#ifndef BTI_BASE_LABEL_H
#define BTI_BASE_LABEL_H

#include <stdatomic.h>
#include <stdbool.h>

/* `outer/text`, or `text` where outer is NULL; the same pointer for the same text. Outside of the bound on their number, and out of memory, "...". */
const char *bti_label(const char *outer, const char *text);
/* Whether there is any so far. */
extern atomic_bool bti_labels_made;
static inline bool bti_labels_used(void) { return atomic_load_explicit(&bti_labels_made, memory_order_relaxed); }

#endif
