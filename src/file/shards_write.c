/* Writes safetensors in shards, with an index. */
#include <stdlib.h>
#include <string.h>

#include <berth/file.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/safetensors.h"

#define TOTAL_SIZE "total_size" /* of all elements, in bytes: a number in the metadata of the index */
#define INDEX_SUFFIX ".safetensors.index.json"
enum { MOST_SHARDS = 99999 };

typedef struct shard {
    int first, count; /* of the arrays */
    char *path;
    bti_writer writer;
} shard;

typedef struct save {
    const char *const *names;
    bt_array *const *arrays;
    int count;
    const char *const *metadata;
    shard *shards;
    int shard_count;
} save;

static uint64_t array_bytes(const bt_array *array) {
    return (uint64_t)bt_count(array) * bt_dtype_size(bt_dtype_of(array));
}

/* Arrays in their order, as many in a shard as fit; one that is larger has a shard of its own. */
static bt_status divide(save *s, uint64_t shard_bytes) {
    uint64_t bytes = 0;
    s->shards = bti_calloc((size_t)s->count + 1, sizeof *s->shards);
    if (!s->shards) return bti_no_memory();
    for (int i = 0; i < s->count; i++) {
        uint64_t more = array_bytes(s->arrays[i]);
        if (!s->shard_count || more > shard_bytes || bytes > shard_bytes - more) {
            s->shards[s->shard_count++] = (shard){.first = i, .writer.fd = -1};
            bytes = 0;
        }
        s->shards[s->shard_count - 1].count++;
        bytes += more;
    }
    if (s->shard_count > MOST_SHARDS)
        return bti_fail(BT_OUT_OF_RANGE, "%d shards of %llu bytes; at most %d are allowed", s->shard_count,
                        (unsigned long long)shard_bytes, MOST_SHARDS);
    return BT_OK;
}

/* "model-00001-of-00002.safetensors" beside "model.safetensors.index.json" */
static bt_status name_shards(save *s, const char *path) {
    int stem = (int)(strlen(path) - strlen(INDEX_SUFFIX));
    for (int i = 0; i < s->shard_count; i++) {
        bti_str text = {0};
        bti_str_addf(&text, "%.*s-%05d-of-%05d.safetensors", stem, path, i + 1, s->shard_count);
        if (!(s->shards[i].path = bti_str_take(&text))) return bti_no_memory();
    }
    return BT_OK;
}

static bt_status write_shard(const save *s, shard *of) {
    bti_safetensors file;
    bt_status status =
        bti_safetensors_prepare(&file, s->names + of->first, s->arrays + of->first, of->count, s->metadata);
    if (status == BT_OK) status = bti_writer_open(&of->writer, of->path);
    if (status == BT_OK) status = bti_safetensors_write(&file, &of->writer);
    if (status == BT_OK) status = bti_writer_sync(&of->writer);
    bti_safetensors_free(&file);
    return status;
}

static json_t *index_metadata(const save *s, json_int_t bytes) {
    json_t *object = json_pack("{s:I}", TOTAL_SIZE, bytes);
    for (const char *const *pair = s->metadata; object && pair && pair[0]; pair += 2)
        if (json_object_set_new(object, pair[0], json_string(pair[1]))) return json_decref(object), NULL;
    return object;
}

static json_t *describe_shards(const save *s) {
    json_int_t bytes = 0;
    json_t *map = json_object();
    for (int i = 0; i < s->shard_count; i++) {
        const shard *of = &s->shards[i];
        const char *slash = strrchr(of->path, '/');
        for (int a = of->first; a < of->first + of->count; a++) {
            bytes += (json_int_t)array_bytes(s->arrays[a]);
            if (json_object_set_new(map, s->names[a], json_string(slash ? slash + 1 : of->path)))
                return json_decref(map), NULL;
        }
    }
    json_t *metadata = index_metadata(s, bytes);
    if (!metadata) return json_decref(map), NULL;
    return json_pack("{s:o, s:o}", "metadata", metadata, "weight_map", map);
}

static bt_status write_index(const char *path, const save *s) {
    json_t *index = describe_shards(s);
    char *text = index ? json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    bti_writer writer = {.fd = -1};
    bt_status status = text ? bti_writer_open(&writer, path)
                            : bti_fail(BT_INVALID_ARGUMENT, "%s: its name is not UTF-8, or memory is short", path);
    if (status == BT_OK) status = bti_writer_add(&writer, text, strlen(text));
    if (status == BT_OK) status = bti_writer_add(&writer, "\n", 1);
    if (status == BT_OK) status = bti_writer_commit(&writer);
    bti_writer_discard(&writer);
    free(text);
    json_decref(index);
    return status;
}

static bt_status check_shards(const char *path, const char *const *metadata, uint64_t shard_bytes) {
    size_t length = path ? strlen(path) : 0, suffix = strlen(INDEX_SUFFIX);
    if (length < suffix || strcmp(path + length - suffix, INDEX_SUFFIX))
        return bti_fail(BT_INVALID_ARGUMENT, "the path of an index ends in \"" INDEX_SUFFIX "\", not as \"%s\"",
                        bti_quote(path ? path : "NULL").text);
    for (; metadata && metadata[0] && metadata[1]; metadata += 2)
        if (!strcmp(metadata[0], TOTAL_SIZE))
            return bti_fail(BT_INVALID_ARGUMENT, "the metadata key \"" TOTAL_SIZE "\" belongs to the format");
    return shard_bytes ? BT_OK : bti_fail(BT_INVALID_ARGUMENT, "shards of 0 bytes");
}

bt_status bt_save_shards(const char *path, const char *const *names, bt_array *const *arrays, int count,
                         const char *const *metadata, uint64_t shard_bytes) {
    BTI_PUBLIC("bt_save_shards");
    BTI_TRY(check_shards(path, metadata, shard_bytes));
    save s = {names, arrays, count, metadata, NULL, 0};
    bti_safetensors all;
    bt_status status = bti_safetensors_prepare(&all, names, arrays, count, metadata); /* checks them together */
    bti_safetensors_free(&all);
    if (status == BT_OK) status = bt_eval_all(arrays, count);
    if (status == BT_OK) status = divide(&s, shard_bytes);
    if (status == BT_OK) status = name_shards(&s, path);
    for (int i = 0; i < s.shard_count && status == BT_OK; i++) status = write_shard(&s, &s.shards[i]);
    for (int i = 0; i < s.shard_count && status == BT_OK; i++) status = bti_writer_commit(&s.shards[i].writer);
    if (status == BT_OK) status = write_index(path, &s);
    for (int i = 0; i < s.shard_count; i++) {
        bti_writer_discard(&s.shards[i].writer);
        bti_free(s.shards[i].path);
    }
    bti_free(s.shards);
    return status;
}
