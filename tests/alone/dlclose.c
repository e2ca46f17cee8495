// labels: threads
/* A program that is not linked with berth opens it, computes, closes it while threads of berth still run, and goes on; a few times. */
#include <berth.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define ENTRIES(ENTRY) ENTRY(bt_full_shape) ENTRY(bt_matmul) ENTRY(bt_eval) ENTRY(bt_read)
#undef bt_matmul
#undef bt_eval
#undef bt_read
#define FIELD(name) static __typeof__(&(name)) dl_##name;
ENTRIES(FIELD)

static bool resolve(void *library) {
#define FIND(name)                                \
    *(void **)&dl_##name = dlsym(library, #name); \
    if (!dl_##name) return printf("no %s\n", #name), false;
    ENTRIES(FIND)
    return true;
}

/* A thread that used it ends after it was closed: what it holds is released then. */
static pthread_barrier_t closed;
static void *compute(void *unused) {
    float values[9];
    bool right = true;
    (void)unused;
    bt_array *x = dl_bt_full_shape(2, BT_F32, BT_SHAPE(3, 3));
    right = dl_bt_read(dl_bt_matmul(x, x), values, sizeof values) == BT_OK && values[8] == 12;
    pthread_barrier_wait(&closed);
    return right ? &closed : NULL;
}

int main(int argc, char **argv) {
    for (int i = 0; i < 4; i++) {
        void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *result;
        if (!library || !resolve(library)) return printf("%s\n", dlerror()), 1;
        pthread_t thread;
        pthread_barrier_init(&closed, NULL, 2);
        if (pthread_create(&thread, NULL, compute, NULL)) return 2;
        bt_array *x = dl_bt_full_shape(1, BT_F32, BT_SHAPE(400, 400));
        for (int k = 0; k < 3; k++) x = dl_bt_matmul(x, x);
        if (dl_bt_eval(x) != BT_OK) return 3; /* by the queue's thread, after it is closed */
        dlclose(library);
        pthread_barrier_wait(&closed);
        pthread_join(thread, &result);
        if (!result) return 4;
        usleep(20000);
    }
    return 0;
}
