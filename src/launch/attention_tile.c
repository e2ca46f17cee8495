#include "launch/attention_tile.h"

#include "launch/entry.h"

enum { VECTOR_BYTES = 16 };

/* {threads, across, each_rows, each_columns, span, width}, in float32 and in float64. Rows by columns of a thread decide how much is read of local memory for a product; the large tiles
 * leave room for two groups of queries on a multiprocessor of 228 KiB, the middle ones for one where a group has 99 KiB at most, the small ones where it has 32 KiB. */
static const bti_attention_tile tiles[BTI_ATTEND_TEXTS][BTI_TILE_SIZES][2] = {
    [BTI_ATTEND] = {{{128, 8, 8, 8, 64, 64}, {128, 8, 4, 4, 64, 64}},
                    {{64, 8, 8, 8, 64, 64}, {128, 8, 4, 4, 64, 64}},
                    {{64, 8, 4, 4, 32, 32}, {64, 8, 2, 2, 32, 32}}},
    [BTI_ATTEND_FEW] = {{{32, 8, 1, 8, 64, 64}, {32, 8, 1, 4, 64, 64}},
                        {{32, 8, 1, 8, 64, 64}, {32, 8, 1, 4, 64, 64}},
                        {{32, 8, 1, 4, 32, 32}, {32, 8, 1, 2, 32, 32}}},
    [BTI_ATTEND_SEVERAL] = {{{32, 8, 4, 8, 64, 64}, {32, 8, 4, 4, 64, 64}},
                            {{32, 8, 4, 8, 64, 64}, {32, 8, 4, 4, 64, 64}},
                            {{32, 8, 4, 4, 32, 32}, {32, 8, 4, 2, 32, 32}}},
    [BTI_ATTEND_QUERIES] = {{{256, 16, 8, 4, 64, 64}, {128, 8, 4, 4, 32, 32}},
                            {{128, 8, 4, 4, 64, 64}, {128, 8, 4, 4, 32, 32}},
                            {{64, 8, 4, 2, 32, 32}, {64, 8, 2, 2, 32, 32}}},
    [BTI_ATTEND_KEYS] = {{{256, 16, 8, 4, 64, 64}, {128, 8, 4, 4, 32, 32}},
                         {{128, 8, 4, 4, 64, 64}, {128, 8, 4, 4, 32, 32}},
                         {{64, 8, 4, 2, 32, 32}, {64, 8, 2, 2, 32, 32}}},
};

static int elements_of(const bti_attention_tile *tile, bti_attention_text text, int vector) {
    int pitch = tile->span + vector, of_tile = tile->rows * (tile->columns + tile->across);
    if (text >= BTI_ATTEND_QUERIES) return (2 * tile->rows + 4 * tile->columns) * pitch + of_tile;
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
