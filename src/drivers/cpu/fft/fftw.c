#include "drivers/cpu/fft/fftw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/flags.h"
#include "base/lock.h"
#include "ir/dtype.h"
#include "ir/kernel.h"

/* --- the library ---------------------------------------------------------------------------------------------------- */

/* FFTW's names (fftw3.h, "Advanced Complex DFTs", "Advanced Real-data DFTs", "New-array Execute Functions"). Complex numbers are two reals. */
enum { SIGN_FORWARD = -1, SIGN_BACKWARD = 1, KEEPS_INPUT = 1 << 4, ANY_ALIGNMENT = 1 << 1, ESTIMATE = 1 << 6 };
enum { ALIGNMENT = 64 }; /* bytes: of memory that plans are made for */

#define ENTRIES_OF(ENTRY, p, real)                                                                                \
    ENTRY(void *, p##_plan_many_dft,                                                                              \
          (int rank, const int *n, int lines, real *in, const int *in_embed, int in_step, int in_line, real *out, \
           const int *out_embed, int out_step, int out_line, int sign, unsigned flags))                           \
    ENTRY(void *, p##_plan_many_dft_r2c,                                                                          \
          (int rank, const int *n, int lines, real *in, const int *in_embed, int in_step, int in_line, real *out, \
           const int *out_embed, int out_step, int out_line, unsigned flags))                                     \
    ENTRY(void *, p##_plan_many_dft_c2r,                                                                          \
          (int rank, const int *n, int lines, real *in, const int *in_embed, int in_step, int in_line, real *out, \
           const int *out_embed, int out_step, int out_line, unsigned flags))                                     \
    ENTRY(void, p##_execute_dft, (void *plan, real *in, real *out))                                               \
    ENTRY(void, p##_execute_dft_r2c, (void *plan, real *in, real *out))                                           \
    ENTRY(void, p##_execute_dft_c2r, (void *plan, real *in, real *out))                                           \
    ENTRY(void, p##_destroy_plan, (void *plan))

#define FIELD(result, name, arguments) result(*name) arguments;
static struct {
    ENTRIES_OF(FIELD, fftwf, float)
    ENTRIES_OF(FIELD, fftw, double)
    const char *versions[2];
} fftw;

#define NAME(result, name, arguments) {#name, (void **)&fftw.name},
static const bti_library_symbol symbols[2][8] = {
    {ENTRIES_OF(NAME, fftwf, float){"fftwf_version", (void **)&fftw.versions[0]}},
    {ENTRIES_OF(NAME, fftw, double){"fftw_version", (void **)&fftw.versions[1]}}};

static bool resolve(int wide, void *handle, bti_library_state *now, bti_str *reason) {
    const char *missing = BTI_LIBRARY_RESOLVE(handle, symbols[wide]);
    if (missing)
        bti_str_addf(reason, "%s: has no %s; ", now->library, missing);
    else
        snprintf(now->version, sizeof now->version, "%s", fftw.versions[wide]);
    return !missing;
}
static bool resolve_narrow(void *handle, bti_library_state *now, bti_str *reason) {
    return resolve(0, handle, now, reason);
}
static bool resolve_wide(void *handle, bti_library_state *now, bti_str *reason) {
    return resolve(1, handle, now, reason);
}

static char paths[2][256]; /* by the flag; written before the library is opened */
static const char *names[2][2] = {{"libfftw3f.so.3", NULL}, {"libfftw3.so.3", NULL}};
static bti_product_library libraries[2] = {
    {names[0], resolve_narrow, "install FFTW (on Debian the package libfftw3-single3)", 0, {0}},
    {names[1], resolve_wide, "install FFTW (on Debian the package libfftw3-double3)", 0, {0}}};

BTI_STATIC_LOCK(
    plans_lock,
    fft_plans) /* of FFTW's planner, of which one thread is allowed, of the plans that are kept, and of `paths` */

static bool open_library(int wide) {
    if (atomic_load_explicit(&libraries[wide].found, memory_order_acquire) == 0) {
        bti_lock_take(&plans_lock);
        char *folder = bti_flag_text(BTI_FLAG_fftw_path);
        if (folder && *folder && names[wide][0] != paths[wide]) {
            snprintf(paths[wide], sizeof paths[wide], "%s/%s", folder, names[wide][0]);
            names[wide][0] = paths[wide];
        }
        bti_free(folder);
        bti_lock_give(&plans_lock);
    }
    return bti_product_library_open(&libraries[wide]);
}

void bti_fft_look(bt_dtype part, bti_library_state *state, bool attempt) {
    int wide = part == BT_F64;
    if (attempt) (void)open_library(wide);
    bti_product_library_state(&libraries[wide], state);
}

/* --- plans ---------------------------------------------------------------------------------------------------------- */

/* A plan of some lines that lie alike: `lines` of them, `step` elements from point to point, `apart` from line to line. */
typedef struct layout {
    int kind, wide, n, lines, step, apart[2]; /* of what is read, of what is written */
    bool in_place, aligned;
} layout;

typedef struct kept_plan {
    layout of;
    void *plan;    /* NULL: the entry is free */
    int users;     /* runs that use it now */
    uint64_t used; /* when it was used last */
} kept_plan;

enum { MOST_PLANS = 64 };
static kept_plan plans[MOST_PLANS]; /* under plans_lock */
static uint64_t plans_clock;

static void *make_plan(const layout *l, void *in, void *out) {
    unsigned flags = ESTIMATE | KEEPS_INPUT | (l->aligned ? 0 : ANY_ALIGNMENT);
    int sign = l->kind == BTI_FFT_FORWARD ? SIGN_FORWARD : SIGN_BACKWARD;
#define MAKE(p)                                                                                                       \
    (l->kind == BTI_FFT_HALF    ? fftw.p##_plan_many_dft_r2c(1, &l->n, l->lines, in, NULL, l->step, l->apart[0], out, \
                                                             NULL, l->step, l->apart[1], flags)                       \
     : l->kind == BTI_FFT_WHOLE ? fftw.p##_plan_many_dft_c2r(1, &l->n, l->lines, in, NULL, l->step, l->apart[0], out, \
                                                             NULL, l->step, l->apart[1], flags)                       \
                                : fftw.p##_plan_many_dft(1, &l->n, l->lines, in, NULL, l->step, l->apart[0], out,     \
                                                         NULL, l->step, l->apart[1], sign, flags))
    return l->wide ? MAKE(fftw) : MAKE(fftwf);
}

static void end_plan(kept_plan *p) {
    p->of.wide ? fftw.fftw_destroy_plan(p->plan) : fftw.fftwf_destroy_plan(p->plan);
    p->plan = NULL;
}

static void run_plan(const kept_plan *p, void *in, void *out) {
#define RUN(p, which) fftw.p##_execute_dft##which(plan, in, out)
    void *plan = p->plan;
    switch (p->of.kind) {
    case BTI_FFT_HALF: p->of.wide ? RUN(fftw, _r2c) : RUN(fftwf, _r2c); break;
    case BTI_FFT_WHOLE: p->of.wide ? RUN(fftw, _c2r) : RUN(fftwf, _c2r); break;
    default: p->of.wide ? RUN(fftw, ) : RUN(fftwf, ); break;
    }
}

static bool same_layout(const layout *a, const layout *b) {
    return a->kind == b->kind && a->wide == b->wide && a->n == b->n && a->lines == b->lines && a->step == b->step &&
           a->apart[0] == b->apart[0] && a->apart[1] == b->apart[1] && a->in_place == b->in_place &&
           a->aligned == b->aligned;
}

/* The plan's own entry, else the one that was not used for the longest time; NULL: all are in use. */
static kept_plan *entry_of(const layout *l) {
    kept_plan *oldest = NULL;
    for (kept_plan *p = plans; p < plans + MOST_PLANS; p++) {
        if (p->plan && same_layout(&p->of, l)) return p;
        if (!p->users && (!oldest || !p->plan || (oldest->plan && p->used < oldest->used))) oldest = p;
    }
    return oldest;
}

/* With one user more, until give_plan; NULL: there is none. Plans are made without measuring: the same for every run. */
static kept_plan *take_plan(const layout *l, void *in, void *out) {
    bti_lock_take(&plans_lock);
    kept_plan *p = entry_of(l);
    if (p && !(p->plan && same_layout(&p->of, l))) {
        if (p->plan) end_plan(p);
        p->of = *l;
        p->plan = make_plan(l, in, out);
    }
    if (p && p->plan)
        p->users++, p->used = ++plans_clock;
    else
        p = NULL;
    bti_lock_give(&plans_lock);
    return p;
}

static void give_plan(kept_plan *p) {
    if (!p) return;
    bti_lock_take(&plans_lock);
    p->users--;
    bti_lock_give(&plans_lock);
}

int bti_fft_plans(void) {
    int count = 0;
    bti_lock_take(&plans_lock);
    for (int i = 0; i < MOST_PLANS; i++) count += plans[i].plan != NULL;
    bti_lock_give(&plans_lock);
    return count;
}

void bti_fft_use(const char *const *given) {
    bti_lock_take(&plans_lock);
    for (int i = 0; i < MOST_PLANS; i++)
        if (plans[i].plan) end_plan(&plans[i]);
    bti_lock_give(&plans_lock);
    for (int wide = 0; wide < 2; wide++) bti_product_library_reset(&libraries[wide], given ? given : names[wide]);
}

/* --- pieces --------------------------------------------------------------------------------------------------------- */

enum {
    PIECE_POINTS = 1 << 15, /* of a piece, about: what the second cache of a core holds */
    COLUMNS = 32            /* of a piece of [n, inner]: whole lines of the cache */
};

/* A run in pieces: of `each` lines that follow one another, or of columns of one [n, inner]. The last piece is smaller. */
typedef struct run {
    const bti_fft_lines *lines;
    const char *from;
    char *to;
    int64_t points[2], size[2]; /* of a line, and bytes of a point, read and written */
    int64_t lines_all, each, pieces_across;
    kept_plan *plan[2]; /* of a whole piece, of the last one */
    atomic_int status;
} run;

static void run_pieces(void *context, int64_t begin, int64_t end) {
    static bti_library_calls calls;
    run *r = context;
    int64_t inner = r->lines->inner;
    bti_guest guest;
    if (!bti_library_visit(&calls, &guest)) {
        atomic_store(&r->status, BT_CANCELLED);
        return;
    }
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t row = piece / r->pieces_across, first = piece % r->pieces_across * r->each;
        int64_t count = inner == 1 ? r->lines_all : inner;
        bool last = first + r->each > count;
        int64_t at[2];
        for (int i = 0; i < 2; i++)
            at[i] = (inner == 1 ? first * r->points[i] : row * r->points[i] * inner + first) * r->size[i];
        run_plan(r->plan[last], (char *)(uintptr_t)r->from + at[0], r->to + at[1]);
    }
    bti_library_part(&guest);
}

