// Results are taken as they come, not in the order of the calls: the first call ends last, and nobody waits for it meanwhile.
#include <berth.h>
#include <stdio.h>
#include <unistd.h>

enum { CALLS = 5 };

// The first one ends when the program has taken all the others.
static bt_status work(bt_task *task) {
    int i;
    const char *last;
    bt_status status = bt_arguments(task, &i, &last);
    while (i == 0 && status == BT_OK && access(last, F_OK) != 0) usleep(1000);
    return status == BT_OK ? bt_return(task, i) : status;
}
BT_REMOTE(work);

int main(void) {
    if (bt_runtime_init(.num_cpus = CALLS) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *refs[CALLS];
        bool ready[CALLS];
        int result, sum = 0, left = CALLS;
        for (int i = 0; i < CALLS; i++) refs[i] = bt_remote(work, i, "all_others_are_done");
        while (left > 1) {
            if (bt_wait_refs(refs, left, 1, ready, -1) < 0) return puts(bt_error_text()), 1;
            for (int i = left - 1; i >= 0; i--) {
                if (!ready[i]) continue;
                if (bt_get(refs[i], &result) != BT_OK) return puts(bt_error_text()), 1;
                sum += result;
                refs[i] = refs[--left];
            }
        }
        printf("taken first: %d of %d, sum %d\n", CALLS - left, CALLS, sum);
        FILE *file = fopen("all_others_are_done", "w");
        if (file) fclose(file);
        if (bt_get(refs[0], &result) != BT_OK) return puts(bt_error_text()), 1;
        printf("taken last: call %d\n", result);
        remove("all_others_are_done");
    }
    return bt_runtime_shutdown();
}
