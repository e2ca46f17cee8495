/* The forward scan of a gradient: it gets results for what the backward scan needs of its steps. */
#ifndef BTI_OPS_SCAN_STORE_H
#define BTI_OPS_SCAN_STORE_H

#include "ops/gradient.h"
#include "ops/region.h"

/* Whether the forward scan is computed once more for the gradient, whatever is stored: it has run, it belongs to a region, which others run
 * too, or a checkpoint block is computed again. */
bool bti_scan_runs_again(const bti_backward *b);

/* A scan of a region, and a tuple that is no node of it and runs that scan again, with more results: a gradient has recorded the tuple for the scan, or for an
 * equal one. Borrowed. */
typedef struct bti_scan_pair {
    const bti_node *scan, *tuple;
} bti_scan_pair;
typedef BTI_VEC(bti_scan_pair) bti_scan_pairs;
/* Whether the tuple has a pair, or gets one with a scan that has none yet. Scans in checkpoint blocks get none: what a gradient has them store is not kept. */
bt_status bti_scan_pair_up(bti_scan_pairs *pairs, const bti_region *region, const bti_node *tuple, bool *paired);

/* Has the forward scan store values of its steps; rows[k] is the array of all steps' values[k]. A value is a node of the region, or a result of a pair's tuple; then the
 * region has the tuple in the place of the scan. The forward scan itself gets more results while it is pending; else it is recorded anew. */
bt_status bti_scan_store(const bti_backward *b, const bti_node_vec *values, const bti_scan_pairs *pairs,
                         bt_array **rows);

#endif
