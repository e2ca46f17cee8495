/* Shared variables: made, named, set by the user. */
#include <string.h>

#include "array/eval.h"
#include "array/move.h"
#include "array/place.h"
#include "array/record.h"
#include "exec/exec.h"
#include "exec/host.h"
#include "function/versions.h"
#include "ops/primitive.h"
#include "function/shared.h"

static bt_shared *living;
static atomic_int_fast64_t last_number;

static void drop_versions(bti_shared_replica *r) {
    for (size_t v = 0; v < r->versions.count; v++) bti_version_drop(&r->versions.items[v]);
    bti_vec_free(&r->versions);
}

static void clear_shared(void *object) {
    bt_shared *shared = object;
    bti_versions_lock();
    if (shared->previous)
        shared->previous->next = shared->next;
    else if (living == shared)
        living = shared->next;
    if (shared->next) shared->next->previous = shared->previous;
    for (int i = 0; i < shared->replica_count; i++) drop_versions(&shared->replicas[i]);
    bti_versions_unlock();
    bti_set_failure_release(shared->failure);
    bti_free(shared->name);
}

static void forget_all_replaced(void) {
    bti_versions_lock();
    for (bt_shared *shared = living; shared; shared = shared->next)
        for (int i = 0; i < shared->replica_count; i++) bti_shared_forget_replaced(shared, i);
    bti_versions_unlock();
}
__attribute__((constructor)) static void tell_exec(void) { bti_exec_set_settle(forget_all_replaced); }

static bt_shared variable_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class shared_class = {BTI_OWNED_SHARED, sizeof(bt_shared), clear_shared,
                                              &variable_without_memory};

static bt_shared *shared_without_memory(void) {
    (void)!bti_no_memory();
    return NULL;
}

/* Computed now: if it failed later, there would be no older version to go back to. */
static bt_status add_replica(bt_shared *shared, bt_array *value) {
    BTI_TRY(bti_fail_with(bti_array_error(value)));
    bti_node *node = bti_node_of(value);
    int index = shared->replica_count;
    bti_shared_replica *r = &shared->replicas[index];
    r->device = node->device;
    r->committed = atomic_load(&node->committed);
    bti_node *first = bti_shared_alias(shared, index, node, BTI_OP_stop, NULL);
    bt_status status = first ? bti_block_node(first) : bti_no_memory();
    if (status == BT_OK && !bti_vec_push(&r->versions, ((bti_version){.node = first}))) status = bti_no_memory();
    if (status == BT_OK)
        shared->replica_count++;
    else
        bti_node_release(first);
    return status;
}

static bt_shared *make_shared(bt_array *value, const int *devices, int count) {
    value = bti_cast(value, (bt_dtype)bti_node_of(value)->dtype); /* a weak scalar becomes strong */
    const bti_node *node = bti_node_of(value);
    if (node->symbolic) {
        (void)!bti_fail(BT_FAILED_PRECONDITION, "a variable's first value cannot depend on a function's input");
        return NULL;
    }
    bt_shared *shared =
        bti_owned_new(BTI_OWNED_SHARED, sizeof *shared + (size_t)(count ? count : 1) * sizeof(bti_shared_replica));
    if (!shared) return shared_without_memory();
    shared->number = atomic_fetch_add(&last_number, 1) + 1;
    shared->made = bti_call_place();
    shared->dtype = (bt_dtype)node->dtype;
    shared->rank = node->rank;
    memcpy(shared->shape, node->shape, sizeof shared->shape);
    for (int i = 0; i < (count ? count : 1); i++) {
        bt_array *here = count ? bti_move(value, devices[i], false) : value;
        if (add_replica(shared, here) != BT_OK) {
            bt_shared_release(shared);
            return NULL;
        }
    }
    bti_versions_lock();
    shared->next = living;
    if (living) living->previous = shared;
    living = shared;
    bti_versions_unlock();
    return shared;
}

bt_shared *bti_shared_find(const void *pointer, int64_t number) {
    bti_versions_lock();
    bt_shared *shared = living;
    while (shared && (shared != pointer || shared->number != number)) shared = shared->next;
    if (shared && !bti_owned_retain(&shared->head)) shared = NULL; /* being released by another thread */
    bti_versions_unlock();
    return shared;
}

