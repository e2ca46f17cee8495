/* berth/file.h: arrays and models in files, and arrays that are shared with other libraries (DLPack). Files name no
 * devices: what was saved from one device can be loaded on any.
 *
 * A file is written under a temporary name in the same folder, synced and renamed: a reader sees the old file or the
 * complete new one. A symbolic link is followed, also when its target does not exist yet. The file keeps its mode, and
 * its owner where the process may set it. Files that are read are not trusted: every size is checked before memory is
 * allocated, and a malformed file is refused with the offset and the reason (DATA_LOSS). All calls block. Formats:
 * safetensors (huggingface.co/docs/safetensors), also in shards; .npy and .npz (NumPy's NEP 1); .pt of PyTorch
 * (read only); BSON as Flux's users write it with BSON.jl (bsonspec.org); CSV; StableHLO (openxla.org/stablehlo; written only).
 */
#ifndef BERTH_FILE_H
#define BERTH_FILE_H

#include <berth/optimizers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- named arrays --------------------------------------------------------------------------------------------------- */

/* Saves arrays as safetensors under names (unique, UTF-8). metadata: pairs of key and value, terminated by NULL; or
 * NULL. */
BT_API BT_MUST_USE bt_status bt_save(const char *path, const char *const *names, bt_array *const *arrays, int count,
                                     const char *const *metadata);
#define bt_save(...) BTI_AT_MUST(bt_save(__VA_ARGS__))

/* The same in several files of at most shard_bytes bytes of data each (an array that has more is alone in its file).
 * path: of the index, "DIR/NAME.safetensors.index.json"; the shards are DIR/NAME-00001-of-00003.safetensors and so on,
 * filled in the order of the arrays. All of them are written before the first is renamed, and the index is renamed last.
 * Files of an earlier save that had another number of shards stay. The metadata are in the index, beside the number
 * "total_size", a key that they cannot have, and in each shard. */
BT_API BT_MUST_USE bt_status bt_save_shards(const char *path, const char *const *names, bt_array *const *arrays,
                                            int count, const char *const *metadata, uint64_t shard_bytes);
#define bt_save_shards(...) BTI_AT_MUST(bt_save_shards(__VA_ARGS__))

/* Saves arrays as .npz, as NumPy's savez; compressed: as savez_compressed. bfloat16, which NumPy has not, is written as
 * two bytes without a meaning ("<V2"; in Python, array.view(ml_dtypes.bfloat16)). */
BT_API BT_MUST_USE bt_status bt_save_npz(const char *path, const char *const *names, bt_array *const *arrays, int count,
                                         bool compressed);
#define bt_save_npz(...) BTI_AT_MUST(bt_save_npz(__VA_ARGS__))

/* An open archive of named arrays. The content says which of these it is, whatever its name:
 *
 *     safetensors      names and shapes are read when it is opened
 *     an index of      *.safetensors.index.json, as Hugging Face writes it; each shard is opened when one of its tensors
 *      safetensors      is asked for, and errors name the shard
 *     .npy             one array, under the name ""
 *     .npz             members stored or deflated, as numpy.savez and savez_compressed write them
 *     .pt, .pth        what torch.save wrote (PyTorch 1.6 and later): a dict, list or tuple of tensors, in which dicts,
 *                      lists and tuples may be nested
 *     BSON             what BSON.jl wrote (`BSON.@save`): arrays of numbers in dicts, tuples, named tuples and structs. At
 *                      most 2 GiB, all of which is read when it is opened
 *
 * Names in a .pt are those of the dicts and the indices of the lists, joined by dots: "optimizer.state.0.exp_avg"; a lone
 * tensor has the name "". Numbers, bools and texts beside tensors are its metadata under such names ("epoch": "3").
 * Names in a BSON file are those of keys and of the fields of Flux's layers, and indices from 0: "model.layers.0.weight". An array has the sizes and the
 * indices that it has in Julia: a Dense layer's weight is [out, in]. Numbers, texts, and the names of types and functions are its metadata ("model.layers.0": "Flux.Dense").
 * Strided tensors, views of one storage, lazy conjugates and negatives are read; sparse and quantised ones and those of other devices'
 * libraries are not. No code is run: a .pt that needs a function or class but those of plain tensors is refused with its
 * name (UNIMPLEMENTED). */
