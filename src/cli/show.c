/* berth show: what a file of arrays or a model holds. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show_checkpoint.h"
#include "cli/show_tensor.h"

enum { SHOWN_METADATA = 40, SHOWN_TEXT = 100 };

/* --- tensors ---------------------------------------------------------------------------------------------------------- */

static void add_row(cli_table *table, const cli_tensor *t) {
    char elements[24] = "?";
    char *name = cli_printable(*t->info.name ? t->info.name : "(the array)", 0),
         *dtype = cli_printable(t->info.dtype_name, 0);
    if (t->elements >= 0) snprintf(elements, sizeof elements, "%" PRId64, t->elements);
    cli_table_row(table, name ? name : "", dtype ? dtype : "", t->shape, elements,
                  t->elements >= 0 ? cli_bytes(t->bytes, "0 B") : "?");
    free(name);
    free(dtype);
}

/* --- structure -------------------------------------------------------------------------------------------------------- */

static const char structure_key[] = "berth.model"; /* of bt_save_model */

/* The lines of a layer, as bt_summary has them, without building it. */
static void print_layer(const json_t *layer, const char *name, int depth) {
    enum { DEEPEST = 200 };
    const json_t *same = json_object_get(layer, "same"), *names = json_object_get(layer, "names");
    json_t *children = json_object_get(layer, "children");
    const char *kind = json_string_value(json_object_get(layer, "layer"));
    const char *text = json_string_value(json_object_get(layer, "text"));
    char *own = cli_printable(kind ? kind : "?", 0), *behind = cli_printable(text ? text : "()", 0);
    char *as = name ? cli_printable(name, 0) : NULL;
    printf("%*s%s%s", 2 * depth, "", as ? as : "", as ? " = " : "");
    if (same)
        printf("layer %lld again\n", (long long)json_integer_value(same));
    else if (!json_array_size(children) || depth == DEEPEST)
        printf("%s%s\n", own ? own : "", behind ? behind : "");
    else {
        printf("%s(\n", own ? own : "");
        for (size_t i = 0; i < json_array_size(children); i++)
            print_layer(json_array_get(children, i), json_string_value(json_array_get(names, i)), depth + 1);
        printf("%*s)\n", 2 * depth, "");
    }
    free(own);
    free(behind);
    free(as);
}

/* A model of Flux's is opened to be printed. */
static void print_flux_model(const char *path) {
    BT_SCOPE {
        bt_layer *model = (bt_model_open)(path, NULL);
        bt_status status = bt_layer_status(model);
        char *summary = status == BT_OK ? bt_summary(model) : NULL;
        if (summary)
            printf("\n%s", summary);
        else if (status == BT_UNIMPLEMENTED)
            printf("\nnot opened as a model: %s\n", bt_error_text());
        bt_free(summary);
        bt_error_clear();
    }
}

static void print_structure(const bt_tensors *file, const char *path) {
    const char *text = bt_tensors_metadata(file, structure_key);
    json_t *structure = text ? json_loads(text, 0, NULL) : NULL;
    if (structure) {
        printf("\n");
        print_layer(json_object_get(structure, "layer"), NULL, 0);
    }
    json_decref(structure);
    if (!strcmp(bt_tensors_format(file), "BSON")) print_flux_model(path);
}

/* --- metadata --------------------------------------------------------------------------------------------------------- */

static void print_metadata(const bt_tensors *file) {
    int count = 0;
    const char *name;
    for (int i = 0; (name = bt_tensors_metadata_name(file, i)); i++) {
        if (!strcmp(name, structure_key)) continue;
        if (++count > SHOWN_METADATA) continue;
        const char *value = bt_tensors_metadata(file, name);
        char *key = cli_printable(name, 0), *text = cli_printable(value ? value : "?", SHOWN_TEXT);
        printf("%s%s: %s\n", count == 1 ? "\n" : "", key ? key : "", text ? text : "");
        free(key);
        free(text);
    }
    if (count > SHOWN_METADATA) printf("and %d more; --json has all\n", count - SHOWN_METADATA);
}

static json_t *json_of_metadata(const bt_tensors *file) {
    json_t *object = json_object();
    const char *name;
    for (int i = 0; (name = bt_tensors_metadata_name(file, i)); i++) {
        const char *value = bt_tensors_metadata(file, name);
        if (strcmp(name, structure_key)) json_object_set_new(object, name, value ? json_string(value) : json_null());
    }
    return object;
}

/* --- the file --------------------------------------------------------------------------------------------------------- */

/* All tensors into the table or the list; false: the file has an error. */
static bool list_tensors(const bt_tensors *file, cli_table *table, json_t *list, cli_totals *all) {
    for (int i = 0; i < bt_tensors_count(file); i++) {
        cli_tensor t = {.info = BT_TENSOR_INFO_INIT};
        if (bt_tensors_describe(file, i, &t.info) != BT_OK) return false;
        cli_tensor_measure(&t, all);
        if (list)
            json_array_append_new(list, cli_tensor_json(&t));
        else
            add_row(table, &t);
    }
    return true;
}

static int show_as_json(char **argv, bt_tensors *file, const char *path) {
    cli_totals all = {0};
    json_t *list = json_array();
    if (!list_tensors(file, NULL, list, &all)) return json_decref(list), cli_error(argv, "the file cannot be shown");
    const char *text = bt_tensors_metadata(file, structure_key);
    json_t *structure = text ? json_loads(text, 0, NULL) : NULL;
    return cli_print_json(json_pack("{s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:o}", "file", path, "format",
                                    bt_tensors_format(file), "tensors", list, "elements", (json_int_t)all.elements,
                                    "bytes", (json_int_t)all.bytes, "metadata", json_of_metadata(file), "model",
                                    structure ? structure : json_null(), "checkpoint", cli_checkpoint_json(file)));
}

static int show_as_text(char **argv, bt_tensors *file, const char *path) {
    cli_totals all = {0};
    if (cli_checkpoint_print(file, path)) return CLI_OK;
    int count = bt_tensors_count(file);
    cli_table table = {.columns = 5, .right = 1u << 3 | 1u << 4};
    cli_table_row(&table, "NAME", "DTYPE", "SHAPE", "ELEMENTS", "BYTES");
    if (!list_tensors(file, &table, NULL, &all))
        return cli_table_free(&table), cli_error(argv, "the file cannot be shown");
    printf("%s: %s, %d tensor%s, %" PRId64 " elements, %s", path, bt_tensors_format(file), count, count == 1 ? "" : "s",
           all.elements, cli_bytes(all.bytes, "0 B"));
    if (all.unknown) printf("; %d of dtypes or ranks that berth has not", all.unknown);
    printf("\n\n");
    if (count)
        cli_table_print(&table);
    else
        cli_table_free(&table);
    print_metadata(file);
    print_structure(file, path);
    return CLI_OK;
}

int cli_show(int argc, char **argv) {
    bool json;
    int code = cli_json_option(argc, argv, &json);
    if (code != CLI_OK) return code;
    if (optind == argc) return cli_misuse(argv, "give a file");
    const char *path = argv[optind++];
    if (!cli_no_more(argc, argv)) return CLI_USAGE;
    if (!cli_settings_good(argv)) return CLI_FAILED;
    bt_tensors *file;
    if (bt_tensors_open(path, &file) != BT_OK) return cli_error(argv, "the file cannot be shown");
    code = json ? show_as_json(argv, file, path) : show_as_text(argv, file, path);
    bt_tensors_close(file);
    return code;
}
