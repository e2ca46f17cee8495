/* berth/data.h: data sets, and loaders that make batches of them.
 *
 * A data set is a number of examples, each with one value per column ("x", "y"): arrays, .npy files, a CSV file, or a
 * function of the program's. A loader goes through it epoch by epoch and stacks examples to batches:
 *
 *     bt_dataset *data = bt_dataset_arrays((const char *[]){"x", "y"}, (bt_array *[]){x, y}, 2);
 *     bt_loader *loader = bt_loader_new(data, .batch = 64, .shuffle = bt_key(1));
 *     bt_batch batch = BT_BATCH_INIT;
 *     for (int epoch = 0; epoch < 10; epoch++)
 *         while (bt_loader_next(loader, &batch)) {
 *             BT_SCOPED;
 *             step(batch.arrays[0], batch.arrays[1]);
 *         }
 *     BT_CHECK(bt_loader_status(loader));
 *
 * Data sets and loaders belong to the innermost scope of the thread that makes them, as layers do; one that cannot be
 * made is poisoned and carries the first cause. A data set never changes and may be used from any thread. A loader may
 * be used from any thread, by one at a time.
 */
#ifndef BERTH_DATA_H
#define BERTH_DATA_H

#include <berth/file.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BT_MAX_COLUMNS 64
#define BT_RAGGED (-1) /* the size of an axis in which examples differ */

/* One column of a data set, and one array of a batch. */
typedef struct bt_column {
    const char *name; /* unique; NULL: its number, "0"; copied */
    bt_dtype dtype;
    bt_shape shape; /* of one example, of at most BT_MAX_RANK - 1 axes; at most one size may be BT_RAGGED */
    double pad;     /* what follows shorter examples along a ragged axis, up to the longest of the batch */
} bt_column;
/* `BT_COLUMN("x", BT_F32, 28, 28)`; of single numbers `BT_COLUMN("y", BT_I32, )`. pad is 0. */
#define BT_COLUMN(name, dtype, ...) (BTI_LITERAL(bt_column){name, dtype, BT_SHAPE(__VA_ARGS__), 0})

/* --- data sets ------------------------------------------------------------------------------------------------------ */

typedef struct bt_dataset bt_dataset;

/* Arrays [N, ...], all with the same N, as `count` columns, 1 to BT_MAX_COLUMNS. names: NULL means "0", "1", ... (a tuple).
 * The arrays are retained, not copied, and stay where they are. Does not block. */
BT_API bt_dataset *bt_dataset_arrays(const char *const *names, bt_array *const *arrays, int count);
#define bt_dataset_arrays(...) BTI_AT(bt_dataset *, bt_dataset_arrays(__VA_ARGS__))

/* .npy files, each [N, ...], as columns. They are mapped into memory: what is read of them is read page by page when a
 * batch needs it. A file that becomes shorter while it is in use is DATA_LOSS when a batch needs it; one that becomes shorter during the
 * copy of a row ends the process (SIGBUS). UNIMPLEMENTED: column-major (fortran_order) and big-endian files; bt_load_npy reads those. */
BT_API bt_dataset *bt_dataset_npy(const char *const *names, const char *const *paths, int count);
#define bt_dataset_npy(...) BTI_AT(bt_dataset *, bt_dataset_npy(__VA_ARGS__))

/* A CSV file as bt_load_csv reads it. Each column takes as many numbers of a line as its shape has elements, in order; together
 * they take the whole line: `BT_COLUMN("x", BT_F32, 64), BT_COLUMN("y", BT_I32, )` of 65 numbers. Numbers are read as
 * float64; an integer or bool column with a number that its dtype does not have is DATA_LOSS, with the line and the text of the first one.
 * Blocks. */
BT_API bt_dataset *bt_dataset_csv(const char *path, const bt_column *columns, int count);
#define bt_dataset_csv(...) BTI_AT(bt_dataset *, bt_dataset_csv(__VA_ARGS__))

