#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/guest.h"
#include "base/quote.h"
#include "file/variables.h"
#include "nn/layer.h"

enum { NUMBERS = sizeof(bti_checkpoint_numbers) / sizeof(double), OWN_TENSORS = 3 };
static const char first[] = "step-", last[] = ".safetensors", own[] = "fit.";

/* One file: what is in it, retained, until it is written. */
typedef struct bti_file_job {
    char *path;
    bti_str *names; /* by array */
    bt_array **arrays;
    int count;
    bti_str loader, validation, rate, metrics, frozen;
    const char *rule;
    bt_status status;
    bti_error *error;
} bti_file_job;

struct bti_checkpoints {
    char *folder;
    int keep;
    bti_checkpoint_subject of;
    bool writing; /* there is a thread */
    pthread_t thread;
    bti_place place;
    bti_file_job job;
};

/* --- what there is to save ---------------------------------------------------------------------------------------------- */

typedef struct variables {
    bt_shared **list;
    bti_str *names;
    int count, parameters; /* of the model: the first ones */
} variables;

static void free_variables(variables *v) {
    for (int i = 0; i < v->count && v->names; i++) bti_str_free(&v->names[i]);
    bti_free(v->names);
    bti_free(v->list);
}

static bt_status name_variables(variables *v) {
    for (int i = 0; i < v->count; i++) {
        const char *name = bt_shared_name(v->list[i]);
        if (!*name)
            return bti_fail(BT_FAILED_PRECONDITION,
                            "a variable of the model has no name; bt_shared_set_name gives it one");
    }
    return BT_OK;
}

/* Of the model, then of the optimiser, under their names in the file. */
static bt_status list_variables(const bti_checkpoints *c, variables *v) {
    int parameters = bt_parameters(c->of.model, NULL, 0), states = bt_states(c->of.model, NULL, 0);
    int of_optimizer = bt_optimizer_states(c->of.optimizer, NULL, 0);
    *v = (variables){.count = parameters + states + of_optimizer, .parameters = parameters};
    v->list = bti_calloc((size_t)v->count + 1, sizeof *v->list);
    v->names = bti_calloc((size_t)v->count + 1, sizeof *v->names);
    if (!v->list || !v->names) return bti_no_memory();
    (void)bt_parameters(c->of.model, v->list, parameters);
    (void)bt_states(c->of.model, v->list + parameters, states);
    (void)bt_optimizer_states(c->of.optimizer, v->list + parameters + states, of_optimizer);
    BTI_TRY(name_variables(v));
    for (int i = 0; i < v->count; i++) {
        bti_str_addf(&v->names[i], "%s.%s", i < parameters + states ? "model" : "optimizer",
                     bt_shared_name(v->list[i]));
        if (v->names[i].failed) return bti_no_memory();
    }
    return BT_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------------ */

static void clear_job(bti_file_job *job) {
    for (int i = 0; i < job->count; i++) {
        bt_assign(&job->arrays[i], NULL);
        bti_str_free(&job->names[i]);
    }
    bti_free(job->arrays);
    bti_free(job->names);
    bti_free(job->path);
    bti_str_free(&job->loader);
    bti_str_free(&job->validation);
    bti_str_free(&job->rate);
    bti_str_free(&job->metrics);
    bti_str_free(&job->frozen);
    bti_error_release(job->error);
    *job = (bti_file_job){0};
}

/* Files of checkpoints, by number; -1: no such name. */
static int64_t number_of(const char *name) {
    if (strncmp(name, first, strlen(first)) != 0) return -1;
    char *end;
    const char *digits = name + strlen(first);
    if (*digits < '0' || *digits > '9') return -1;
    errno = 0;
    long long number = strtoll(digits, &end, 10);
    return !errno && !strcmp(end, last) ? number : -1;
}

/* The greatest number below `below`; -1: there is none. */
static int64_t find_before(const char *folder, int64_t below) {
    int64_t found = -1;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        int64_t number = number_of(entry->d_name);
        if (number > found && number < below) found = number;
    }
    if (directory) closedir(directory);
    return found;
}

