/* berth/file.h: arrays and models in files. Files name no devices: what was saved from one device can be loaded on any.
 *
 * A file is written under a temporary name in the same folder, synced and renamed: a reader sees the old file or the
 * complete new one. A symbolic link is followed, also when its target does not exist yet. The file keeps its mode, and
 * its owner where the process may set it. Files that are read are not trusted: every size is checked before memory is
 * allocated, and a malformed file is refused with the offset and the reason (DATA_LOSS). All calls block. Formats:
 * safetensors (huggingface.co/docs/safetensors), .npy (NumPy's NEP 1), CSV.
 */
#ifndef BERTH_FILE_H
#define BERTH_FILE_H

#include <berth/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- safetensors ---------------------------------------------------------------------------------------------------- */

/* Saves arrays under names (unique, UTF-8). metadata: pairs of key and value, terminated by NULL; or NULL. */
BT_API BT_MUST_USE bt_status bt_save(const char *path, const char *const *names, bt_array *const *arrays, int count,
                                     const char *const *metadata);
#define bt_save(...) BTI_AT_MUST(bt_save(__VA_ARGS__))

/* An open file: names and shapes are read when it is opened, data when an array is asked for. */
typedef struct bt_tensors bt_tensors;
/* Opens a file; close it with bt_tensors_close. NOT_FOUND, DATA_LOSS (with the offset). */
BT_API BT_MUST_USE bt_status bt_tensors_open(const char *path, bt_tensors **tensors);
#define bt_tensors_open(...) BTI_AT_MUST(bt_tensors_open(__VA_ARGS__))
BT_API void bt_tensors_close(bt_tensors *tensors); /* NULL is accepted */
#define bt_tensors_close(...) BTI_AT_VOID(bt_tensors_close(__VA_ARGS__))
BT_API int bt_tensors_count(const bt_tensors *tensors);
BT_API const char *bt_tensors_name(const bt_tensors *tensors, int index); /* in the order of the data; borrowed */
BT_API const char *bt_tensors_metadata(const bt_tensors *tensors, const char *key); /* NULL when absent; borrowed */
/* The array of that name, on the device that bt_from would choose; poisoned (NOT_FOUND, DATA_LOSS, ...) when it cannot
 * be read. */
BT_API bt_array *bt_tensors_get(bt_tensors *tensors, const char *name);
#define bt_tensors_get(...) BTI_AT(bt_array *, bt_tensors_get(__VA_ARGS__))

/* Saves and loads a model's parameters by their names. If the file lacks a tensor, has one more, or one of another
 * shape, nothing is loaded and the error lists the differences. */
BT_API BT_MUST_USE bt_status bt_save_model(const char *path, const bt_layer *model);
#define bt_save_model(...) BTI_AT_MUST(bt_save_model(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_load_model(const char *path, bt_layer *model);
#define bt_load_model(...) BTI_AT_MUST(bt_load_model(__VA_ARGS__))

/* --- .npy and CSV --------------------------------------------------------------------------------------------------- */

/* The array of a .npy file, on the device that bt_from would choose; poisoned on errors. bt_save_npy writes one array. */
BT_API bt_array *bt_load_npy(const char *path);
#define bt_load_npy(...) BTI_AT(bt_array *, bt_load_npy(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_save_npy(const char *path, bt_array *array);
#define bt_save_npy(...) BTI_AT_MUST(bt_save_npy(__VA_ARGS__))

/* Numbers in rows of equal length, separated by commas: [rows, columns]. A first line that is not numbers is skipped.
 * Errors name line and column. */
BT_API bt_array *bt_load_csv(const char *path, bt_dtype dtype);
#define bt_load_csv(...) BTI_AT(bt_array *, bt_load_csv(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
