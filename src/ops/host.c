/* Operations that the host calls a function of the program's for: printing and callbacks. */
#include <berth/custom.h>

#include <stdio.h>
#include <string.h>

#include "array/record.h"
#include "base/alloc.h"
#include "base/files.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/str.h"
#include "ir/host.h"
#include "ir/print.h"
#include "ops/application.h"
#include "ops/primitive.h"

BTI_GRADIENT_1(callback, g)

void bti_tangent_callback(bti_application *a) { a->made[0] = a->image[0]; }

/* Takes `function` over. */
static bt_array *record_callback(bti_host_function *function, bt_array *x) {
    bt_array *result = bti_poisoned_by(&x, 1);
    if (!result) {
        result = bti_record_by_rules(BTI_OP_callback, &x, 1, NULL);
        if (bti_node_of(result)->op == BTI_OP_callback) bti_node_of(result)->host = bti_host_retain(function);
    }
    bti_host_release(function);
    return result;
}

/* The host is told all values at once. */
void bti_batch_callback(bti_application *a) {
    a->made[0] = record_callback(bti_host_retain(a->node->host), a->image[0]);
}

/* --- callbacks -------------------------------------------------------------------------------------------------------- */

typedef struct callback {
    bti_host_function head;
    struct {
        bt_debug_fn *fn;
        void *data;
    } own;
} callback;

static void free_function(bti_host_function *function) { bti_free(function); }

static bt_status run_callback(bti_host_function *function, const bt_elements *inputs, int count,
                              const bt_elements *output, const bti_attr *attr) {
    const callback *called = (const callback *)function;
    (void)count, (void)output, (void)attr;
    bool had_scopes = bti_thread_has_scopes();
    bti_user_calls calls = bti_user_calls_begin();
    BT_SCOPE
        called->own.fn(inputs, called->own.data);
    bti_user_calls_end(calls);
    if (!had_scopes) bti_leave_thread();
    return BT_OK;
}

bt_array *bt_debug_callback(bt_debug_fn *fn, void *data, bt_array *x) {
    BTI_PUBLIC("bt_debug_callback");
    if (!fn) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the function is NULL"));
    callback *made = bti_alloc(sizeof *made);
    if (!made) BTI_RETURN(bti_array_new(NULL));
    made->own.fn = fn;
    made->own.data = data;
    made->head = (bti_host_function){
        .refs = 1, .free = free_function, .run = run_callback, .same = &made->own, .same_bytes = sizeof made->own};
    BTI_RETURN(record_callback(&made->head, x));
}

/* --- printing --------------------------------------------------------------------------------------------------------- */

typedef struct printer {
    bti_host_function head;
    char format[];
} printer;

/* One write, so that lines of several threads and processes do not mix. */
static void write_line(const char *text, size_t length) {
    char *path = bti_flag_text(BTI_FLAG_debug_file);
    BTI_WRITES;
    int file =
        path && *path ? bti_file_above_standard(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) : -1;
    if (file >= 0) {
        if (write(file, text, length) != (ssize_t)length) bti_log("flag \"debug_file\": %s: %s", path, strerror(errno));
        close(file);
    } else {
        if (path && *path) bti_log("flag \"debug_file\": %s: %s", path, strerror(errno));
        fwrite(text, 1, length, stderr);
    }
    bti_free(path);
}

static bt_status run_printer(bti_host_function *function, const bt_elements *inputs, int count,
                             const bt_elements *output, const bti_attr *attr) {
    const printer *own = (const printer *)function;
    (void)count, (void)output, (void)attr;
    char *elements = bti_elements_text(inputs, BTI_TEXT_STR);
    if (!elements) return bti_no_memory();
    bti_str line = {0};
    const char *at = own->format;
    for (const char *mark; (mark = strstr(at, "{}")); at = mark + 2)
        bti_str_addf(&line, "%.*s%s", (int)(mark - at), at, elements);
    bti_str_addf(&line, "%s\n", at);
    write_line(bti_str_text(&line), line.length);
    bti_str_free(&line);
    bti_free(elements);
    return BT_OK;
}

bt_array *bt_debug_print(const char *format, bt_array *x) {
    BTI_PUBLIC("bt_debug_print");
    if (!format) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the format is NULL"));
    size_t length = strlen(format) + 1;
    printer *own = bti_alloc(sizeof *own + length);
    if (!own) BTI_RETURN(bti_array_new(NULL));
    own->head = (bti_host_function){
        .refs = 1, .free = free_function, .run = run_printer, .same = own->format, .same_bytes = length};
    memcpy(own->format, format, length);
    BTI_RETURN(record_callback(&own->head, x));
}
