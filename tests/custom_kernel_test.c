// labels: threads
// timeout: 300
/* Kernels of the program's: on the devices of BERTH_TEST_DEVICES (on_cuda), else on the CPU and a simulated GPU, whose host calls the C function,
 * and on OpenCL's where there is one. */
#include "support/support.h"

#include <stdatomic.h>

enum { CPU, SIM, OPENCL, CUDA, KINDS };
static const char *const names[KINDS] = {"cpu:0", "gpu:0", "opencl0:0", "gpu:0"};

static bool is_there(int kind) {
    if (kind == CUDA || on_cuda()) return kind == CUDA && on_cuda();
    bool opencl = bt_device_find(names[OPENCL], &(bt_device *){NULL}) == BT_OK;
    bt_error_clear();
    return kind != OPENCL || opencl;
}
static bool has_kernels(int kind) { return kind == OPENCL || kind == CUDA; }

static void begin(int kind, const char *flags) {
    char settings[200];
    snprintf(settings, sizeof settings, "%s%s", kind == SIM ? "devices=sim:gpu*1," : "", flags);
    fresh(settings);
    OK(bt_set_default_device(names[kind]));
}
#define EACH_KIND(kind)                      \
    for (int kind = 0; kind < KINDS; kind++) \
        if (fresh(""), is_there(kind))

static atomic_int calls;

/* Whether the host was called as often: where there are kernels, never. */
#define CALLS(kind, count) assert_int_equal(atomic_exchange(&calls, 0), has_kernels(kind) ? 0 : (count))

/* --- x [n, m] -> x times an attribute, and where that is above another one --------------------------------------------------- */

static const char scale_text[] = "FUNCTION f32 times(f32 x, i64 by) { return x * (f32)by; }\n"
                                 "KERNEL(scale) {\n"
                                 "    GLOBAL const f32 *x = INPUT(0);\n"
                                 "    if (INDEX >= OUTPUT_COUNT(0)) return;\n"
                                 "    OUTPUT(0)[INDEX] = times(x[INDEX], ATTRIBUTE(0));\n"
                                 "    OUTPUT(1)[INDEX] = OUTPUT(0)[INDEX] > (f32)ATTRIBUTE(1);\n"
                                 "}\n";

static bt_status scale(const bt_elements *in, int count, const bt_elements *out, const bt_custom_args *args) {
    const float *x = in[0].data;
    (void)count;
    for (int64_t i = 0; i < out[0].shape.size[0] * out[0].shape.size[1]; i++) {
        ((float *)out[0].data)[i] = x[i] * (float)args->attributes[0];
        ((unsigned char *)out[1].data)[i] = ((float *)out[0].data)[i] > (float)args->attributes[1];
    }
    atomic_fetch_add(&calls, 1);
    return BT_OK;
}
static bt_status scale_shape(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    if (count != 1 || args->attribute_count != 2 || in[0].dtype != BT_F32) return BT_INVALID_ARGUMENT;
    out[1].dtype = BT_BOOL;
    return BT_OK;
}
static bt_array *scaled(bt_custom *op, bt_array *x, int64_t by, bt_array **above) {
    bt_array *y[2];
    OK(bt_custom_call_all(op, &x, 1, (int64_t[]){by, 5}, 2, y, 2));
    if (above) *above = y[1];
    return y[0];
}
static void scale_back(bt_array *const *x, int count, bt_array *const *y, bt_array *const *g, bt_array **gradients,
                       const bt_custom_args *args) {
    (void)x, (void)count, (void)y;
    gradients[0] = scaled(args->data, g[0], args->attributes[0], NULL);
}
static bt_custom *new_scale(void) {
    bt_custom *inner = bt_custom_new(BT_CUSTOM(.name = "scale", .results = 2, .run = scale, .shape = scale_shape,
                                               .cuda = scale_text, .opencl = scale_text));
    return bt_custom_new(BT_CUSTOM(.name = "scale", .results = 2, .run = scale, .shape = scale_shape,
                                   .gradient = scale_back, .data = inner, .cuda = scale_text, .opencl = scale_text));
}
static bt_array *numbers(void) { return BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6); }

