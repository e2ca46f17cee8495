/* Layers of the program by name, and what a file says of them. */
#include "nn/registry.h"

#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/vec.h"
#include "nn/layer.h"

BTI_STATIC_LOCK(makers_lock, layer_registry);
static BTI_VEC(bti_named_maker) makers; /* names are never freed */

bt_status bt_layer_register(const char *name, bt_layer_maker *make, void *data) {
    BTI_CALL("bt_layer_register");
    BTI_TRY(bti_check_registered(name, make, name && bti_layer_is_known(name)));
    char *copy = bti_strdup(name);
    if (!copy) return bti_no_memory();
    bti_lock_take(&makers_lock);
    bool done = false;
    for (size_t i = 0; i < makers.count && !done; i++)
        if (!strcmp(makers.items[i].name, name)) makers.items[i].make = make, makers.items[i].data = data, done = true;
    bool added = !done && bti_vec_push(&makers, ((bti_named_maker){copy, make, data}));
    bti_lock_give(&makers_lock);
    if (!added) bti_free(copy);
    return done || added ? BT_OK : bti_no_memory();
}

bool bti_maker_find(const char *name, bti_named_maker *maker) {
    bool found = false;
    bti_lock_take(&makers_lock);
    for (size_t i = 0; i < makers.count && !found; i++)
        if (!strcmp(makers.items[i].name, name)) *maker = makers.items[i], found = true;
    bti_lock_give(&makers_lock);
    return found;
}

/* --- records -------------------------------------------------------------------------------------------------------------- */

bt_array *bt_record_value(const bt_layer_record *record, const char *name) {
    BTI_PUBLIC("bt_record_value");
    if (!record || !name) BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "the %s is NULL", record ? "name" : "record"));
    bti_str names = {0};
    for (int i = 0; i < record->value_count; i++) {
        if (!strcmp(record->values[i].name, name)) {
            bti_str_free(&names);
            BTI_RETURN(record->values[i].value);
        }
        bti_str_addf(&names, "%s%s", i ? ", " : "", record->values[i].name);
    }
    bt_array *poison = bti_poisonf(BT_NOT_FOUND, "the file has no value \"%s\" for layer %s; it has %s", name,
                                   record->name, record->value_count ? bti_str_text(&names) : "none");
    bti_str_free(&names);
    BTI_RETURN(poison);
}
