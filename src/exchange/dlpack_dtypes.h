/* Dtypes in the words of DLPack. */
#ifndef BTI_EXCHANGE_DLPACK_DTYPES_H
#define BTI_EXCHANGE_DLPACK_DTYPES_H

#include <berth/dlpack.h>
#include <berth/dtype.h>

DLDataType bti_dlpack_dtype(bt_dtype dtype);
/* BT_DTYPE_COUNT: berth has no such dtype. */
bt_dtype bti_dtype_of_dlpack(DLDataType type);

#endif