bool bti_checkpoints_any(const bti_checkpoints *c) { return find_before(c->folder, INT64_MAX) >= 0; }

static void add_path(bti_str *path, const char *folder, int64_t number) {
    bti_str_addf(path, "%s/%s%010lld%s", folder, first, (long long)number, last);
}

/* All but the newest ones. */
static void remove_old(const bti_checkpoints *c) {
    int64_t number = INT64_MAX;
    for (int kept = 0; (number = find_before(c->folder, number)) >= 0; kept++) {
        bti_str path = {0};
        add_path(&path, c->folder, number);
        if (kept >= c->keep && !path.failed) unlink(bti_str_text(&path));
        bti_str_free(&path);
    }
}

static bt_status write_job(bti_file_job *job) {
    const char **names = bti_calloc((size_t)job->count + 1, sizeof *names);
    if (!names) return bti_no_memory();
    for (int i = 0; i < job->count; i++) names[i] = bti_str_text(&job->names[i]);
    const char *metadata[] = {"loader",     bti_str_text(&job->loader),
                              "validation", bti_str_text(&job->validation),
                              "optimizer",  job->rule,
                              "rate",       bti_str_text(&job->rate),
                              "metrics",    bti_str_text(&job->metrics),
                              "frozen",     bti_str_text(&job->frozen),
                              NULL};
    bt_status status = bt_save(job->path, names, job->arrays, job->count, metadata);
    bti_free(names);
    return status;
}

static void *write_checkpoint(void *argument) {
    bti_checkpoints *c = argument;
    int depth = bti_call_begin(c->place.name);
    bti_call_set_place(c->place);
    bool quiet = bti_errors_quiet(true);
    c->job.status = write_job(&c->job);
    if (c->job.status != BT_OK) c->job.error = bti_error_last();
    bti_errors_quiet(quiet);
    if (c->job.status == BT_OK) remove_old(c);
    bti_call_end(depth);
    bti_leave_thread();
    return NULL;
}

bt_status bti_checkpoints_wait(bti_checkpoints *c) {
    if (!c->writing) return BT_OK;
    pthread_join(c->thread, NULL);
    c->writing = false;
    bt_status status = c->job.error ? bti_fail_with(c->job.error) : c->job.status;
    clear_job(&c->job);
    return status;
}

/* Each on a line of its own. */
static void add_line(bti_str *text, const char *line) { bti_str_addf(text, "%s%s", text->length ? "\n" : "", line); }

static void add_own(bti_file_job *job, const char *name, bt_array *array) {
    bti_str_addf(&job->names[job->count], "%s%s", own, name);
    job->arrays[job->count++] = bt_retain(array);
}

static bt_status fill_job(bti_checkpoints *c, bti_file_job *job, const bti_checkpoint_numbers *numbers, bt_array *sum,
                          const bti_history *history) {
    variables v;
    bt_status status = list_variables(c, &v);
    if (status == BT_OK) {
        job->names = bti_calloc((size_t)v.count + OWN_TENSORS, sizeof *job->names);
        job->arrays = bti_calloc((size_t)v.count + OWN_TENSORS, sizeof(bt_array *));
        if (!job->names || !job->arrays) status = bti_no_memory();
    }
    for (int i = 0; i < v.count && status == BT_OK; i++) {
        bti_str_add(&job->names[i], bti_str_text(&v.names[i]));
        job->arrays[job->count++] = bt_retain(bt_value(v.list[i]));
        if (i < v.parameters && bt_shared_is_frozen(v.list[i])) add_line(&job->frozen, bti_str_text(&v.names[i]));
    }
    free_variables(&v);
    if (status == BT_OK) status = bti_layer_report(c->of.model); /* else they may be those of an earlier step */
    if (status != BT_OK) return status;
    BT_ON("cpu") {
        add_own(job, "numbers", bt_from(numbers, BT_F64, BT_SHAPE(NUMBERS)));
        add_own(job, "history",
                bt_from(history->cells.items, BT_F64, BT_SHAPE(bti_history_rows(history), bti_history_width(history))));
    }
    if (sum) add_own(job, "sum", sum);
    return BT_OK;
}

