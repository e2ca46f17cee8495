/* berth show, of a checkpoint of bt_fit: where the run is, its parameters with the optimiser's states of each, and its epochs. */
#include "cli/show_checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show_tensor.h"
#include "train/checkpoint.h"

enum { NUMBERS = sizeof(bti_checkpoint_numbers) / sizeof(double), EPOCHS_SHOWN = 20 };
static const char of_model[] = "model.", of_optimizer[] = "optimizer.";

typedef struct variable {
    cli_tensor tensor;
    const char *name; /* in the model or the optimiser */
    int states;       /* of a parameter: the first of its list; -1: none */
    int next;         /* of a state: the next of its parameter's list */
    const char *slot; /* of a state of a parameter: "mean", cut at slot_length */
    int slot_length;
    bool owned; /* a state that a parameter's list has */
} variable;

typedef struct checkpoint {
    const bt_tensors *file;
    bti_checkpoint_numbers now;
    double *history; /* rows of `columns` */
    int64_t rows;
    int columns;
    variable *parameters, *states; /* by name */
    int parameter_count, state_count;
    cli_totals totals;
} checkpoint;

/* --- reading ------------------------------------------------------------------------------------------------------------ */

static int count_metrics(const char *names) {
    int count = *names != '\0';
    for (; *names; names++) count += *names == '\n';
    return count;
}

/* A float64 tensor with rows of so many columns; with rank 1 it is one row. NULL: there is none. The caller frees it. */
static double *read_rows(bt_tensors *file, const char *name, int rank, int columns, int64_t *rows) {
    double *values = NULL;
    BT_SCOPE {
        bt_array *array = NULL;
        BT_ON("cpu") array = bt_tensors_get(file, name);
        bool fits = bt_block(array) == BT_OK && bt_dtype_of(array) == BT_F64 && bt_rank(array) == rank &&
                    bt_size(array, rank - 1) == columns;
        if (fits) {
            *rows = rank == 1 ? 1 : bt_size(array, 0);
            size_t bytes = (size_t)*rows * (size_t)columns * sizeof *values;
            values = malloc(bytes + 1);
            if (values && bytes && bt_read(array, values, bytes) != BT_OK) free(values), values = NULL;
        }
    }
    bt_error_clear();
    return values;
}

/* 10 after 9. */
static int by_name(const void *a, const void *b) {
    return strverscmp(((const variable *)a)->name, ((const variable *)b)->name);
}

static variable *find_parameter(const checkpoint *c, const char *name) {
    variable key = {.name = name};
    return bsearch(&key, c->parameters, (size_t)c->parameter_count, sizeof key, by_name);
}

/* "adamw.mean.0.weight" is the state "mean" of "0.weight": the longest end that is a parameter's name. */
static void give_to_parameter(checkpoint *c, int index) {
    variable *state = &c->states[index];
    const char *slot = strchr(state->name, '.');
    for (const char *dot = slot ? strchr(slot + 1, '.') : NULL; dot; dot = strchr(dot + 1, '.')) {
        variable *parameter = find_parameter(c, dot + 1);
        if (!parameter) continue;
        state->slot = slot + 1;
        state->slot_length = (int)(dot - slot - 1);
        state->owned = true;
        state->next = parameter->states;
        parameter->states = index;
        return;
    }
}

static bool list_variables(checkpoint *c) {
    int count = bt_tensors_count(c->file);
    c->parameters = calloc((size_t)count + 1, sizeof *c->parameters);
    c->states = calloc((size_t)count + 1, sizeof *c->states);
    for (int i = 0; i < count && c->parameters && c->states; i++) {
        variable v = {.tensor.info = BT_TENSOR_INFO_INIT, .states = -1, .next = -1};
        if (bt_tensors_describe(c->file, i, &v.tensor.info) != BT_OK) return false;
        cli_tensor_measure(&v.tensor, &c->totals);
        v.name = v.tensor.info.name;
        if (!strncmp(v.name, of_model, sizeof of_model - 1)) {
            v.name += sizeof of_model - 1;
            c->parameters[c->parameter_count++] = v;
        } else if (!strncmp(v.name, of_optimizer, sizeof of_optimizer - 1)) {
            v.name += sizeof of_optimizer - 1;
            c->states[c->state_count++] = v;
        }
    }
    if (!c->parameters || !c->states) return false;
    qsort(c->parameters, (size_t)c->parameter_count, sizeof *c->parameters, by_name);
    qsort(c->states, (size_t)c->state_count, sizeof *c->states, by_name);
    for (int i = c->state_count; i-- > 0;) give_to_parameter(c, i);
    return true;
}

static void close_checkpoint(checkpoint *c) {
    free(c->history);
    free(c->parameters);
    free(c->states);
}