/* Whether every piece of aligned memory begins as plans demand. */
static bool are_aligned(const run *r) {
    for (int i = 0; i < 2; i++) {
        int64_t inner = r->lines->inner, row = r->points[i] * inner * r->size[i];
        int64_t piece = r->each * (inner == 1 ? r->points[i] : 1) * r->size[i];
        if ((r->lines->outer > 1 && inner > 1 && row % ALIGNMENT) || piece % ALIGNMENT) return false;
    }
    return true;
}

static void cut(run *r) {
    int64_t inner = r->lines->inner, longest = r->points[0] > r->points[1] ? r->points[0] : r->points[1];
    if (inner > 1) {
        r->each = COLUMNS;
        r->pieces_across = bti_pieces_of(inner, r->each);
        return;
    }
    r->each = PIECE_POINTS / longest / 8 * 8;
    if (r->each < 8) r->each = r->lines_all < 8 || longest >= PIECE_POINTS ? 1 : 8;
    if (r->each > r->lines_all) r->each = r->lines_all;
    r->pieces_across = bti_pieces_of(r->lines_all, r->each);
}

static bt_status take_plans(run *r) {
    const bti_fft_lines *l = r->lines;
    int64_t across = l->inner == 1 ? r->lines_all : l->inner, last = across % r->each;
    layout of = {.kind = l->kind,
                 .wide = l->part == BT_F64,
                 .n = (int)l->n,
                 .step = (int)l->inner,
                 .apart = {l->inner == 1 ? (int)r->points[0] : 1, l->inner == 1 ? (int)r->points[1] : 1},
                 .in_place = r->from == r->to,
                 .aligned = are_aligned(r)};
    char *in = (char *)(uintptr_t)r->from;
    if (across >= r->each) {
        of.lines = (int)r->each;
        if (!(r->plan[0] = take_plan(&of, in, r->to))) return bti_no_memory();
    }
    if (!last) return BT_OK;
    of.lines = (int)last;
    return (r->plan[1] = take_plan(&of, in, r->to)) ? BT_OK : bti_no_memory();
}