static void computes(void **state) {
    EACH_KIND(kind) {
        begin(kind, "");
        BT_SCOPE {
            bt_custom *op = new_scale();
            bt_array *above, *y = scaled(op, numbers(), 2, &above), *again = scaled(op, numbers(), 2, NULL);
            READS(y, 2, 4, 6, 8, 10, 12);
            READS(above, 0, 0, 1, 1, 1, 1);
            CALLS(kind, 1);
            READS(scaled(op, bt_transpose(bt_exp(bt_zeros(BT_F32, 2, 3))), 3, NULL), 3, 3, 3, 3, 3, 3);
            READS(again, 2, 4, 6, 8, 10, 12);
            bt_array *big = bt_arange(0, 100000, 1, BT_F32);
            READS(bt_max(scaled(op, bt_reshape(big, 1000, 100), 3, NULL), BT_ALL, false), 299997);
            READS(bt_sum(bt_cast(bt_ne(scaled(op, bt_reshape(big, 1000, 100), 3, NULL),
                                       bt_mul(bt_reshape(big, 1000, 100), bt_num(3))),
                                 BT_I32),
                         BT_ALL, false),
                  0);
            bt_array *none = scaled(op, bt_zeros(BT_F32, 0, 3), 1, NULL);
            OK(bt_block(none));
            /* a part of an array that begins where no allocation does */
            READS(scaled(op, bt_slice_axis(numbers(), 0, 1, 2, 1), 2, NULL), 8, 10, 12);
            atomic_store(&calls, 0);
        }
    }
}

/* --- in functions, loops, batches, gradients ----------------------------------------------------------------------------------- */

static void add_scaled(bt_array **carry, bt_array *const *x, bt_array **y, void *op) {
    bt_array *above;
    carry[0] = bt_add(carry[0], scaled(op, x[0], 2, &above));
    y[0] = above;
}

static void in_graphs(void **state) {
    EACH_KIND(kind) {
        begin(kind, "fuse=off"); /* so that calls are of several launches, which are recorded */
        BT_SCOPE {
            bt_custom *op = new_scale();
            bt_array *x = bt_input(BT_F32, -1, 3), *y = bt_neg(scaled(op, bt_mul(x, x), 2, NULL));
            bt_array *in = bt_input(BT_F32, 2, 3), *out[2];
            bt_array *gradient = bt_grad1(bt_sum(bt_mul(y, y), BT_ALL, false), x);
            out[0] = scaled(op, in, 2, &out[1]);
            bt_function *f = bt_function_new(&x, 1, (bt_array *[]){bt_add(y, bt_num(1)), gradient}, 2, NULL, 0);
            bt_function *batched = bt_vmap(bt_function_new(&in, 1, out, 2, NULL, 0), NULL, NULL);
            for (int i = 0; i < 6; i++)
                BT_SCOPE {
                    bt_array *arg = bt_mul(numbers(), bt_num(i)), *results[2];
                    OK(bt_call(f, &arg, 1, results, 2));
                    double ii = i * i;
                    READS(results[0], 1 - 2 * ii, 1 - 8 * ii, 1 - 18 * ii, 1 - 32 * ii, 1 - 50 * ii, 1 - 72 * ii);
                    READS(bt_max(results[1], BT_ALL, false), 16.0 * 216 * ii * i);
                }
            bt_array *stack = bt_stack((bt_array *[]){numbers(), bt_neg(numbers())}, 2, 0), *both[2];
            OK(bt_call(batched, &stack, 1, both, 2));
            READS(both[0], 2, 4, 6, 8, 10, 12, -2, -4, -6, -8, -10, -12);
            READS(bt_sum(bt_cast(both[1], BT_I32), BT_ALL, false), 4);
            bt_array *carry = bt_zeros(BT_F32, 2, 3), *above;
            OK(bt_scan(add_scaled, op, BT_ALL_ROWS, &carry, 1, &stack, 1, &above, 1));
            bt_array *of_scan = bt_grad1(bt_sum(bt_mul(carry, carry), BT_ALL, false), stack);
            READS(carry, 0, 0, 0, 0, 0, 0);
            READS(above, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0);
            READS(bt_max(of_scan, BT_ALL, false), 0);
            bt_array *loss = NULL, *z = numbers();
            BT_CHECKPOINT {
                bt_array *s = scaled(op, z, 3, NULL);
                loss = bt_sum(bt_mul(s, s), BT_ALL, false);
            }
            READS(bt_grad1(loss, z), 18, 36, 54, 72, 90, 108);
            if (has_kernels(kind)) assert_int_equal(atomic_load(&calls), 0);
            atomic_store(&calls, 0);
        }
    }
}

