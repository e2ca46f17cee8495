/* Rows of `berth bench`: copies between a device and memory of the host. */
#include "cli/bench_copies.h"

#include <stdlib.h>

#include "cli/bench_inputs.h"

enum { ELEMENTS = 64 << 20 };

static int64_t elements_to_copy(const bench_work *work) { return ELEMENTS / work->target->shrink; }
static size_t bytes_to_copy(const bench_work *work) { return (size_t)elements_to_copy(work) * sizeof(float); }

/* Memory of the host is written, so that the system has no pages to make while the clock runs. */
static bool fill_host(bench_work *work) {
    if (work->host) bench_fill_floats(work->host, 1, -1, 1, (size_t)elements_to_copy(work));
    return work->host;
}

static bool prepare_host(bench_work *work) {
    work->host = malloc(bytes_to_copy(work));
    return fill_host(work);
}

static void free_host(bench_work *work) { free(work->host); }

static bool prepare_pinned(bench_work *work) {
    work->host = bt_pinned(bt_default_device(), bytes_to_copy(work));
    return fill_host(work);
}

static void free_pinned(bench_work *work) { bt_pinned_free(work->host); }

static void prepare_download(bench_work *work) {
    work->inputs[0] = bench_repeated_floats(2, -1, 1, BT_SHAPE(elements_to_copy(work)));
}

static bool prepare_download_to_host(bench_work *work) {
    prepare_download(work);
    return prepare_host(work);
}

static bool prepare_download_to_pinned(bench_work *work) {
    prepare_download(work);
    return prepare_pinned(work);
}

/* An upload may return before the device has everything; a read of the last element waits for that. */
static bt_array *run_upload(bench_work *work) {
    bt_array *x = bt_from(work->host, BT_F32, BT_SHAPE(elements_to_copy(work)));
    (void)bt_item(
        bt_slice_axis(x, 0, -1, elements_to_copy(work), 1)); /* on errors the caller waits for x, and gets them */
    return x;
}

static bt_array *run_download(bench_work *work) {
    (void)!bt_read(work->inputs[0], work->host, bytes_to_copy(work)); /* on errors likewise */
    return work->inputs[0];
}

/* What the host has got. */
static bt_array *check_download(bench_work *work) {
    return bt_from(work->host, BT_F32, BT_SHAPE(elements_to_copy(work)));
}

#define COPY_ROW .bytes = 4.0 * ELEMENTS, .shrinks = 1
const bench_row bench_copy_rows[BENCH_COPY_ROWS] = {
    {"upload", "of 256 MiB", prepare_host, run_upload, NULL, free_host, COPY_ROW},
    {"download", "of 256 MiB", prepare_download_to_host, run_download, check_download, free_host, COPY_ROW},
    {"upload_pinned", "of 256 MiB of bt_pinned", prepare_pinned, run_upload, NULL, free_pinned, COPY_ROW},
    {"download_pinned", "of 256 MiB to bt_pinned", prepare_download_to_pinned, run_download, check_download,
     free_pinned, COPY_ROW},
};