static bt_status run_aligned(run *r) {
    bti_guest guest;
    static bti_library_calls calls;
    cut(r);
    if (!bti_library_visit(&calls, &guest)) return bti_fail(BT_CANCELLED, "the process is ending");
    bt_status status = take_plans(r);
    bti_library_part(&guest);
    int64_t pieces = r->pieces_across * (r->lines->inner == 1 ? 1 : r->lines->outer);
    int64_t points = r->lines->n * (r->lines->inner == 1 ? r->each : COLUMNS);
    if (status == BT_OK) bti_parallel(pieces, points < PIECE_POINTS ? PIECE_POINTS / points : 1, run_pieces, r);
    if (status == BT_OK && atomic_load(&r->status) != BT_OK) status = bti_fail(BT_CANCELLED, "the process is ending");
    for (int i = 0; i < 2; i++) give_plan(r->plan[i]);
    return status;
}

/* Arrays that begin elsewhere (views of lent memory) are computed in copies, so that the bits are the same. */
static bt_status run_anywhere(run *r) {
    size_t bytes[2];
    char *copies[2] = {NULL, NULL}, *to = r->to;
    bt_status status = BT_OK;
    for (int i = 0; i < 2 && status == BT_OK; i++) {
        const char *at = i ? r->to : r->from;
        bytes[i] = (size_t)(r->lines_all * r->points[i] * r->size[i]);
        if ((uintptr_t)at % ALIGNMENT && !(copies[i] = bti_alloc_aligned(ALIGNMENT, bytes[i])))
            status = bti_no_memory();
    }
    if (status == BT_OK && copies[0]) r->from = memcpy(copies[0], r->from, bytes[0]);
    if (status == BT_OK && copies[1]) r->to = copies[1];
    if (status == BT_OK) status = run_aligned(r);
    if (status == BT_OK && copies[1]) memcpy(to, copies[1], bytes[1]);
    bti_free(copies[0]);
    bti_free(copies[1]);
    return status;
}

