// env: BERTH_FLAGS=devices=sim:gpu*2,kernels=auto
/* What explain says in its three forms: the same plan, counted in the JSON. */
#include <jansson.h>

#include "support/support.h"

static json_t *explained(bt_array *x) {
    char *text = bt_explain_as(&x, 1, BT_EXPLAIN_JSON);
    assert_non_null(text);
    json_error_t error;
    json_t *plan = json_loads(text, 0, &error);
    if (!plan) fail_msg("%s: %s", error.text, text);
    bt_free(text);
    return plan;
}

static const char *string_of(json_t *of, const char *key) { return json_string_value(json_object_get(of, key)); }
static json_int_t number_of(json_t *of, const char *key) { return json_integer_value(json_object_get(of, key)); }

static void json_says_what_runs_where(void **state) {
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 100, 30), *there = NULL,
                 *y = bt_exp(bt_mul(BT_ARRAY(float, (2), 1, 2), bt_num(3)));
        bt_array *here = bt_sqrt(bt_add(x, x));
        BT_ON("gpu:1") there = bt_sum(bt_mul(here, bt_num(2)), BT_AXES(1), false);
        json_t *plan = explained(there), *steps = json_object_get(plan, "steps"), *last;
        bool copied = false;
        size_t i;
        json_array_foreach(steps, i, last) {
            if (strcmp(string_of(last, "kind"), "copy")) continue;
            copied = true;
            assert_string_equal(string_of(last, "device"), "GPU:0");
            assert_string_equal(string_of(last, "to"), "GPU:1");
        }
        assert_true(copied);
        last = json_array_get(steps, json_array_size(steps) - 1);
        assert_string_equal(string_of(last, "device"), "GPU:1");
        assert_string_equal(string_of(last, "rule"), "named by the program");
        json_t *out = json_array_get(json_object_get(last, "outputs"), 0);
        assert_int_equal(number_of(out, "bytes"), 400);
        assert_string_equal(string_of(out, "in_memory_because"), "a result");
        json_decref(plan);
        plan = explained(y);
        assert_int_equal(number_of(plan, "bytes_read"), 8); /* two floats; the scalar is none of the memory */
        assert_int_equal(number_of(plan, "bytes_written"), 8);
        assert_int_equal(number_of(plan, "bytes_least"), 16);
        assert_int_equal(json_array_size(json_object_get(plan, "steps")), 1);
        json_decref(plan);
    }
}

static void dot_is_a_graph(void **state) {
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *y = bt_relu(bt_matmul(x, x));
        char *text = bt_explain_as(&y, 1, BT_EXPLAIN_DOT);
        assert_non_null(text);
        assert_ptr_equal(strstr(text, "digraph plan {"), text);
        assert_non_null(strstr(text, "label=\"GPU:0\""));
        assert_non_null(strstr(text, "matmul"));
        assert_non_null(strstr(text, "s0 -> s1 [label=\"float32 (2, 2)\"]"));
        bt_free(text);
        assert_null(bt_explain_as(&y, 1, (bt_explain_form)7));
        assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
        bt_error_clear();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_says_what_runs_where),
        cmocka_unit_test(dot_is_a_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
