#include "launch/attention_tile.h"

#include "launch/entry.h"

enum { VECTOR_BYTES = 16 };

/* {threads, across, each_rows, each_columns, span, width}, in float32 and in float64. Rows and columns of a thread decide how much of local memory is read for a product: 8 x 8 are read at the speed of
 * multiplication. Large tiles leave room for two groups on a multiprocessor of 228 KiB, middle ones for four; small ones fit where a group has 32 KiB. */
static const bti_attention_tile tiles[BTI_ATTEND_TEXTS][BTI_TILE_SIZES][2] = {
    [BTI_ATTEND] = {{{256, 16, 8, 4, 128, 128}, {128, 8, 4, 4, 64, 64}},
                    {{128, 8, 8, 8, 64, 64}, {128, 8, 4, 4, 64, 64}},
                    {{128, 16, 4, 4, 64, 64}, {128, 8, 4, 4, 64, 64}},
                    {{64, 8, 4, 4, 32, 32}, {64, 8, 2, 2, 32, 32}}},
    [BTI_ATTEND_PAIR] = {{{32, 16, 1, 4, 64, 64}, {32, 16, 1, 2, 64, 64}},
                         {{32, 16, 1, 4, 64, 64}, {32, 16, 1, 2, 64, 64}},
                         {{32, 16, 1, 4, 64, 64}, {32, 16, 1, 2, 64, 64}},
                         {{32, 8, 1, 4, 32, 32}, {32, 8, 1, 2, 32, 32}}},
    [BTI_ATTEND_FEW] = {{{32, 16, 2, 4, 64, 64}, {32, 16, 2, 2, 64, 64}},
                        {{32, 16, 2, 4, 64, 64}, {32, 16, 2, 2, 64, 64}},
                        {{32, 16, 2, 4, 64, 64}, {32, 16, 2, 2, 64, 64}},
                        {{32, 8, 1, 4, 32, 32}, {32, 8, 1, 2, 32, 32}}},
    [BTI_ATTEND_SEVERAL] = {{{32, 16, 4, 4, 64, 64}, {32, 16, 4, 2, 64, 64}},
                            {{32, 16, 4, 4, 64, 64}, {32, 16, 4, 2, 64, 64}},
                            {{32, 16, 4, 4, 64, 64}, {32, 16, 4, 2, 64, 64}},
                            {{32, 8, 2, 4, 32, 32}, {32, 8, 2, 2, 32, 32}}},
    [BTI_ATTEND_QUERIES] = {{{256, 16, 4, 4, 128, 128}, {128, 8, 4, 4, 32, 32}},
                            {{128, 16, 8, 4, 64, 64}, {128, 8, 4, 4, 32, 32}},
                            {{128, 16, 4, 4, 64, 64}, {128, 8, 4, 4, 32, 32}},
                            {{64, 8, 4, 2, 32, 32}, {64, 8, 2, 2, 32, 32}}},
    [BTI_ATTEND_KEYS] = {{{256, 16, 4, 4, 128, 128}, {128, 8, 4, 2, 32, 32}},
                         {{128, 16, 8, 4, 64, 64}, {128, 8, 4, 2, 32, 32}},
                         {{128, 16, 4, 4, 64, 64}, {128, 8, 4, 2, 32, 32}},
                         {{64, 8, 4, 2, 32, 32}, {64, 8, 2, 2, 32, 32}}},
};

static int elements_of(const bti_attention_tile *tile, bti_attention_text text, int vector) {
    int pitch = tile->span + vector, of_tile = tile->rows * (tile->columns + tile->across);
    if (text >= BTI_ATTEND_QUERIES) return 2 * (tile->rows + tile->columns) * pitch + of_tile;
    return (tile->rows + tile->columns) * pitch + tile->columns * tile->width + of_tile;
}

bti_attention_tile bti_attention_tile_of(bti_attention_text text, bti_attention_size size, bt_dtype dtype) {
    int bytes = (int)bt_dtype_size(dtype);
    bti_attention_tile tile = tiles[text][size][dtype == BT_F64];
    if (!tile.threads) return (bti_attention_tile){.threads = BTI_GROUP};
    tile.rows = tile.threads / tile.across * tile.each_rows;
    tile.columns = tile.across * tile.each_columns;
    tile.local_bytes = (size_t)(elements_of(&tile, text, VECTOR_BYTES / bytes) * bytes);
    return tile;
}