typedef struct bt_tensors bt_tensors;
/* Opens an archive; close it with bt_tensors_close. NOT_FOUND, DATA_LOSS (with the offset), UNIMPLEMENTED. */
BT_API BT_MUST_USE bt_status bt_tensors_open(const char *path, bt_tensors **tensors);
#define bt_tensors_open(...) BTI_AT_MUST(bt_tensors_open(__VA_ARGS__))
BT_API void bt_tensors_close(bt_tensors *tensors); /* NULL is accepted */
#define bt_tensors_close(...) BTI_AT_VOID(bt_tensors_close(__VA_ARGS__))
BT_API int bt_tensors_count(const bt_tensors *tensors);
/* In the order of the data (safetensors) or of the file; borrowed; NULL: no such index. */
BT_API const char *bt_tensors_name(const bt_tensors *tensors, int index);
/* Texts of safetensors and of an index ("metadata"), numbers and texts of a .pt or BSON file; NULL when absent, and for numbers of an index; borrowed. */
BT_API const char *bt_tensors_metadata(const bt_tensors *tensors, const char *key);
/* The keys of the metadata: key `index` from 0; NULL past the last; borrowed. */
BT_API const char *bt_tensors_metadata_name(const bt_tensors *tensors, int index);
/* "safetensors", "safetensors in shards", "NumPy .npy", "NumPy .npz", "PyTorch .pt" or "BSON". */
BT_API const char *bt_tensors_format(const bt_tensors *tensors);

/* What is known of a tensor before its elements are read. The texts belong to the archive. */
typedef struct bt_tensor_info {
    size_t size BTI_INITIALLY(sizeof(bt_tensor_info));
    const char *name;
    const char *dtype_name; /* as safetensors calls it, or the file: "F32", "BF16", "C64"; "<U5", a text of NumPy's */
    bt_dtype dtype;         /* BT_DTYPE_COUNT: berth has no such dtype, and bt_tensors_get refuses it */
    int rank;               /* maybe above 8, which bt_tensors_get refuses */
    bt_shape shape;         /* the first 8 sizes */
} bt_tensor_info;
#define BT_TENSOR_INFO_INIT BTI_INFO_INIT(bt_tensor_info)
/* Of tensor `index`; of safetensors in shards and .npz its file or member is opened, which may fail. OUT_OF_RANGE: no such index. */
BT_API BT_MUST_USE bt_status bt_tensors_describe(const bt_tensors *tensors, int index, bt_tensor_info *info);
#define bt_tensors_describe(...) BTI_AT_MUST(bt_tensors_describe(__VA_ARGS__))
/* The array of that name, on the device that bt_from would choose; poisoned (NOT_FOUND, DATA_LOSS, ...) when it cannot
 * be read. Several threads may read from one archive. */
BT_API bt_array *bt_tensors_get(bt_tensors *tensors, const char *name);
#define bt_tensors_get(...) BTI_AT(bt_array *, bt_tensors_get(__VA_ARGS__))

/* --- models --------------------------------------------------------------------------------------------------------- */

/* Options of bt_save_model, for programs that have other names or orders of axes; the opposite of bt_load_options. A rule or name that matches no name of the model
 * is INVALID_ARGUMENT, unless it leaves names out. */
typedef struct bt_save_options {
    size_t size BTI_INITIALLY(sizeof(bt_save_options)); /* set by the macro */
    BTI_BY_NAME
    const char *rename BTI_INITIALLY(
        NULL); /* rules FROM=TO, as of bt_load_options, for names of the model: those of the file, or left out */
    const char *transpose
        BTI_INITIALLY(NULL); /* names of the model: their tensors are written with the axes in the opposite order */
    bool torch BTI_INITIALLY(false); /* weights of all Dense layers are written as [out, in] */
} bt_save_options;
#define BT_SAVE(...) BTI_OPTIONS(bt_save_options, __VA_ARGS__)
/* Saves a model's parameters and states by their names (safetensors), and its structure in the metadata ("berth.model": JSON with each layer's name, options and children). With options
 * the file is for others: it has no structure, and the metadata "format": "pt" that Hugging Face's programs ask for. */
BT_API BT_MUST_USE bt_status bt_save_model(const char *path, const bt_layer *model, const bt_save_options *options);
/* The same as BSON.@save does of a model of Flux's, under `key` ("model"): layers Chain, Dense, Conv, ConvTranspose, BatchNorm, Dropout, Embedding, Flatten, MaxPool, MeanPool, the global pools,
 * SkipConnection with a sum, and functions that Flux has. Weights lie as in Flux: column-major, kernels flipped; tied ones are one object. No Julia was at hand to read what
 * this writes: it follows the sources of BSON.jl and Flux 0.14. UNIMPLEMENTED: another layer, function or dtype, named. INVALID_ARGUMENT: more than 2 GiB, which BSON cannot have. */
