#include "train/progress.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_BETWEEN 0.1
enum { BAR_WIDTH = 24, USUAL_COLUMNS = 80 };

void bti_progress_begin(bti_progress *progress, int epochs, int64_t steps_per_epoch, int64_t first, bool quiet) {
    *progress = (bti_progress){.quiet = quiet,
                               .terminal = isatty(STDERR_FILENO),
                               .start = bti_now_seconds(),
                               .epochs = epochs,
                               .steps_per_epoch = steps_per_epoch,
                               .first = first};
}

/* --- the line of a terminal ------------------------------------------------------------------------------------------- */

/* The parts of the line, from left to right. */
typedef enum part { EPOCH, BAR, STEP, LOSS, JUDGED, RATE, LEFT, PARTS } part;
typedef struct line {
    char part[PARTS][sizeof((bti_progress *)0)->judged];
} line;

static size_t columns_of_terminal(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? USUAL_COLUMNS : size.ws_col;
}

static size_t line_length(const line *l) {
    size_t length = 0;
    for (int p = 0; p < PARTS; p++) length += strlen(l->part[p]);
    return length;
}

/* Drops the last "  name 0.1234". False: there is none. */
static bool drop_last_metric(char *judged) {
    char *last = NULL;
    for (char *at = judged; (at = strstr(at, "  ")); at += 2) last = at;
    if (last) *last = '\0';
    return last;
}

static void shorten_line(line *l, size_t room) {
    static const part dispensable[] = {BAR, RATE, LEFT}; /* the first one most */
    for (size_t i = 0; i < sizeof dispensable / sizeof *dispensable && line_length(l) > room; i++)
        l->part[dispensable[i]][0] = '\0';
    while (line_length(l) > room && drop_last_metric(l->part[JUDGED])) continue;
    for (int p = PARTS - 1; p >= 0 && line_length(l) > room; p--) {
        size_t length = strlen(l->part[p]), over = line_length(l) - room;
        l->part[p][over < length ? length - over : 0] = '\0';
    }
}

#define SET_PART(l, p, ...) snprintf((l)->part[p], sizeof(l)->part[p], __VA_ARGS__)

static void set_bar(line *l, int64_t in_epoch, int64_t steps_per_epoch) {
    int filled = (int)(BAR_WIDTH * in_epoch / steps_per_epoch);
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[BAR_WIDTH] = '\0';
    SET_PART(l, BAR, " [%s]", bar);
}

static void draw_line(const bti_progress *progress, int64_t step, double loss, double now) {
    line l = {0};
    int64_t in_epoch = step % progress->steps_per_epoch + 1, done = step + 1;
    double rate = (double)(done - progress->first) / (now - progress->start > 0 ? now - progress->start : 1e-9);
    double left = (double)(progress->epochs * progress->steps_per_epoch - done) / rate;
    SET_PART(&l, EPOCH, "epoch %lld/%d", (long long)(step / progress->steps_per_epoch + 1), progress->epochs);
    set_bar(&l, in_epoch, progress->steps_per_epoch);
    SET_PART(&l, STEP, " %lld/%lld", (long long)in_epoch, (long long)progress->steps_per_epoch);
    if (!isnan(loss)) SET_PART(&l, LOSS, "  loss %.4f", loss);
    SET_PART(&l, JUDGED, "%s", progress->judged);
    SET_PART(&l, RATE, "  %.0f steps/s", rate);
    SET_PART(&l, LEFT, "  %d:%02d left", (int)(left / 60), (int)fmod(left, 60));
    shorten_line(&l, columns_of_terminal() - 1); /* in the last column some terminals wrap */
    fputc('\r', stderr);
    for (int p = 0; p < PARTS; p++) fputs(l.part[p], stderr);
    fputs("\033[K", stderr);
    fflush(stderr);
}

/* --- steps and epochs ------------------------------------------------------------------------------------------------- */

void bti_progress_step(bti_progress *progress, int64_t step, double loss) {
    if (progress->quiet || !progress->terminal) return;
    double now = bti_now_seconds();
    bool last = step + 1 >= progress->epochs * progress->steps_per_epoch;
    if (now - progress->drawn < SECONDS_BETWEEN && !last) return;
    progress->drawn = now;
    draw_line(progress, step, loss, now);
}

void bti_progress_epoch(bti_progress *progress, int64_t epoch, double loss, const char *judged) {
    snprintf(progress->judged, sizeof progress->judged, "%s", judged);
    if (progress->quiet || progress->terminal) {
        bti_progress_step(progress, (epoch + 1) * progress->steps_per_epoch - 1, loss);
        return;
    }
    double seconds = bti_now_seconds() - progress->start;
    int64_t steps = (epoch + 1) * progress->steps_per_epoch - progress->first;
    fprintf(stderr, "epoch %lld/%d  loss %.4f%s  %.0f steps/s  %.1f s\n", (long long)(epoch + 1), progress->epochs,
            loss, progress->judged, (double)steps / (seconds > 0 ? seconds : 1e-9), seconds);
}

void bti_progress_end(bti_progress *progress) {
    if (!progress->quiet && progress->terminal) fprintf(stderr, "\n");
}