static bt_shared *own_shared(bt_shared *shared) { return bti_scope_own(&shared_class, shared); }

bt_shared *bt_shared_new(bt_array *value, const char *device) {
    BTI_PUBLIC("bt_shared_new");
    if (bti_fail_with(bti_array_error(value)) != BT_OK) return own_shared(NULL);
    const int *devices;
    int count = bti_replica_devices(&devices), id;
    if (device) {
        bool softened;
        if (bti_device_place(device, &id, &softened) != BT_OK) return own_shared(NULL);
        devices = &id;
        count = 1;
    }
    return own_shared(make_shared(value, devices, count));
}

bt_shared *bt_shared_new_beside(const bt_shared *beside, bt_array *value) {
    BTI_PUBLIC("bt_shared_new_beside");
    if (bti_fail_with(bti_array_error(value)) != BT_OK || bt_shared_status(beside) != BT_OK) return own_shared(NULL);
    int devices[BTI_MAX_REPLICAS];
    for (int i = 0; i < beside->replica_count; i++) devices[i] = beside->replicas[i].device;
    return own_shared(make_shared(value, devices, beside->replica_count));
}

bt_shared *bti_shared_new_at(const bt_shared *beside, int replica, bt_array *value) {
    if (bti_fail_with(bti_array_error(value)) != BT_OK) return own_shared(NULL);
    return own_shared(make_shared(value, &beside->replicas[replica].device, 1));
}

bt_shared *bt_shared_retain(bt_shared *shared) { return bti_handle_retain(&shared_class, shared, "bt_shared_retain"); }
void bt_shared_release(bt_shared *shared) { bti_handle_release(&shared_class, shared, "bt_shared_release"); }
bt_status bt_shared_status(const bt_shared *shared) {
    return bti_handle_check(BTI_OWNED_SHARED, shared, "bt_shared_status");
}

void bt_shared_set_name(bt_shared *shared, const char *name) {
    if (bti_handle_check(BTI_OWNED_SHARED, shared, "bt_shared_set_name") != BT_OK) return;
    char *copy = name ? bti_strdup(name) : NULL;
    bti_free(shared->name);
    shared->name = copy;
}
const char *bt_shared_name(const bt_shared *shared) {
    if (!shared || bti_handle_check(BTI_OWNED_SHARED, shared, "bt_shared_name") != BT_OK) return "";
    return shared->name ? shared->name : "";
}

bt_status bt_shared_freeze(bt_shared *shared, bool frozen) {
    BTI_TRY(bti_handle_check(BTI_OWNED_SHARED, shared, "bt_shared_freeze"));
    atomic_store(&shared->frozen, frozen);
    return BT_OK;
}
bool bt_shared_is_frozen(const bt_shared *shared) {
    return shared && bti_handle_check(BTI_OWNED_SHARED, shared, "bt_shared_is_frozen") == BT_OK &&
           atomic_load(&shared->frozen);
}

uint64_t bti_shared_alive(void) {
    uint64_t count = 0;
    bti_versions_lock();
    for (const bt_shared *shared = living; shared; shared = shared->next) count++;
    bti_versions_unlock();
    return count;
}

bt_array *bt_value(bt_shared *shared) {
    BTI_PUBLIC("bt_value");
    bti_error *error = bti_handle_error(BTI_OWNED_SHARED, shared, "bt_value");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    BTI_RETURN(bti_array_new(bti_shared_value(shared, bti_replica())));
}

bt_array *bti_shared_value_at(bt_shared *shared, int replica) {
    bti_error *error = bti_handle_error(BTI_OWNED_SHARED, shared, "bt_value");
    return error ? bti_poison(bti_error_retain(error)) : bti_array_new(bti_shared_value(shared, replica));
}

static const bti_shared_replica *own_replica(const bt_shared *shared) {
    int index = bti_replica();
    return &shared->replicas[index < shared->replica_count ? index : 0];
}
int bti_shared_device(const bt_shared *shared) { return own_replica(shared)->device; }
bool bti_shared_committed(const bt_shared *shared) { return own_replica(shared)->committed; }

bool bti_shared_together(const bt_shared *a, const bt_shared *b) {
    if (a->replica_count != b->replica_count) return false;
    for (int i = 0; i < a->replica_count; i++)
        if (a->replicas[i].device != b->replicas[i].device) return false;
    return true;
}