BT_API BT_MUST_USE bt_status bt_save_bson(const char *path, const char *key, const bt_layer *model);
#define bt_save_bson(...) BTI_AT_MUST(bt_save_bson(__VA_ARGS__))

/* Options of bt_model_open. */
typedef struct bt_model_options {
    size_t size BTI_INITIALLY(sizeof(bt_model_options)); /* set by the macro */
    BTI_BY_NAME
    const char *key BTI_INITIALLY(NULL); /* of a BSON file with several models: which of them [the only one] */
} bt_model_options;
#define BT_MODEL(...) BTI_OPTIONS(bt_model_options, __VA_ARGS__)
/* The model that a file holds, with its structure: of bt_save_model (also in shards with that metadata), or a model of Flux's in BSON (its layers of bt_save_bson, and Flux 0.12 to 0.14). It is on
 * the device of the BT_ON block or the default device, wherever it was saved. Tied parameters are tied. Layers of the program are made by what bt_layer_register and
 * bt_activation_register have (nn.h). A Dropout of Flux's has the key bt_key(0). The layer belongs to the innermost scope; poisoned: NOT_FOUND, DATA_LOSS; FAILED_PRECONDITION: the file has no structure,
 * bt_load_model reads it into a model; UNIMPLEMENTED: a layer or function that nothing makes, named; INVALID_ARGUMENT: the tensors do not fit the structure, all differences are listed. */
BT_API bt_layer *bt_model_open(const char *path, const bt_model_options *options);

/* Options of bt_load_model, for files of others. */
typedef struct bt_load_options {
    size_t size BTI_INITIALLY(sizeof(bt_load_options)); /* set by the macro */
    BTI_BY_NAME
    /* Rules FROM=TO, separated by ';', for names of the file: the first whose FROM is the whole name gives TO. A '*' in FROM stands for any characters, as few as fit; in TO for those of the '*'
     * of the same order. "module.*=*;classifier.*=4.*". Without TO the tensor is left out: "*.attn_mask=". Other names stay. INVALID_ARGUMENT: FROM without
     * a '*' is no name of the file. One with a '*' may match none, for files that come with and without a prefix ("module.*=*"), and is named if the file does not fit
     * the model; a rule without TO may match none too. */
    const char *rename BTI_INITIALLY(NULL);
    /* Names of the model, separated by ';', maybe with '*': their tensors have the axes in the opposite order in the file. "0.weight;2.weight"
     * INVALID_ARGUMENT: one matches no name of the model. */
    const char *transpose BTI_INITIALLY(NULL);
    bool torch BTI_INITIALLY(
        false); /* weights of all Dense layers are [out, in] in the file, as PyTorch's Linear and Flux's arrays */
    bool cast BTI_INITIALLY(
        false); /* floats of another dtype are taken too, and get the model's (bfloat16 in the file, float32 in the model) */
} bt_load_options;
#define BT_LOAD(...) BTI_OPTIONS(bt_load_options, __VA_ARGS__)
/* Loads a model's parameters and states from any archive, by their names; parameters stay on their devices. If the file lacks a tensor, has one more, or one of another dtype or
 * shape, nothing is loaded and the error lists the differences; states of integers may be missing. */
BT_API BT_MUST_USE bt_status bt_load_model(const char *path, bt_layer *model, const bt_load_options *options);
#ifndef BERTH_BUILDING
#define BTI_MODEL_OPEN(path, ...) bt_model_open(path, BT_MODEL(__VA_ARGS__))
#define bt_model_open(...) BTI_AT(bt_layer *, BTI_MODEL_OPEN(__VA_ARGS__, ))
#define BTI_SAVE_MODEL(path, model, ...) bt_save_model(path, model, BT_SAVE(__VA_ARGS__))
#define bt_save_model(...) BTI_AT_MUST(BTI_SAVE_MODEL(__VA_ARGS__, ))
#define BTI_LOAD_MODEL(path, model, ...) bt_load_model(path, model, BT_LOAD(__VA_ARGS__))
#define bt_load_model(...) BTI_AT_MUST(BTI_LOAD_MODEL(__VA_ARGS__, ))
#endif

