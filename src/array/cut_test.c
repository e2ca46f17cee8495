/* Gradients where an array on the way has forgotten how it was made: an error that names the line, never a silent zero. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "array/handle.h"
#include "array/graph.h"
#include "exec/exec.h"

#define OK(call) expect_ok((call), __LINE__)
static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

static bt_array *vector(void) { return BT_ARRAY(float, (2), 1, 2); }
static bt_array *total(bt_array *x) { return bt_sum(x, BT_ALL, false); }

/* The gradient of the total of y by x is so many times one. */
static void expect_gradient(bt_array *y, bt_array *x, double wanted, int line) {
    bt_array *g = bt_grad1(total(y), x);
    float got[2];
    if (bt_read(g, got, sizeof got) != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
    if ((double)got[0] != wanted || (double)got[1] != wanted)
        fail_msg("line %d: %g %g", line, (double)got[0], (double)got[1]);
}
#define GRADIENT(y, x, wanted) expect_gradient((y), (x), (wanted), __LINE__)

static void expect_cut(bt_status status, int cut_line, const char *by, int line) {
    char place[64];
    snprintf(place, sizeof place, "cut_test.c:%d: %s", cut_line, by);
    if (status != BT_FAILED_PRECONDITION || !strstr(bt_error_text(), place) ||
        !strstr(bt_error_text(), "bt_stop_gradient") || !strstr(bt_error_text(), "bt_keep"))
        fail_msg("line %d: %s: %s", line, bt_status_name(status), bt_error_text());
}
#define CUT(y, x, cut_line, by)                                                 \
    do {                                                                        \
        bt_array *g_, *x_ = (x);                                                \
        expect_cut(bt_grad(total(y), &x_, 1, &g_), (cut_line), (by), __LINE__); \
        assert_int_equal(bt_peek_status(g_), BT_FAILED_PRECONDITION);           \
    } while (0)

static void a_retained_array_cuts(void **state) {
    (void)state;
    for (int computed = 0; computed < 2; computed++)
        BT_SCOPE {
            bt_array *x = vector(), *h = bt_mul(x, bt_num(3)), *z = vector();
            if (computed) OK(bt_block(h));
            bt_array *kept = bt_retain(h);
            int line = __LINE__ - 1;
            bt_array *y = bt_mul(kept, kept);
            CUT(y, x, line, "bt_retain");
            bt_array *later = bt_retain(bt_add(kept, bt_num(1)));
            CUT(bt_exp(later), x, __LINE__ - 1, "bt_retain");
            bt_release(later);
            GRADIENT(bt_add(y, bt_mul(z, bt_num(4))), z, 4); /* it is younger than the cut array */
            GRADIENT(bt_add(y, bt_mul(x, bt_num(4))), x, 4); /* another way leads there */
            GRADIENT(bt_mul(bt_stop_gradient(h), bt_num(2)), x, 0);
            GRADIENT(bt_mul(kept, bt_num(2)), kept, 2);
            bt_release(kept);
        }
}

/* Arrays that have nothing to forget, or nothing that the gradient is wanted of. */
static void what_cannot_depend_on_it_does_not_cut(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = vector();
        bt_array *leaf = bt_retain(vector()), *random = bt_retain(bt_mul(bt_normal(bt_key(1), BT_F32, 2), bt_num(.1)));
        bt_array *computed = bt_retain(bt_exp(vector())), *integers = bt_retain(bt_cast(bt_mul(x, bt_num(2)), BT_I32));
        OK(bt_block(computed));
        GRADIENT(bt_add(leaf, random), x, 0);
        GRADIENT(bt_mul(computed, random), x, 0);
        GRADIENT(bt_mul(bt_cast(integers, BT_F32), random), x, 0);
        bt_release(leaf);
        bt_release(random);
        bt_release(computed);
        bt_release(integers);
    }
}

static void variables(void **state) {
    (void)state;
    BT_SCOPE {
        bt_shared *a = bt_shared_new(vector(), NULL), *b = bt_shared_new(vector(), NULL);
        bt_array *ten = bt_retain(bt_mul(bt_value(a), bt_num(10)));
        int line = __LINE__ - 1;
        bt_array *y = bt_mul(ten, bt_num(2)), *grads[2];
        expect_cut(bt_grad_shared(total(y), &a, 1, grads), line, "bt_retain", __LINE__);
        OK(bt_grad_shared(total(y), &b, 1, grads)); /* the retained array does not depend on it */
        assert_true(bt_item(total(grads[0])) == 0);
        OK(bt_grad_shared(total(bt_add(y, bt_value(a))), &a, 1, grads));
        OK(bt_set(a, bt_mul(bt_value(b), bt_num(5)))); /* gradients end at a variable's value: that is what it is */
        OK(bt_grad_shared(total(bt_value(a)), &b, 1, grads));
        assert_true(bt_item(total(grads[0])) == 0);
        bt_release(ten);
    }
}

static void inside_of_functions(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *input = bt_input(BT_F32, 2), *h = bt_retain(bt_mul(input, bt_num(3)));
        int line = __LINE__ - 1;
        CUT(bt_mul(h, h), input, line, "bt_retain");
        bt_release(h);
        bt_array *y = bt_mul(input, bt_num(7)), *x = vector();
        bt_function *f = bt_function_new(&input, 1, &y, 1, NULL, 0);
        GRADIENT(bt_call1(f, &x, 1), x, 7);
        for (int i = 0; i < 3; i++) { /* recorded, then prepared */
            bt_array *kept = bt_retain(bt_call1(f, &x, 1));
            CUT(bt_mul(kept, bt_num(2)), x, __LINE__ - 1, "bt_retain");
            bt_release(kept);
        }
    }
}

