// timeout: 600
/* Programs on emulated GPUs: launches that are recorded and run again, and kernels that leave meanwhile. */
#include <dlfcn.h>
#include <string.h>

#include "support/emulated_programs.h"

static bt_array *chain(bt_array *x) {
    for (int i = 0; i < 6; i++) x = bt_div(bt_sum(bt_mul(x, bt_num(1 + i)), BT_AXES(1), true), bt_num(i + 2));
    return x;
}

/* A function that is called again with its memory at the same addresses is launched as a recording. */
static void recorded_calls_repeat(void **state) {
    begin();
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, 300, 40);
        bt_function *f = bt_function_new(&in, 1, (bt_array *[]){bt_add(in, chain(in))}, 1, NULL, 0);
        OK(bt_function_status(f));
        for (int round = 0; round < 3; round++) {
            double want = 0;
            for (int i = 0; i < 30; i++) {
                BT_SCOPE {
                    bt_array *x = bt_full(i + round, BT_F32, 300, 40);
                    double got = bt_item(bt_max(bt_call1(f, &x, 1), BT_ALL, false));
                    bt_array *again = chain(x);
                    want = (i + round) + bt_item(bt_max(again, BT_ALL, false));
                    assert_true(fabs(got - want) <= 1e-5 * want + 1e-6);
                }
            }
        }
    }
}

/* Kernels of many kinds, so that old ones leave the caches while recordings hold them. */
static void programs_leave_while_recorded(void **state) {
    static const bt_dtype dtypes[] = {BT_I8, BT_I16, BT_I32, BT_I64, BT_U8, BT_U16, BT_U32, BT_U64, BT_F32, BT_F64};
    begin();
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, 50);
        bt_array *sorted = bt_sort(bt_neg(in), 0);
        bt_function *f = bt_function_new(&in, 1, &sorted, 1, NULL, 0);
        bt_array *x = bt_arange(0, 50, 1, BT_F32);
        for (int i = 0; i < 3 * COUNT(dtypes); i++) {
            BT_SCOPE {
                assert_true(bt_item(bt_max(bt_call1(f, &x, 1), BT_ALL, false)) == 0);
                bt_dtype dtype = dtypes[i % COUNT(dtypes)];
                bt_array *other = bt_cast(bt_arange(0, 60 + i, 1, BT_F64), dtype);
                bt_array *order = i % 2 ? bt_sort(other, 0) : bt_cumsum(other, 0, false);
                OK(bt_block(order));
            }
        }
    }
}

/* Calls whose kernels are recorded: several of them, because fuse=off; at the same addresses, because what the call before used is free
 * again when the host has waited for it. */
static void begin_recording(void) { begin_with("fuse=off"); }

static bt_function *new_steps(float by, int steps) {
    bt_array *in = bt_input(BT_F32, 500), *out = in;
    for (int i = 0; i < steps; i++) out = bt_add(bt_mul(out, bt_num(2)), bt_num(by));
    bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
    OK(bt_function_status(f));
    return f;
}

static void call_and_wait(bt_function *f, bt_array *x, int times) {
    for (int i = 0; i < times; i++)
        BT_SCOPE {
            OK(bt_block(bt_call1(f, &x, 1)));
        }
}

/* The last call is in flight at the end. */
static void call_and_forget(bt_function *f, bt_array *x, int times) {
    call_and_wait(f, x, times - 1);
    BT_SCOPE {
        OK(bt_eval(bt_call1(f, &x, 1)));
    }
}

/* The input has other numbers each time, at the same address. */
static void recordings_run_in_order(void **state) {
    begin_recording();
    BT_SCOPE {
        bt_function *f = new_steps(1, 3);
        for (int i = 0; i < 20; i++) {
            BT_SCOPE {
                float *data = numbers(500, (float)i);
                bt_array *x = bt_from(data, BT_F32, (bt_shape){1, {500}});
                test_free(data);
                call_and_forget(f, x, i % 5 + 1);
                expect_line(bt_call1(f, &x, 1), 500, (float)i, 8, 7);
            }
        }
        bt_function_release(f);
    }
}

