#include "task/tables.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"

enum { COLUMNS = 8, ROWS = 32, WIDEST = 40 };

/* The first row is the heading; the last column is as wide as it likes. */
typedef struct table {
    int columns, rows;
    char cell[ROWS + 1][COLUMNS][WIDEST];
    char *last[ROWS + 1]; /* in place of the cell */
    size_t left_out;
} table;

static const char *member_text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static double member_number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *bytes_text(double bytes, char *to, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++) bytes /= 1024;
    snprintf(to, size, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return to;
}

/* "12.5 kJ", of a share "~12.5 kJ". */
static const char *joules_text(const json_t *of, char *to, size_t size) {
    static const char *const units[] = {"mJ", "J", "kJ", "MJ", "GJ"};
    const json_t *joules = json_object_get(of, "joules");
    double x = json_number_value(joules) * 1e3;
    int unit = 0;
    if (!joules)
        snprintf(to, size, "-");
    else if (json_is_null(joules))
        snprintf(to, size, "unknown");
    else {
        for (; x >= 999.5 && unit < 4; unit++) x /= 1000;
        snprintf(to, size, "%s%.3g %s", json_is_true(json_object_get(of, "joules_divided")) ? "~" : "", x, units[unit]);
    }
    return to;
}

/* Names come from programs and may have control characters. */
static char *without_controls(char *words) {
    for (char *at = words; at && *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
    return words;
}

static void add_table(bti_str *out, table *t) {
    int width[COLUMNS] = {0};
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->columns; c++)
            if ((int)strlen(t->cell[r][c]) > width[c]) width[c] = (int)strlen(t->cell[r][c]);
    bti_str_add(out, "\n");
    for (int r = 0; r < t->rows; r++) {
        for (int c = 0; c < t->columns; c++) {
            bool last = c == t->columns - 1;
            const char *cell = without_controls(last && t->last[r] ? t->last[r] : t->cell[r][c]);
            bti_str_addf(out, "%s%-*s", c ? "  " : "", last ? 0 : width[c], cell);
        }
        while (out->length && out->text[out->length - 1] == ' ') out->text[--out->length] = '\0';
        bti_str_add(out, "\n");
        bti_free(t->last[r]);
    }
    if (t->left_out) bti_str_addf(out, "and %zu more\n", t->left_out);
    bti_free(t);
}

/* NULL when memory is short. */
static table *new_table(int columns, const char *const *names) {
    table *t = bti_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->columns = columns;
    for (int c = 0; c < columns; c++) snprintf(t->cell[0][c], WIDEST, "%s", names[c]);
    t->rows = 1;
    return t;
}

static bool row_fits_or_is_counted(table *t) {
    if (t->rows <= ROWS) return true;
    t->left_out++;
    return false;
}

static void BT_PRINTF(3, 4) put_cell(table *t, int column, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(t->cell[t->rows][column], WIDEST, format, list);
    va_end(list);
}

/* "0,1" */
static void put_gpus(table *t, int column, const json_t *gpus) {
    size_t index, length = 0;
    const json_t *gpu;
    char *cell = t->cell[t->rows][column];
    if (!json_array_size(gpus)) put_cell(t, column, "-");
    json_array_foreach(gpus, index, gpu) if (length < WIDEST) length +=
        (size_t)snprintf(cell + length, WIDEST - length, "%s%d", index ? "," : "", (int)json_integer_value(gpu));
}

/* --- the parts ------------------------------------------------------------------------------------------------------- */

static void add_program(bti_str *out, const json_t *runtime) {
    char used[24], limit[24], spilled[24];
    size_t index;
    const json_t *resource, *store = json_object_get(runtime, "store");
    bti_str_addf(out, "%s (process %.0f), for %.1f s\n", member_text(runtime, "program"), member_number(runtime, "pid"),
                 member_number(runtime, "seconds"));
    if (*member_text(runtime, "why")) bti_str_addf(out, "%s\n", member_text(runtime, "why"));
    json_array_foreach(json_object_get(runtime, "resources"), index, resource) {
        bti_str_addf(out, "%s%s %g of %g free", index ? ", " : "", member_text(resource, "name"),
                     member_number(resource, "free"), member_number(resource, "total"));
    }
    bti_str_addf(out, "; store %s of %s, %.0f objects",
                 bytes_text(member_number(store, "used_bytes"), used, sizeof used),
                 bytes_text(member_number(store, "limit_bytes"), limit, sizeof limit), member_number(store, "objects"));
    if (member_number(store, "spilled_objects") > 0)
        bti_str_addf(out, ", %.0f of them on disk (%s)", member_number(store, "spilled_objects"),
                     bytes_text(member_number(store, "spilled_bytes"), spilled, sizeof spilled));
    bti_str_add(out, "\n");
}

