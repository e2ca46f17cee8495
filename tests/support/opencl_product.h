/* The first OpenCL device, and matrices on it, for tests. */
#ifndef BERTH_TESTS_SUPPORT_OPENCL_PRODUCT_H
#define BERTH_TESTS_SUPPORT_OPENCL_PRODUCT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth/flags.h>

#include "drivers/opencl/device.h"

extern const bti_driver bti_driver_opencl;

/* NULL, with the reason printed, where there is none. */
static inline bti_cl_device *open_first(void) {
    static const bti_allocator none;
    bti_device_facts facts;
    bti_str reason = {0};
    void *device = NULL;
    int count = 0;
    if (bti_driver_opencl.detect(1u << BT_ACC, &reason))
        bti_driver_opencl.probe(1u << BT_GPU | 1u << BT_ACC, &facts, 1, &count, &reason);
    if (count)
        assert_int_equal(bti_driver_opencl.open(facts.ordinal, &none, &device), BT_OK);
    else
        printf("skipped: %s\n", bti_str_text(&reason));
    bti_str_free(&reason);
    return device;
}

/* Small whole numbers, whose products are exact. */
static inline void fill_matrix(void *to, size_t count, bt_dtype dtype) {
    for (size_t i = 0; i < count; i++) {
        int number = (int)(i * 7 % 11) - 5;
        if (dtype == BT_F64)
            ((double *)to)[i] = number;
        else if (dtype == BT_F32)
            ((float *)to)[i] = (float)number;
        else
            ((int32_t *)to)[i] = number;
    }
}

typedef struct matrices { /* [batch, m, k] times [batch, k, n], in memory of `count` elements each */
    int64_t batch, m, k, n;
    bt_dtype dtype;
    bool turned[2]; /* columns of an input are contiguous */
    bool shared;    /* one right matrix for the whole batch */
    void *host[3];
    size_t bytes[3];
    uint64_t address[3];
} matrices;

static inline bti_operand matrix_operand(const matrices *p, int number, uint64_t address) {
    int64_t rows = number == 1 ? p->k : p->m, columns = number == 0 ? p->k : p->n;
    bool turned = number < 2 && p->turned[number], shared = number == 1 && p->shared;
    bti_operand o = {.address = address, .dtype = p->dtype, .rank = 3, .shape = {p->batch, rows, columns}};
    o.stride[0] = shared ? 0 : rows * columns;
    o.stride[1] = turned ? 1 : columns;
    o.stride[2] = turned ? rows : 1;
    return o;
}

/* Computes the product on the device; the output is filled with other bytes before. */
static inline bool multiply(bti_cl_device *device, matrices *p) {
    bool done = false;
    bti_operand inputs[2];
    for (int i = 0; i < 3; i++) {
        const int64_t sizes[] = {p->m * p->k, p->k * p->n, p->m * p->n};
        p->bytes[i] = (size_t)(p->batch * sizes[i]) * bt_dtype_size(p->dtype);
        p->host[i] = malloc(p->bytes[i]);
        assert_non_null(p->host[i]);
        fill_matrix(p->host[i], p->bytes[i] / bt_dtype_size(p->dtype), p->dtype);
        if (i == 2) memset(p->host[i], 0xff, p->bytes[i]);
        assert_int_equal(bti_cl_alloc(device, p->bytes[i], &p->address[i]), BT_OK);
        assert_int_equal(bti_cl_upload(device, p->address[i], p->host[i], p->bytes[i]), BT_OK);
        if (i < 2) inputs[i] = matrix_operand(p, i, p->address[i]);
    }
    bti_work work = {
        .op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = matrix_operand(p, 2, p->address[2])};
    assert_int_equal(bti_cl_product(device, &work, &done), BT_OK);
    return done;
}

static inline void free_matrices(bti_cl_device *device, matrices *p) {
    assert_int_equal(bti_driver_opencl.sync(device), BT_OK);
    for (int i = 0; i < 3; i++) {
        bti_cl_free(device, p->address[i], p->bytes[i]);
        free(p->host[i]);
    }
}

#endif
