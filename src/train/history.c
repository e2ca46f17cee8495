#include "train/history.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

const char *bti_history_name(const bti_history *h, int column) {
    return column < BTI_COLUMNS ? bti_history_column(column) : h->metrics[column - BTI_COLUMNS].name;
}

bt_status bti_history_add(bti_history *h, const double *row) {
    if (!bti_vec_reserve(&h->cells, (size_t)bti_history_width(h))) return bti_no_memory();
    for (int c = 0; c < bti_history_width(h); c++) h->cells.items[h->cells.count++] = row[c];
    return BT_OK;
}

/* A name of the program's may have anything in it. */
static void add_quoted(bti_str *text, const char *name) {
    if (!strpbrk(name, ",\"\r\n")) {
        bti_str_add(text, name);
        return;
    }
    bti_str_add(text, "\"");
    for (; *name; name++) bti_str_addf(text, *name == '"' ? "\"\"" : "%c", *name);
    bti_str_add(text, "\"");
}

void bti_history_csv(const bti_history *h, bti_str *text) {
    for (int c = 0; c < bti_history_width(h); c++) {
        if (c) bti_str_add(text, ",");
        add_quoted(text, bti_history_name(h, c));
    }
    bti_str_add(text, "\n");
    for (int64_t r = 0; r < bti_history_rows(h); r++) {
        for (int c = 0; c < bti_history_width(h); c++) {
            double cell = bti_history_at(h, r, c);
            if (c) bti_str_add(text, ",");
            if (!isnan(cell)) bti_str_addf(text, c <= BTI_STEPS ? "%.0f" : "%.17g", cell);
        }
        bti_str_add(text, "\n");
    }
}

void bti_history_free(bti_history *h) { bti_vec_free(&h->cells); }
