/* The public functions that begin and end a runtime, choose its engine, and tell what runs. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "task/handles.h"
#include "task/options.h"
#include "task/tables.h"
#include "task/timeline_trace.h"

int bti_default_retries;

/* --- engines ----------------------------------------------------------------------------------------------------------- */

enum { MOST_ENGINES = 8 };
static const bti_engine *engines[MOST_ENGINES] = {&bti_engine_local, &bti_engine_ray};

void bti_engine_add(const bti_engine *of) {
    int count = 0;
    while (count < MOST_ENGINES && engines[count] && engines[count] != of) count++;
    if (count < MOST_ENGINES) engines[count] = of;
}

/* --- the runtime ------------------------------------------------------------------------------------------------------- */

static bt_status choose_engine(const char *asked) {
    char known[200] = "", *flag = asked ? NULL : bti_flag_text(BTI_FLAG_task_engine);
    const char *name = asked ? asked : flag && *flag ? flag : "local";
    for (int i = 0; i < MOST_ENGINES && engines[i] && !bti_engine_now; i++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", length ? ", " : "", engines[i]->name);
        if (!strcmp(engines[i]->name, name)) bti_engine_now = engines[i];
    }
    bt_status status =
        bti_engine_now ? BT_OK : bti_fail(BT_NOT_FOUND, "there is no engine \"%s\"; known: %s", name, known);
    bti_free(flag);
    return status;
}

bt_status bt_runtime_start(const bt_runtime_options *options) {
    BTI_CALL("bt_runtime_init");
    bt_runtime_options known;
    BTI_TRY(bti_runtime_options_take(options, &known));
    if (bti_engine_now) return bti_fail(BT_ALREADY_EXISTS, "a runtime is running already");
    BTI_TRY(choose_engine(known.engine));
    bti_runtime_now++; /* counted before start(), which may begin workers */
    bti_default_retries = known.max_retries;
    bt_status status = bti_engine_now->start(&known);
    if (status != BT_OK) bti_engine_now = NULL;
    return status;
}

bt_status(bt_runtime_shutdown)(void) {
    if (!bti_engine_now) return BT_OK;
    if (!bti_visits_close())
        return bti_fail(BT_FAILED_PRECONDITION, "bt_runtime_shutdown: another thread is shutting it down");
    bt_status status = bti_engine_now->stop();
    if (status == BT_OK) {
        bti_visits_await();
        bti_engine_now->close();
        bti_engine_now = NULL;
    }
    bti_visits_open();
    return status;
}

static double resource_amount(const char *name, bool only_free) {
    BTI_VISIT(v);
    return v.inside && name ? bti_engine_now->resource(name, only_free) : NAN;
}
double bt_resource_total(const char *name) { return resource_amount(name, false); }
double bt_resource_free(const char *name) { return resource_amount(name, true); }

int bt_get_gpu_ids(int *ids, int capacity) { return bti_engine_now ? bti_engine_now->gpus(ids, capacity) : 0; }

/* --- views ------------------------------------------------------------------------------------------------------------- */

char *bt_runtime_text(bool json) {
    BTI_VISIT(v);
    if (!v.inside) return (void)bti_no_runtime(), NULL;
    char *text = bti_engine_now->view("json");
    return json || !text ? text : bti_view_tables_of(text);
}

bt_status bt_runtime_timeline(const char *path) {
    BTI_CALL("bt_runtime_timeline");
    BTI_VISIT(v);
    if (!v.inside) return bti_no_runtime();
    if (!path) return bti_fail(BT_INVALID_ARGUMENT, "the path is NULL");
    char *text = bti_engine_now->view("timeline");
    return text ? bti_timeline_write(path, text) : bt_error_status();
}
