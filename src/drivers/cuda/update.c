/* Recordings that get other arguments. The launches are made again, but compared with the recorded ones instead of launched; when all are the same but for addresses and numbers, the nodes
 * whose words differ are set. CUDA's documentation: that concerns later launches of the graph alone; the node is that of the graph which was instantiated, and must still be there; the function's
 * context stays, and copies and fills keep their sizes. */
#include <string.h>

#include "base/alloc.h"
#include "drivers/cuda/update.h"

struct bti_cuda_capture *bti_cuda_own_capture(const bti_cuda_device *device) {
    struct bti_cuda_capture *capture = device->capture;
    return capture && pthread_equal(capture->thread, pthread_self()) ? capture : NULL;
}

/* It is what the stream comes after now. */
bt_status bti_cuda_last_node(bti_cuda_device *device, const struct bti_cuda_capture *capture, CUgraphNode *node) {
    const CUgraphNode *after = NULL;
    size_t count = 0;
    int state;
    BTI_CUDA_TRY(device, cuStreamGetCaptureInfo, capture->stream, &state, NULL, NULL, &after, &count);
    if (count != 1) return bti_fail(BT_INTERNAL, "%s: %zu last nodes in a recording", device->name, count);
    *node = *after;
    return BT_OK;
}

void bti_cuda_nodes_free(bti_cuda_nodes *nodes) {
    bti_vec_free(&nodes->items);
    bti_vec_free(&nodes->words);
}

static bool add_words(bti_cuda_nodes *nodes, const bti_cuda_launched *what) {
    if (!bti_vec_reserve(&nodes->words, what->word_count)) return false;
    memcpy(nodes->words.items + nodes->words.count, what->words, what->word_count * sizeof *what->words);
    nodes->words.count += what->word_count;
    return true;
}

void bti_cuda_note(bti_cuda_device *device, const bti_cuda_launched *what) {
    struct bti_cuda_capture *capture = bti_cuda_own_capture(device);
    if (!capture || capture->nodes.fixed) return;
    bti_cuda_node noted = {.what = *what, .first_word = capture->nodes.words.count};
    noted.what.words = NULL;
    bti_error *before = bti_error_last();
    bool is_noted = bti_cuda_last_node(device, capture, &noted.node) == BT_OK && add_words(&capture->nodes, what) &&
                    bti_vec_push(&capture->nodes.items, noted);
    bti_error_put_back(before);
    capture->nodes.fixed = !is_noted;
}

static bool is_same(const bti_cuda_launched *a, const bti_cuda_launched *b) {
    return a->kind == b->kind && a->function == b->function && a->groups == b->groups && a->threads == b->threads &&
           a->bytes == b->bytes && a->byte == b->byte && a->word_count == b->word_count;
}

bool bti_cuda_is_update(bti_cuda_device *device, const bti_cuda_launched *what) {
    struct bti_cuda_capture *capture = bti_cuda_own_capture(device);
    if (!capture || !capture->updated) return false;
    const bti_cuda_nodes *known = &capture->updated->nodes;
    bool same = !capture->refused && capture->matched < known->items.count &&
                is_same(&known->items.items[capture->matched].what, what) && add_words(&capture->nodes, what);
    capture->matched++;
    capture->refused = !same;
    return true;
}

bool bti_cuda_cannot_update(bti_cuda_device *device) {
    struct bti_cuda_capture *capture = bti_cuda_own_capture(device);
    if (!capture) return false;
    if (capture->updated)
        capture->refused = true;
    else
        capture->nodes.fixed = true;
    return capture->updated;
}

bt_status bti_cuda_graph_update(void *opened, void *recorded, bool *can) {
    bti_cuda_device *device = opened;
    bti_cuda_graph *known = recorded;
    *can = !known->nodes.fixed && known->nodes.items.count;
    if (!*can) return BT_OK;
    if (device->capture) return bti_fail(BT_FAILED_PRECONDITION, "%s: a graph is being recorded already", device->name);
    struct bti_cuda_capture *capture = bti_calloc(1, sizeof *capture);
    if (!capture) return bti_no_memory();
    capture->updated = known;
    capture->thread = pthread_self();
    capture->scratch_moves = device->gpu.scratch_moves;
    device->capture = capture;
    return BT_OK;
}

/* --- nodes ------------------------------------------------------------------------------------------------------------ */

static bt_status set_kernel(bti_cuda_device *device, CUgraphExec executable, const bti_cuda_node *at, uint64_t *words) {
    void *parameters[] = {words};
    const CUDA_KERNEL_NODE_PARAMS wanted = {.func = at->what.function,
                                            .gridDimX = at->what.groups,
                                            .gridDimY = 1,
                                            .gridDimZ = 1,
                                            .blockDimX = at->what.threads,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .sharedMemBytes = (unsigned)at->what.bytes,
                                            .kernelParams = parameters};
    BTI_CUDA_TRY(device, cuGraphExecKernelNodeSetParams, executable, at->node, &wanted);
    return BT_OK;
}

static bt_status set_copy(bti_cuda_device *device, CUgraphExec executable, const bti_cuda_node *at,
                          const uint64_t *words) {
    const CUDA_MEMCPY3D wanted = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .srcDevice = words[1],
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = words[0],
                                  .WidthInBytes = at->what.bytes,
                                  .Height = 1,
                                  .Depth = 1};
    BTI_CUDA_TRY(device, cuGraphExecMemcpyNodeSetParams, executable, at->node, &wanted, device->context);
    return BT_OK;
}

static bt_status set_fill(bti_cuda_device *device, CUgraphExec executable, const bti_cuda_node *at,
                          const uint64_t *words) {
    const CUDA_MEMSET_NODE_PARAMS wanted = {
        .dst = words[0], .value = (unsigned)at->what.byte, .elementSize = 1, .width = at->what.bytes, .height = 1};
    BTI_CUDA_TRY(device, cuGraphExecMemsetNodeSetParams, executable, at->node, &wanted, device->context);
    return BT_OK;
}

static bt_status set_nodes(bti_cuda_device *device, const bti_cuda_graph *known, uint64_t *words) {
    for (size_t i = 0; i < known->nodes.items.count; i++) {
        const bti_cuda_node *at = &known->nodes.items.items[i];
        uint64_t *wanted = words + at->first_word, *had = known->nodes.words.items + at->first_word;
        if (!memcmp(wanted, had, at->what.word_count * sizeof *wanted)) continue;
        switch (at->what.kind) {
        case BTI_CUDA_KERNEL: BTI_TRY(set_kernel(device, known->executable, at, wanted)); break;
        case BTI_CUDA_COPY: BTI_TRY(set_copy(device, known->executable, at, wanted)); break;
        case BTI_CUDA_FILL: BTI_TRY(set_fill(device, known->executable, at, wanted)); break;
        }
    }
    return BT_OK;
}

bt_status bti_cuda_end_update(bti_cuda_device *device, void **changed) {
    struct bti_cuda_capture *capture = device->capture;
    bti_cuda_graph *known = capture->updated;
    if (capture->refused || capture->matched != known->nodes.items.count) return BT_OK;
    BTI_TRY(set_nodes(device, known, capture->nodes.words.items));
    bti_cuda_nodes before = known->nodes;
    known->nodes.words = capture->nodes.words;
    capture->nodes.words = before.words;
    known->scratch_moves = capture->scratch_moves;
    *changed = known;
    return BT_OK;
}
