#include "train/progress.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 24
#define SECONDS_BETWEEN 0.1

void bti_progress_begin(bti_progress *progress, int epochs, int64_t steps_per_epoch, int64_t first, bool quiet) {
    *progress = (bti_progress){.quiet = quiet,
                               .terminal = isatty(STDERR_FILENO),
                               .start = bti_now_seconds(),
                               .epochs = epochs,
                               .steps_per_epoch = steps_per_epoch,
                               .first = first};
}

void bti_progress_step(bti_progress *progress, int64_t step, double loss) {
    if (progress->quiet || !progress->terminal) return;
    double now = bti_now_seconds();
    int64_t all = progress->epochs * progress->steps_per_epoch, done = step + 1;
    if (now - progress->drawn < SECONDS_BETWEEN && done < all) return;
    progress->drawn = now;
    int64_t in_epoch = step % progress->steps_per_epoch + 1;
    int filled = (int)(WIDTH * in_epoch / progress->steps_per_epoch);
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[WIDTH] = '\0';
    double rate = (double)(done - progress->first) / (now - progress->start > 0 ? now - progress->start : 1e-9);
    double left = (double)(all - done) / rate;
    fprintf(stderr, "\repoch %lld/%d [%s] %lld/%lld", (long long)(step / progress->steps_per_epoch + 1),
            progress->epochs, bar, (long long)in_epoch, (long long)progress->steps_per_epoch);
    if (!isnan(loss)) fprintf(stderr, "  loss %.4f", loss);
    fprintf(stderr, "%s", progress->judged);
    fprintf(stderr, "  %.0f steps/s  %d:%02d left\033[K", rate, (int)(left / 60), (int)fmod(left, 60));
    fflush(stderr);
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
