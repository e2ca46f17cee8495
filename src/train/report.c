#include "train/report.h"

#include <berth/device.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/quote.h"
#include "file/io.h"

enum { WIDTH = 560, HEIGHT = 240, LEFT = 56, RIGHT = 12, TOP = 12, BOTTOM = 28, GRID = 4, DEVICES = 64 };

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
    "content=\"width=device-width\">\n"
    "<title>berth: a training run</title>\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1180px;padding:0 "
    "1em;color:#1c2733;background:#fff}\n"
    "h1{font-size:1.5em}h2{font-size:1.1em;margin:2em 0 .5em}pre{overflow:auto;background:#f4f6f8;padding:1em}\n"
    "table{border-collapse:collapse}td,th{padding:.15em .7em;text-align:right;border-bottom:1px solid #e3e8ee}\n"
    ".charts{display:flex;flex-wrap:wrap;gap:1em}.best{font-weight:bold}.scroll{overflow:auto;max-height:24em}\n"
    "svg{background:#fafbfc;border:1px solid #e3e8ee}text{font:12px system-ui,sans-serif;fill:#5a6877}\n"
    "@media(prefers-color-scheme:dark){body{background:#14181d;color:#d6dde5}pre,svg{background:#1b2128}"
    "td,th,svg{border-color:#333c46}}\n"
    "</style></head><body>\n";

static void add_escaped(bti_str *text, const char *s) {
    for (; *s; s++) switch (*s) {
        case '<': bti_str_add(text, "&lt;"); break;
        case '>': bti_str_add(text, "&gt;"); break;
        case '&': bti_str_add(text, "&amp;"); break;
        case '"': bti_str_add(text, "&quot;"); break;
        default: bti_str_add_bytes(text, s, 1);
        }
}

static void add_number(bti_str *text, double x) {
    if (isnan(x))
        bti_str_add(text, "-");
    else
        bti_str_addf(text, "%.4g", x);
}

/* --- curves ------------------------------------------------------------------------------------------------------------- */

typedef struct chart {
    const bti_history *history;
    int columns[2], count; /* one line each */
    double low, high;
} chart;

static void find_range(chart *c) {
    c->low = INFINITY;
    c->high = -INFINITY;
    for (int l = 0; l < c->count; l++)
        for (int64_t r = 0; r < bti_history_rows(c->history); r++) {
            double y = bti_history_at(c->history, r, c->columns[l]);
            if (!isfinite(y)) continue;
            c->low = fmin(c->low, y);
            c->high = fmax(c->high, y);
        }
    if (c->low == c->high) c->low -= 0.5, c->high += 0.5;
}