/* Saves an optimiser's states by their names (bt_optimizer_states), its rule and its rate (safetensors), and loads them, from any
 * archive too. Loading makes the states of the parameters first; options and the schedule are those that the optimiser was made with,
 * and must ask for the same states. If the file is of another rule, or lacks a tensor, has one more, or one of another shape, nothing
 * is loaded and the error lists the differences. */
BT_API BT_MUST_USE bt_status bt_save_optimizer(const char *path, const bt_optimizer *optimizer);
#define bt_save_optimizer(...) BTI_AT_MUST(bt_save_optimizer(__VA_ARGS__))
BT_API BT_MUST_USE bt_status bt_load_optimizer(const char *path, bt_optimizer *optimizer, bt_shared *const *parameters,
                                               int count);
#define bt_load_optimizer(...) BTI_AT_MUST(bt_load_optimizer(__VA_ARGS__))

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

/* --- functions for other compilers ------------------------------------------------------------------------------------- */

/* Writes the function as a StableHLO module, as text, which XLA's compilers, plugins of PJRT and JAX take: `@main`, whose arguments are the inputs and then the
 * variables that are read, in the order of the comments at the top; its results the outputs, then the new values of the variables that are updated, each of
 * which may take the memory of its old one. Constants of the function are written with their elements; devices are not part of it. Replaces the file whole or not
 * at all. Blocks while constants are computed. Any thread.
 * FAILED_PRECONDITION: an input has an unknown size. UNIMPLEMENTED, with the operation and its line: functions of the program's (bt_custom_call, bt_debug_print),
 * linear algebra, Fourier transforms, sums over devices. 8-bit floats are bytes there (ui8). */
BT_API BT_MUST_USE bt_status bt_function_export(const bt_function *function, const char *path);
#define bt_function_export(...) BTI_AT_MUST(bt_function_export(__VA_ARGS__))

/* --- other libraries' arrays in memory (DLPack 1.x) -------------------------------------------------------------------
 * The structures are those of dlpack.h; <berth/dlpack.h> has them for programs that do not have that. */

struct DLManagedTensorVersioned;
struct DLManagedTensor;

/* The array's elements as a managed tensor of the host (kDLCPU), row-major; computes and waits. The consumer calls its
 * deleter once, from any thread, which frees what the tensor keeps; until then bt_shutdown refuses. Without `copy` an
 * array that lies row-major in memory of the host (on a CPU) is shared, with the flag READ_ONLY, as arrays never change:
 * nobody may write to it. Any other array, and each with `copy`, is copied to memory of its own (flag IS_COPIED). */
BT_API BT_MUST_USE bt_status bt_to_dlpack(bt_array *x, bool copy, struct DLManagedTensorVersioned **tensor);
#define bt_to_dlpack(...) BTI_AT_MUST(bt_to_dlpack(__VA_ARGS__))
/* The same for consumers of DLPack before 1.0 (JAX 0.10). That has no flags, so without `copy` the caller knows that the
 * consumer does not write. */
BT_API BT_MUST_USE bt_status bt_to_dlpack_unversioned(bt_array *x, bool copy, struct DLManagedTensor **tensor);
#define bt_to_dlpack_unversioned(...) BTI_AT_MUST(bt_to_dlpack_unversioned(__VA_ARGS__))

/* The array of a managed tensor, which is taken over also when the result is poisoned: its deleter is called exactly
 * once, by the rules of `end` of bt_from_lent. Elements of the host (kDLCPU, kDLCUDAHost, kDLROCMHost) that lie
 * row-major without gaps, aligned to 64 bytes, are not copied on a device whose memory is the host's: until the deleter
 * is called nobody may write them. Others are copied, strided ones too (any strides). Errors: INVALID_ARGUMENT (NULL, a
 * shape that cannot be), UNIMPLEMENTED (another major version; dtypes that berth has not, vectors (lanes); more than 8
 * dimensions; memory of a GPU: copy it to the host first), with the name of what it is. */
BT_API bt_array *bt_from_dlpack(struct DLManagedTensorVersioned *tensor);
#define bt_from_dlpack(...) BTI_AT(bt_array *, bt_from_dlpack(__VA_ARGS__))
/* The same of a tensor of DLPack before 1.0. */
BT_API bt_array *bt_from_dlpack_unversioned(struct DLManagedTensor *tensor);
#define bt_from_dlpack_unversioned(...) BTI_AT(bt_array *, bt_from_dlpack_unversioned(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