/* Below the table: why the energy of a GPU is not known; once for GPUs that have the same reason. */
static void add_energy_reasons(bti_str *out, const json_t *gpus) {
    size_t index;
    const json_t *gpu;
    const char *told = "";
    json_array_foreach(gpus, index, gpu) {
        char *why = bti_strdup(member_text(gpu, "energy_why"));
        if (why && *why && strcmp(told, member_text(gpu, "energy_why")) != 0)
            bti_str_addf(out, "energy unknown: %s\n", without_controls(why));
        told = member_text(gpu, "energy_why");
        bti_free(why);
    }
}

static bool add_gpu_table(bti_str *out, const json_t *runtime) {
    size_t index, nth;
    char joules[24];
    const json_t *gpu, *user, *gpus = json_object_get(runtime, "gpus");
    table *t = json_array_size(gpus) ? new_table(5, (const char *[]){"GPU", "USED", "ENERGY", "POWER", "BY"}) : NULL;
    if (!t) return !json_array_size(gpus);
    json_array_foreach(gpus, index, gpu) {
        bti_str by = {0};
        if (!row_fits_or_is_counted(t)) continue;
        put_cell(t, 0, "%.0f", member_number(gpu, "number"));
        put_cell(t, 1, "%g", member_number(gpu, "used"));
        put_cell(t, 2, "%s", joules_text(gpu, joules, sizeof joules));
        if (json_is_number(json_object_get(gpu, "watts")))
            put_cell(t, 3, "%.0f W", member_number(gpu, "watts"));
        else
            put_cell(t, 3, "unknown");
        json_array_foreach(json_object_get(gpu, "by"), nth, user) {
            if (json_object_get(user, "group")) {
                bti_str_addf(&by, "%sa group", nth ? ", " : "");
                continue;
            }
            const char *actor = member_text(user, "actor"), *name = *actor ? actor : member_text(user, "function");
            bti_str_addf(&by, "%s%s (process %.0f, %g)", nth ? ", " : "", name, member_number(user, "pid"),
                         member_number(user, "share"));
        }
        put_cell(t, 4, "-");
        t->last[t->rows++] = bti_str_take(&by);
    }
    add_table(out, t);
    add_energy_reasons(out, gpus);
    return true;
}

static bool add_running_table(bti_str *out, const json_t *runtime) {
    size_t index;
    const json_t *task, *tasks = json_object_get(runtime, "running");
    char bytes[24], joules[24];
    static const char *const names[] = {"RUNS", "PROCESS", "FOR", "GPU", "ENERGY", "MEMORY", ""};
    table *t = json_array_size(tasks) ? new_table(7, names) : NULL;
    if (!t) return !json_array_size(tasks);
    json_array_foreach(tasks, index, task) {
        if (!row_fits_or_is_counted(t)) continue;
        put_cell(t, 0, "%s", member_text(task, "function"));
        put_cell(t, 1, "%.0f", member_number(task, "pid"));
        put_cell(t, 2, "%.1f s", member_number(task, "seconds"));
        put_gpus(t, 3, json_object_get(task, "gpus"));
        put_cell(t, 4, "%s", joules_text(task, joules, sizeof joules));
        put_cell(t, 5, "%s", bytes_text(member_number(task, "resident_bytes"), bytes, sizeof bytes));
        t->last[t->rows++] = bti_strdup(member_text(task, "why"));
    }
    add_table(out, t);
    return true;
}

static bool add_actor_table(bti_str *out, const json_t *runtime) {
    size_t index;
    const json_t *actor, *actors = json_object_get(runtime, "actors");
    static const char *const names[] = {"ACTOR", "PROCESS", "STATE", "GPU", "ENERGY", "QUEUED", "RESTARTED", "RUNS"};
    table *t = json_array_size(actors) ? new_table(8, names) : NULL;
    char joules[24];
    if (!t) return !json_array_size(actors);
    json_array_foreach(actors, index, actor) {
        const char *name = member_text(actor, "name"), *why = member_text(actor, "why");
        if (!row_fits_or_is_counted(t)) continue;
        put_cell(t, 0, "%s", *name ? name : member_text(actor, "function"));
        put_cell(t, 1, "%.0f", member_number(actor, "pid"));
        put_cell(t, 2, "%s", member_text(actor, "state"));
        put_gpus(t, 3, json_object_get(actor, "gpus"));
        put_cell(t, 4, "%s", joules_text(actor, joules, sizeof joules));
        put_cell(t, 5, "%.0f", member_number(actor, "queued"));
        put_cell(t, 6, "%.0f", member_number(actor, "restarted"));
        bti_str runs = {0};
        bti_str_add(&runs, *why ? why : member_text(actor, "method"));
        if (!*why && member_number(actor, "running") > 1)
            bti_str_addf(&runs, " and %.0f more", member_number(actor, "running") - 1);
        t->last[t->rows++] = bti_str_take(&runs);
    }
    add_table(out, t);
    return true;
}

