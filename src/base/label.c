#include "base/label.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/str.h"

/* Events and plans point to labels for as long as they please, so labels stay; a program that makes new ones for ever (a step's number) is
 * stopped here. */
enum { CHAINS = 4096, MOST = 65536, MOST_BYTES = 200 };

typedef struct label {
    struct label *next;
    char text[];
} label;

/* Protects the next two. */
BTI_STATIC_LOCK(labels_lock, labels)
static label *chains[CHAINS];
static int count;
atomic_bool bti_labels_made;

static const char *find_or_add(label **chain, const char *text, size_t length) {
    for (label *l = *chain; l; l = l->next)
        if (!strcmp(l->text, text)) return l->text;
    label *added = count < MOST ? bti_alloc(sizeof *added + length + 1) : NULL;
    if (!added) return "...";
    memcpy(added->text, text, length + 1);
    added->next = *chain;
    *chain = added;
    count++;
    atomic_store(&bti_labels_made, true);
    return added->text;
}

const char *bti_label(const char *outer, const char *text) {
    char whole[MOST_BYTES];
    int length = snprintf(whole, sizeof whole, "%s%s%s", outer ? outer : "", outer ? "/" : "", text);
    if (length < 0) return "...";
    if (length >= MOST_BYTES) length = MOST_BYTES - 1;
    uint64_t hash = XXH3_64bits(whole, (size_t)length);
    bti_lock_take(&labels_lock);
    const char *found = find_or_add(&chains[hash % CHAINS], whole, (size_t)length);
    bti_lock_give(&labels_lock);
    return found;
}
