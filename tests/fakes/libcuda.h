/* Shared by the files of the fake libcuda. */
#ifndef BERTH_TESTS_FAKES_LIBCUDA_H
#define BERTH_TESTS_FAKES_LIBCUDA_H

#include "drivers/cuda/driver_api.h"
#include "fakes/stream.h"

struct CUctx_st {
    int device, retained; /* device: of the machine */
};
struct CUstream_st {
    fake_stream stream;
    struct CUstream_st *next; /* list of all streams */
    bool open;
};
struct CUmod_st {
    char *text;
};
struct CUfunc_st {
    char name[64];
    int words; /* of its argument by value; 0: a pointer */
    struct CUfunc_st *next;
};
struct CUevent_st {
    fake_event event;
    int device;
    bool open;
    struct CUevent_st *next;
};

CUcontext fake_current(void);
CUresult fake_add(CUstream stream, void (*run)(void *data), const void *data, size_t bytes);

/* fake_own: the current context owns `thing`, which `drop` frees at its end. fake_release: `thing` was freed before that. */
bool fake_own(void *thing, void (*drop)(void *thing));
void fake_release(void *thing);

#define ENTER(name)                               \
    do {                                          \
        int fake_code_ = fake_call(#name, false); \
        if (fake_code_) return fake_code_;        \
    } while (0)
/* The same, with a current context, which may have a sticky error. */
#define ENTER_IN_CONTEXT(name)       \
    ENTER(name);                     \
    if (!fake_current()) return 201; \
    if (fake()->devices[fake_current()->device].sticky) return fake()->devices[fake_current()->device].sticky

#endif