/* An example while a function of the program's makes it or takes it. Valid during the call. */
typedef struct bt_example {
    int64_t index; /* which example of the data set, from 0 */
    int columns;
    void *const *data;     /* of each column: its elements, row-major; NULL: of a ragged one that has no size yet */
    const bt_shape *shape; /* of each column, in this example */
} bt_example;

/* Fills example->data[i] for each column i, as many bytes as its shape and dtype take, after bt_example_resize where it is ragged. Any status but
 * BT_OK ends the epoch with that status; bt_example_fail adds a text. Called by several threads at once, with
 * asynchronous signals blocked, when the loader has workers. It may call the library, but not the loader that calls it. */
typedef bt_status bt_example_fn(bt_example *example, void *data);
/* `rows` examples that a function makes. data: passed on; it and the function must outlive the data set, all that is made
 * of it, and its loaders. */
BT_API bt_dataset *bt_dataset_callback(int64_t rows, const bt_column *columns, int count, bt_example_fn *fn,
                                       void *data);
#define bt_dataset_callback(...) BTI_AT(bt_dataset *, bt_dataset_callback(__VA_ARGS__))
/* Sets the ragged size of a column of the example that the calling function makes, and returns the memory for its elements. NULL with the
 * cause in the error record: INVALID_ARGUMENT (not such an example or column, a negative size), RESOURCE_EXHAUSTED. */
BT_API void *bt_example_resize(bt_example *example, int column, int64_t size);
#define bt_example_resize(...) BTI_AT(void *, bt_example_resize(__VA_ARGS__))
/* Returns `status` and lets the loader's error say the text: `return bt_example_fail(example, BT_NOT_FOUND, "no %s", path)`. */
BT_API bt_status bt_example_fail(bt_example *example, bt_status status, const char *format, ...) BT_PRINTF(3, 4);

/* fn applied to each example when a batch needs it, by the loader's workers (MLUtils' mapobs): makes `made`, of these columns, from
 * `from`, whose elements it must not write. Otherwise as bt_dataset_callback. Arrays of devices are copied to the host once, when the first loader is made. */
typedef bt_status bt_example_map_fn(const bt_example *from, bt_example *made, void *data);
BT_API bt_dataset *bt_dataset_map(bt_dataset *dataset, const bt_column *columns, int count, bt_example_map_fn *fn,
                                  void *data);
#define bt_dataset_map(...) BTI_AT(bt_dataset *, bt_dataset_map(__VA_ARGS__))

/* The examples of these numbers, in this order; one may come several times. OUT_OF_RANGE: a number that there is not. */
BT_API bt_dataset *bt_dataset_select(bt_dataset *dataset, const int64_t *rows, int64_t count);
#define bt_dataset_select(...) BTI_AT(bt_dataset *, bt_dataset_select(__VA_ARGS__))

/* Splits a data set in two: *first has fraction (0 to 1) of the examples, rounded, *second the others. In the order of
 * bt_permutation(key, N); key NULL: in their own order. labels: a column of single integers or bools whose values
 * both parts have in the same proportions, rounded for each value; NULL: none, else it reads that column of all examples. Blocks. On errors both are
 * poisoned. */
BT_API BT_MUST_USE bt_status bt_dataset_split(bt_dataset *dataset, double fraction, bt_array *key, const char *labels,
                                              bt_dataset **first, bt_dataset **second);
#define bt_dataset_split(...) BTI_AT_MUST(bt_dataset_split(__VA_ARGS__))

/* All examples at once on a device: a data set of arrays there, as many as there are columns; a ragged column is padded to the longest
 * example and followed by one of its sizes, "NAME.size". Computes, and starts the copies without waiting for them. */
BT_API bt_dataset *bt_dataset_to(bt_dataset *dataset, const char *device);
#define bt_dataset_to(dataset, device) BTI_AT(bt_dataset *, bt_dataset_to(dataset, BTI_DEVICE(device)))

