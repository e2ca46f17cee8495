/* Operations of the program's: made and released. */
#include <stdatomic.h>
#include <string.h>

#include "array/handle.h"
#include "array/plan_cache.h"
#include "base/alloc.h"
#include "base/sized.h"
#include "ops/custom.h"

enum { LONGEST_NAME = 63 };

typedef bti_custom_operation operation;

/* --- names -------------------------------------------------------------------------------------------------------------- */

/* Places of traces and errors outlive operations, so names are never freed; each is there once, or more often when threads meet. */
typedef struct name {
    struct name *next;
    char text[LONGEST_NAME + 1];
} name;
static _Atomic(name *) names;

static const char *kept_name(const char *text) {
    for (const name *n = atomic_load(&names); n; n = n->next)
        if (!strcmp(n->text, text)) return n->text;
    name *made = bti_calloc(1, sizeof *made);
    if (!made) return NULL;
    strncpy(made->text, text, LONGEST_NAME);
    made->next = atomic_load(&names);
    while (!atomic_compare_exchange_weak(&names, &made->next, made)) {
    }
    return made->text;
}

static bool is_name(const char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    size_t length = strspn(text, letters);
    return length && length <= LONGEST_NAME && !text[length];
}

/* --- operations --------------------------------------------------------------------------------------------------------- */

static void free_operation(bti_host_function *function) {
    operation *of = (operation *)function;
    if (of->given.release) of->given.release(of->given.data);
    bti_free((void *)of->given.cuda);
    bti_free((void *)of->given.opencl);
    bti_free((void *)of->given.entry);
    bti_free(of);
}

static void clear_custom(void *custom) {
    bt_custom *op = custom;
    if (op->of) bti_plan_cache_end_host(&op->of->head);
    if (op->of) bti_host_release(&op->of->head);
    op->of = NULL;
}
static bt_custom custom_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class custom_class = {BTI_OWNED_CUSTOM, sizeof(bt_custom), clear_custom,
                                              &custom_without_memory};

#define MEMBER(name) BTI_MEMBER(bt_custom_options, name)
static const bti_member option_members[] = {MEMBER(size),    MEMBER(name),     MEMBER(run),     MEMBER(shape),
                                            MEMBER(results), MEMBER(gradient), MEMBER(tangent), MEMBER(batch),
                                            MEMBER(data),    MEMBER(release),  MEMBER(impure),  MEMBER(cuda),
                                            MEMBER(opencl),  MEMBER(entry),    MEMBER(grid)};
#undef MEMBER
static const bti_sized_type options_layout =
    BTI_SIZED_TYPE(bt_custom_options, "options", "BT_CUSTOM(.name = \"norm\", .run = norm, .shape = norm_shape)",
                   option_members, NULL);

/* What a kernel can be called in C. */
static bool is_entry(const char *text) {
    bool fits = *text && strchr("0123456789", *text) == NULL && strlen(text) <= LONGEST_NAME;
    return fits && !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")];
}

static bt_status check_kernel(const bt_custom_options *given) {
    const char *entry = given->entry ? given->entry : given->name;
    if (!given->cuda && !given->opencl) {
        if (!given->run)
            return bti_fail(BT_INVALID_ARGUMENT,
                            "the operation \"%s\" has no .run function, and no kernel (.cuda, .opencl)", given->name);
        return BT_OK;
    }
    if (is_entry(entry)) return BT_OK;
    return bti_fail(
        BT_INVALID_ARGUMENT,
        "the kernel of the operation \"%s\" cannot be called \"%s\"; .entry needs 1 to %d letters, digits and _, no "
        "digit first",
        given->name, entry, LONGEST_NAME);
}

static bt_status check_given(const bt_custom_options *given) {
    if (!given->name || !is_name(given->name))
        return bti_fail(BT_INVALID_ARGUMENT, "the name is %s%s%s; it needs 1 to %d letters, digits and _ . : -",
                        given->name ? "\"" : "", given->name ? given->name : "NULL", given->name ? "\"" : "",
                        LONGEST_NAME);
    BTI_TRY(check_kernel(given));
    if (!given->shape) return bti_fail(BT_INVALID_ARGUMENT, "the operation \"%s\" has no .shape rule", given->name);
    if (given->results < 0 || given->results > BT_MAX_CUSTOM_RESULTS)
        return bti_fail(BT_INVALID_ARGUMENT, "the operation \"%s\" has %d results; it can have 1 to %d", given->name,
                        given->results, BT_MAX_CUSTOM_RESULTS);
    return BT_OK;
}

static bool copy_text(const char **copy, const char *text) {
    *copy = NULL;
    if (!text) return true;
    size_t bytes = strlen(text) + 1;
    char *made = bti_alloc(bytes);
    if (made) *copy = memcpy(made, text, bytes);
    return made != NULL;
}

/* What the options say, with texts of its own; false when memory is short. */
static bool take_given(operation *of, const bt_custom_options *given) {
    of->given = *given;
    of->given.cuda = of->given.opencl = of->given.entry = NULL;
    if (!given->results) of->given.results = 1;
    if (!(of->given.name = kept_name(given->name))) return false;
    bool copied = copy_text(&of->given.cuda, given->cuda) && copy_text(&of->given.opencl, given->opencl) &&
                  copy_text(&of->given.entry, given->entry ? given->entry : given->name);
    of->head.name = of->given.name;
    of->head.impure = given->impure;
    of->head.entry = of->given.entry;
    of->head.texts[BTI_LANGUAGE_CUDA] = of->given.cuda;
    of->head.texts[BTI_LANGUAGE_OPENCL] = of->given.opencl;
    bti_custom_fill(of);
    return copied;
}

/* NULL: the error record says why, and the data are released. */
static operation *new_operation(const bt_custom_options *options) {
    bt_custom_options given = {0};
    if (bti_options_take(&options_layout, "bt_custom_new", options, &given) != BT_OK) return NULL;
    operation *of = NULL;
    if (check_given(&given) == BT_OK) {
        of = bti_calloc(1, sizeof *of);
        if (!of) (void)!bti_no_memory();
    }
    if (!of) {
        if (given.release) given.release(given.data);
        return NULL;
    }
    of->head.refs = 1;
    of->head.free = free_operation;
    if (take_given(of, &given)) return of;
    bti_host_release(&of->head);
    (void)!bti_no_memory();
    return NULL;
}

bt_custom *bt_custom_new(const bt_custom_options *options) {
    BTI_CALL("bt_custom_new");
    operation *of = new_operation(options);
    bt_custom *op = of ? bti_owned_new(BTI_OWNED_CUSTOM, sizeof *op) : NULL;
    if (op)
        op->of = of;
    else if (of) {
        bti_host_release(&of->head);
        (void)!bti_no_memory();
    }
    return bti_scope_own(&custom_class, op);
}

bt_custom *bt_custom_retain(bt_custom *op) { return bti_handle_retain(&custom_class, op, "bt_custom_retain"); }
void bt_custom_release(bt_custom *op) { bti_handle_release(&custom_class, op, "bt_custom_release"); }
bt_status bt_custom_status(const bt_custom *op) { return bti_handle_check(BTI_OWNED_CUSTOM, op, "bt_custom_status"); }
