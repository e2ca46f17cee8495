#include "drivers/cpu/product/library.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/guard.h"
#include "base/libraries.h"

#define OPEN_ROOM ((size_t)512 << 20) /* bytes of address space that opening a library takes at most */

BTI_STATIC_LOCK(blas_lock, blas_libraries) /* of opening, and of `now` of each library */

const char *bti_library_resolve(void *handle, const bti_library_symbol *symbols, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(*symbols[i].at = dlsym(handle, symbols[i].name))) return symbols[i].name;
    return NULL;
}

const char *bti_omp_resolve(void *handle, bti_omp *omp) {
    *(void **)&omp->get_max_threads = dlsym(handle, "omp_get_max_threads");
    *(void **)&omp->set_num_threads = dlsym(handle, "omp_set_num_threads");
    return omp->get_max_threads && omp->set_num_threads ? NULL : "OpenMP";
}

/* Under the lock. A library that does not fit into the address space is not tried again: later products would get other bits. */
static void open_product_library(bti_product_library *l) {
    int64_t start = (int64_t)bti_now_ns();
    bti_str reason = {0};
    bool room = bti_guard_room(OPEN_ROOM, "opening a library of products") == BT_OK;
    if (!room) bti_str_addf(&reason, "%s; ", bt_error_text());
    for (int i = 0; l->names[i] && !l->now.opened && room; i++) {
        void *handle = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
        snprintf(l->now.library, sizeof l->now.library, "%s", l->names[i]);
        const char *said = handle ? NULL : dlerror();
        if (!handle)
            bti_str_addf(&reason, "%s; ", said ? said : l->names[i]);
        else if (l->resolve(handle, &l->now, &reason))
            l->now.opened = true, bti_guard_watch(handle);
        else
            dlclose(handle);
    }
    if (l->now.opened) {
        l->now.open_ns = (uint64_t)((int64_t)bti_now_ns() - start);
    } else {
        *l->now.library = '\0';
        snprintf(l->now.reason, sizeof l->now.reason, "%s%s", bti_str_text(&reason), l->install);
    }
    bti_str_free(&reason);
    atomic_store(&l->found, l->now.opened ? 1 : -1);
}

bool bti_product_library_open(bti_product_library *l) {
    int found = atomic_load_explicit(&l->found, memory_order_acquire);
    if (found) return found > 0;
    bti_opening opening;
    if (!bti_opening_begin(&opening)) return false;
    bti_lock_take(&blas_lock);
    if (!atomic_load(&l->found)) open_product_library(l);
    bti_lock_give(&blas_lock);
    bti_opening_end(&opening);
    return atomic_load(&l->found) > 0;
}

void bti_product_library_state(bti_product_library *l, bti_library_state *state) {
    bti_lock_take(&blas_lock);
    *state = l->now;
    bti_lock_give(&blas_lock);
}

void bti_product_library_reset(bti_product_library *l, const char *const *names) {
    bti_lock_take(&blas_lock);
    l->names = names;
    atomic_store(&l->found, 0);
    l->now = (bti_library_state){0};
    bti_lock_give(&blas_lock);
}
