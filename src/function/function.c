#include "function/function.h"
#include "base/lock.h"

#include <string.h>

/* --- ready calls ------------------------------------------------------------------------------------------------------ */

static bool are_planned_alike(const bti_node *a, const bti_node *b, bt_transfers policy) {
    if (policy == BT_TRANSFERS_ERROR && atomic_load(&a->committed) != atomic_load(&b->committed)) return false;
    return a->dtype == b->dtype && a->weak == b->weak && a->device == b->device &&
           bti_shape_equal(a->rank, a->shape, b->rank, b->shape) &&
           memcmp(a->layout.stride, b->layout.stride, a->rank * sizeof *a->layout.stride) == 0;
}

typedef struct call_key {
    bti_node *const *given;
    int count;
    bti_plan_setting setting;
} call_key;

static bool is_ready_for(const bti_lru_entry *entry, const void *wanted) {
    const call_key *key = wanted;
    return bti_ready_call_fits((const bti_ready_call *)entry, key->given, key->setting);
}

bool bti_ready_call_fits(const bti_ready_call *ready, bti_node *const *given, bti_plan_setting setting) {
    const bti_plan_setting *own = &ready->setting;
    bool same = own->fusing == setting.fusing && own->kernels == setting.kernels && own->replica == setting.replica &&
                own->policy == setting.policy && own->default_device == setting.default_device;
    for (int i = 0; i < ready->given_count && same; i++)
        same = are_planned_alike(ready->given[i], given[i], setting.policy);
    return same;
}

#define HASHED 4

/* Of the first of what is given: calls of one function mostly differ in sizes of these. */
static uint64_t hash_of_call(const void *wanted) {
    const call_key *key = wanted;
    uint64_t hash = 0;
    for (int i = 0; i < key->count && i < HASHED; i++)
        for (int d = 0; d < key->given[i]->rank; d++)
            hash = (hash ^ (uint64_t)key->given[i]->shape[d]) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

bti_ready_call *bti_ready_call_find(bt_function *f, bti_node *const *given, bti_plan_setting setting) {
    return bti_shelf_find(&f->ready, &(call_key){given, f->input_count + (int)f->read.count, setting});
}

static size_t ready_bytes(const bti_ready_call *ready) {
    size_t nodes = (size_t)ready->given_count + ready->order.count;
    return sizeof *ready + nodes * sizeof(bti_node) + (ready->prepared ? bti_prepared_bytes(ready->prepared) : 0);
}

void bti_ready_call_keep(bt_function *f, bti_ready_call *ready) {
    call_key key = {ready->given, ready->given_count, ready->setting};
    bti_shelf_keep(&f->ready, &ready->kept, &key, ready_bytes(ready), NULL);
}

static void free_sources(bti_source *sources, int count) {
    for (int i = 0; i < count && sources; i++) bti_node_release(sources[i].node);
    bti_free(sources);
}

static void free_ready_call(bti_kept *kept) {
    bti_ready_call *ready = (bti_ready_call *)kept;
    bti_prepared_release(ready->prepared);
    for (int i = 0; i < ready->given_count && ready->given; i++) bti_node_release(ready->given[i]);
    for (size_t i = 0; i < ready->order.count; i++) bti_node_release(ready->order.items[i]);
    free_sources(ready->outputs, ready->output_count);
    free_sources(ready->sets, ready->set_count);
    bti_vec_free(&ready->order);
    bti_vec_free(&ready->storages);
    bti_free(ready->given);
    bti_free(ready->updated);
    bti_free(ready->replicas);
    bti_free(ready);
}

void bti_ready_call_begin(bti_ready_call *ready) { bti_kept_init(&ready->kept, free_ready_call); }

void bti_ready_call_release(bti_ready_call *ready) { bti_kept_release(ready ? &ready->kept : NULL); }

/* --- its life --------------------------------------------------------------------------------------------------------- */

static atomic_uint_fast64_t alive;
uint64_t bti_functions_alive(void) { return atomic_load(&alive); }

static void clear_function(void *object) {
    bt_function *f = object;
    if (f->head.error) return; /* a poisoned one */
    atomic_fetch_sub(&alive, 1);
    bti_shelf_drop(&f->ready, NULL);
    for (int i = 0; i < f->input_count; i++) bti_node_release(f->inputs[i]);
    for (int i = 0; i < f->output_count; i++) bti_node_release(f->outputs[i]);
    for (int i = 0; i < f->update_count; i++) bti_node_release(f->updates[i]);
    for (int i = 0; i < f->update_count; i++) bt_shared_release(f->updated[i]);
    for (size_t i = 0; i < f->body.count; i++) bti_node_release(f->body.items[i]);
    for (size_t i = 0; i < f->read.count; i++) bt_shared_release(f->read.items[i]);
    bti_vec_free(&f->body);
    bti_vec_free(&f->read);
    bti_vec_free(&f->replicas);
    bti_vec_free(&f->places);
    bti_lock_destroy(&f->lock);
    pthread_cond_destroy(&f->made);
    bti_free(f->donated);
    bti_free(f->inputs);
    bti_free(f->outputs);
    bti_free(f->updates);
    bti_free(f->updated);
    bti_free(f->updated_by_number);
}

static bt_function function_without_memory = {.head = BTI_NO_MEMORY};
const bti_handle_class bti_function_class = {BTI_OWNED_FUNCTION, sizeof(bt_function), clear_function,
                                             &function_without_memory};

bt_function *bti_function_new(int input_count, int output_count, int update_count) {
    bt_function *f = bti_owned_new(BTI_OWNED_FUNCTION, sizeof *f);
    if (!f) return NULL;
    bti_lock_init(&f->lock, BTI_LOCK_function_ready);
    pthread_cond_init(&f->made, NULL);
    f->ready = (bti_shelf)BTI_SHELF(&f->lock, is_ready_for, hash_of_call);
    atomic_fetch_add(&alive, 1);
    f->inputs = bti_calloc((size_t)input_count, sizeof *f->inputs);
    f->donated = bti_calloc((size_t)input_count, sizeof *f->donated);
    f->outputs = bti_calloc((size_t)output_count, sizeof *f->outputs);
    f->updates = bti_calloc((size_t)update_count, sizeof *f->updates);
    f->updated = bti_calloc((size_t)update_count, sizeof *f->updated);
    f->updated_by_number = bti_calloc((size_t)update_count, sizeof *f->updated_by_number);
    if (f->inputs && f->donated && f->outputs && f->updates && f->updated && f->updated_by_number) {
        f->input_count = input_count;
        f->output_count = output_count;
        f->update_count = update_count;
        return f;
    }
    bt_function_release(f);
    return NULL;
}

bt_function *bt_function_retain(bt_function *f) {
    return bti_handle_retain(&bti_function_class, f, "bt_function_retain");
}
void bt_function_release(bt_function *f) { bti_handle_release(&bti_function_class, f, "bt_function_release"); }
bt_status bt_function_status(const bt_function *f) {
    return bti_handle_check(BTI_OWNED_FUNCTION, f, "bt_function_status");
}

int bti_function_outputs(const bt_function *f) { return f->output_count; }
