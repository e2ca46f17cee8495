/* `berth ops NAME`: a page of the reference. The pages are rows of pages.def, which tools/reference makes of the headers and of docs/reference. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reference.h"

typedef struct operation_page {
    const char *name, *header, *section, *summary, *synopsis, *description, *options, *types, *example, *prints, *see;
} operation_page;

static const operation_page pages[] = {
#define CLI_ROW(...) {__VA_ARGS__},
#include "cli/pages.def"
#undef CLI_ROW
};
enum { PAGES = sizeof pages / sizeof *pages, SIMILAR = 8 };

char *cli_pages_text(void) {
    size_t length = 1;
    for (int i = 0; i < PAGES; i++)
        length += strlen(pages[i].synopsis) + strlen(pages[i].description) + strlen(pages[i].example) + sizeof "\n\n\n";
    char *text = malloc(length), *at = text;
    if (!text) return NULL;
    *at = '\0';
    for (int i = 0; i < PAGES; i++)
        at += sprintf(at, "%s\n%s\n%s\n", pages[i].synopsis, pages[i].description, pages[i].example);
    return text;
}

static const operation_page *find_page(const char *name) {
    for (int i = 0; i < PAGES; i++)
        if (!strcmp(pages[i].name, name) || !strcmp(pages[i].name + strlen("bt_"), name)) return &pages[i];
    return NULL;
}

static bool find_primitive(const char *name, bt_primitive_info *info) {
    for (int i = 0; i < bt_primitive_count(); i++)
        if (bt_primitive_describe(i, info) == BT_OK && !strcmp(info->name, name)) return true;
    return false;
}

static const char *log_name_of(const char *name) {
    const char *log_name = "";
    for (int i = 0; i < bt_operation_count(); i++)
        if (!strcmp(bt_operation_name(i, &log_name), name)) return log_name;
    return "";
}

static void print_title(const char *title) { printf("%s%s%s\n", cli_begin(stdout, CLI_BOLD), title, cli_end(stdout)); }

/* Each line of the text indented; nothing where there is no text. */
static void print_part(const char *title, const char *text) {
    if (!*text) return;
    printf("\n");
    print_title(title);
    while (*text) {
        int length = (int)strcspn(text, "\n");
        printf("%s%.*s\n", length ? "    " : "", length, text);
        text += length + (text[length] == '\n');
    }
}

static void print_primitive(const bt_primitive_info *info) {
    printf("    %s: %s\n", info->name, info->doc);
    printf("    class %s, dtypes: %s, ", info->family, info->dtypes);
    if (info->inputs < 0)
        printf("1 or more inputs, ");
    else
        printf("%d input%s, ", info->inputs, info->inputs == 1 ? "" : "s");
    if (strcmp(info->gradient, "none"))
        printf("rule of its gradient: %s\n", info->gradient);
    else
        printf("no gradient\n");
}

static void print_page(const operation_page *page, const bt_primitive_info *primitive) {
    print_title(page->name);
    printf("    %s\n    #include <%s>%s%s\n", page->summary, page->header, *page->section ? "    " : "", page->section);
    print_part("SYNOPSIS", page->synopsis);
    print_part("DESCRIPTION", page->description);
    print_part("OPTIONS", page->options);
    print_part("TYPES OF FUNCTIONS", page->types);
    if (primitive) printf("\n"), print_title("PRIMITIVE"), print_primitive(primitive);
    print_part("EXAMPLE", page->example);
    print_part("PRINTS", page->prints);
    print_part("IN THE PLACEMENT LOG", log_name_of(page->name));
    print_part("SEE ALSO", page->see);
}

json_t *cli_json_of_primitive(const bt_primitive_info *info) {
    return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "name", info->name, "class", info->family, "inputs",
                     info->inputs, "dtypes", info->dtypes, "gradient", info->gradient, "doc", info->doc);
}

static json_t *json_of_page(const operation_page *page) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", page->name, "log_name",
                     log_name_of(page->name), "header", page->header, "section", page->section, "summary",
                     page->summary, "synopsis", page->synopsis, "description", page->description, "options",
                     page->options, "types", page->types, "example", page->example, "prints", page->prints, "see_also",
                     page->see);
}

/* Names that contain the text, or else the one most like it. */
static int say_similar(char **argv, const char *name) {
    const char *names[2 * PAGES], *similar[SIMILAR];
    int found = 0;
    for (int i = 0; i < PAGES; i++) {
        names[2 * i] = pages[i].name, names[2 * i + 1] = pages[i].name + strlen("bt_");
        if (found < SIMILAR && *name && strstr(pages[i].name, name)) similar[found++] = pages[i].name;
    }
    const char *nearest = found ? NULL : cli_nearest(name, names, 2 * PAGES);
    if (nearest) similar[found++] = find_page(nearest)->name;
    fprintf(stderr, "%s: there is no operation or primitive \"%s\"", argv[0], name);
    for (int i = 0; i < found; i++) fprintf(stderr, "%s%s", i ? ", " : "; did you mean ", similar[i]);
    fprintf(stderr, "%s\n\"%s\" lists them\n", found ? "?" : "", argv[0]);
    return CLI_USAGE;
}

int cli_reference(char **argv, const char *name, bool json) {
    bt_primitive_info info = BT_PRIMITIVE_INFO_INIT;
    const operation_page *page = find_page(name);
    bool is_primitive = find_primitive(page ? page->name + strlen("bt_") : name, &info);
    if (!page && !is_primitive) return say_similar(argv, name);
    if (json) {
        json_t *both = json_pack("{s:o?, s:o?}", "operation", page ? json_of_page(page) : NULL, "primitive",
                                 is_primitive ? cli_json_of_primitive(&info) : NULL);
        return both ? cli_print_json(both) : cli_error(argv, "out of memory");
    }
    if (page)
        print_page(page, is_primitive ? &info : NULL);
    else
        print_title("PRIMITIVE"), print_primitive(&info);
    return CLI_OK;
}