static bt_status add_loader(bti_str *text, const bt_loader *loader) {
    char *state = loader ? bt_loader_state(loader) : NULL;
    if (loader && !state) return bt_error_status();
    bti_str_add(text, state ? state : "");
    bt_free(state);
    return BT_OK;
}

static bt_status describe_job(const bti_checkpoints *c, bti_file_job *job, const bti_history *history, int64_t steps) {
    bti_str path = {0};
    bt_status status = add_loader(&job->loader, c->of.loader);
    if (status == BT_OK) status = add_loader(&job->validation, c->of.validation);
    bti_str_addf(&job->rate, "%.17g", bt_optimizer_rate(c->of.optimizer));
    for (int m = 0; m < history->count; m++) add_line(&job->metrics, history->metrics[m].name);
    job->rule = bt_optimizer_name(c->of.optimizer);
    add_path(&path, c->folder, steps);
    job->path = bti_str_take(&path);
    bool room = job->path && !job->loader.failed && !job->validation.failed && !job->rate.failed &&
                !job->metrics.failed && !job->frozen.failed;
    return status == BT_OK && !room ? bti_no_memory() : status;
}

bt_status bti_checkpoints_save(bti_checkpoints *c, const bti_checkpoint_numbers *numbers, bt_array *sum,
                               const bti_history *history) {
    BTI_TRY(bti_checkpoints_wait(c));
    bti_file_job *job = &c->job;
    bt_status status;
    BT_SCOPE
        status = fill_job(c, job, numbers, sum, history);
    if (status == BT_OK) status = describe_job(c, job, history, (int64_t)numbers->steps);
    c->place = bti_call_place();
    if (status == BT_OK && !(c->writing = bti_thread_start(&c->thread, BTI_STACK_LIBRARY, write_checkpoint, c)))
        status = bti_fail(BT_RESOURCE_EXHAUSTED, "no thread can be made to write a checkpoint");
    if (status != BT_OK) clear_job(job);
    return status;
}

/* --- the best model ------------------------------------------------------------------------------------------------------- */

static char *path_of_best(const bti_checkpoints *c) {
    bti_str path = {0};
    bti_str_addf(&path, "%s/best%s", c->folder, last);
    char *taken = bti_str_take(&path);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

bt_status bti_checkpoints_save_best(bti_checkpoints *c) {
    char *path = path_of_best(c);
    bt_status status = path ? bt_save_model(path, c->of.model, NULL) : BT_RESOURCE_EXHAUSTED;
    bti_free(path);
    return status;
}

bt_status bti_checkpoints_load_best(bti_checkpoints *c) {
    char *path = path_of_best(c);
    bt_status status = path ? bt_load_model(path, c->of.model, NULL) : BT_RESOURCE_EXHAUSTED;
    bti_free(path);
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------------ */

static bt_status read_doubles(bt_tensors *file, const char *name, int columns, double *to, bti_history *history) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *array = NULL;
        BT_ON("cpu") array = bt_tensors_get(file, name);
        status = bt_block(array);
        bool fits = status == BT_OK && bt_dtype_of(array) == BT_F64 &&
                    (history ? bt_rank(array) == 2 && bt_size(array, 1) == columns
                             : bt_rank(array) == 1 && bt_size(array, 0) == columns);
        if (status == BT_OK && !fits)
            status = bti_fail(BT_INVALID_ARGUMENT,
                              "the checkpoint's \"%s\" has another form: it is of a run with other metrics, or of "
                              "another version of berth",
                              name);
        if (status == BT_OK && !history) status = bt_read(array, to, (size_t)columns * sizeof *to);
        const double *cells = status == BT_OK && history ? bt_map(array) : NULL;
        for (int64_t r = 0; cells && r < bt_size(array, 0) && status == BT_OK; r++)
            status = bti_history_add(history, cells + r * columns);
    }
    return status;
}

static bool has_tensor(const bt_tensors *file, const char *name) {
    for (int i = 0; i < bt_tensors_count(file); i++)
        if (!strcmp(bt_tensors_name(file, i), name)) return true;
    return false;
}

