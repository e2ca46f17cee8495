// labels: valgrind
/* NULL where a thing must be: refused with INVALID_ARGUMENT, the call and its line in the record; never a crash. */
#include <berth.h>
#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool said(const char *call, int line) {
    char place[64];
    snprintf(place, sizeof place, "null_test.c:%d: ", line);
    if (bt_error_status() == BT_INVALID_ARGUMENT && strstr(bt_error_text(), place) == bt_error_text() &&
        strstr(bt_error_text(), call))
        return true;
    print_error("%s, line %d: \"%s\" (%s)\n", call, line, bt_error_text(), bt_status_name(bt_error_status()));
    return false;
}

/* `call` is true when the call refused; the record must name `name` ("": some have none) and this line. */
#define REFUSED(name, call)                \
    do {                                   \
        bt_error_clear();                  \
        assert_true(call);                 \
        assert_true(said(name, __LINE__)); \
    } while (0)
#define STATUS(name, call) REFUSED(name, (call) == BT_INVALID_ARGUMENT)
#define NOTHING(name, call) REFUSED(name, (call) == NULL)
#define POISONED(name, status) REFUSED(name, (status) != BT_OK)
#define SILENT(name, call) REFUSED(name, ((call), true))

static double number;
static const int64_t zero;

static void arrays(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *one = bt_from((float[]){1, 2}, BT_F32, BT_SHAPE(2));
        STATUS("bt_read", bt_read(NULL, &number, 8));
        STATUS("bt_read", bt_read(one, NULL, 8));
        STATUS("bt_write", bt_write(NULL, &number, 8));
        STATUS("bt_write", bt_write(one, NULL, 8));
        STATUS("bt_eval", bt_eval(NULL));
        STATUS("bt_eval", bt_eval_all(NULL, 1));
        STATUS("bt_eval", bt_eval_all(NULL, -1));
        STATUS("bt_block", bt_block(NULL));
        STATUS("bt_item_at", bt_item_at(NULL, &zero, &number));
        STATUS("bt_item_at", bt_item_at(bt_cpu(one), NULL, &number));
        STATUS("bt_item_at", bt_item_at(bt_cpu(one), &zero, NULL));
        REFUSED("bt_item", isnan(bt_item(NULL)));
        REFUSED("bt_item", isnan(bt_item(one)));
        NOTHING("bt_map", bt_map(NULL));
        NOTHING("bt_to_text", bt_to_text(NULL));
        NOTHING("bt_repr", bt_repr(NULL));
        SILENT("bt_print", bt_print(NULL));
        STATUS("bt_matmul", bt_eval(bt_matmul(one, NULL)));
        SILENT("", bt_to_all(NULL, 1, "cpu"));
        SILENT("", bt_gpu_all(NULL, 1));
        SILENT("", bt_cpu_all(NULL, -1));
        bt_error_clear();
        bt_assign(NULL, one);
        assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
        assert_int_equal(bt_eval_all(NULL, 0), BT_OK);
    }
}

