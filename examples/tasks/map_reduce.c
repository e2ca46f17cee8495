// How often letters occur in three texts: a call for each text counts, a call for each half of the alphabet adds up what they found.
#include <berth.h>
#include <stdio.h>
#include <string.h>

enum { TEXTS = 3, HALVES = 2, LETTERS = 26 };

static const char *const texts[TEXTS] = {"a berth is where a ship lies", "a task is what a worker runs",
                                         "an actor is a worker that remembers"};

static bt_status count_letters(bt_task *task) {
    const char *text;
    int counts[LETTERS] = {0};
    bt_status status = bt_arguments(task, &text);
    if (status != BT_OK) return status;
    for (; *text; text++)
        if (*text >= 'a' && *text <= 'z') counts[*text - 'a']++;
    bt_bytes result = {counts, sizeof counts};
    return bt_return(task, result);
}
BT_REMOTE(count_letters);

// The most frequent letter of its half: "e 4".
static bt_status most_frequent(bt_task *task) {
    int half, sums[LETTERS] = {0};
    bt_status status = bt_argument(task, 0, &half);
    for (int i = 1; i < bt_argument_count(task) && status == BT_OK; i++) {
        bt_bytes counts;
        status = bt_argument(task, i, &counts);
        for (int c = 0; c < LETTERS && status == BT_OK; c++) sums[c] += ((const int *)counts.data)[c];
    }
    if (status != BT_OK) return status;
    int best = half * LETTERS / HALVES;
    for (int c = best; c < (half + 1) * LETTERS / HALVES; c++)
        if (sums[c] > sums[best]) best = c;
    char text[16];
    snprintf(text, sizeof text, "%c %d", 'a' + best, sums[best]);
    return bt_return(task, text);
}
BT_REMOTE(most_frequent);

int main(void) {
    if (bt_runtime_init(.num_cpus = 3) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *counts[TEXTS], *found[HALVES];
        for (int i = 0; i < TEXTS; i++) counts[i] = bt_remote(count_letters, texts[i]);
        for (int i = 0; i < HALVES; i++) found[i] = bt_remote(most_frequent, i, counts[0], counts[1], counts[2]);
        for (int i = 0; i < HALVES; i++) {
            const char *text;
            if (bt_get(found[i], &text) != BT_OK) return puts(bt_error_text()), 1;
            puts(text);
        }
    }
    return bt_runtime_shutdown();
}