static bt_status run_lines(const bti_fft_lines *lines, const void *from, void *to) {
    int64_t size = (int64_t)bt_dtype_size(lines->part), half = lines->n / 2 + 1;
    bool narrows = lines->kind == BTI_FFT_HALF, widens = lines->kind == BTI_FFT_WHOLE;
    run r = {.lines = lines,
             .from = from,
             .to = to,
             .points = {widens ? half : lines->n, narrows ? half : lines->n},
             .size = {narrows ? size : 2 * size, widens ? size : 2 * size},
             .lines_all = lines->outer * lines->inner};
    return run_anywhere(&r);
}

/* --- long lines ----------------------------------------------------------------------------------------------------- */

/* A line of rows x columns points, so long that it would be one core's and leave its cache: Bailey, "FFTs in external or hierarchical memory" (1990). Columns are transformed;
 * point [k, j] is multiplied by e**(+-2 pi i j k / n); rows are transformed, and stored as columns. Either goes in pieces of PIECE_LINES lines, which lie one after the
 * other while they are transformed, with SPACE points between them: strides of powers of two would share few places of a cache. */
enum { LONG_LINE = 1 << 16, PIECE_LINES = 8, SPACE = 16, LEAST_SIDE = 32, STEPS = 64, AHEAD = 16 };

typedef struct long_line {
    int64_t rows, columns;
    bool wide, of_columns; /* the pass */
    double turn;           /* the angle between neighbours, +-2 pi / n */
    const char *from;
    char *middle, *to;
    kept_plan *plan; /* of PIECE_LINES lines: in place, or from the middle */
    atomic_int status;
} long_line;

static int64_t length_of(const long_line *line) { return line->of_columns ? line->rows : line->columns; }
static int64_t lines_of(const long_line *line) { return line->of_columns ? line->columns : line->rows; }

