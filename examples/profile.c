// What ran where, and for how long: bt_profile_start and bt_profile_stop. The tables say it in numbers, here those lines that
// tell of products and copies; profile.html shows it over time: open it in a browser.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int give_up(void) { return fprintf(stderr, "%s\n", bt_error_text()), EXIT_FAILURE; }

int main(void) {
    bt_profile *profile = bt_profile_start();
    if (!profile) return give_up();
    BT_SCOPE {
        bt_array *x = bt_uniform(bt_key(0), BT_F32, 256, 256), *y = NULL, *z = NULL;
        BT_ON("/device:GPU:0") y = bt_matmul(x, x);
        BT_ON("/device:GPU:1") z = bt_matmul(bt_to(x, "/device:GPU:1"), bt_to(x, "/device:GPU:1"));
        printf("equal: %s\n", bt_item(bt_all(bt_eq(y, bt_to(z, "/device:GPU:0")))) ? "yes" : "no");
    }
    char *text;
    if (bt_profile_stop(profile, "profile.json", &text) != BT_OK) return give_up();
    if (bt_trace_page("profile.json", "profile.html") != BT_OK) return give_up();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, "bt_matmul") || strstr(line, "->")) puts(line);
    bt_free(text);
    return EXIT_SUCCESS;
}