static double place_x(const chart *c, int64_t row) {
    int64_t rows = bti_history_rows(c->history);
    double part = rows > 1 ? (double)row / (double)(rows - 1) : 0.5;
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double place_y(const chart *c, double y) {
    return TOP + (c->high - y) / (c->high - c->low) * (HEIGHT - TOP - BOTTOM);
}

static void add_grid(bti_str *text, const chart *c) {
    for (int g = 0; g <= GRID; g++) {
        double y = c->low + (c->high - c->low) * g / GRID;
        bti_str_addf(text,
                     "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#8895a3\" "
                     "stroke-opacity=\".3\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>",
                     LEFT, WIDTH - RIGHT, place_y(c, y), place_y(c, y), LEFT - 6, place_y(c, y) + 4, y);
    }
    int64_t rows = bti_history_rows(c->history);
    bti_str_addf(text,
                 "<text x=\"%d\" y=\"%d\">epoch %.0f</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f</text>",
                 LEFT, HEIGHT - 8, bti_history_at(c->history, 0, BTI_EPOCH) + 1, WIDTH - RIGHT, HEIGHT - 8,
                 bti_history_at(c->history, rows - 1, BTI_EPOCH) + 1);
}

static void add_line(bti_str *text, const chart *c, int line) {
    static const char *const colours[] = {"#2f6fde", "#d9622b"};
    bool begun = false;
    for (int64_t r = 0; r < bti_history_rows(c->history); r++) {
        double y = bti_history_at(c->history, r, c->columns[line]);
        if (!isfinite(y)) continue;
        if (!begun)
            bti_str_addf(text, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", colours[line]);
        bti_str_addf(text, " %.1f,%.1f", place_x(c, r), place_y(c, y));
        begun = true;
    }
    if (begun) bti_str_add(text, "\"/>");
}

static void add_chart(bti_str *text, chart c) {
    find_range(&c);
    if (!isfinite(c.low)) return;
    bti_str_add(text, "<figure><figcaption>");
    for (int l = 0; l < c.count; l++) {
        bti_str_addf(text, "%s<span style=\"color:%s\">", l ? " and " : "", l ? "#d9622b" : "#2f6fde");
        add_escaped(text, bti_history_name(c.history, c.columns[l]));
        bti_str_add(text, "</span>");
    }
    bti_str_addf(text, "</figcaption><svg width=\"%d\" height=\"%d\">", WIDTH, HEIGHT);
    add_grid(text, &c);
    for (int l = 0; l < c.count; l++) add_line(text, &c, l);
    bti_str_add(text, "</svg></figure>\n");
}

static void add_charts(bti_str *text, const bti_history *h) {
    bti_str_add(text, "<div class=\"charts\">\n");
    add_chart(text, (chart){.history = h, .columns = {BTI_LOSS, BTI_VALIDATION_LOSS}, .count = 2});
    for (int m = 0; m < h->count; m++) add_chart(text, (chart){.history = h, .columns = {BTI_COLUMNS + m}, .count = 1});
    bti_str_add(text, "</div>\n");
}

/* --- tables ------------------------------------------------------------------------------------------------------------- */

static void add_epochs(bti_str *text, const bti_report *r) {
    const bti_history *h = r->history;
    bti_str_add(text, "<h2>Epochs</h2><div class=\"scroll\"><table><tr>");
    for (int c = 0; c < bti_history_width(h); c++) {
        bti_str_add(text, "<th>");
        add_escaped(text, bti_history_name(h, c));
        bti_str_add(text, "</th>");
    }
    bti_str_add(text, "</tr>\n");
    for (int64_t row = 0; row < bti_history_rows(h); row++) {
        bti_str_add(text, row == r->best_epoch ? "<tr class=\"best\">" : "<tr>");
        for (int c = 0; c < bti_history_width(h); c++) {
            double cell = bti_history_at(h, row, c);
            bti_str_add(text, "<td>");
            if (c <= BTI_STEPS)
                bti_str_addf(text, "%.0f", c == BTI_EPOCH ? cell + 1 : cell);
            else
                add_number(text, cell);
            bti_str_add(text, "</td>");
        }
        bti_str_add(text, "</tr>\n");
    }
    bti_str_add(text, "</table></div>\n");
}

static void add_confusion(bti_str *text, const bti_report *r) {
    if (!r->confusion) return;
    bti_str_add(text, "<h2>Confusion matrix of the validation rows</h2><p>Row: the class that a row is of; column: the "
                      "class that was guessed.</p>"
                      "<div class=\"scroll\"><table><tr><th></th>");
    for (int64_t c = 0; c < r->classes; c++) bti_str_addf(text, "<th>%lld</th>", (long long)c);
    bti_str_add(text, "</tr>\n");
    for (int64_t i = 0; i < r->classes; i++) {
        double all = 0;
        for (int64_t c = 0; c < r->classes; c++) all += r->confusion[i * r->classes + c];
        bti_str_addf(text, "<tr><th>%lld</th>", (long long)i);
        for (int64_t c = 0; c < r->classes; c++) {
            double count = r->confusion[i * r->classes + c];
            bti_str_addf(text, "<td style=\"background:rgba(%s,%.2f)\">%.0f</td>", c == i ? "47,111,222" : "217,98,43",
                         all > 0 ? 0.8 * count / all : 0, count);
        }
        bti_str_add(text, "</tr>\n");
    }
    bti_str_add(text, "</table></div>\n");
}

static void add_model(bti_str *text, const bti_report *r) {
    char *summary = bt_summary(r->model);
    bti_str_addf(text, "<h2>Model</h2><p>%lld parameters; optimiser %s, rate %.4g; %lld rows in an epoch.</p><pre>",
                 (long long)bt_parameter_count(r->model), bt_optimizer_name(r->optimizer),
                 bt_optimizer_rate(r->optimizer), (long long)r->rows);
    add_escaped(text, summary ? summary : "");
    bti_str_add(text, "</pre>\n");
    bt_free(summary);
}

static void add_story(bti_str *text, const bti_report *r) {
    if (!*r->story) return;
    bti_str_add(text, "<h2>Devices that failed</h2><pre>");
    add_escaped(text, r->story);
    bti_str_add(text, "</pre>\n");
}

static void add_phases(bti_str *text, const bti_report *r) {
    static const char *const names[BTI_PHASES] = {"getting batches", "steps", "validation", "checkpoints"};
    double all = 0;
    for (int p = 0; p < BTI_PHASES; p++) all += r->seconds[p];
    bti_str_add(text, "<h2>Time</h2><table><tr><th>phase</th><th>seconds</th><th>part</th></tr>\n");
    for (int p = 0; p < BTI_PHASES; p++)
        bti_str_addf(text, "<tr><td>%s</td><td>%.3f</td><td>%.1f %%</td></tr>\n", names[p], r->seconds[p],
                     all > 0 ? 100 * r->seconds[p] / all : 0);
    bti_str_add(text, "</table>\n");
}

static void add_memory(bti_str *text) {
    static const bt_kind kinds[] = {BT_CPU, BT_GPU, BT_TPU, BT_ACC};
    bti_str_add(text, "<h2>Memory</h2><table><tr><th>device</th><th>used now, MB</th><th>peak, MB</th></tr>\n");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bt_device *devices[DEVICES];
        int count = bt_device_list(kinds[k], devices, DEVICES);
        for (int d = 0; d < count && d < DEVICES; d++) {
            bt_memory_info memory = {.size = sizeof memory};
            if (bt_memory(devices[d], &memory) != BT_OK || !memory.peak) continue;
            bti_str_addf(text, "<tr><td>%s (", bt_device_name(devices[d]));
            add_escaped(text, bt_device_description(devices[d]));
            bti_str_addf(text, ")</td><td>%.1f</td><td>%.1f</td></tr>\n", (double)memory.used / 1e6,
                         (double)memory.peak / 1e6);
        }
    }
    bti_str_add(text, "</table>\n");
}

static void add_joules(bti_str *text, const bti_meters *m, const char *what, double joules) {
    double seconds = m->read_at - m->began;
    bti_str_addf(text, "<tr><td>%s</td><td>%.4g</td><td>%.4g</td><td>%.4g</td><td>%.4g</td></tr>\n", what, joules,
                 m->steps ? joules / (double)m->steps : 0, m->rows > 0 ? joules / m->rows : 0,
                 seconds > 0 ? joules / seconds : 0);
}

static void add_energy(bti_str *text, const bti_meters *m) {
    int known = 0;
    bti_str_add(text, "<h2>Energy</h2><p>Of whole devices since the run was begun or resumed, with what other programs "
                      "and idling used.</p><table><tr><th>device</th><th>joules</th><th>for a step</th>"
                      "<th>for a row</th><th>watts</th></tr>\n");
    for (int i = 0; i < m->count; i++) {
        const bti_meter *meter = &m->of[i];
        if (*meter->why) {
            bti_str_addf(text, "<tr><td>%s</td><td colspan=\"4\">unknown: ", bt_device_name(meter->device));
            add_escaped(text, meter->why);
            bti_str_add(text, "</td></tr>\n");
        } else {
            add_joules(text, m, bt_device_name(meter->device), meter->used);
            known++;
        }
    }
    if (known > 1) add_joules(text, m, "all of these", bti_meters_joules(m));
    bti_str_add(text, "</table>\n");
}

/* --- files -------------------------------------------------------------------------------------------------------------- */

static bt_status write_text(const char *path, bti_str *text) {
    if (text->failed) return bti_no_memory();
    bti_writer writer = {.fd = -1};
    bt_status status = bti_writer_open(&writer, path);
    if (status == BT_OK) status = bti_writer_add(&writer, text->text, text->length);
    if (status == BT_OK) status = bti_writer_commit(&writer);
    bti_writer_discard(&writer);
    return status;
}

static void write_page(bti_str *text, const bti_report *r) {
    double seconds = 0;
    int64_t epochs = bti_history_rows(r->history);
    for (int p = 0; p < BTI_PHASES; p++) seconds += r->seconds[p];
    bti_str_add(text, head);
    bti_str_addf(text, "<h1>A training run</h1><p>%lld epoch%s, %lld steps, %.1f s.</p>\n", (long long)epochs,
                 epochs == 1 ? "" : "s", (long long)r->steps, seconds);
    add_story(text, r);
    if (epochs) add_charts(text, r->history);
    add_epochs(text, r);
    add_confusion(text, r);
    add_model(text, r);
    add_phases(text, r);
    add_memory(text);
    add_energy(text, r->meters);
    bti_str_add(text, "</body></html>\n");
}

/* Where the numbers stand: "run.csv" of "run.html". */
static void add_beside(bti_str *text, const char *path) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);
    bti_str_add_bytes(text, path, stem);
    bti_str_add(text, ".csv");
}