static void variables_and_functions(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2);
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 2), NULL);
        bt_array *y = bt_add(x, bt_value(w)), *argument = bt_ones(BT_F32, 2), *out = NULL;
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        POISONED("bt_shared_new", bt_shared_status(bt_shared_new(NULL, NULL)));
        POISONED("bt_shared_new_beside", bt_shared_status(bt_shared_new_beside(w, NULL)));
        POISONED("bt_shared_new_beside", bt_shared_status(bt_shared_new_beside(NULL, argument)));
        STATUS("bt_set", bt_set(NULL, argument));
        STATUS("bt_set", bt_set(w, NULL));
        STATUS("bt_set", bt_set_all(NULL, &argument, 1));
        STATUS("bt_set", bt_set_all(&w, NULL, 1));
        STATUS("bt_set", bt_set_all(&w, &argument, -1));
        STATUS("bt_value", bt_eval(bt_value(NULL)));
        bt_shared_set_name(NULL, "w");
        assert_string_equal(bt_shared_name(NULL), "");
        POISONED("bt_function_new", bt_function_status(bt_function_new(NULL, 1, &y, 1, NULL, 0)));
        POISONED("bt_function_new", bt_function_status(bt_function_new(&x, 1, NULL, 1, NULL, 0)));
        POISONED("bt_function_new", bt_function_status(bt_function_new(&x, 1, &y, 1, NULL, 1)));
        POISONED("bt_function_new", bt_function_status(bt_function_new(&x, -1, &y, 1, NULL, 0)));
        POISONED("bt_function_new", bt_function_status(bt_function_new((bt_array *[]){NULL}, 1, &y, 1, NULL, 0)));
        POISONED("bt_function_new", bt_function_status(bt_function_new(&x, 1, (bt_array *[]){NULL}, 1, NULL, 0)));
        POISONED("bt_function_new", bt_function_status(bt_function_new(&x, 1, &y, 1, &(bt_update){0}, 1)));
        STATUS("bt_call", bt_call(NULL, &argument, 1, &out, 1));
        STATUS("bt_call", bt_call(f, NULL, 1, &out, 1));
        STATUS("bt_call", bt_call(f, (bt_array *[]){NULL}, 1, &out, 1));
        STATUS("bt_call", bt_call(f, &argument, 1, NULL, 1));
        STATUS("bt_call", bt_call(f, &argument, 1, &out, -1));
        assert_int_equal(bt_call(f, &argument, 1, &out, 1), BT_OK);
        NOTHING("bt_explain", bt_explain(NULL));
        NOTHING("bt_explain", bt_explain_all(NULL, 1));
        NOTHING("bt_explain", bt_explain_all(&argument, -1));
        NOTHING("bt_explain_function", bt_explain_function(NULL, &argument, 1));
        NOTHING("bt_explain_function", bt_explain_function(f, NULL, 1));
        bt_peak peak;
        int peaks = 1;
        STATUS("bt_peak_all", bt_peak_all(NULL, 1, &peak, &peaks));
        STATUS("bt_peak_all", bt_peak_all((bt_array *[]){NULL}, 1, &peak, &peaks));
        STATUS("bt_peak_all", bt_peak_all(&argument, 1, NULL, &peaks));
        STATUS("bt_peak_all", bt_peak_all(&argument, 1, &peak, NULL));
        STATUS("bt_peak_call", bt_peak_call(NULL, &argument, NULL, 1, &peak, &peaks));
        STATUS("bt_peak_call", bt_peak_call(f, NULL, NULL, 1, &peak, &peaks));
        STATUS("bt_peak_call", bt_peak_call(f, &argument, NULL, 0, &peak, &peaks));
        NOTHING("bt_peak_text", bt_peak_text(NULL, 1));
        STATUS("bt_largest_batch", bt_largest_batch(NULL, NULL, 1, NULL, 0, &(int64_t){0}));
        STATUS("bt_largest_batch", bt_largest_batch(f, &argument, 1, NULL, 0, NULL));
    }
}

static bt_array *total(bt_array *const *args, int count, void *data) { return bt_sum(args[0], BT_ALL, false); }

static void the_rest(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *a = bt_ones(BT_F64, 2);
        bt_device *none[] = {NULL}, *device;
        NOTHING("", bt_device_list_text(NULL, 1, false));
        NOTHING("", bt_device_list_text(none, 1, false));
        STATUS("bt_device_find", bt_device_find("cpu", NULL));
        STATUS("", bt_device_find(NULL, &device));
        NOTHING("17", bt_device_get((bt_kind)17, 0));
        STATUS("bt_set_flag", bt_set_flag(NULL, "on"));
        STATUS("bt_get_flag", bt_get_flag("sync", NULL, 1));
        STATUS("bt_set_contexts", bt_set_contexts(NULL));
        STATUS("", bt_set_devices(NULL));
        STATUS("bt_memory", bt_memory(NULL, NULL));
        REFUSED("bt_pinned", !bt_pinned(NULL, 1));
        bt_pinned_free(NULL);
        assert_false(bt_is_pinned(NULL));
        STATUS("bt_device_processes", bt_device_processes(NULL, NULL, 0, NULL));
        REFUSED("bt_time", isnan(bt_time(NULL, NULL)));
        NOTHING("bt_timeit", bt_timeit(NULL, NULL, 1, 1, NULL));
        STATUS("bt_check_grad", bt_check_grad(NULL, NULL, &a, 1, 0, &number));
        STATUS("", bt_check_grad(total, NULL, NULL, 1, 0, &number));
        STATUS("", bt_check_grad(total, NULL, (bt_array *[]){NULL}, 1, 0, &number));
        assert_int_equal(bt_check_grad(total, NULL, &a, 1, 0, NULL), BT_OK);
        STATUS("bt_fit", bt_fit(NULL, NULL, a, a, NULL, NULL));
        REFUSED("bt_accuracy", isnan(bt_accuracy(bt_flatten_layer(), bt_zeros(BT_F32, 0, 3), bt_zeros(BT_I32, 0))));
        REFUSED("", isnan(bt_accuracy(bt_flatten_layer(), NULL, a)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays),
        cmocka_unit_test(variables_and_functions),
        cmocka_unit_test(the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
