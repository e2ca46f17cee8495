#include "base/cores.h"

#include "base/flags.h"

int bti_cores(void) { return 1; }
void bti_parallel(int64_t count, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end),
                  void *context) {
    for (int64_t i = 0; i < count; i += grain) body(context, i, i + grain < count ? i + grain : count);
}
static _Thread_local int limit;
int bti_cores_limit(int most) {
    int before = limit;
    limit = most;
    return before;
}
void bti_cores_shutdown(void) {}