int bti_shared_replicas(const bt_shared *shared) { return shared->replica_count; }

int bti_shared_replica_on(const bt_shared *shared, int device) {
    for (int i = 0; i < shared->replica_count; i++)
        if (shared->replicas[i].device == device) return i;
    return -1;
}

/* Nodes of values say which replica they are of: those of the replicas that move are made again. */
void bti_shared_drop_replica(bt_shared *shared, int replica) {
    bti_versions_lock();
    drop_versions(&shared->replicas[replica]);
    shared->replica_count--;
    for (int i = replica; i < shared->replica_count; i++) {
        shared->replicas[i] = shared->replicas[i + 1];
        bti_shared_replica *r = &shared->replicas[i];
        for (size_t v = 0; v < r->versions.count; v++) {
            bti_node_release(r->versions.items[v].value);
            r->versions.items[v].value = NULL;
        }
    }
    bti_versions_unlock();
}

bti_node *bti_shared_fit(const bt_shared *shared, int index, bti_node *value) {
    return bti_node_fit(value, shared->dtype, shared->replicas[index].device);
}

bool bti_shared_refused(const bt_shared *shared, int index, const bti_node *value) {
    if (!bti_transfer_refused(value, shared->replicas[index].device)) return false;
    for (int r = 0; r < shared->replica_count && !bti_in_replica(); r++)
        if (shared->replicas[r].device == value->device) return false;
    return true;
}

/* --- setting ---------------------------------------------------------------------------------------------------------- */

bt_status bti_shared_check(const bt_shared *shared, const bt_array *value) {
    BTI_TRY(bti_handle_check(BTI_OWNED_SHARED, shared, "bt_set"));
    bti_error *error = bti_array_error(value);
    if (error) return bti_fail_with(error);
    const bti_node *node = bti_node_of(value);
    bool fits = (node->weak || (bt_dtype)node->dtype == shared->dtype) &&
                bti_shape_equal(node->rank, node->shape, shared->rank, shared->shape);
    if (fits) return BT_OK;
    bti_str has = {0}, is = {0};
    bti_shape_text(&has, shared->rank, shared->shape);
    bti_shape_text(&is, node->rank, node->shape);
    bt_status status =
        bti_fail(BT_INVALID_ARGUMENT, "variable %s%sis %s %s, the value %s %s; it keeps its value",
                 bt_shared_name(shared), *bt_shared_name(shared) ? " " : "", bt_dtype_name(shared->dtype),
                 bti_str_text(&has), bt_dtype_name((bt_dtype)node->dtype), bti_str_text(&is));
    bti_str_free(&has);
    bti_str_free(&is);
    return status;
}

bt_status bti_shared_check_gradient(const bt_shared *shared, const bt_array *gradient) {
    if (!shared) return bti_fail(BT_INVALID_ARGUMENT, "the shared variable is NULL");
    BTI_TRY(bti_fail_with(bti_array_error(gradient)));
    const bti_node *node = bti_node_of(gradient);
    if (bti_shape_equal(node->rank, node->shape, shared->rank, shared->shape)) return BT_OK;
    bti_str has = {0}, is = {0};
    bti_shape_text(&has, shared->rank, shared->shape);
    bti_shape_text(&is, node->rank, node->shape);
    bt_status status =
        bti_fail(BT_INVALID_ARGUMENT, "variable %s%sis %s, its gradient %s; it keeps its value", bt_shared_name(shared),
                 *bt_shared_name(shared) ? " " : "", bti_str_text(&has), bti_str_text(&is));
    bti_str_free(&has);
    bti_str_free(&is);
    return status;
}

/* Sets that wait to be committed as one step. */
typedef struct gathered {
    int depth;
    BTI_VEC(bt_shared *) shared; /* retained */
    BTI_VEC(bti_node *) nodes;   /* retained */
    BTI_VEC(int) replicas;
} gathered;
static _Thread_local gathered gather;

void bti_sets_begin(void) { gather.depth++; }
bool bti_sets_wait(void) { return gather.depth > 0; }

