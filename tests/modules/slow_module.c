/* A shared object that stays in the midst of being opened until it is told to go on. */
#include <berth.h>
#include <stdlib.h>
#include <unistd.h>

static bt_status nothing(bt_task *task) {
    (void)task;
    return BT_OK;
}
BT_REMOTE(nothing);

__attribute__((constructor)) static void wait_to_be_told(void) {
    char byte = 0;
    if (write(atoi(getenv("SLOW_MODULE_TELLS")), &byte, 1) == 1)
        (void)!read(atoi(getenv("SLOW_MODULE_ASKS")), &byte, 1);
}
