#include "exec/aside.h"

bti_aside bti_step_aside(void) {
    bti_aside from = {.before = bti_error_last(), .quiet = bti_errors_quiet(false)};
    bt_error_clear();
    from.depth = bti_call_begin(NULL);
    from.waiting = bti_call_set_place((bti_place){0});
    return from;
}

void bti_come_back(bti_aside from) {
    bti_call_set_place(from.waiting);
    bti_call_end(from.depth);
    bti_errors_quiet(from.quiet);
    bti_error_put_back(from.before);
}