BT_API bt_dataset *bt_dataset_retain(bt_dataset *dataset);
#define bt_dataset_retain(...) BTI_AT(bt_dataset *, bt_dataset_retain(__VA_ARGS__))
BT_API void bt_dataset_release(bt_dataset *dataset); /* NULL is accepted */
#define bt_dataset_release(...) BTI_AT_VOID(bt_dataset_release(__VA_ARGS__))
/* BT_OK when it can be used; else its error, with the cause in the error record. */
BT_API bt_status bt_dataset_status(const bt_dataset *dataset);
#define bt_dataset_status(...) BTI_AT_STATUS(bt_dataset_status(__VA_ARGS__))
/* How many examples, and how many columns; -1 on errors, with the cause in the error record. */
BT_API int64_t bt_dataset_rows(const bt_dataset *dataset);
BT_API int bt_dataset_columns(const bt_dataset *dataset);
/* Borrowed from the data set; NULL: there is no such column. */
BT_API const bt_column *bt_dataset_column(const bt_dataset *dataset, int index);

/* --- loaders -------------------------------------------------------------------------------------------------------- */

typedef struct bt_loader bt_loader;

/* Options of a loader, by name: `bt_loader_new(data, .batch = 64, .workers = 2)`. 0 or NULL means the default in
 * brackets. */
typedef struct bt_loader_options {
    size_t size BTI_INITIALLY(sizeof(bt_loader_options)); /* set by the macro */
    BTI_BY_NAME
    int64_t batch BTI_INITIALLY(0); /* examples in a batch [32]; the last one of an epoch may have fewer */
    /* A key: epoch e takes the examples in the order of bt_permutation(bt_fold_in(key, e), N) [their own order]. */
    bt_array *shuffle BTI_INITIALLY(NULL);
    bool drop_last BTI_INITIALLY(false); /* leaves out a last batch that is smaller */
    /* Threads that make batches ahead, up to 256 [one with `device`; else none: bt_loader_next makes them]. */
    int workers BTI_INITIALLY(0);
    const char *
        device BTI_INITIALLY(NULL); /* batches are moved there as they are made [they stay where they are made] */
    uint64_t ahead_bytes BTI_INITIALLY(0); /* of batches that are made and not handed out; one may be larger [64 MiB] */
} bt_loader_options;
#define BT_LOADER(...) BTI_OPTIONS(bt_loader_options, __VA_ARGS__)

/* A loader of a data set, before the first batch of epoch 0. Batches come in the same order, with the same elements, whatever
 * the workers, the device and the bytes ahead.
 *
 * How batches are made:
 *   - of arrays in their own order, or on a device: bt_slice_axis or bt_take are recorded where the arrays are
 *   - otherwise rows are copied into memory of the host, which is used again (page-locked where `device` has such),
 *     by the workers, or by bt_loader_next if there are none: arrays on the CPU that are not committed (without workers, in a
 *     BT_ON block of the caller's, they are on its device)
 * With `device` a worker moves each batch as it has made it, so that the next one moves while the program computes with this one. Arrays that
 * are there already are not moved, and need no worker.
 *
 * Errors: INVALID_ARGUMENT (options; no examples; drop_last and a batch larger than the data set), the errors of the data set, of the
 * arrays (with workers), of `shuffle` and of `device`; RESOURCE_EXHAUSTED (no thread can be made). Blocks while
 * arrays are computed whose rows are copied. bt_shutdown needs loaders to be released before. */
