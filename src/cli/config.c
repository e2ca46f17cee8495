/* `berth config`: the flags, their values and where they were set. */
#include <string.h>

#include "cli/cli.h"

static void print_flag(const bt_flag_info *flag, const char *value) {
    bool is_set = strcmp(flag->origin, "default") != 0;
    printf("%s%s%s = %s\n", cli_begin(stdout, CLI_BOLD), flag->name, cli_end(stdout), *value ? value : "\"\"");
    printf("    set by %s%s%s", is_set ? cli_begin(stdout, CLI_GOOD) : "", flag->origin, is_set ? cli_end(stdout) : "");
    if (is_set) printf(" (default %s)", *flag->default_value ? flag->default_value : "\"\"");
    printf("; %s%s%s; can be set %s\n    %s\n", flag->type, *flag->range ? ", " : "", flag->range, flag->when,
           flag->doc);
}

/* The CPU's memory limit, which the system sets when the flag does not. */
static bool find_cpu_limit(const bt_flag_info *flag, bt_memory_info *memory) {
    return !strcmp(flag->name, "memory_limit") && bt_memory(bt_device_get(BT_CPU, 0), memory) == BT_OK && memory->limit;
}

static void add_cpu_limit(json_t *object, const bt_flag_info *flag) {
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    if (!find_cpu_limit(flag, &memory)) return;
    json_object_set_new(object, "cpu_limit_bytes", json_integer((json_int_t)memory.limit));
    json_object_set_new(object, "cpu_limit_source", json_string(memory.limit_source));
}

static void print_cpu_limit(const bt_flag_info *flag) {
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    if (find_cpu_limit(flag, &memory))
        printf("    CPU:0 has %s (%s)\n", cli_bytes(memory.limit, NULL), memory.limit_source);
}

int cli_config(int argc, char **argv) {
    bool json;
    int code = cli_only_json(argc, argv, &json);
    if (code != CLI_OK) return code;
    if (!cli_settings_good(argv)) return CLI_FAILED;
    json_t *list = json_array();
    for (int i = 0; i < bt_flag_count(); i++) {
        bt_flag_info flag = BT_FLAG_INFO_INIT;
        char value[4096];
        if (bt_flag_describe(i, &flag) != BT_OK || bt_get_flag(flag.name, value, sizeof value) != BT_OK) {
            json_decref(list);
            return cli_error(argv, "a flag cannot be read");
        }
        if (!json) {
            print_flag(&flag, value);
            print_cpu_limit(&flag);
            continue;
        }
        json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", flag.name, "value", value,
                                   "origin", flag.origin, "default", flag.default_value, "type", flag.type, "range",
                                   flag.range, "when", flag.when, "doc", flag.doc);
        add_cpu_limit(object, &flag);
        json_array_append_new(list, object);
    }
    if (json) return cli_print_json(list);
    json_decref(list);
    return CLI_OK;
}