static bt_status gather_sets(bt_shared *const *shared, bti_node *const *nodes, const int *replicas, int count) {
    bool room = bti_vec_reserve(&gather.shared, (size_t)count) && bti_vec_reserve(&gather.nodes, (size_t)count) &&
                bti_vec_reserve(&gather.replicas, (size_t)count);
    if (!room) return bti_no_memory();
    for (int i = 0; i < count; i++) {
        gather.shared.items[gather.shared.count++] = bt_shared_retain(shared[i]);
        gather.nodes.items[gather.nodes.count++] = bti_node_retain(nodes[i]);
        gather.replicas.items[gather.replicas.count++] = replicas[i];
    }
    return BT_OK;
}

bt_status bti_sets_end(bool commit) {
    if (--gather.depth) return BT_OK;
    bt_status status = BT_OK;
    if (commit)
        status =
            bti_shared_commit(gather.shared.items, gather.nodes.items, gather.replicas.items, (int)gather.shared.count);
    for (size_t i = 0; i < gather.shared.count; i++) {
        bt_shared_release(gather.shared.items[i]);
        bti_node_release(gather.nodes.items[i]);
    }
    bti_vec_free(&gather.shared);
    bti_vec_free(&gather.nodes);
    bti_vec_free(&gather.replicas);
    return status;
}

/* Under transfers=error: the value is where the replicas that this thread sets are. */
bt_status bti_shared_check_place(const bt_shared *shared, const bt_array *value, const char *name, const char *role) {
    for (int r = 0; r < shared->replica_count; r++) {
        const bti_shared_replica *replica = &shared->replicas[r];
        if (bti_in_replica() && r != bti_replica()) continue;
        if (!bti_shared_refused(shared, r, bti_node_of(value))) continue;
        bti_error *error = bti_transfer_error(
            bti_node_of(value), replica->device, name, "is %s variable %s%son %s (made by %s at %s:%d)", role,
            bt_shared_name(shared), *bt_shared_name(shared) ? " " : "", bt_device_name(bti_device_at(replica->device)),
            shared->made.name && *shared->made.name ? shared->made.name : "a call", bti_site_file(shared->made.site),
            shared->made.site.line);
        bt_status status = bti_fail_with(error);
        bti_error_release(error);
        return status;
    }
    return BT_OK;
}

bt_status bt_set_all(bt_shared *const *shared, bt_array *const *values, int count) {
    BTI_PUBLIC("bt_set_all");
    BTI_TRY(bti_host_check());
    BTI_TRY(bti_check_list(shared, count, "variables"));
    BTI_TRY(bti_check_list(values, count, "values"));
    for (int i = 0; i < count; i++) {
        BTI_TRY(bti_shared_check(shared[i], values[i]));
        if (bti_node_of(values[i])->symbolic)
            return bti_fail(BT_FAILED_PRECONDITION,
                            "the value depends on a function's input, or on what a loop or a branch is given; list it "
                            "with a function's updates (bt_function_new)");
        BTI_TRY(bti_shared_check_place(shared[i], values[i], "value", "the new value of"));
    }
    size_t total = 0;
    for (int i = 0; i < count; i++) total += bti_in_replica() ? 1 : (size_t)shared[i]->replica_count;
    bt_shared **owners = bti_alloc(total * sizeof *owners);
    bti_node **nodes = bti_alloc(total * sizeof *nodes);
    int *replicas = bti_alloc(total * sizeof *replicas);
    bt_status status = owners && nodes && replicas ? BT_OK : bti_no_memory();
    size_t n = 0;
    for (int i = 0; i < count && status == BT_OK; i++) {
        bt_array *value = bti_cast(values[i], shared[i]->dtype);
        for (int r = 0; r < shared[i]->replica_count; r++) {
            if (bti_in_replica() && r != bti_replica()) continue;
            int device = shared[i]->replicas[r].device;
            bt_array *here = bti_node_of(value)->device == device ? value : bti_move(value, device, false);
            if (bti_array_error(here)) status = bti_fail_with(bti_array_error(here));
            owners[n] = shared[i];
            replicas[n] = r;
            nodes[n++] = bti_node_of(here);
        }
    }
    if (status == BT_OK) status = (gather.depth ? gather_sets : bti_shared_commit)(owners, nodes, replicas, (int)n);
    bti_free(owners);
    bti_free(nodes);
    bti_free(replicas);
    return status;
}

bt_status bt_set(bt_shared *shared, bt_array *value) {
    BTI_PUBLIC("bt_set");
    return bt_set_all(&shared, &value, 1);
}