BT_API bt_loader *bt_loader_new(bt_dataset *dataset, const bt_loader_options *options);
#ifndef BERTH_BUILDING
#define BTI_LOADER_NEW(dataset, ...) bt_loader_new(dataset, BT_LOADER(__VA_ARGS__))
#define bt_loader_new(...) BTI_AT(bt_loader *, BTI_LOADER_NEW(__VA_ARGS__, ))
#endif
BT_API bt_loader *bt_loader_retain(bt_loader *loader);
#define bt_loader_retain(...) BTI_AT(bt_loader *, bt_loader_retain(__VA_ARGS__))
/* NULL is accepted. The last release ends the workers: it waits for functions of the program's that are running. */
BT_API void bt_loader_release(bt_loader *loader);
#define bt_loader_release(...) BTI_AT_VOID(bt_loader_release(__VA_ARGS__))
/* BT_OK; else why it could not be made, or why its epoch ended early (with the number of the example, or that the batch had no size), with the cause in the error record. */
BT_API bt_status bt_loader_status(const bt_loader *loader);
#define bt_loader_status(...) BTI_AT_STATUS(bt_loader_status(__VA_ARGS__))

/* A batch. Everything in it is borrowed from the loader, until its next bt_loader_next, bt_loader_start or bt_loader_restore or its release; bt_retain
 * keeps an array longer. Afterwards arrays and sizes hold released arrays, until the loader is released. */
typedef struct bt_batch {
    size_t size BTI_INITIALLY(sizeof(bt_batch));
    int64_t epoch BTI_INITIALLY(0);  /* from 0 */
    int64_t number BTI_INITIALLY(0); /* of the batch in its epoch, from 0 */
    int64_t rows BTI_INITIALLY(0);   /* examples in it */
    int columns BTI_INITIALLY(0);
    bt_array *const *arrays BTI_INITIALLY(NULL); /* of each column: [rows, ...] */
    bt_array *const *
        sizes BTI_INITIALLY(NULL); /* of each column: int32 [rows], the ragged size of each example; NULL: not ragged */
    const bt_column *column BTI_INITIALLY(NULL); /* their descriptions */
} bt_batch;
#define BT_BATCH_INIT BTI_INFO_INIT(bt_batch)

/* Fills in the next batch. False: the epoch is over, and the next call begins the next epoch; or it ended with an error, which
 * bt_loader_status tells. After an error it is false until bt_loader_start or bt_loader_restore. Computing the batch is not waited for; making
 * it is, without workers or if they are not as fast. */
BT_API bool bt_loader_next(bt_loader *loader, bt_batch *batch);
#ifndef BERTH_BUILDING
#define bt_loader_next(...) (BTI_AT_DOUBLE(bt_loader_next(__VA_ARGS__)) > 0)
#endif
/* The array of that name: an array of the batch, or a poisoned one (NOT_FOUND). Borrowed as the batch is. */
BT_API bt_array *bt_batch_array(const bt_batch *batch, const char *name);
#define bt_batch_array(...) BTI_AT(bt_array *, bt_batch_array(__VA_ARGS__))

/* Batches in an epoch; -1 on errors, with the cause in the error record. */
BT_API int64_t bt_loader_batches(const bt_loader *loader);
/* Goes to the first batch of an epoch, from 0 to 2^32 - 1. Waits for functions of the program's that run. */
BT_API BT_MUST_USE bt_status bt_loader_start(bt_loader *loader, int64_t epoch);
#define bt_loader_start(...) BTI_AT_MUST(bt_loader_start(__VA_ARGS__))
/* Where the loader is, as one line of text that the caller owns (bt_free): the epoch, the next batch, the options that decide about batches, and the
 * number of examples. It may be saved with a model (`metadata` of bt_save). NULL with the cause in the error record. */
BT_API char *bt_loader_state(const bt_loader *loader);
#define bt_loader_state(...) BTI_AT(char *, bt_loader_state(__VA_ARGS__))
/* Goes where bt_loader_state was, also of another process: the batches that follow are the same. INVALID_ARGUMENT: no state;
 * FAILED_PRECONDITION: that of a loader with another number of examples, batch size, key or drop_last. Nothing changes then. */
BT_API BT_MUST_USE bt_status bt_loader_restore(bt_loader *loader, const char *state);
#define bt_loader_restore(...) BTI_AT_MUST(bt_loader_restore(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
