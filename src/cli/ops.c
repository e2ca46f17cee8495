/* `berth ops`: the primitives and the public operations; the page of one of them. */
#include "cli/cli.h"

static const char *inputs_text(int inputs, char text[16]) {
    snprintf(text, 16, inputs < 0 ? "1+" : "%d", inputs);
    return text;
}

static int add_primitives(char **argv, cli_table *table, json_t *list) {
    cli_table_row(table, "PRIMITIVE", "CLASS", "INPUTS", "DTYPES", "GRADIENT", "WHAT IT DOES");
    for (int i = 0; i < bt_primitive_count(); i++) {
        bt_primitive_info info = BT_PRIMITIVE_INFO_INIT;
        char inputs[16];
        if (bt_primitive_describe(i, &info) != BT_OK) return cli_error(argv, "a primitive cannot be described");
        cli_table_row(table, info.name, info.family, inputs_text(info.inputs, inputs), info.dtypes, info.gradient,
                      info.doc);
        json_array_append_new(list, cli_json_of_primitive(&info));
    }
    return CLI_OK;
}

static void add_operations(cli_table *table, json_t *list) {
    const char *log_name;
    cli_table_row(table, "OPERATION", "IN THE PLACEMENT LOG");
    for (int i = 0; i < bt_operation_count(); i++) {
        const char *name = bt_operation_name(i, &log_name);
        cli_table_row(table, name, log_name);
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "log_name", log_name));
    }
}

int cli_ops(int argc, char **argv) {
    bool json;
    int code = cli_json_option(argc, argv, &json);
    if (code != CLI_OK) return code;
    const char *name = optind < argc ? argv[optind++] : NULL;
    if (!cli_no_more(argc, argv)) return CLI_USAGE;
    if (name) return cli_reference(argv, name, json);
    json_t *all = json_pack("{s:[], s:[]}", "primitives", "operations");
    cli_table primitive_table = {.columns = 6, .right = 04}, operation_table = {.columns = 2};
    code = add_primitives(argv, &primitive_table, json_object_get(all, "primitives"));
    add_operations(&operation_table, json_object_get(all, "operations"));
    if (code == CLI_OK && json)
        code = cli_print_json(json_incref(all));
    else if (code == CLI_OK)
        cli_table_print(&primitive_table), printf("\n"), cli_table_print(&operation_table);
    json_decref(all);
    cli_table_free(&primitive_table);
    cli_table_free(&operation_table);
    return code;
}
