/* The public functions that make calls, actors and groups, and put values. */
#include "base/vec.h"
#include "task/handles.h"
#include "task/modules.h"
#include "task/options.h"

/* --- calls ------------------------------------------------------------------------------------------------------------- */

/* The actor of that name; NULL, without an error, if there is none. */
static void *find_actor_quietly(const char *name) {
    bti_errors_aside aside = bti_errors_aside_begin();
    void *held = bti_engine_now->actor_find(name);
    return bti_errors_aside_end(aside), held;
}

/* Several callers that make the same actor at once all get one: the look-up after the submission finds the first that was made. */
static void *get_or_submit(const bti_engine_call *c) {
    const char *name = c->options->name;
    if (!name)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "%s: .get_if_exists is set and .name is not", c->function), NULL;
    for (;;) {
        void *held = find_actor_quietly(name);
        if (held) return held;
        bti_error *before = bti_error_last();
        bool quiet = bti_errors_quiet(true);
        held = bti_engine_now->submit(c);
        bti_errors_quiet(quiet);
        bool comes_late = !held && bt_error_status() == BT_ALREADY_EXISTS;
        if (comes_late) {
            bti_error_put_back(before);
            continue;
        }
        bti_error_release(before);
        void *first = held ? find_actor_quietly(name) : NULL;
        if (first) bti_engine_now->release(held);
        bti_error *last = held ? NULL : bti_error_last();
        bti_error_tell(last);
        bti_error_release(last);
        return first ? first : held;
    }
}

static void *submit_checked(bti_call_kind kind, const bt_remote_entry *entry, const bt_task_options *options,
                            bt_actor *actor, const bt_item_value *arguments, int count) {
    static const char *const names[] = {[BTI_CALL_TASK] = "bt_remote_with",
                                        [BTI_CALL_ACTOR] = "bt_actor_new_with",
                                        [BTI_CALL_METHOD] = "bt_method_with"};
    if (!entry) return NULL;
    bt_task_options o;
    int retries = kind == BTI_CALL_TASK ? bti_default_retries : 0;
    if (bti_task_options_merge(names[kind], entry, options, retries, &o) != BT_OK) return NULL;
    bti_engine_call c = {.kind = kind,
                         .module = entry->module,
                         .function = entry->name,
                         .options = &o,
                         .arguments = {arguments, count, NULL, 0}};
    if (kind == BTI_CALL_METHOD && !(c.actor = bti_held_by(actor, "actor"))) return NULL;
    if (o.group && !(c.group = bti_held_by(o.group, "group"))) return NULL;
    if (bti_check_values(entry->name, arguments, count) != BT_OK) return NULL;
    if (kind != BTI_CALL_ACTOR) return bti_engine_now->submit(&c);
    if (o.detached && !bti_engine_now->detaches)
        return (void)bti_fail(BT_UNIMPLEMENTED,
                              "%s: a detached actor outlives its program; the engine \"%s\" ends all processes with it",
                              entry->name, bti_engine_now->name),
               NULL;
    return o.get_if_exists ? get_or_submit(&c) : bti_engine_now->submit(&c);
}

bt_ref *bti_remote(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                   int count) {
    BTI_CALL((options ? "bt_remote_with" : "bt_remote"));
    BTI_VISIT(v);
    if (!v.inside) return (void)bti_no_runtime(), bti_ref_handle(NULL);
    return bti_ref_handle(submit_checked(BTI_CALL_TASK, entry, options, NULL, arguments, count));
}

bt_actor *bti_actor(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                    int count) {
    BTI_CALL((options ? "bt_actor_new_with" : "bt_actor_new"));
    BTI_VISIT(v);
    if (!v.inside) return (void)bti_no_runtime(), bti_actor_handle(NULL);
    return bti_actor_handle(submit_checked(BTI_CALL_ACTOR, entry, options, NULL, arguments, count));
}

bt_ref *bti_method(bt_actor *actor, const bt_remote_entry *entry, const bt_task_options *options,
                   const bt_item_value *arguments, int count) {
    BTI_CALL((options ? "bt_method_with" : "bt_method"));
    BTI_VISIT(v);
    if (!v.inside) return (void)bti_no_runtime(), bti_ref_handle(NULL);
    bt_ref *ref = bti_ref_handle(submit_checked(BTI_CALL_METHOD, entry, options, actor, arguments, count));
    bool is_dead = actor && !ref->held && ref != &bti_no_ref && !bti_owned_is_released(&actor->ref.head) &&
                   actor->ref.held && actor->ref.runtime == bti_runtime_now && bti_engine_now->is_done(actor->ref.held);
    if (is_dead) ref->failure = bti_engine_now->failure(actor->ref.held);
    return ref;
}