/* x -> 2 x + 1, by a kernel of the program's. */
static const char step_text[] =
    "KERNEL(step) { if (INDEX < OUTPUT_COUNT(0)) OUTPUT(0)[INDEX] = INPUT(0)[INDEX] * 2 + (f32)ATTRIBUTE(0); }";
static bt_status as_it_is(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)in, (void)count, (void)out, (void)args;
    return BT_OK;
}

static void kernels_of_the_programs_are_recorded(void **state) {
    begin_recording();
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, 500), *out = in;
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "step", .shape = as_it_is, .cuda = step_text));
        for (int i = 0; i < 4; i++) out = bt_custom_call(op, &out, 1, (int64_t[]){1}, 1);
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        for (int i = 0; i < 20; i++) {
            BT_SCOPE {
                float *data = numbers(500, (float)i);
                bt_array *x = bt_from(data, BT_F32, (bt_shape){1, {500}});
                test_free(data);
                call_and_forget(f, x, i % 5 + 1);
                expect_line(bt_call1(f, &x, 1), 500, (float)i, 16, 15);
            }
        }
        bt_function_release(f);
    }
}

static void recordings_end_in_flight(void **state) {
    begin_recording();
    BT_SCOPE {
        bt_array *x = bt_arange(0, 500, 1, BT_F32);
        OK(bt_block(x));
        for (int i = 0; i < 10; i++) {
            bt_function *f = new_steps((float)i, 3);
            call_and_forget(f, x, 8);
            bt_function_release(f);
        }
        bt_array *kept[40]; /* other addresses each time, so that the oldest recordings leave */
        bt_function *f = new_steps(5, 4);
        for (int i = 0; i < COUNT(kept); i++) {
            kept[i] = bt_call1(f, &x, 1);
            OK(bt_eval(kept[i]));
            call_and_forget(f, x, 4);
        }
        for (int i = 0; i < COUNT(kept); i++) expect_line(bt_sub(kept[i], bt_num(75)), 500, 0, 16, 0);
        bt_function_release(f);
    }
}

/* Each layout is a kernel of its own of one primitive: two layouts differ in the axes that do not move, of which no two are neighbours, and
 * the others are in reverse, so that no two axes can be one. */
static bt_array *in_layout(int number) {
    enum { AXES = 7 };
    float data[1 << AXES];
    bt_shape small = {AXES, {0}}, whole = {AXES, {0}};
    bt_axes reversed = {.count = AXES};
    unsigned still = 0;
    while (still & still << 1 || number--) still++;
    for (int i = 0; i < COUNT(data); i++) data[i] = 3;
    for (int axis = 0; axis < AXES; axis++) {
        whole.size[axis] = 2;
        small.size[axis] = still >> axis & 1 ? 1 : 2;
        reversed.axis[axis] = AXES - 1 - axis;
    }
    bt_array *x = bt_permute_axes(bt_broadcast_shape(bt_from(data, BT_F32, small), whole), reversed);
    return bt_concat(((bt_array *[]){x, x}), 2, 0);
}

/* More layouts of one primitive than it keeps kernels. The kernel that leaves is one whose launch is in flight. */
static void programs_leave_in_flight(void **state) {
    enum { KEPT = 16, MORE = 8 };
    begin_recording();
    BT_SCOPE {
        bt_array *made[KEPT];
        for (int first = 0; first < MORE; first++) {
            for (int i = 0; i < KEPT; i++) made[i] = in_layout(first + i);
            OK(bt_eval_all(made, KEPT));
            bt_array *another = in_layout(first + KEPT);
            OK(bt_eval(another));
            for (int i = 0; i < KEPT; i++) assert_true(bt_item(bt_min(made[i], BT_ALL, false)) == 3);
        }
    }
}

