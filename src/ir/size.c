/* Symbolic sizes. An expression is a polynomial with whole coefficients in *atoms*: symbols, and operations that
 * are kept as they are because they do not expand (a quotient, or an expression that grew past the limits below). Polynomials are kept in
 * one order and looked up before they are added, so that equal ones have one name. */
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "ir/size.h"

enum { MAX_DEGREE = 15, MAX_TERMS = 64 };

typedef struct term {
    int64_t coefficient;
    int32_t degree;
    int32_t atom[MAX_DEGREE]; /* ascending; the rest 0 */
} term;
_Static_assert(sizeof(term) == 8 + 4 * (1 + MAX_DEGREE), "terms are compared as bytes: no padding");

typedef struct polynomial {
    int count;
    term terms[MAX_TERMS]; /* descending by compare_terms; no coefficient is 0 */
} polynomial;

typedef enum atom_kind { SYMBOL, ADD, MULTIPLY, CEIL_DIVIDE, EXACT_DIVIDE, BROADCAST, REPEATS } atom_kind;
typedef struct atom {
    atom_kind kind;
    int64_t a, b; /* sizes; of a symbol, a: its number, from 1 */
    int64_t size; /* that is this atom alone */
    int depth;    /* of atoms inside of atoms: walks over them recurse */
} atom;
enum { MAX_DEPTH = 400 };

typedef struct expression {
    uint64_t hash;
    int count;
    term terms[];
} expression;

/* Size BASE + i names expression i. Expressions are never removed. INT64_MIN is none: programs pass it. */
#define BASE (INT64_MIN + 1)
/* Protects the tables below. No other lock is taken under it. */
BTI_STATIC_LOCK(table_lock, sizes)
static expression **expressions;
static int64_t expression_count, expression_room;
static int32_t *slots; /* hash table: number of an expression + 1, 0 is free */
static int64_t slot_count;
static atom *atoms;
static int64_t atom_count, atom_room;
typedef struct symbol {
    int64_t size;
    int64_t holders; /* inputs of functions that have it; at 0 the symbol is reused */
} symbol;
static symbol *symbols;
static int64_t symbol_count, symbol_room;
static int32_t *free_symbols; /* room for all */
static int64_t free_count, free_room;