static bool add_group_line(bti_str *out, const json_t *runtime) {
    size_t index;
    const json_t *group, *groups = json_object_get(runtime, "groups");
    table *t = json_array_size(groups) ? new_table(3, (const char *[]){"GROUP OF", "USED BY", ""}) : NULL;
    if (!t) return !json_array_size(groups);
    json_array_foreach(groups, index, group) {
        if (!row_fits_or_is_counted(t)) continue;
        put_cell(t, 0, "%.0f bundles", member_number(group, "bundles"));
        put_cell(t, 1, "%.0f", member_number(group, "users"));
        t->last[t->rows++] = bti_strdup(member_text(group, "why"));
    }
    add_table(out, t);
    return true;
}

static bool add_waiting_table(bti_str *out, const json_t *runtime) {
    size_t index;
    const json_t *task, *tasks = json_object_get(runtime, "waiting"), *counts = json_object_get(runtime, "tasks");
    table *t = json_array_size(tasks) ? new_table(4, (const char *[]){"WAITS", "TASK", "FOR", "WHY"}) : NULL;
    if (!t) return !json_array_size(tasks);
    json_array_foreach(tasks, index, task) {
        if (!row_fits_or_is_counted(t)) continue;
        put_cell(t, 0, "%s", member_text(task, "function"));
        put_cell(t, 1, "%.0f", member_number(task, "task"));
        put_cell(t, 2, "%.1f s", member_number(task, "submitted_seconds"));
        t->last[t->rows++] = bti_strdup(member_text(task, "why"));
    }
    double all = member_number(counts, "waits_for_arguments") + member_number(counts, "waits_for_resources") +
                 member_number(counts, "waits_for_turn"),
           shown = t->rows - 1;
    t->left_out = all > shown ? (size_t)(all - shown) : 0;
    add_table(out, t);
    return true;
}

static bool add_function_table(bti_str *out, const json_t *runtime) {
    size_t index;
    const json_t *f, *functions = json_object_get(json_object_get(runtime, "tasks"), "by_function");
    static const char *const names[] = {"FUNCTION", "ARGUMENTS", "RESOURCES", "TURN", "STARTING", "RUNNING", "BLOCKED"};
    static const char *const keys[] = {
        "", "waits_for_arguments", "waits_for_resources", "waits_for_turn", "starting", "running", "blocked"};
    table *t = json_array_size(functions) ? new_table(7, names) : NULL;
    if (!t) return !json_array_size(functions);
    json_array_foreach(functions, index, f) {
        if (!row_fits_or_is_counted(t)) continue;
        put_cell(t, 0, "%s", member_text(f, "function"));
        for (int c = 1; c < 7; c++) put_cell(t, c, "%.0f", member_number(f, keys[c]));
        t->rows++;
    }
    add_table(out, t);
    return true;
}

static bool add_worker_table(bti_str *out, const json_t *runtime) {
    size_t index;
    const json_t *worker, *workers = json_object_get(runtime, "workers");
    char bytes[24];
    table *t = json_array_size(workers) ? new_table(5, (const char *[]){"WORKER", "PROCESS", "STATE", "MEMORY", "RUNS"})
                                        : NULL;
    if (!t) return !json_array_size(workers);
    json_array_foreach(workers, index, worker) {
        if (!row_fits_or_is_counted(t)) continue;
        put_cell(t, 0, "%.0f", member_number(worker, "number"));
        put_cell(t, 1, "%.0f", member_number(worker, "pid"));
        put_cell(t, 2, "%s", member_text(worker, "state"));
        put_cell(t, 3, "%s", bytes_text(member_number(worker, "resident_bytes"), bytes, sizeof bytes));
        put_cell(t, 4, "%s", member_text(worker, "function"));
        t->rows++;
    }
    add_table(out, t);
    return true;
}

static char *print_tables(const json_t *runtime) {
    bti_str out = {0};
    add_program(&out, runtime);
    static bool (*const parts[])(bti_str * out, const json_t *runtime) = {
        add_gpu_table,  add_running_table,  add_actor_table, add_waiting_table,
        add_group_line, add_function_table, add_worker_table};
    bool done = true;
    for (size_t i = 0; done && i < sizeof parts / sizeof *parts; i++) done = parts[i](&out, runtime);
    if (!done) bti_str_free(&out);
    return bti_str_take(&out);
}

char *bti_view_tables_of(char *json) {
    json_t *value = json_loads(json, 0, NULL);
    char *text = value ? print_tables(value) : NULL;
    json_decref(value);
    bti_free(json);
    if (!text) (void)bti_no_memory();
    return text;
}
