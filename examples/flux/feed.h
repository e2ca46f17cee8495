// What feed_batches, feed_whole and feed_ahead share: the work on a batch, and what the trace of a run says about the GPU.
#include <berth.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 4096, COLUMNS = 256, BATCH = 512, WIDTH = 64 };

// The mean of a network of ten layers with equal weights: [B, 256] -> [].
static inline bt_array *work(bt_array *x, bt_array *w) {
    for (int layer = 0; layer < 10; layer++) x = bt_tanh(bt_matmul(x, w));
    return bt_mean(x);
}

// An event of a trace: a copy to the GPU, or a kernel there. Microseconds.
typedef struct event {
    double begin, length;
    bool copy;
} event;

static inline bool read_event(const char *line, int gpu, event *e) {
    int process, thread;
    char kind[16];
    if (sscanf(line, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lf,\"dur\":%lf,\"cat\":\"%15[a-z]", &process, &thread,
               &e->begin, &e->length, kind) != 5)
        return false;
    e->copy = !strcmp(kind, "copy") && strstr(line, "\"to\":\"GPU:0\"");
    return e->copy || (process == gpu && !strcmp(kind, "kernel"));
}

// Two lines over time, copies to the GPU and its kernels, and how many copies ran while a kernel did.
static inline void show_trace(const char *path) {
    static event events[4096];
    char line[4096], lines[2][WIDTH + 1];
    int count = 0, gpu = -1, copies = 0, beside = 0;
    double first = 1e300, end = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strstr(line, "process_name") && strstr(line, "GPU:0")) sscanf(line, "{\"ph\":\"M\",\"pid\":%d", &gpu);
        if (count < 4096 && read_event(line, gpu, &events[count])) count++;
    }
    if (file) fclose(file);
    if (gpu < 0) return (void)puts("there is no GPU: nothing is moved");
    for (int i = 0; i < count; i++) {
        if (events[i].begin < first) first = events[i].begin;
        if (events[i].begin + events[i].length > end) end = events[i].begin + events[i].length;
    }
    memset(lines, '.', sizeof lines);
    for (int i = 0; i < count; i++) {
        const event *e = &events[i];
        bool overlaps = false;
        int from = (int)((e->begin - first) / (end - first) * WIDTH),
            to = (int)((e->begin + e->length - first) / (end - first) * WIDTH);
        for (int k = from; k <= to && k < WIDTH; k++) lines[e->copy ? 0 : 1][k] = '#';
        for (int k = 0; k < count && e->copy; k++)
            overlaps |= !events[k].copy && events[k].begin < e->begin + e->length &&
                        e->begin < events[k].begin + events[k].length;
        copies += e->copy;
        beside += overlaps;
    }
    printf("copies  %.*s\nkernels %.*s\n", WIDTH, lines[0], WIDTH, lines[1]);
    printf("%d copies, %s of them while a kernel ran\n", copies, beside ? "some" : "none");
}
