#include "base/log.h"

#include <berth/status.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fork.h"
#include "base/guest.h"
#include "base/str.h"
#include "base/writes.h"

static pthread_mutex_t sink_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* a sink may cause another line */
BTI_RENEW_IN_CHILD_AS(sink_lock, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
static bt_log_sink *sink;
static void *sink_data;

void bt_set_log_sink(bt_log_sink *new_sink, void *data) {
    pthread_mutex_lock(&sink_lock);
    sink = new_sink;
    sink_data = data;
    pthread_mutex_unlock(&sink_lock);
}

void bti_log(const char *format, ...) {
    BTI_NO_CANCEL;
    bti_str line = {0};
    va_list arguments;
    va_start(arguments, format);
    bti_str_addv(&line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&sink_lock);
    if (sink) {
        sink(bti_str_text(&line), sink_data);
    } else {
        BTI_WRITES;
        fprintf(stderr, "%s\n", bti_str_text(&line));
    }
    pthread_mutex_unlock(&sink_lock);
    bti_str_free(&line);
}

void bti_log_lines(const char *lines) {
    while (*lines) {
        int length = (int)strcspn(lines, "\n");
        bti_log("%.*s", length, lines);
        lines += length + (lines[length] == '\n');
    }
}