static bool is_in_table(int64_t size) {
    return bti_size_is_symbolic(size) && size >= BASE && size - BASE < expression_count;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static bool grow_table(void **memory, int64_t *room, int64_t count, size_t size) {
    if (count < *room) return true;
    int64_t wanted = *room ? *room * 2 : 64;
    void *grown = bti_realloc(*memory, (size_t)wanted * size);
    if (!grown) return false;
    *memory = grown;
    *room = wanted;
    return true;
}

static bool grow_slots(void) {
    if (expression_count * 2 < slot_count) return true;
    int64_t wanted = slot_count ? slot_count * 2 : 256;
    int32_t *grown = bti_calloc((size_t)wanted, sizeof *grown);
    if (!grown) return false;
    for (int64_t i = 0; i < expression_count; i++) {
        uint64_t slot = expressions[i]->hash & (uint64_t)(wanted - 1);
        while (grown[slot]) slot = (slot + 1) & (uint64_t)(wanted - 1);
        grown[slot] = (int32_t)i + 1;
    }
    bti_free(slots);
    slots = grown;
    slot_count = wanted;
    return true;
}

static uint64_t hash_polynomial(const polynomial *p) { /* FNV-1a */
    const unsigned char *bytes = (const unsigned char *)p->terms;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < (size_t)p->count * sizeof(term); i++) hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

/* The size that a polynomial is: a number, or its name in the table; 0 when memory is short. */
static int64_t intern_polynomial(const polynomial *p) {
    if (p->count == 0) return 0;
    if (p->count == 1 && p->terms[0].degree == 0) return p->terms[0].coefficient;
    if (!grow_slots() || !grow_table((void **)&expressions, &expression_room, expression_count, sizeof *expressions))
        return 0;
    uint64_t hash = hash_polynomial(p), mask = (uint64_t)(slot_count - 1), slot = hash & mask;
    size_t bytes = (size_t)p->count * sizeof(term);
    for (; slots[slot]; slot = (slot + 1) & mask) {
        const expression *e = expressions[slots[slot] - 1];
        if (e->hash == hash && e->count == p->count && !memcmp(e->terms, p->terms, bytes))
            return BASE + slots[slot] - 1;
    }
    expression *e = bti_alloc(sizeof *e + bytes);
    if (!e) return 0;
    e->hash = hash;
    e->count = p->count;
    memcpy(e->terms, p->terms, bytes);
    expressions[expression_count] = e;
    slots[slot] = (int32_t)++expression_count;
    return BASE + expression_count - 1;
}

static void load_polynomial(polynomial *p, int64_t size) {
    p->count = 0;
    if (is_in_table(size)) {
        const expression *e = expressions[size - BASE];
        p->count = e->count;
        memcpy(p->terms, e->terms, (size_t)e->count * sizeof(term));
    } else if (size) {
        p->count = 1;
        p->terms[0] = (term){.coefficient = size};
    }
}

static int64_t add_atom(atom_kind kind, int64_t a, int64_t b) {
    if (!grow_table((void **)&atoms, &atom_room, atom_count, sizeof *atoms)) return 0;
    polynomial p = {.count = 1};
    p.terms[0] = (term){.coefficient = 1, .degree = 1, .atom = {(int32_t)atom_count}};
    int64_t size = intern_polynomial(&p);
    if (size) atoms[atom_count++] = (atom){kind, a, b, size, 0};
    return size;
}

static int depth_of(int64_t size) {
    int depth = 0;
    const expression *e = is_in_table(size) ? expressions[size - BASE] : NULL;
    for (int i = 0; e && i < e->count; i++)
        for (int k = 0; k < e->terms[i].degree; k++)
            if (atoms[e->terms[i].atom[k]].depth > depth) depth = atoms[e->terms[i].atom[k]].depth;
    return depth;
}

/* The size that is this operation, unexpanded; 0 when memory is short. */
static int64_t intern_atom(atom_kind kind, int64_t a, int64_t b) {
    for (int64_t i = 0; i < atom_count; i++)
        if (atoms[i].kind == kind && atoms[i].a == a && atoms[i].b == b) return atoms[i].size;
    int depth_a = depth_of(a), depth_b = depth_of(b), depth = 1 + (depth_a > depth_b ? depth_a : depth_b);
    if (depth > MAX_DEPTH) return INT64_MAX; /* as a size that overflows */
    int64_t size = add_atom(kind, a, b);
    if (size) atoms[atom_count - 1].depth = depth;
    return size;
}

/* --- polynomials -------------------------------------------------------------------------------------------------- */

/* Higher degrees first, then by atoms: an order that multiplication keeps, as division needs. Where two terms of equal
 * degree first differ, the one with the lower atom has more of it. */
static int compare_terms(const term *a, const term *b) {
    if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
    for (int i = 0; i < a->degree; i++)
        if (a->atom[i] != b->atom[i]) return a->atom[i] < b->atom[i] ? -1 : 1;
    return 0;
}

static bool add_term(polynomial *p, const term *t) {
    int i = 0;
    while (i < p->count && compare_terms(&p->terms[i], t) < 0) i++;
    if (i < p->count && compare_terms(&p->terms[i], t) == 0) {
        if (__builtin_add_overflow(p->terms[i].coefficient, t->coefficient, &p->terms[i].coefficient)) return false;
        if (p->terms[i].coefficient) return true;
        memmove(&p->terms[i], &p->terms[i + 1], (size_t)(--p->count - i) * sizeof(term));
        return true;
    }
    if (p->count == MAX_TERMS) return false;
    memmove(&p->terms[i + 1], &p->terms[i], (size_t)(p->count++ - i) * sizeof(term));
    p->terms[i] = *t;
    return true;
}

static bool multiply_terms(const term *a, const term *b, term *out) {
    *out = (term){.degree = a->degree + b->degree};
    if (out->degree > MAX_DEGREE) return false;
    for (int i = 0, j = 0; i + j < out->degree;) {
        bool from_a = j == b->degree || (i < a->degree && a->atom[i] <= b->atom[j]);
        int k = i + j;
        out->atom[k] = from_a ? a->atom[i++] : b->atom[j++];
    }
    return !__builtin_mul_overflow(a->coefficient, b->coefficient, &out->coefficient);
}

static bool divide_terms(const term *a, const term *b, term *out) {
    if (a->coefficient == INT64_MIN || a->coefficient % b->coefficient) return false; /* INT64_MIN / -1 would trap */
    *out = (term){.coefficient = a->coefficient / b->coefficient};
    int j = 0;
    for (int i = 0; i < a->degree; i++) {
        if (j < b->degree && a->atom[i] == b->atom[j])
            j++;
        else
            out->atom[out->degree++] = a->atom[i];
    }
    return j == b->degree;
}

/* p += q * t */
static bool add_product(polynomial *p, const polynomial *q, const term *t) {
    for (int i = 0; i < q->count; i++) {
        term product;
        if (!multiply_terms(&q->terms[i], t, &product) || !add_term(p, &product)) return false;
    }
    return true;
}

/* False when there is a remainder. `rest` is overwritten. */
static bool divide_polynomials(polynomial *rest, const polynomial *by, polynomial *quotient) {
    quotient->count = 0;
    while (rest->count) {
        term t, negative;
        if (!divide_terms(&rest->terms[0], &by->terms[0], &t) || !add_term(quotient, &t)) return false;
        negative = t;
        if (__builtin_sub_overflow((int64_t)0, t.coefficient, &negative.coefficient)) return false;
        if (!add_product(rest, by, &negative)) return false;
    }
    return true;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static bool both_known(int64_t a, int64_t b) { return !bti_size_is_symbolic(a) && !bti_size_is_symbolic(b); }

static int64_t ceil_divided(int64_t a, int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }

/* Of two numbers; false when there is no result. */
static bool compute_known(atom_kind kind, int64_t a, int64_t b, int64_t *out) {
    switch (kind) {
    case ADD: return !__builtin_add_overflow(a, b, out);
    case MULTIPLY: return !__builtin_mul_overflow(a, b, out);
    case CEIL_DIVIDE: *out = b == 0 ? 0 : ceil_divided(a, b); return b != 0;
    case BROADCAST: *out = a == 1 ? b : a; return a == b || a == 1 || b == 1;
    case REPEATS: *out = a == b ? 1 : b; return a == b || a == 1;
    default: *out = b == 0 ? 0 : a / b; return b != 0 && a % b == 0;
    }
}

static bool expand_polynomials(atom_kind kind, polynomial *a, const polynomial *b, polynomial *out) {
    static const term one = {.coefficient = 1};
    out->count = 0;
    if (kind == ADD) return add_product(out, a, &one) && add_product(out, b, &one);
    if (kind == BROADCAST || kind == REPEATS) return false;
    if (kind != MULTIPLY) return divide_polynomials(a, b, out); /* what comes out even need not be rounded */
    for (int i = 0; i < b->count; i++)
        if (!add_product(out, a, &b->terms[i])) return false;
    return true;
}

/* Whether `size` is a broadcast of `part` and others already. */
static bool is_broadcast_of(int64_t size, int64_t part) {
    while (is_in_table(size)) {
        if (size == part) return true;
        const expression *e = expressions[size - BASE];
        const atom *x = &atoms[e->terms[0].atom[0]];
        if (x->size != size || x->kind != BROADCAST) return false;
        if (x->b == part) return true;
        size = x->a;
    }
    return false;
}

/* The broadcast of two sizes where it needs no atom; else 0. */
static int64_t broadcast_simply(int64_t a, int64_t b) {
    if (a == 1 || b == 1) return a == 1 ? b : a;
    if (!bti_size_is_symbolic(a) || !bti_size_is_symbolic(b)) return bti_size_is_symbolic(a) ? b : a;
    return is_broadcast_of(a, b) ? a : is_broadcast_of(b, a) ? b : 0;
}

/* Of two sizes that are not both known. Under the lock. */
static int64_t operate_locked(atom_kind kind, int64_t a, int64_t b) {
    bool commutes = kind == ADD || kind == MULTIPLY || kind == BROADCAST;
    int64_t simple = kind == BROADCAST ? broadcast_simply(a, b) : 0;
    if (simple || kind == BROADCAST) return simple ? simple : intern_atom(kind, b < a ? b : a, b < a ? a : b);
    if (kind == REPEATS && (a == 1 || a == b)) return a == b ? 1 : b;
    polynomial p, q, result;
    load_polynomial(&p, a);
    load_polynomial(&q, b);
    if (expand_polynomials(kind, &p, &q, &result)) return intern_polynomial(&result);
    return commutes && b < a ? intern_atom(kind, b, a) : intern_atom(kind, a, b);
}

static int64_t operate_on_sizes(atom_kind kind, int64_t a, int64_t b) {
    int64_t size;
    if (both_known(a, b)) /* too much, as any use will find */
        return compute_known(kind, a, b, &size) || (kind != ADD && kind != MULTIPLY) ? size : INT64_MAX;
    if (b == 0 && (kind == CEIL_DIVIDE || kind == EXACT_DIVIDE)) return 0;
    bti_lock_take(&table_lock);
    size = operate_locked(kind, a, b);
    bti_lock_give(&table_lock);
    return size;
}

int64_t bti_size_add(int64_t a, int64_t b) { return operate_on_sizes(ADD, a, b); }
int64_t bti_size_mul(int64_t a, int64_t b) { return operate_on_sizes(MULTIPLY, a, b); }
int64_t bti_size_ceil_div(int64_t a, int64_t b) { return operate_on_sizes(CEIL_DIVIDE, a, b); }
int64_t bti_size_exact_div(int64_t a, int64_t b) { return operate_on_sizes(EXACT_DIVIDE, a, b); }
int64_t bti_size_broadcast(int64_t a, int64_t b) { return a == b ? a : operate_on_sizes(BROADCAST, a, b); }
int64_t bti_size_repeats(int64_t a, int64_t size) { return operate_on_sizes(REPEATS, a, size); }

bool bti_size_exists(int64_t size) {
    bti_lock_take(&table_lock);
    bool exists = is_in_table(size);
    bti_lock_give(&table_lock);
    return exists;
}

int64_t bti_symbol_new(void) {
    bti_lock_take(&table_lock);
    int64_t size = free_count ? symbols[free_symbols[--free_count]].size : 0;
    if (!size && grow_table((void **)&symbols, &symbol_room, symbol_count, sizeof *symbols) &&
        grow_table((void **)&free_symbols, &free_room, symbol_count, sizeof *free_symbols) &&
        (size = add_atom(SYMBOL, symbol_count + 1, 0)))
        symbols[symbol_count++] = (symbol){.size = size};
    bti_lock_give(&table_lock);
    return size;
}

/* The symbol that a size is by itself; NULL for anything else. Under the lock. */
static symbol *symbol_of(int64_t size) {
    if (!is_in_table(size)) return NULL;
    const expression *e = expressions[size - BASE];
    if (e->count != 1 || e->terms[0].coefficient != 1 || e->terms[0].degree != 1) return NULL;
    const atom *only = &atoms[e->terms[0].atom[0]];
    return only->kind == SYMBOL ? &symbols[only->a - 1] : NULL;
}

void bti_symbol_hold(int64_t size) {
    bti_lock_take(&table_lock);
    symbol *s = symbol_of(size);
    if (s) s->holders++;
    bti_lock_give(&table_lock);
}

void bti_symbol_let_go(int64_t size) {
    bti_lock_take(&table_lock);
    symbol *s = symbol_of(size);
    if (s && --s->holders == 0) free_symbols[free_count++] = (int32_t)(s - symbols);
    bti_lock_give(&table_lock);
}

/* --- numbers for symbols ------------------------------------------------------------------------------------------ */

static bool bind_locked(int64_t size, const bti_binding *binding, int64_t *out);

/* Bound to sizes of another function, symbols become expressions of that one. */
static bool operate_bound(atom_kind kind, int64_t a, int64_t b, int64_t *out) {
    if (both_known(a, b)) return compute_known(kind, a, b, out);
    *out = operate_locked(kind, a, b);
    return *out != INT64_MAX;
}

static bool bind_atom(int32_t number, const bti_binding *binding, int64_t *out) {
    const atom x = atoms[number]; /* the table may move meanwhile */
    int64_t a, b;
    if (x.kind != SYMBOL)
        return bind_locked(x.a, binding, &a) && bind_locked(x.b, binding, &b) && operate_bound(x.kind, a, b, out);
    for (int i = 0; i < binding->count; i++)
        if (binding->symbol[i] == x.size) return *out = binding->value[i], true;
    return false;
}

static bool bind_locked(int64_t size, const bti_binding *binding, int64_t *out) {
    *out = size;
    if (!bti_size_is_symbolic(size)) return true;
    const expression *e = expressions[size - BASE];
    int64_t sum = 0;
    for (int i = 0; i < e->count; i++) {
        int64_t product = e->terms[i].coefficient, factor;
        for (int k = 0; k < e->terms[i].degree; k++)
            if (!bind_atom(e->terms[i].atom[k], binding, &factor) ||
                !operate_bound(MULTIPLY, product, factor, &product))
                return false;
        if (!operate_bound(ADD, sum, product, &sum)) return false;
    }
    *out = sum;
    return true;
}

bool bti_size_bind(int64_t size, const bti_binding *binding, int64_t *out) {
    *out = size;
    if (!bti_size_is_symbolic(size)) return true;
    bti_lock_take(&table_lock);
    bool bound = bind_locked(size, binding, out);
    bti_lock_give(&table_lock);
    return bound;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static void add_size(bti_str *text, int64_t size);

static void add_atom_text(bti_str *text, int32_t number) {
    static const char *const names[] = {"", "add", "mul", "ceil_div", "exact_div", "broadcast", "repeats"};
    const atom *x = &atoms[number];
    if (x->kind == SYMBOL) {
        bti_str_addf(text, "?%lld", (long long)x->a);
        return;
    }
    bti_str_addf(text, "%s(", names[x->kind]);
    add_size(text, x->a);
    bti_str_add(text, ", ");
    add_size(text, x->b);
    bti_str_add(text, ")");
}

static void add_size(bti_str *text, int64_t size) {
    if (!is_in_table(size)) {
        bti_str_addf(text, "%lld", (long long)size);
        return;
    }
    const expression *e = expressions[size - BASE];
    for (int i = 0; i < e->count; i++) {
        const term *t = &e->terms[i];
        if (i) bti_str_add(text, " + ");
        for (int k = 0; k < t->degree; k++) {
            if (k) bti_str_add(text, " * ");
            add_atom_text(text, t->atom[k]);
        }
        if (t->degree == 0 || t->coefficient != 1)
            bti_str_addf(text, "%s%lld", t->degree ? " * " : "", (long long)t->coefficient);
    }
}

void bti_size_text(bti_str *text, int64_t size) {
    bti_lock_take(&table_lock);
    add_size(text, size);
    bti_lock_give(&table_lock);
}