static bt_status check_run(const bti_checkpoints *c, const bt_tensors *file, const char *path,
                           const bti_history *history) {
    const char *rule = bt_tensors_metadata(file, "optimizer"), *metrics = bt_tensors_metadata(file, "metrics");
    if (!rule || !metrics || !bt_tensors_metadata(file, "loader"))
        return bti_fail(BT_INVALID_ARGUMENT, "%s is no checkpoint of bt_fit", path);
    if (strcmp(rule, bt_optimizer_name(c->of.optimizer)) != 0)
        return bti_fail(
            BT_INVALID_ARGUMENT,
            "%s is of a run with the optimiser \"%s\", this one has %s; take another folder, or .fresh = true", path,
            bti_quote(rule).text, bt_optimizer_name(c->of.optimizer));
    bti_str names = {0};
    for (int m = 0; m < history->count; m++) add_line(&names, history->metrics[m].name);
    bool same = !names.failed && !strcmp(bti_str_text(&names), metrics);
    bti_str_free(&names);
    return same ? BT_OK
                : bti_fail(BT_INVALID_ARGUMENT,
                           "%s is of a run with other metrics; take another folder, or .fresh = true", path);
}

static const char other_model[] = "it is of another model: take another folder, or .fresh = true";

static bool has_line(const char *lines, const char *line) {
    size_t length = strlen(line);
    for (const char *at = lines; *at;) {
        size_t end = strcspn(at, "\n");
        if (end == length && !memcmp(at, line, length)) return true;
        at += end + (at[end] == '\n');
    }
    return false;
}

/* lines: the names of what is frozen; NULL: the file is of an earlier berth, and says nothing. */
static bt_status freeze_as(const variables *v, const char *lines) {
    bt_status status = BT_OK;
    for (int i = 0; lines && i < v->parameters && status == BT_OK; i++)
        status = bt_shared_freeze(v->list[i], has_line(lines, bti_str_text(&v->names[i])));
    return status;
}

static bt_status load_variables(bti_checkpoints *c, bt_tensors *file) {
    variables v;
    bt_status status = list_variables(c, &v);
    const char **names = bti_calloc((size_t)v.count + 1, sizeof *names);
    bt_array **values = bti_calloc((size_t)v.count + 1, sizeof(bt_array *));
    if (status == BT_OK && (!names || !values)) status = bti_no_memory();
    for (int i = 0; i < v.count && status == BT_OK; i++) names[i] = bti_str_text(&v.names[i]);
    BT_SCOPE {
        if (status == BT_OK)
            status =
                bti_variables_read(file, "model and its optimiser", other_model, v.list, names, v.count, own, values);
        if (status == BT_OK) status = bt_set_all(v.list, values, v.count);
        if (status == BT_OK) status = freeze_as(&v, bt_tensors_metadata(file, "frozen"));
    }
    bti_free(values);
    bti_free(names);
    free_variables(&v);
    return status;
}

static bt_status load_sum(const bti_checkpoints *c, bt_tensors *file, bt_array **sum) {
    bt_status status = BT_OK;
    bt_assign(sum, NULL);
    if (!has_tensor(file, "fit.sum")) return BT_OK;
    BT_SCOPE {
        bt_array *read = bti_bring_batch(bt_tensors_get(file, "fit.sum"), c->of.model);
        status = bt_block(read);
        if (status == BT_OK) bt_assign(sum, read);
    }
    return status;
}

/* Other rows are judged from their beginning. */
static void load_validation(bt_loader *validation, const char *state) {
    bti_errors_aside aside = bti_errors_aside_begin();
    if (validation && state && *state) (void)!bt_loader_restore(validation, state);
    bti_errors_aside_end(aside);
}

