/* CSV files whose columns have dtypes of their own. */
#ifndef BTI_FILE_CSV_H
#define BTI_FILE_CSV_H

#include <berth/array.h>

/* So many numbers of each line, one after the other. */
typedef struct bti_csv_column {
    const char *name;
    bt_dtype dtype;
    int64_t numbers;
} bti_csv_column;

/* The table as bt_load_csv gives it of BT_F64. DATA_LOSS with the line and its text for the first number that the dtype of its column does not have. */
bt_array *bti_load_csv_columns(const char *path, const bti_csv_column *columns, int count);

#endif
