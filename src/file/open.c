/* Opens an archive of named arrays: the content says which format it has. */
#include <string.h>

#include "file/tensors.h"

/* A safetensors file begins with a length that has zeros in its upper bytes; a text has none. */
static bool begins_as_json(const unsigned char start[8]) {
    int at = 0;
    while (at < 7 && (start[at] == ' ' || start[at] == '\n' || start[at] == '\r' || start[at] == '\t')) at++;
    return start[at] == '{' && !memchr(start, 0, 8);
}

static bool begins_as_pickle(const unsigned char start[8]) {
    return start[0] == 0x80 && start[1] >= 2 && start[1] <= 5 && start[2] && start[3];
}

/* A BSON document begins with its length, and has an element: its type and the first letter of its name. Only safetensors begin with 8 bytes of a number too, of which the upper ones are 0. */
static bool begins_as_bson(const unsigned char start[8]) {
    return start[3] < 0x80 && start[4] && start[4] <= 0x13 && start[5] > ' ';
}

/* The length tells it from everything else. */
static bool is_bson(const bt_tensors *t, const unsigned char start[8]) {
    uint64_t length =
        (uint64_t)start[0] | (uint64_t)start[1] << 8 | (uint64_t)start[2] << 16 | (uint64_t)start[3] << 24;
    return begins_as_bson(start) && length == t->file.size;
}

static bt_status open_zip(bt_tensors *t) {
    BTI_TRY(bti_zip_open(&t->zip, &t->file));
    for (int i = 0; i < t->zip.names.count; i++) {
        const char *slash = strchr(t->zip.names.names[i], '/');
        if (slash && !strcmp(slash, "/data.pkl")) return bti_open_pt(t, i);
    }
    return bti_open_npz(t);
}

static bt_status open_by_content(bt_tensors *t) {
    unsigned char start[8];
    BTI_TRY(bti_file_read_start(&t->file, start, sizeof start));
    if (is_bson(t, start)) return bti_open_bson(t);
    if (!memcmp(start, "PK\3\4", 4) || !memcmp(start, "PK\5\6", 4)) return open_zip(t);
    if (begins_as_json(start)) return bti_open_shards(t);
    if (begins_as_pickle(start))
        return bti_file_damaged(&t->file, 0,
                                "this is a Python pickle, as PyTorch wrote .pt files before version 1.6; in Python, "
                                "torch.save(torch.load(old), new) writes one that can be read");
    if (!memcmp(start, "\x93NUMPY", 6)) return bti_open_npy(t);
    if (begins_as_bson(start)) return bti_open_bson(t); /* which says that it is cut */
    return bti_open_safetensors(t);
}

bt_status bt_tensors_open(const char *path, bt_tensors **tensors) {
    BTI_PUBLIC("bt_tensors_open");
    if (!tensors) return bti_fail(BT_INVALID_ARGUMENT, "where to put the tensors is NULL");
    return bti_tensors_open_as(path, open_by_content, tensors);
}