/* --- a group for each row, local memory, elements of 2 bytes, many arrays --------------------------------------------------- */

static const char rows_text[] = "KERNEL(sum_rows) {\n"
                                "    LOCAL_ARRAY f32 parts[64];\n"
                                "    f32 sum = 0;\n"
                                "    for (i64 j = THREAD; j < INPUT_SIZE(0, 1); j += THREADS)\n"
                                "        sum += f32_of_f16(INPUT(0)[GROUP * INPUT_SIZE(0, 1) + j]);\n"
                                "    parts[THREAD] = sum;\n"
                                "    BARRIER();\n"
                                "    for (u32 half_ = THREADS / 2; half_; half_ /= 2) {\n"
                                "        if (THREAD < half_) parts[THREAD] += parts[THREAD + half_];\n"
                                "        BARRIER();\n"
                                "    }\n"
                                "    if (THREAD == 0) OUTPUT(0)[GROUP] = bf16_of_f32(parts[0]);\n"
                                "}\n";
static bt_status rows_shape(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)args;
    out->shape.rank = 1;
    out->dtype = BT_BF16;
    return BT_OK;
}
static bt_status rows_grid(const bt_elements *in, int count, const bt_elements *out, bt_custom_grid *grid,
                           const bt_custom_args *args) {
    (void)count, (void)args;
    if (in[0].data || grid->threads != 256 || grid->groups != 1) return BT_INTERNAL;
    grid->groups = out[0].shape.size[0];
    grid->threads = 64;
    return BT_OK;
}

static void groups_of_rows(void **state) {
    EACH_KIND(kind) {
        if (!has_kernels(kind)) continue;
        begin(kind, "");
        BT_SCOPE {
            bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "a:b.c", .entry = "sum_rows", .shape = rows_shape,
                                                    .grid = rows_grid, .cuda = rows_text, .opencl = rows_text));
            bt_array *x =
                bt_cast(bt_concat((bt_array *[]){bt_ones(BT_F32, 1, 100), bt_full(2, BT_F32, 1, 100)}, 2, 0), BT_F16);
            READS(bt_custom_call(op, &x, 1, NULL, 0), 100, 200);
        }
    }
}

enum { MANY = 40 };
static const char many_text[] =
    "KERNEL(many) {\n"
    "    if (INDEX) return;\n"
    "    OUTPUT(0)[0] = INPUT(0)[0] + INPUT(39)[0] + INPUT_SIZE(39, 2) + INPUT_RANK(1) + INPUT_COUNT(2);\n"
    "    OUTPUT(0)[0] += INPUTS * 1000 + OUTPUTS * 100 + ATTRIBUTES;\n"
    "}\n";
static bt_status one_i64(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)args;
    *out = (bt_elements){NULL, BT_I64, {0, {0}}};
    return BT_OK;
}

/* So many that their sizes are no arguments, but in memory. */
static void many_arrays(void **state) {
    EACH_KIND(kind) {
        if (!has_kernels(kind)) continue;
        begin(kind, "");
        BT_SCOPE {
            bt_custom *op =
                bt_custom_new(BT_CUSTOM(.name = "many", .shape = one_i64, .cuda = many_text, .opencl = many_text));
            bt_array *x[BT_MAX_RANK * MANY];
            for (int i = 0; i < COUNT(x); i++) x[i] = bt_full(i, BT_I64, 1, 2, i == 2 ? 0 : 3);
            READS(bt_custom_call(op, x, MANY, (int64_t[]){7}, 1), 0 + 39 + 3 + 3 + 0 + 40000 + 100 + 1);
            POISONED(bt_custom_call(op, x, 64, NULL, 0), BT_UNIMPLEMENTED,
                     "the kernel of the operation \"many\" is given 65 arrays", "it can have 64");
        }
    }
}

