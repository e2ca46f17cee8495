/* A library with the name of a driver's library. It crashes, aborts, exits or hangs when it is opened, as BERTH_FAKE_HOSTILE says. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void begin(void) {
    const char *how = getenv("BERTH_FAKE_HOSTILE");
    if (!how) return;
    fprintf(stderr, "about to %s\n", how);
    if (!strcmp(how, "crash")) raise(SIGSEGV);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "exit")) exit(3);
    while (!strcmp(how, "hang")) pause();
}
