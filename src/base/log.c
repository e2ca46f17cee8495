#include "base/log.h"

#include <berth/status.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/guest.h"
#include "base/str.h"
#include "base/files.h"

BTI_STATIC_LOCK_RECURSIVE(sink_lock, log_sink) /* a sink may cause another line */
static bt_log_sink *sink;
static void *sink_data;

void bt_set_log_sink(bt_log_sink *new_sink, void *data) {
    bti_lock_take(&sink_lock);
    sink = new_sink;
    sink_data = data;
    bti_lock_give(&sink_lock);
}

void bti_log(const char *format, ...) {
    BTI_NO_CANCEL;
    bti_str line = {0};
    va_list arguments;
    va_start(arguments, format);
    bti_str_addv(&line, format, arguments);
    va_end(arguments);
    bti_lock_take(&sink_lock);
    if (sink) {
        bti_lock_user_begin();
        sink(bti_str_text(&line), sink_data);
        bti_lock_user_end();
    } else {
        BTI_WRITES;
        fprintf(stderr, "%s\n", bti_str_text(&line));
    }
    bti_lock_give(&sink_lock);
    bti_str_free(&line);
}

void bti_log_lines(const char *lines) {
    while (*lines) {
        int length = (int)strcspn(lines, "\n");
        bti_log("%.*s", length, lines);
        lines += length + (lines[length] == '\n');
    }
}