static const bt_remote_entry *entry_of(const char *module, const char *name) {
    const bt_remote_entry *entry = NULL;
    if (!name) (void)bti_fail(BT_INVALID_ARGUMENT, "the name of the function is NULL");
    if (!name || bti_module_find(module ? module : "", name, &entry) != BT_OK) return NULL;
    return entry;
}

bt_ref *bt_remote_named(const char *module, const char *name, const bt_task_options *options,
                        const bt_item_value *arguments, int count) {
    BTI_CALL("bt_remote_named");
    return bti_remote(entry_of(module, name), options, arguments, count);
}

bt_actor *bt_actor_named(const char *module, const char *name, const bt_task_options *options,
                         const bt_item_value *arguments, int count) {
    BTI_CALL("bt_actor_named");
    return bti_actor(entry_of(module, name), options, arguments, count);
}

bt_ref *bt_method_named(bt_actor *actor, const char *module, const char *name, const bt_task_options *options,
                        const bt_item_value *arguments, int count) {
    BTI_CALL("bt_method_named");
    return bti_method(actor, entry_of(module, name), options, arguments, count);
}

bt_ref *(bt_result)(bt_ref *ref, int index) {
    BTI_CALL("bt_result");
    BTI_VISIT(v);
    void *held = bti_held_by(ref, "reference");
    if (held && index < 0) held = ((void)bti_fail(BT_OUT_OF_RANGE, "result %d; the first is 0", index), NULL);
    return bti_ref_handle(held && v.inside ? bti_engine_now->result(held, index) : NULL);
}

/* --- actors and groups ------------------------------------------------------------------------------------------------- */

bt_status bt_actor_status(bt_actor *actor) {
    BTI_CALL("bt_actor_status");
    BTI_VISIT(v);
    void *held = bti_held_by(actor, "actor");
    return held ? bti_engine_now->actor_status(held) : bt_error_status();
}

bt_actor *bt_actor_find(const char *name) {
    BTI_CALL("bt_actor_find");
    if (!name || !*name) return (void)bti_fail(BT_INVALID_ARGUMENT, "the name is empty"), NULL;
    BTI_VISIT(v);
    if (!v.inside) return (void)bti_no_runtime(), NULL;
    void *held = bti_engine_now->actor_find(name);
    return held ? bti_actor_handle(held) : NULL;
}

bt_status bt_actor_kill(bt_actor *actor) {
    BTI_CALL("bt_actor_kill");
    BTI_VISIT(v);
    void *held = bti_held_by(actor, "actor");
    return held ? bti_engine_now->actor_kill(held) : bt_error_status();
}

static void *submit_group(const bt_task_options *bundles, int count) {
    if (bti_check_list(bundles, count, "bundles") != BT_OK) return NULL;
    BTI_VEC(bt_task_options) known = {0};
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        bt_task_options bundle;
        status = bti_bundle_take(bundles, i, &bundle);
        if (status == BT_OK && !bti_vec_push(&known, bundle)) status = bti_no_memory();
    }
    void *held = status == BT_OK ? bti_engine_now->group(known.items, count) : NULL;
    bti_vec_free(&known);
    return held;
}

bt_group *bt_group_new(const bt_task_options *bundles, int count) {
    BTI_CALL("bt_group_new");
    BTI_VISIT(v);
    if (!v.inside) return (void)bti_no_runtime(), bti_group_handle(NULL);
    return bti_group_handle(submit_group(bundles, count));
}

bt_status bt_group_wait(bt_group *group, double seconds) {
    BTI_CALL("bt_group_wait");
    BTI_VISIT(v);
    void *held = bti_held_by(group, "group");
    if (!held) return bt_error_status();
    BTI_TRY(bti_engine_now->wait(&held, 1, 1, seconds));
    if (bti_engine_now->is_done(held)) return BT_OK;
    return bti_fail(BT_DEADLINE_EXCEEDED, "it does not have its resources within %g seconds", seconds);
}

/* --- values ------------------------------------------------------------------------------------------------------------ */

bt_ref *bti_put(const bt_item_value *value) {
    BTI_CALL("bt_put");
    BTI_VISIT(v);
    if (!v.inside) return (void)bti_no_runtime(), bti_ref_handle(NULL);
    return bti_ref_handle(
        bti_check_values("bt_put", value, 1) == BT_OK ? bti_engine_now->put(&(bti_values){value, 1, NULL, 0}) : NULL);
}