/* False: it is none, or is of another version. */
static bool open_checkpoint(bt_tensors *file, checkpoint *c) {
    *c = (checkpoint){.file = file};
    const char *metrics = bt_tensors_metadata(file, "metrics");
    if (!metrics || !bt_tensors_metadata(file, "optimizer") || !bt_tensors_metadata(file, "loader")) return false;
    int64_t one;
    double *numbers = read_rows(file, "fit.numbers", 1, NUMBERS, &one);
    if (numbers) memcpy(&c->now, numbers, sizeof c->now);
    free(numbers);
    c->columns = BTI_COLUMNS + count_metrics(metrics);
    if (numbers) c->history = read_rows(file, "fit.history", 2, c->columns, &c->rows);
    if (c->history && list_variables(c)) return true;
    close_checkpoint(c);
    return false;
}

/* The name of a column of the history, cut to fit. */
static const char *name_column(const checkpoint *c, int column, char *text, size_t size) {
    const char *name = column < BTI_COLUMNS ? bti_history_column(column) : bt_tensors_metadata(c->file, "metrics");
    for (int m = BTI_COLUMNS; m < column; m++) name = strchr(name, '\n') + 1;
    char *whole = cli_printable(name, 0);
    snprintf(text, size, "%.*s", (int)strcspn(name, "\n"), whole ? whole : "");
    free(whole);
    return text;
}

/* A number of the loader's state, "epoch=1 next=2"; -1: it has none. */
static int64_t of_loader(const checkpoint *c, const char *key) {
    const char *state = bt_tensors_metadata(c->file, "loader");
    size_t length = strlen(key);
    for (const char *at = strchr(state, ' '); at; at = strchr(at + 1, ' '))
        if (!strncmp(at + 1, key, length) && at[1 + length] == '=') return strtoll(at + length + 2, NULL, 10);
    return -1;
}

/* --- as text ------------------------------------------------------------------------------------------------------------ */

static void print_line(const char *what, const char *text) { printf("%-10s %s\n", what, text); }

static void print_position(const checkpoint *c) {
    char text[400];
    snprintf(text, sizeof text, "%.0f, %.0f epoch%s complete, %.0f rows into the next", c->now.steps, c->now.epoch,
             c->now.epoch == 1 ? "" : "s", c->now.rows);
    print_line("step", text);
    int length = snprintf(text, sizeof text, "%.1f s of training", c->now.seconds);
    if (!isnan(c->now.joules))
        snprintf(text + length, sizeof text - (size_t)length, ", %.4g J in the epoch so far", c->now.joules);
    print_line("time", text);
    if (!isnan(c->now.best)) {
        snprintf(text, sizeof text, "%.6g, of epoch %.0f; %.0f since without a gain", c->now.best,
                 c->now.best_epoch + 1, c->now.stale);
        print_line("best", text);
    }
    const char *rate = bt_tensors_metadata(c->file, "rate");
    snprintf(text, sizeof text, "%s, rate %s", bt_tensors_metadata(c->file, "optimizer"), rate ? rate : "?");
    char *shown = cli_printable(text, 0);
    print_line("optimiser", shown ? shown : "");
    free(shown);
    snprintf(text, sizeof text, "epoch %" PRId64 ", batch %" PRId64 " is next; %" PRId64 " of %" PRId64 " rows each",
             of_loader(c, "epoch") + 1, of_loader(c, "next") + 1, of_loader(c, "batch"), of_loader(c, "examples"));
    print_line("loader", text);
}

static void add_variable(cli_table *table, const checkpoint *c, const variable *v) {
    char elements[24] = "?", states[200] = "";
    size_t length = 0;
    char *name = cli_printable(v->name, 0), *dtype = cli_printable(v->tensor.info.dtype_name, 0);
    if (v->tensor.elements >= 0) snprintf(elements, sizeof elements, "%" PRId64, v->tensor.elements);
    for (int s = v->states; s >= 0 && length < sizeof states; s = c->states[s].next)
        length += (size_t)snprintf(states + length, sizeof states - length, "%s%.*s", length ? ", " : "",
                                   c->states[s].slot_length, c->states[s].slot);
    char *shown = cli_printable(states, 0);
    cli_table_row(table, name ? name : "", dtype ? dtype : "", v->tensor.shape, elements,
                  v->tensor.elements >= 0 ? cli_bytes(v->tensor.bytes, "0 B") : "?", shown ? shown : "");
    free(name);
    free(dtype);
    free(shown);
}