/* --- misuse ---------------------------------------------------------------------------------------------------------------------- */

static bt_status as_it_is(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)out, (void)args;
    return BT_OK;
}
static bt_status odd_grid(const bt_elements *in, int count, const bt_elements *out, bt_custom_grid *grid,
                          const bt_custom_args *args) {
    (void)in, (void)count, (void)out;
    if (!args->data) return BT_OUT_OF_RANGE;
    *grid = *(const bt_custom_grid *)args->data;
    return BT_OK;
}

#define UNMADE(text, ...) \
    FAILS(bt_custom_status(bt_custom_new(BT_CUSTOM(.shape = as_it_is, __VA_ARGS__))), BT_INVALID_ARGUMENT, text)

static void operations_that_cannot_be_made(void **state) {
    fresh("");
    BT_SCOPE {
        UNMADE("\"f\" has no .run function, and no kernel (.cuda, .opencl)", .name = "f", .entry = "f");
        UNMADE("the kernel of the operation \"a:b\" cannot be called \"a:b\"; .entry needs", .name = "a:b", .cuda = "");
        UNMADE("cannot be called \"4f\"", .name = "f", .entry = "4f", .opencl = "");
        UNMADE("cannot be called \"\"", .name = "f", .entry = "", .opencl = "");
    }
}

static void devices_without_it(void **state) {
    EACH_KIND(kind) {
        begin(kind, "");
        BT_SCOPE {
            const char *text = "KERNEL(f) { if (INDEX == 0) OUTPUT(0)[0] = 1; }";
            bt_custom *of_opencl = bt_custom_new(BT_CUSTOM(.name = "f", .shape = as_it_is, .opencl = text));
            bt_custom *of_cuda = bt_custom_new(BT_CUSTOM(.name = "f", .shape = as_it_is, .cuda = text));
            bt_array *x = bt_zeros(BT_F32, 1);
            if (!has_kernels(kind)) {
                POISONED(bt_custom_call(of_cuda, &x, 1, NULL, 0), BT_UNIMPLEMENTED, "bt_custom_call",
                         kind == CPU ? "the operation \"f\" cannot run on CPU:0: the program's kernels do not run "
                                       "there, and it has no C function (.run of its options)"
                                     : "\"f\" cannot run on GPU:0");
            } else {
                READS(bt_custom_call(kind == CUDA ? of_cuda : of_opencl, &x, 1, NULL, 0), 1);
                POISONED(bt_custom_call(kind == CUDA ? of_opencl : of_cuda, &x, 1, NULL, 0), BT_UNIMPLEMENTED,
                         kind == CUDA ? "neither a kernel for it (.cuda of its options) nor a C function (.run)"
                                      : "neither a kernel for it (.opencl of its options) nor");
                bt_array *here = bt_to(x, "cpu:0");
                POISONED(bt_custom_call(kind == CUDA ? of_cuda : of_opencl, &here, 1, NULL, 0), BT_UNIMPLEMENTED,
                         "cannot run on CPU:0");
                /* a text for one device alone: the function on the others */
                bt_custom *mixed = kind == CUDA
                                       ? bt_custom_new(BT_CUSTOM(.name = "scale", .results = 2, .shape = scale_shape,
                                                                 .run = scale, .opencl = scale_text))
                                       : bt_custom_new(BT_CUSTOM(.name = "scale", .results = 2, .shape = scale_shape,
                                                                 .run = scale, .cuda = scale_text));
                READS(scaled(mixed, numbers(), 2, NULL), 2, 4, 6, 8, 10, 12);
                assert_int_equal(atomic_exchange(&calls, 0), 1);
            }
        }
    }
}

