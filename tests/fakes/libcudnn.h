/* Shared by the files of the fake libcudnn. */
#ifndef BERTH_TESTS_FAKES_LIBCUDNN_H
#define BERTH_TESTS_FAKES_LIBCUDNN_H

#include "drivers/cuda/cudnn.h"
#include "fakes/stream.h"

enum { FAKE_DNN_AXES = 3 };                   /* of places, at most */
enum { FAKE_X, FAKE_W, FAKE_Y, FAKE_ARRAYS }; /* of a convolution */

/* A descriptor of a tensor or of a filter, [N, C, places...] or [O, C/groups, places...]. */
typedef struct fake_dnn_array {
    bool is_filter, is_set;
    int type, axes;
    int shape[2 + FAKE_DNN_AXES], stride[2 + FAKE_DNN_AXES];
} fake_dnn_array;
struct cudnnTensorStruct {
    fake_dnn_array array;
};
struct cudnnFilterStruct {
    fake_dnn_array array;
};
struct cudnnConvolutionStruct {
    bool is_set;
    int axes, type, math, groups;
    int pad[FAKE_DNN_AXES], stride[FAKE_DNN_AXES], dilation[FAKE_DNN_AXES];
};

/* A convolution, as an operation of a stream gets it: made = alpha sum + beta made. All have three axes of places; those that are lacking come first. */
typedef struct fake_conv {
    int made, type, math, groups, algorithm;
    int64_t shape[FAKE_ARRAYS][2 + FAKE_DNN_AXES];
    int64_t pad[FAKE_DNN_AXES], stride[FAKE_DNN_AXES], dilation[FAKE_DNN_AXES];
    uint64_t address[FAKE_ARRAYS], workspace, workspace_bytes;
    double alpha, beta;
    bool coarse, deterministic; /* what the algorithm is */
} fake_conv;

uint64_t fake_conv_hash(const fake_conv *conv); /* of its shape, and of BERTH_FAKE_SEED */
int64_t fake_conv_count(const fake_conv *conv, int array);
void fake_run_conv(void *conv);

#endif