static void print_variables(const checkpoint *c) {
    cli_table table = {.columns = 6, .right = 1u << 3 | 1u << 4};
    cli_table_row(&table, "IN THE MODEL", "DTYPE", "SHAPE", "ELEMENTS", "BYTES", "STATES OF THE OPTIMISER");
    for (int i = 0; i < c->parameter_count; i++) add_variable(&table, c, &c->parameters[i]);
    printf("\n");
    cli_table_print(&table);
    bool any = false;
    for (int i = 0; i < c->state_count; i++) any |= !c->states[i].owned;
    if (!any) return;
    table = (cli_table){.columns = 6, .right = 1u << 3 | 1u << 4};
    cli_table_row(&table, "IN THE OPTIMISER", "DTYPE", "SHAPE", "ELEMENTS", "BYTES", "");
    for (int i = 0; i < c->state_count; i++)
        if (!c->states[i].owned) add_variable(&table, c, &c->states[i]);
    printf("\n");
    cli_table_print(&table);
}

static void print_history(const checkpoint *c) {
    enum { WIDTH = 10 };
    char name[40];
    int64_t first = c->rows > EPOCHS_SHOWN ? c->rows - EPOCHS_SHOWN : 0;
    if (!c->rows) return;
    if (first) printf("\nthe last %d of %" PRId64 " epochs; --json has all", EPOCHS_SHOWN, c->rows);
    printf("\n");
    for (int64_t r = first - 1; r < c->rows; r++) { /* the heading first */
        for (int column = 0; column < c->columns; column++) {
            char text[40] = "-";
            double cell = r < first ? NAN : c->history[r * c->columns + column];
            int width = (int)strlen(name_column(c, column, name, sizeof name));
            if (r < first)
                snprintf(text, sizeof text, "%s", name);
            else if (!isnan(cell))
                snprintf(text, sizeof text, "%.6g", column == BTI_EPOCH ? cell + 1 : cell);
            printf("%s%*s", column ? "  " : "", width > WIDTH ? width : WIDTH, text);
        }
        printf("\n");
    }
}

bool cli_checkpoint_print(bt_tensors *file, const char *path) {
    checkpoint c;
    if (!open_checkpoint(file, &c)) return false;
    printf("%s: a checkpoint of bt_fit, %d tensors, %" PRId64 " elements, %s\n\n", path, bt_tensors_count(file),
           c.totals.elements, cli_bytes(c.totals.bytes, "0 B"));
    print_position(&c);
    print_variables(&c);
    print_history(&c);
    close_checkpoint(&c);
    return true;
}

/* --- as JSON ------------------------------------------------------------------------------------------------------------ */

static json_t *number_json(double x) {
    return isfinite(x) ? x == rint(x) && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x) : json_null();
}

static json_t *variable_json(const checkpoint *c, const variable *v) {
    json_t *one = cli_tensor_json(&v->tensor), *states = json_object();
    for (int s = v->states; s >= 0; s = c->states[s].next)
        json_object_setn_new(states, c->states[s].slot, (size_t)c->states[s].slot_length,
                             cli_tensor_json(&c->states[s].tensor));
    json_object_set_new(one, "name", json_string(v->name));
    json_object_set_new(one, "states", states);
    return one;
}

static json_t *history_json(const checkpoint *c) {
    json_t *list = json_array();
    char name[200];
    for (int64_t r = 0; r < c->rows; r++) {
        json_t *epoch = json_object();
        for (int column = 0; column < c->columns; column++)
            json_object_set_new(epoch, name_column(c, column, name, sizeof name),
                                number_json(c->history[r * c->columns + column]));
        json_array_append_new(list, epoch);
    }
    return list;
}

json_t *cli_checkpoint_json(bt_tensors *file) {
    checkpoint c;
    if (!open_checkpoint(file, &c)) return json_null();
    const char *rate = bt_tensors_metadata(file, "rate");
    json_t *variables = json_array(), *others = json_array(), *loader = json_object();
    static const char *const keys[] = {"epoch", "next", "batch", "examples", "drop_last"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(loader, keys[i], json_integer(of_loader(&c, keys[i])));
    for (int i = 0; i < c.parameter_count; i++) json_array_append_new(variables, variable_json(&c, &c.parameters[i]));
    for (int i = 0; i < c.state_count; i++)
        if (!c.states[i].owned) json_array_append_new(others, cli_tensor_json(&c.states[i].tensor));
    json_t *all = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "steps", number_json(c.now.steps),
        "epochs_complete", number_json(c.now.epoch), "rows_of_epoch", number_json(c.now.rows), "seconds",
        number_json(c.now.seconds), "joules_of_epoch", number_json(c.now.joules), "best", number_json(c.now.best),
        "best_epoch", number_json(c.now.best_epoch), "epochs_without_gain", number_json(c.now.stale), "optimizer",
        bt_tensors_metadata(file, "optimizer"), "rate", rate ? number_json(strtod(rate, NULL)) : json_null(), "loader",
        loader, "variables", variables, "optimizer_states", others, "history", history_json(&c));
    close_checkpoint(&c);
    return all ? all : json_null();
}