static void texts_and_grids_that_are_wrong(void **state) {
    EACH_KIND(kind) {
        if (!has_kernels(kind)) continue;
        begin(kind, "");
        BT_SCOPE {
            bt_array *x = bt_zeros(BT_F32, 3);
            const char *wrong = "// mine\nKERNEL(f) {\n    OUTPUT(0)[INDEX] = nothing_like_it;\n}\n";
            bt_custom *op = bt_custom_new(
                BT_CUSTOM(.name = "broken", .entry = "f", .shape = as_it_is, .cuda = wrong, .opencl = wrong));
            POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_INVALID_ARGUMENT,
                     "the text of the operation \"broken\" does not compile", "nothing_like_it",
                     kind == CUDA ? "3 |     OUTPUT(0)[INDEX]" : "line 3:     OUTPUT(0)[INDEX]");
            const char *text = "KERNEL(f) { if (INDEX < OUTPUT_COUNT(0)) OUTPUT(0)[INDEX] = (f32)THREADS; }";
            op = bt_custom_new(
                BT_CUSTOM(.name = "missing", .entry = "g", .shape = as_it_is, .cuda = text, .opencl = text));
            POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_INVALID_ARGUMENT,
                     "the text of the operation \"missing\" has no KERNEL(g)");
            bt_custom_grid grid = {0, 1};
            op = bt_custom_new(BT_CUSTOM(.name = "f", .shape = as_it_is, .grid = odd_grid, .data = &grid, .cuda = text,
                                         .opencl = text));
            POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_INVALID_ARGUMENT,
                     "\"f\" is to run as 0 groups of 1 threads (.grid of its options)");
            grid = (bt_custom_grid){1, 0};
            POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_INVALID_ARGUMENT, "1 groups of 0 threads");
            grid = (bt_custom_grid){(int64_t)1 << 31, 1};
            POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_INVALID_ARGUMENT, "2147483648 groups");
            grid = (bt_custom_grid){1, 1 << 20};
            POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_UNIMPLEMENTED, "threads a group for f, which has 1048576");
            grid = (bt_custom_grid){3, 1};
            READS(bt_custom_call(op, &x, 1, NULL, 0), 1, 1, 1);
            op = bt_custom_new(
                BT_CUSTOM(.name = "f", .shape = as_it_is, .grid = odd_grid, .cuda = text, .opencl = text));
            POISONED(bt_custom_call(op, &x, 1, NULL, 0), BT_OUT_OF_RANGE,
                     "the grid rule of the operation \"f\" fails with OUT_OF_RANGE");
            READS(bt_sum(x, BT_ALL, false), 0);
        }
    }
}

/* --- life, logs ------------------------------------------------------------------------------------------------------------------ */

static atomic_int released;
static void note_release(void *data) {
    (void)data;
    atomic_fetch_add(&released, 1);
}

static void lives_and_is_known(void **state) {
    EACH_KIND(kind) {
        begin(kind, "log_device_placement=on");
        char text[sizeof scale_text];
        memcpy(text, scale_text, sizeof text);
        atomic_store(&released, 0);
        bt_array *y = NULL;
        BT_SCOPE {
            bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "scale", .results = 2, .run = scale, .shape = scale_shape,
                                                    .cuda = text, .opencl = text, .release = note_release));
            memset(text, 'x', sizeof text - 1); /* it was copied */
            y = bt_retain(scaled(op, numbers(), 2, NULL));
        }
        bt_profile *profile = bt_profile_start();
        OK(bt_block(y));
        bt_synchronize();
        char *table, *plan;
        OK(bt_profile_stop(profile, NULL, &table));
        SAYS(table, "scale");
        bt_free(table);
        assert_int_equal(log_count("Executing op scale in device"), 1);
        READS(y, 2, 4, 6, 8, 10, 12);
        bt_release(y);
        BT_SCOPE {
            plan = bt_explain(scaled(new_scale(), numbers(), 5, NULL));
            SAYS(plan, "scale");
            assert_int_equal(strstr(plan, "its own kernel") != NULL, has_kernels(kind));
            bt_free(plan);
        }
        fresh("");
        assert_int_equal(atomic_load(&released), 1);
        atomic_store(&calls, 0);
    }
}

int main(void) {
    restart_emulated();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes),
        cmocka_unit_test(in_graphs),
        cmocka_unit_test(groups_of_rows),
        cmocka_unit_test(many_arrays),
        cmocka_unit_test(operations_that_cannot_be_made),
        cmocka_unit_test(devices_without_it),
        cmocka_unit_test(texts_and_grids_that_are_wrong),
        cmocka_unit_test(lives_and_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