/* Both are multiples of PIECE_LINES, and near each other; false: the number has no such factors. */
static bool find_sides(const bti_fft_lines *l, long_line *line) {
    if ((l->kind != BTI_FFT_FORWARD && l->kind != BTI_FFT_BACKWARD) || l->inner != 1 || l->n < LONG_LINE) return false;
    int64_t near = (int64_t)sqrt((double)l->n);
    for (int64_t rows = near / PIECE_LINES * PIECE_LINES; rows >= LEAST_SIDE; rows -= PIECE_LINES) {
        if (l->n % rows || l->n / rows % PIECE_LINES || l->n / rows > STEPS * rows) continue;
        line->rows = rows, line->columns = l->n / rows;
        return true;
    }
    return false;
}

/* Powers 0 to STEPS - 1 of e**(i angle), by products of few factors. */
static void powers_of(double angle, double (*powers)[2]) {
    powers[0][0] = 1, powers[0][1] = 0;
    powers[1][0] = cos(angle), powers[1][1] = sin(angle);
    for (int p = 2; p < STEPS; p++) {
        const double *half = powers[p / 2], *rest = powers[p - p / 2];
        powers[p][0] = half[0] * rest[0] - half[1] * rest[1];
        powers[p][1] = half[0] * rest[1] + half[1] * rest[0];
    }
}

/* Rows lie pages apart, so the hardware does not see what comes next. */
static inline void fetch(const void *row, size_t bytes, bool to_write) {
    for (size_t at = 0; at < bytes; at += 64)
        if (to_write)
            __builtin_prefetch((const char *)row + at, 1);
        else
            __builtin_prefetch((const char *)row + at, 0);
}

/* turn: line number `number` of `length` points. gather: columns as lines. store: lines as columns of [length, across]. */
#define LINES_OF(type)                                                                                               \
    static void turn_##type(const long_line *line, int64_t number, int64_t length, type *at) {                       \
        double powers[STEPS][2];                                                                                     \
        powers_of(line->turn *(double)number, powers);                                                               \
        for (int64_t first = 0; first < length; first += STEPS) {                                                    \
            int count = length - first < STEPS ? (int)(length - first) : STEPS;                                      \
            double angle = line->turn * (double)(number * first), re = cos(angle), im = sin(angle);                  \
            for (int j = 0; j < count; j++) {                                                                        \
                double x = re * powers[j][0] - im * powers[j][1], y = re * powers[j][1] + im * powers[j][0];         \
                double a = (double)at[2 * (first + j)], b = (double)at[2 * (first + j) + 1];                         \
                at[2 * (first + j)] = (type)(a * x - b * y);                                                         \
                at[2 * (first + j) + 1] = (type)(a * y + b * x);                                                     \
            }                                                                                                        \
        }                                                                                                            \
    }                                                                                                                \
    static void gather_##type(const type *from, int64_t across, int64_t length, type *to) {                          \
        for (int64_t k = 0; k < length; k++) {                                                                       \
            fetch(from + 2 * (k + AHEAD < length ? k + AHEAD : k) * across, 2 * PIECE_LINES * sizeof *from, false);  \
            for (int i = 0; i < PIECE_LINES; i++)                                                                    \
                memcpy(to + 2 * (i * (length + SPACE) + k), from + 2 * (k * across + i), 2 * sizeof *to);            \
        }                                                                                                            \
    }                                                                                                                \
    static void store_##type(const type *from, int64_t across, int64_t length, type *to) {                           \
        for (int64_t k = 0; k < length; k++) {                                                                       \
            fetch(to + 2 * (k + AHEAD < length ? k + AHEAD : k) * across, 2 * PIECE_LINES * sizeof *to, true);       \
            for (int i = 0; i < PIECE_LINES; i++)                                                                    \
                memcpy(to + 2 * (k * across + i), from + 2 * (i * (length + SPACE) + k), 2 * sizeof *to);            \
        }                                                                                                            \
    }                                                                                                                \
    /* `room`: where the lines of the piece are transformed. */                                                      \
    static void run_piece_##type(const long_line *line, int64_t first, type *room) {                                 \
        int64_t length = length_of(line), across = lines_of(line);                                                   \
        type *middle = (type *)(void *)line->middle;                                                                 \
        if (!line->of_columns) {                                                                                     \
            run_plan(line->plan, middle + 2 * first * length, room);                                                 \
            store_##type(room, across, length, (type *)(void *)line->to + 2 * first);                                \
            return;                                                                                                  \
        }                                                                                                            \
        gather_##type((const type *)(const void *)line->from + 2 * first, across, length, room);                     \
        run_plan(line->plan, room, room);                                                                            \
        for (int i = 0; i < PIECE_LINES; i++) turn_##type(line, first + i, length, room + 2 * i * (length + SPACE)); \
        store_##type(room, across, length, middle + 2 * first);                                                      \
    }