bt_status bti_report_check(const char *path) {
    bti_str beside = {0};
    struct stat is;
    bti_writer writer = {.fd = -1};
    add_beside(&beside, path);
    bool same = !strcmp(bti_str_text(&beside), path), folder = stat(path, &is) == 0 && S_ISDIR(is.st_mode);
    bt_status status = beside.failed ? bti_no_memory() : BT_OK;
    bti_str_free(&beside);
    if (status != BT_OK) return status;
    if (same || folder || !*path)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "the report is a page, with a .csv beside it, and \"%s\" is %s; .report = \"run.html\"",
                        bti_quote(path).text,
                        same && *path ? "that name"
                        : folder      ? "a folder"
                                      : "no name");
    status = bti_writer_open(&writer, path);
    bti_writer_discard(&writer);
    return status;
}

bt_status bti_report_write(const bti_report *report, const char *path) {
    bti_str page = {0}, numbers = {0}, beside = {0};
    add_beside(&beside, path);
    write_page(&page, report);
    bti_history_csv(report->history, &numbers);
    bt_status status = beside.failed ? bti_no_memory() : write_text(bti_str_text(&beside), &numbers);
    if (status == BT_OK) status = write_text(path, &page);
    bti_str_free(&page);
    bti_str_free(&numbers);
    bti_str_free(&beside);
    return status;
}
