/* Functions by name, and names of the program's own. */
#include <string.h>

#include <berth/ops.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/vec.h"
#include "nn/layer.h"

/* --- functions of one argument that berth's operations have with more ------------------------------------------------------- */

static bt_array *leaky_relu(bt_array *x) { return bt_leaky_relu(x, 0.01); }
static bt_array *elu(bt_array *x) { return bt_elu(x, 1); }
static bt_array *log_softmax_last(bt_array *x) { return bt_log_softmax(x, -1); }

typedef struct named_activation {
    const char *name;
    bt_activation *function;
} named_activation;

static const named_activation known[] = {{"relu", bt_relu},
                                         {"sigmoid", bt_sigmoid},
                                         {"tanh", bt_tanh},
                                         {"gelu", bt_gelu},
                                         {"gelu_tanh", bt_gelu_tanh},
                                         {"silu", bt_silu},
                                         {"softplus", bt_softplus},
                                         {"identity", bt_identity},
                                         {"softmax", bt_softmax_last},
                                         {"log_softmax", log_softmax_last},
                                         {"leaky_relu", leaky_relu},
                                         {"elu", elu}};
enum { KNOWN = sizeof known / sizeof *known };

bt_array *bt_softmax_last(bt_array *x) {
    BTI_PUBLIC("bt_softmax_last");
    BTI_RETURN(bt_softmax(x, -1));
}

/* --- those of the program ------------------------------------------------------------------------------------------------- */

BTI_STATIC_LOCK(activations_lock, layer_registry);
static BTI_VEC(named_activation) registered; /* names are never freed: layers print them */

bt_status bti_check_registered(const char *name, bool has_function, bool taken) {
    if (!name || !*name || !has_function)
        return bti_fail(BT_INVALID_ARGUMENT, "the %s is %s", name && *name ? "function" : "name",
                        name && !*name ? "empty" : "NULL");
    return taken ? bti_fail(BT_INVALID_ARGUMENT, "berth has a \"%s\" of its own", name) : BT_OK;
}

static const named_activation *known_activation(const char *name) {
    for (int i = 0; i < KNOWN; i++)
        if (!strcmp(known[i].name, name)) return &known[i];
    return NULL;
}

bt_status bt_activation_register(const char *name, bt_activation *function) {
    BTI_CALL("bt_activation_register");
    bool taken = name && (known_activation(name) || !strcmp(name, "function"));
    BTI_TRY(bti_check_registered(name, function, taken));
    char *copy = bti_strdup(name);
    if (!copy) return bti_no_memory();
    bti_lock_take(&activations_lock);
    bool done = false;
    for (size_t i = 0; i < registered.count && !done; i++)
        if (!strcmp(registered.items[i].name, name)) registered.items[i].function = function, done = true;
    bool added = !done && bti_vec_push(&registered, ((named_activation){copy, function}));
    bti_lock_give(&activations_lock);
    if (!added) bti_free(copy);
    return done || added ? BT_OK : bti_no_memory();
}

const char *bti_activation_name(bt_activation *activation) {
    if (!activation) return "";
    for (int i = 0; i < KNOWN; i++)
        if (known[i].function == activation) return known[i].name;
    const char *name = "function";
    bti_lock_take(&activations_lock);
    for (size_t i = 0; i < registered.count; i++)
        if (registered.items[i].function == activation) name = registered.items[i].name;
    bti_lock_give(&activations_lock);
    return name;
}

bool bti_activation_find(const char *name, bt_activation **activation) {
    const named_activation *of_berth = known_activation(name);
    *activation = of_berth ? of_berth->function : NULL;
    if (of_berth || !*name) return true;
    bti_lock_take(&activations_lock);
    for (size_t i = 0; i < registered.count; i++)
        if (!strcmp(registered.items[i].name, name)) *activation = registered.items[i].function;
    bti_lock_give(&activations_lock);
    return *activation;
}