/* --- bt_assign -------------------------------------------------------------------------------------------------------- */

static void assigned_in_one_scope(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *w = BT_ARRAY(float, (2), 2, 2), *h = NULL, *x = vector();
        bt_assign(&h, bt_mul(x, bt_num(1)));
        int first = __LINE__ - 1;
        for (int i = 0; i < 3; i++) {
            if (i == 1) OK(bt_block(h));
            bt_assign(&h, bt_add(h, w));
        }
        GRADIENT(h, w, 3);
        CUT(bt_mul(h, bt_num(1)), x, first, "bt_assign"); /* there was no array before it */
        bt_assign(&h, NULL);
    }
}

static void an_assigned_array_forgets_at_the_end_of_its_scope(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *w = vector(), *h = NULL;
        int line = 0;
        BT_SCOPE {
            bt_assign(&h, vector());
            bt_assign(&h, bt_mul(h, bt_mul(w, bt_num(2))));
            bt_assign(&h, bt_add(h, w));
            line = __LINE__ - 1;
            bt_array *g = bt_grad1(total(h), w);
            assert_true(bt_item(total(g)) == 8); /* 2 h + 1 */
        }
        CUT(bt_mul(h, bt_num(1)), w, line, "bt_assign");
        bt_assign(&h, NULL);
    }
}

static void the_first_step_of_a_scope_is_not_cut(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *w = vector(), *h = NULL;
        bt_assign(&h, vector());
        for (int turn = 0; turn < 3; turn++) {
            int line = 0;
            BT_SCOPE {
                bt_array *expected = bt_add(bt_add(bt_stop_gradient(h), w), w);
                GRADIENT(expected, w, 2);
                for (int i = 0; i < 2; i++) {
                    bt_assign(&h, bt_add(h, w));
                    line = __LINE__ - 1;
                    if (turn == 1) OK(bt_block(h));
                }
                GRADIENT(h, w, 2); /* of both steps; what comes from the last turn is cut */
            }
            CUT(bt_mul(h, bt_num(1)), w, line, "bt_assign");
        }
        BT_SCOPE
            bt_assign(&h, bt_keep(bt_add(w, w))); /* moved to the scope that made w */
        bt_assign(&h, NULL);
    }
}

static int notices;
static void count_notices(const char *line, void *data) {
    (void)data;
    notices += strstr(line, "history of more than 10000 operations") && strstr(line, "cut_test.c");
}

static void long_histories_are_noticed(void **state) {
    (void)state;
    bt_set_log_sink(count_notices, NULL);
    for (int i = 0; i < 2; i++)
        BT_SCOPE {
            bt_array *w = vector(), *h = NULL;
            bt_assign(&h, bt_mul(w, bt_num(1)));
            for (int k = 0; k < 6000; k++) { /* two operations each */
                if (k == 4900) assert_int_equal(notices, i);
                bt_assign(&h, bt_add(bt_add(h, w), w));
            }
            bt_assign(&h, NULL);
        }
    assert_int_equal(notices, 2);
    bt_set_log_sink(NULL, NULL);
}

/* --- endless loops ---------------------------------------------------------------------------------------------------- */

static bt_array *step(bt_function *f, bt_array *w) {
    if (f) return bt_call1(f, &w, 1);
    return bt_sub(w, bt_mul(bt_grad1(total(bt_square(w)), w), bt_num(.01)));
}

/* What a loop keeps from one turn to the next does not grow: neither arrays nor history. */
static void loops_are_bounded(void **state) {
    (void)state;
    bt_function *f = NULL;
    BT_SCOPE {
        bt_array *input = bt_input(BT_F32, 2), *out = step(NULL, input);
        f = bt_function_retain(bt_function_new(&input, 1, &out, 1, NULL, 0));
    }
    for (int way = 0; way < 4; way++) {
        bt_array *w = NULL;
        uint64_t arrays = 0, buffers = 0;
        BT_SCOPE
            bt_assign(&w, vector());
        for (int i = 0; i < 1200; i++) {
            BT_SCOPE {
                bt_array *next = step(way % 2 ? f : NULL, w);
                if (way < 2)
                    bt_assign(&w, next);
                else {
                    bt_array *last = w;
                    w = bt_retain(next);
                    bt_release(last);
                }
                if (i % 10 == 0) OK(bt_block(w));
            }
            if (i == 600) {
                arrays = bt_live_arrays();
                buffers = bti_buffers_alive();
            }
        }
        assert_int_equal(bt_live_arrays(), arrays);
        assert_in_range(bti_buffers_alive(), 0, buffers + 2);
        assert_int_equal(bt_block(w), BT_OK);
        assert_int_equal(bti_history_length(bti_node_of(w), 0), 1);
        bt_assign(&w, NULL);
    }
    bt_function_release(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retained_array_cuts),
        cmocka_unit_test(what_cannot_depend_on_it_does_not_cut),
        cmocka_unit_test(variables),
        cmocka_unit_test(inside_of_functions),
        cmocka_unit_test(assigned_in_one_scope),
        cmocka_unit_test(an_assigned_array_forgets_at_the_end_of_its_scope),
        cmocka_unit_test(the_first_step_of_a_scope_is_not_cut),
        cmocka_unit_test(long_histories_are_noticed),
        cmocka_unit_test(loops_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
