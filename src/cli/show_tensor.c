#include "cli/show_tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

char *cli_printable(const char *text, size_t most) {
    size_t length = strlen(text), kept = most && length > most ? most : length;
    while (kept < length && kept && ((unsigned char)text[kept] & 0xc0) == 0x80) kept--; /* not within a character */
    char *copy = malloc(kept + 4);
    if (!copy) return NULL;
    for (size_t i = 0; i < kept; i++)
        copy[i] = (char)((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
    strcpy(copy + kept, kept < length ? "..." : "");
    return copy;
}

void cli_tensor_measure(cli_tensor *t, cli_totals *all) {
    size_t at = 1;
    t->shape[0] = '(', t->shape[1] = '\0';
    t->elements = 1;
    for (int i = 0; i < t->info.rank && i < BT_MAX_RANK; i++) {
        int64_t size = t->info.shape.size[i];
        at += (size_t)snprintf(t->shape + at, sizeof t->shape - at, "%s%" PRId64, i ? ", " : "", size);
        if (t->elements >= 0 && __builtin_mul_overflow(t->elements, size, &t->elements)) t->elements = -1;
    }
    const char *end = t->info.rank > BT_MAX_RANK ? ", ...)" : t->info.rank == 1 ? ",)" : ")";
    snprintf(t->shape + at, sizeof t->shape - at, "%s", end);
    bool known = t->info.dtype < BT_DTYPE_COUNT && t->info.rank <= BT_MAX_RANK && t->elements >= 0;
    if (!known) t->elements = -1;
    t->bytes = known ? (uint64_t)t->elements * bt_dtype_size(t->info.dtype) : 0;
    if (known)
        all->elements += t->elements, all->bytes += t->bytes;
    else
        all->unknown++;
}

json_t *cli_tensor_json(const cli_tensor *t) {
    json_t *shape = json_array();
    for (int i = 0; i < t->info.rank && i < BT_MAX_RANK; i++)
        json_array_append_new(shape, json_integer(t->info.shape.size[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", t->info.name, "dtype", t->info.dtype_name, "shape", shape,
                     "elements", t->elements >= 0 ? json_integer(t->elements) : json_null(), "bytes",
                     t->elements >= 0 ? json_integer((json_int_t)t->bytes) : json_null());
}