/* The kernels of primitives are kept by the primitive, as many as there is room for; recordings hold theirs. */
static void recordings_hold_their_kernels(void **state) {
    static const bt_dtype dtypes[] = {BT_I8, BT_I16, BT_I32, BT_I64, BT_U8, BT_U16, BT_U32, BT_U64, BT_F32, BT_F64};
    begin_recording();
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, 50), *out = in;
        for (int i = 0; i < 3; i++) out = bt_concat(((bt_array *[]){bt_neg(out), out}), 2, 0);
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        bt_array *x = bt_arange(0, 50, 1, BT_F32);
        OK(bt_block(x));
        call_and_forget(f, x, 6);
        for (int i = 0; i < 3 * COUNT(dtypes); i++) {
            BT_SCOPE {
                bt_array *other = bt_zeros(dtypes[i % COUNT(dtypes)], 6, 7, 8);
                if (i >= COUNT(dtypes)) other = bt_transpose(other);
                if (i >= 2 * COUNT(dtypes)) other = bt_flip(other, BT_AXES(1));
                OK(bt_eval(bt_concat(((bt_array *[]){other, other}), 2, i % 3)));
                call_and_forget(f, x, 3);
            }
        }
        BT_SCOPE {
            assert_true(bt_item(bt_sum(bt_call1(f, &x, 1), BT_ALL, false)) == 0);
        }
        bt_function_release(f);
    }
}

/* Sums of many elements use scratch memory, whose address a recording has in it. It moves where others need more, whose memory then comes
 * to lie where it was, and where it is freed. */
static void scratch_memory_moves(void **state) {
    begin_recording();
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, 200000), *out = bt_sum(in, BT_ALL, false);
        for (int i = 0; i < 3; i++) out = bt_add(out, bt_num(1));
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        bt_array *x = bt_ones(BT_F32, 200000), *others[6];
        OK(bt_block(x));
        for (int round = 1; round <= 6; round++) {
            BT_SCOPE {
                call_and_wait(f, x, 4);
                if (round % 2)
                    BT_SCOPE {
                        OK(bt_block(bt_sum(bt_ones(BT_F32, 700000 * round), BT_ALL, false)));
                    }
                else
                    (void)bt_memory_trim(bt_device_get(BT_GPU, 0));
                for (int i = 0; i < COUNT(others); i++) OK(bt_block(others[i] = bt_full(9, BT_F32, 500)));
                call_and_wait(f, x, 4);
                for (int i = 0; i < COUNT(others); i++) assert_true(bt_item(bt_sum(others[i], BT_ALL, false)) == 4500);
                assert_true(bt_item(bt_call1(f, &x, 1)) == 200003);
            }
        }
        bt_function_release(f);
    }
}

/* Lines of the machine's log that begin so. */
static int count_lines(const char *start) {
    const char *(*text_now)(void) = NULL;
    void *machine = dlopen("libfake_machine.so", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(machine);
    *(void **)(void *)&text_now = dlsym(machine, "fake_log_text");
    int count = 0;
    for (const char *at = text_now(); (at = strstr(at, start)); at++) count += at == text_now() || at[-1] == '\n';
    dlclose(machine);
    return count;
}

/* Each call is given memory that none before had, and its result is kept. Its launch is in flight when the next call changes the recording. */
static void memory_is_always_new(void **state) {
    enum { FRESH = 120 };
    begin_recording();
    int before = count_lines("graph "), updated = count_lines("update kernel");
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, 500), *out = bt_add(bt_mul(in, bt_num(2)), bt_num(1)), *given[FRESH],
                 *got[FRESH];
        out = bt_slice(bt_concat(((bt_array *[]){bt_neg(out), out}), 2, 0), (int64_t[]){500}, (int64_t[]){1000}, NULL);
        out = bt_cumsum(bt_mul(out, bt_num(3)), 0, false);
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        OK(bt_function_status(f));
        for (int i = 0; i < FRESH; i++) OK(bt_eval(given[i] = bt_full(i, BT_F32, 500)));
        for (int i = 0; i < FRESH; i++) {
            OK(bt_eval(got[i] = bt_call1(f, &given[i], 1)));
            if (i % 7 == 3) OK(bt_block(got[i]));
        }
        for (int i = 0; i < FRESH; i++) {
            float values[500];
            OK(bt_read(got[i], values, sizeof values));
            for (int k = 0; k < 500; k++) assert_true(values[k] == (float)(3 * (2 * i + 1) * (k + 1)));
        }
        bt_function_release(f);
    }
    assert_true(count_lines("graph ") - before >= FRESH - 20);
    assert_true(count_lines("update kernel") - updated >= FRESH - 20);
}

