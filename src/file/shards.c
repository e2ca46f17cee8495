/* safetensors in shards: an index (*.safetensors.index.json, as Hugging Face writes it) says which file of its folder holds a tensor.
 * A shard is opened when one of its tensors is asked for. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/safetensors.h"
#include "file/tensors.h"

typedef struct shard {
    char *path;
    bt_tensors *_Atomic opened; /* set once, by the first that asks */
} shard;

typedef struct content {
    json_t *index;
    bti_names files; /* of the shards; texts of the index */
    shard *shards;   /* by the indices of `files` */
    int *shard_of;   /* by tensor */
} content;

/* --- the shards ------------------------------------------------------------------------------------------------------ */

static bt_status open_shard(shard *s, const bt_tensors **opened) {
    bt_tensors *known = atomic_load(&s->opened), *mine = NULL;
    if (!known) {
        BTI_TRY(bti_tensors_open_as(s->path, bti_open_safetensors, &mine));
        if (atomic_compare_exchange_strong(&s->opened, &known, mine))
            known = mine;
        else
            bt_tensors_close(mine); /* another thread was first, and `known` is its */
    }
    *opened = known;
    return BT_OK;
}

/* The shard that the index names for a tensor, and the tensor's index there. */
static bt_status find_in_shard(const bt_tensors *t, int index, const bt_tensors **opened, int *there) {
    const content *c = t->content;
    shard *s = &c->shards[c->shard_of[index]];
    BTI_TRY(open_shard(s, opened));
    *there = bti_names_find(&(*opened)->names, t->names.names[index]);
    if (*there >= 0) return BT_OK;
    return bti_fail(BT_DATA_LOSS, "%s holds no tensor \"%s\", which %s says it does", s->path,
                    bti_quote(t->names.names[index]).text, t->file.path);
}

static bt_status describe_in_shard(const bt_tensors *t, int index, bti_tensor *tensor) {
    const bt_tensors *opened;
    int there;
    BTI_TRY(find_in_shard(t, index, &opened, &there));
    return opened->format->describe(opened, there, tensor);
}

static bt_array *read_in_shard(const bt_tensors *t, int index) {
    const bt_tensors *opened;
    int there;
    return find_in_shard(t, index, &opened, &there) == BT_OK ? opened->format->read(opened, there) : bti_file_poison();
}

static const char *find_metadata(const bt_tensors *t, const char *key) {
    return json_string_value(json_object_get(json_object_get(((const content *)t->content)->index, "metadata"), key));
}

/* total_size is a number. */
static const char *index_metadata_name(const bt_tensors *t, int index) {
    return bti_json_text_name(json_object_get(((const content *)t->content)->index, "metadata"), index);
}

static void clear_content(void *object) {
    content *c = object;
    for (int i = 0; c->shards && i < c->files.count; i++) {
        bt_tensors_close(atomic_load(&c->shards[i].opened));
        bti_free(c->shards[i].path);
    }
    json_decref(c->index);
    bti_names_free(&c->files);
    bti_free(c->shards);
    bti_free(c->shard_of);
    bti_free(c);
}

/* --- the index ------------------------------------------------------------------------------------------------------- */

static bt_status parse_index(const bti_file *file, json_t **index) {
    if (file->size > BTI_SAFETENSORS_MAX_HEADER)
        return bti_file_damaged(file, 0, "an index of %llu bytes; at most %u are allowed",
                                (unsigned long long)file->size, BTI_SAFETENSORS_MAX_HEADER);
    char *text = bti_alloc((size_t)file->size);
    if (!text) return bti_no_memory();
    bt_status status = bti_file_read(file, 0, text, (size_t)file->size);
    size_t spaces = 0;
    while (status == BT_OK && spaces < file->size && strchr(" \t\r\n", text[spaces])) spaces++;
    if (status == BT_OK) status = bti_parse_json(file, spaces, text + spaces, (size_t)file->size - spaces, index);
    bti_free(text);
    return status;
}

static int compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The different names of files, sorted. */
static bt_status list_files(const bti_file *file, const json_t *map, bti_names *files) {
    const char *name;
    json_t *value;
    int count = 0, kept = 0;
    if (!bti_names_make(files, (int)json_object_size(map))) return bti_no_memory();
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        const char *text = json_string_value(value);
        if (!text || !*text || strchr(text, '/') || text[0] == '.')
            return bti_file_damaged(file, 0, "weight_map names for tensor \"%s\" no file of the index's folder",
                                    bti_quote(name).text);
        files->names[count++] = text;
    }
    qsort(files->names, (size_t)count, sizeof *files->names, compare_texts);
    for (int i = 0; i < count; i++)
        if (!kept || strcmp(files->names[i], files->names[kept - 1])) files->names[kept++] = files->names[i];
    files->count = kept;
    (void)bti_names_sort(files);
    return BT_OK;
}

static bt_status name_shards(const char *index_path, content *c) {
    const char *slash = strrchr(index_path, '/');
    c->shards = bti_calloc((size_t)c->files.count + 1, sizeof *c->shards);
    if (!c->shards) return bti_no_memory();
    for (int i = 0; i < c->files.count; i++) {
        bti_str path = {0};
        if (slash) bti_str_add_bytes(&path, index_path, (size_t)(slash - index_path) + 1);
        bti_str_add(&path, c->files.names[i]);
        c->shards[i].path = bti_str_take(&path);
        if (!c->shards[i].path) return bti_no_memory();
    }
    return BT_OK;
}

bt_status bti_open_shards(bt_tensors *t) {
    static const bti_archive_format shards = {"safetensors in shards", describe_in_shard,   read_in_shard,
                                              find_metadata,           index_metadata_name, clear_content};
    content *c = t->content = bti_calloc(1, sizeof *c);
    if (!c) return bti_no_memory();
    t->format = &shards;
    BTI_TRY(parse_index(&t->file, &c->index));
    json_t *map = json_object_get(c->index, "weight_map"), *value;
    if (!json_is_object(map))
        return bti_file_damaged(&t->file, 0, "a JSON file without a weight_map, so no index of safetensors");
    BTI_TRY(list_files(&t->file, map, &c->files));
    BTI_TRY(name_shards(t->file.path, c));
    c->shard_of = bti_calloc(json_object_size(map) + 1, sizeof *c->shard_of);
    if (!c->shard_of || !bti_names_make(&t->names, (int)json_object_size(map))) return bti_no_memory();
    const char *name;
    int i = 0;
    json_object_foreach(map, name, value) {
        t->names.names[i] = name;
        c->shard_of[i++] = bti_names_find(&c->files, json_string_value(value));
    }
    (void)bti_names_sort(&t->names); /* keys of an object */
    return BT_OK;
}