static bt_status load_file(bti_checkpoints *c, bt_tensors *file, const char *path, bti_checkpoint_numbers *numbers,
                           bt_array **sum, bti_history *history) {
    double read[NUMBERS];
    BTI_TRY(check_run(c, file, path, history));
    BTI_TRY(read_doubles(file, "fit.numbers", NUMBERS, read, NULL));
    BTI_TRY(read_doubles(file, "fit.history", bti_history_width(history), NULL, history));
    BTI_TRY(load_sum(c, file, sum));
    BTI_TRY(bt_loader_restore(c->of.loader, bt_tensors_metadata(file, "loader")));
    BTI_TRY(load_variables(c, file));
    load_validation(c->of.validation, bt_tensors_metadata(file, "validation"));
    memcpy(numbers, read, sizeof *numbers);
    const char *rate = bt_tensors_metadata(file, "rate");
    return rate ? bt_optimizer_set_rate(c->of.optimizer, strtod(rate, NULL)) : BT_OK;
}

/* Of a file that cannot be read. */
static bt_status name_older(bt_status status) {
    bti_error *cause = bti_error_last();
    status = bti_fail(status, "%s; without this file the run goes on from the checkpoint before it",
                      bti_error_message(cause));
    bti_error_release(cause);
    return status;
}

bt_status bti_checkpoints_load(bti_checkpoints *c, bti_checkpoint_numbers *numbers, bt_array **sum,
                               bti_history *history, bool *found) {
    int64_t number = find_before(c->folder, INT64_MAX);
    *found = number >= 0;
    if (!*found) return BT_OK;
    bti_str path = {0};
    bt_tensors *file = NULL;
    add_path(&path, c->folder, number);
    char *before = bt_loader_state(c->of.loader);
    bt_status status = path.failed || !before ? bti_no_memory() : bt_tensors_open(bti_str_text(&path), &file);
    if (status != BT_OK && status != BT_RESOURCE_EXHAUSTED && find_before(c->folder, number) >= 0)
        status = name_older(status);
    if (status == BT_OK) status = load_file(c, file, bti_str_text(&path), numbers, sum, history);
    if (status != BT_OK && before) {
        bti_error *cause = bti_error_last();
        (void)!bt_loader_restore(c->of.loader, before);
        bti_error_put_back(cause);
    }
    bt_tensors_close(file);
    bt_free(before);
    bti_str_free(&path);
    return status;
}

/* --- the whole ---------------------------------------------------------------------------------------------------------- */

/* Files that a killed process was writing; of one that lives, the process has the same folder, which is none of ours to mend. */
static void remove_unfinished(const char *folder) {
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        long process;
        int end = 0;
        if (sscanf(entry->d_name, ".berth-%ld-%*x-%*u.tmp%n", &process, &end) != 1 || !end || entry->d_name[end])
            continue;
        if (kill((pid_t)process, 0) == 0 || errno != ESRCH) continue;
        bti_str path = {0};
        bti_str_addf(&path, "%s/%s", folder, entry->d_name);
        if (!path.failed) unlink(bti_str_text(&path));
        bti_str_free(&path);
    }
    if (directory) closedir(directory);
}

static bt_status make_folder(const char *folder) {
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) {
        struct stat is;
        if (stat(folder, &is) == 0 && S_ISDIR(is.st_mode)) return BT_OK;
        return bti_fail(BT_INVALID_ARGUMENT, "the folder for checkpoints, \"%s\", is no folder",
                        bti_quote(folder).text);
    }
    return bti_fail(errno == ENOENT ? BT_NOT_FOUND : BT_PERMISSION_DENIED,
                    "the folder for checkpoints, \"%s\", cannot be made: %s", bti_quote(folder).text, strerror(errno));
}

bti_checkpoints *bti_checkpoints_new(const char *folder, int keep, const bti_checkpoint_subject *of) {
    if (make_folder(folder) != BT_OK) return NULL;
    remove_unfinished(folder);
    bti_checkpoints *c = bti_calloc(1, sizeof *c);
    if (c) *c = (bti_checkpoints){.folder = bti_strdup(folder), .keep = keep, .of = *of};
    if (c && c->folder) return c;
    bti_free(c);
    (void)!bti_no_memory();
    return NULL;
}

bt_status bti_checkpoints_end(bti_checkpoints *c) {
    if (!c) return BT_OK;
    bt_status status = bti_checkpoints_wait(c);
    bti_free(c->folder);
    bti_free(c);
    return status;
}