/* Where a part is done by a library, whose arguments are not known, launches are made one by one. */
static void memory_of_products_is_always_new(void **state) {
    enum { FRESH = 40, SIDE = 64 };
    begin_recording();
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, SIDE, SIDE), *given[FRESH], *got[FRESH];
        bt_array *out = bt_matmul(bt_mul(in, bt_num(2)), in);
        for (int i = 0; i < 3; i++) out = bt_add(out, bt_num(1));
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        OK(bt_function_status(f));
        for (int i = 0; i < FRESH; i++) {
            float data[SIDE * SIDE]; /* a constant would be one element, with strides of 0 */
            for (int k = 0; k < SIDE * SIDE; k++) data[k] = (float)i;
            given[i] = bt_from(data, BT_F32, BT_SHAPE(SIDE, SIDE));
            OK(bt_eval(given[i]));
        }
        for (int i = 0; i < FRESH; i++) OK(bt_eval(got[i] = bt_call1(f, &given[i], 1)));
        for (int i = 0; i < FRESH; i++) {
            assert_true(bt_item(bt_max(got[i], BT_ALL, false)) == 2 * SIDE * i * i + 3);
            assert_true(bt_item(bt_min(got[i], BT_ALL, false)) == 2 * SIDE * i * i + 3);
        }
        bt_function_release(f);
    }
}

/* 2 x, by transforms of lines of every layout. */
static bt_array *doubled(bt_array *x) {
    bt_array *z = bt_rfft(x, .axes = BT_AXES(1));
    z = bt_mul(bt_fft(bt_fft(z, .axes = BT_AXES(0))), 2);
    return bt_irfft(bt_ifft(bt_ifft(z), .axes = BT_AXES(0)), .axes = BT_AXES(1));
}

/* Transforms by a library are recorded like kernels; the recording holds their plans when others take their places. */
static void transforms_are_recorded(void **state) {
    enum { LINES = 9, POINTS = 40, COLUMNS = 24, ALL = LINES * POINTS * COLUMNS };
    begin_recording();
    int graphs = count_lines("graph "), transforms = count_lines("fft ");
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, LINES, POINTS, COLUMNS);
        bt_function *f = bt_function_new(&in, 1, (bt_array *[]){doubled(in)}, 1, NULL, 0);
        OK(bt_function_status(f));
        for (int i = 0; i < 12; i++) {
            BT_SCOPE {
                float *data = numbers(ALL, (float)i);
                bt_array *x = bt_from(data, BT_F32, BT_SHAPE(LINES, POINTS, COLUMNS));
                test_free(data);
                OK(bt_block(bt_call1(f, &x, 1)));
                bt_array *off = bt_abs(bt_sub(bt_call1(f, &x, 1), bt_mul(x, 2)));
                assert_true(bt_item(bt_max(off, BT_ALL, false)) < 0.01);
            }
            for (int n = 0; n < 10; n++)
                BT_SCOPE {
                    OK(bt_block(bt_fft(bt_ones(BT_C64, 4, 30 + 10 * i + n))));
                }
        }
        bt_function_release(f);
    }
    assert_true(count_lines("fft ") - transforms > 12 * 6 * 2 + 80);
    assert_true(count_lines("graph ") - graphs >= 12);
}

/* Half lines whose ends are not real, which a library may use, and write over. */
static void half_lines_stay_as_they_are(void **state) {
    begin();
    for (int axis = 0; axis < 3; axis++)
        for (int odd = 0; odd < 2; odd++)
            BT_SCOPE {
                bt_array *x = bt_normal(bt_key((uint64_t)axis), BT_F32, 11, 22, 20), *wide = bt_cast(x, BT_F64);
                bt_array *half = bt_complex(x, bt_sin(x)), *half_wide = bt_complex(wide, bt_sin(wide));
                int64_t n = 2 * (bt_size(x, axis) - 1) + odd;
                OK(bt_block(half));
                bt_array *got = bt_irfft(half, .axes = BT_AXES(axis), .sizes = {n}, .norm = BT_FFT_FORWARD), *want;
                BT_ON("cpu") want = bt_irfft(half_wide, .axes = BT_AXES(axis), .sizes = {n}, .norm = BT_FFT_FORWARD);
                assert_true(bt_item(bt_max(bt_abs(bt_sub(got, bt_to(want, "gpu:0"))), BT_ALL, false)) < 1e-4);
                assert_true(bt_item(bt_max(bt_abs(bt_sub(half, bt_complex(x, bt_sin(x)))), BT_ALL, false)) == 0);
            }
}