LINES_OF(float)
LINES_OF(double)

static size_t point_bytes(const long_line *line) { return 2 * (line->wide ? sizeof(double) : sizeof(float)); }

static void run_lines_of_pieces(void *context, int64_t begin, int64_t end) {
    static bti_library_calls calls;
    long_line *line = context;
    bti_guest guest;
    void *room = bti_alloc_aligned(ALIGNMENT, (size_t)(PIECE_LINES * (length_of(line) + SPACE)) * point_bytes(line));
    if (!room || !bti_library_visit(&calls, &guest)) {
        atomic_store(&line->status, room ? BT_CANCELLED : BT_RESOURCE_EXHAUSTED);
        bti_free(room);
        return;
    }
    for (int64_t piece = begin; piece < end; piece++)
        line->wide ? run_piece_double(line, piece * PIECE_LINES, room)
                   : run_piece_float(line, piece * PIECE_LINES, room);
    bti_library_part(&guest);
    bti_free(room);
}

/* Its columns, or its rows. */
static bt_status run_pass(const bti_fft_lines *l, long_line *line, bool of_columns) {
    static bti_library_calls calls;
    line->of_columns = of_columns;
    int length = (int)length_of(line);
    const layout of = {.kind = l->kind,
                       .wide = line->wide,
                       .n = length,
                       .lines = PIECE_LINES,
                       .step = 1,
                       .apart = {of_columns ? length + SPACE : length, length + SPACE},
                       .in_place = of_columns,
                       .aligned = true};
    char *elsewhere = line->middle + ALIGNMENT; /* planning without measuring touches nothing */
    bti_guest guest;
    if (!bti_library_visit(&calls, &guest)) return bti_fail(BT_CANCELLED, "the process is ending");
    line->plan = take_plan(&of, line->middle, of_columns ? line->middle : elsewhere);
    bti_library_part(&guest);
    if (!line->plan) return bti_no_memory();
    bti_parallel(lines_of(line) / PIECE_LINES, 1, run_lines_of_pieces, line);
    give_plan(line->plan);
    bt_status status = (bt_status)atomic_load(&line->status);
    if (status == BT_RESOURCE_EXHAUSTED) return bti_no_memory();
    return status == BT_OK ? BT_OK : bti_fail(BT_CANCELLED, "the process is ending");
}

static bt_status run_long_line(const bti_fft_lines *l, long_line *line, const char *from, char *to) {
    line->from = from, line->to = to;
    BTI_TRY(run_pass(l, line, true));
    return run_pass(l, line, false);
}

static bt_status run_long_lines(const bti_fft_lines *l, long_line *line, const char *from, char *to) {
    line->wide = l->part == BT_F64;
    line->turn = (l->kind == BTI_FFT_FORWARD ? -2 : 2) * M_PI / (double)l->n;
    size_t bytes = (size_t)l->n * point_bytes(line);
    if (!(line->middle = bti_alloc_aligned(ALIGNMENT, bytes))) return bti_no_memory();
    bt_status status = BT_OK;
    for (int64_t i = 0; i < l->outer && status == BT_OK; i++)
        status = run_long_line(l, line, from + (size_t)i * bytes, to + (size_t)i * bytes);
    bti_free(line->middle);
    return status;
}

bt_status bti_fft_run(const bti_fft_lines *lines, const void *from, void *to) {
    long_line line = {.rows = 0};
    if (lines->outer * lines->inner == 0 || lines->n == 0) return BT_OK;
    if (lines->n > INT32_MAX || lines->inner > INT32_MAX)
        return bti_fail(BT_INVALID_ARGUMENT, "lines of %lld points, %lld elements apart: FFTW counts them in 32 bits",
                        (long long)lines->n, (long long)lines->inner);
    if (!open_library(lines->part == BT_F64)) {
        bti_library_state state;
        bti_product_library_state(&libraries[lines->part == BT_F64], &state);
        return bti_fail(BT_UNIMPLEMENTED, "needs FFTW: %s", state.reason);
    }
    if (find_sides(lines, &line)) return run_long_lines(lines, &line, from, to);
    return run_lines(lines, from, to);
}