static bt_array *positive_definite(int64_t batch, int64_t n, uint64_t key) {
    bt_array *x = bt_normal(bt_key(key), BT_F32, batch, n, n);
    return bt_add(bt_matmul_t(x, x, false, true), bt_eye(n, n, BT_F32));
}

/* a x = b by Cholesky's factor of a, or where that is given; or in one. */
enum { BY_FACTOR, BY_GIVEN_FACTOR, BY_SOLVE, WAYS };
static bt_array *solution(int way, bt_array *a, bt_array *b) {
    if (way == BY_SOLVE) return bt_solve(a, b);
    bt_array *l = way == BY_FACTOR ? bt_cholesky(bt_mul(a, 1)) : a;
    return bt_triangular_solve(l, bt_triangular_solve(l, b, false, false, false), false, true, false);
}

/* Factorisations by cuSOLVER are not recorded, triangles are, and LU factors of batches of many; all while kernels around them are launched again and again. */
static void linear_algebra_is_launched_again(void **state) {
    enum { SIDE = 12 };
    begin_recording();
    int factors = count_lines("factor "), graphs[WAYS] = {0};
    for (int way = 0; way < WAYS; way++)
        BT_SCOPE {
            int64_t batch = way == BY_SOLVE ? 40 : 2;
            OK(bt_set_flag("cusolver_rows", way == BY_SOLVE ? "0" : "1"));
            bt_array *in[2] = {bt_input(BT_F32, batch, SIDE, SIDE), bt_input(BT_F32, batch, SIDE, 3)};
            bt_array *x = solution(way, in[0], bt_mul(bt_add(in[1], 1), 2));
            bt_function *f = bt_function_new(in, 2, (bt_array *[]){bt_mul(x, 3)}, 1, NULL, 0);
            OK(bt_function_status(f));
            int before = count_lines("graph ");
            for (int i = 0; i < 12; i++)
                BT_SCOPE {
                    bt_array *a = positive_definite(batch, SIDE, (uint64_t)i);
                    bt_array *given[2] = {way == BY_GIVEN_FACTOR ? bt_cholesky(a) : a,
                                          bt_normal(bt_key(9), BT_F32, batch, SIDE, 3)};
                    OK(bt_block(given[0]));
                    OK(bt_block(given[1]));
                    OK(bt_block(bt_call1(f, given, 2)));
                    bt_array *got = bt_matmul(a, bt_call1(f, given, 2)), *want = bt_mul(bt_add(given[1], 1), 6);
                    assert_true(bt_item(bt_max(bt_abs(bt_sub(got, want)), BT_ALL, false)) < 0.1);
                }
            graphs[way] = count_lines("graph ") - before;
            bt_function_release(f);
        }
    assert_true(count_lines("factor ") - factors > 12 * 2 * 2 * 3);
    assert_true(graphs[BY_GIVEN_FACTOR] > graphs[BY_FACTOR]);
    assert_true(graphs[BY_SOLVE] > graphs[BY_FACTOR]);
}

int main(void) {
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(recorded_calls_repeat),
        cmocka_unit_test(programs_leave_while_recorded),
        cmocka_unit_test(programs_leave_in_flight),
        cmocka_unit_test(recordings_run_in_order),
        cmocka_unit_test(recordings_end_in_flight),
        cmocka_unit_test(recordings_hold_their_kernels),
        cmocka_unit_test(kernels_of_the_programs_are_recorded),
        cmocka_unit_test(scratch_memory_moves),
        cmocka_unit_test(memory_is_always_new),
        cmocka_unit_test(memory_of_products_is_always_new),
        cmocka_unit_test(transforms_are_recorded),
        cmocka_unit_test(linear_algebra_is_launched_again),
        cmocka_unit_test(half_lines_stay_as_they_are),
    };
    return RUN_EMULATED(tests);
}
