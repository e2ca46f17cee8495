#include "compile/fuser.h"

#include "base/compare.h"

int64_t bti_domain_count(const bti_domain *domain) {
    int64_t count = 1;
    for (int i = 0; i < domain->rank; i++) count *= domain->shape[i];
    return count;
}

static bool folded(const bti_domain *domain, int axis) { return domain->reduced >> axis & 1; }

/* Points along the kept axes. */
static int64_t kept_points(const bti_domain *domain) {
    int64_t count = 1;
    for (int i = 0; i < domain->rank; i++)
        if (!folded(domain, i)) count *= domain->shape[i];
    return count;
}

/* Puts axis `axis` in two, the first of `size` points. */
static bool split(bti_domain *domain, int axis, int64_t size) {
    if (domain->rank == BTI_MAX_RANK) return false;
    unsigned low = (1u << axis) - 1, mask = domain->reduced;
    domain->reduced = (uint8_t)((mask & low) | (mask & (1u << axis)) | ((mask & ~low) << 1));
    memmove(domain->shape + axis + 1, domain->shape + axis, (size_t)(domain->rank - axis) * sizeof *domain->shape);
    domain->shape[axis] = size;
    domain->shape[axis + 1] /= size;
    domain->rank++;
    return true;
}

/* Goes through the axes that the level sees and those of the shape side by side; sizes of 1 have no say. */
bool bti_domain_refine(bti_domain *domain, int rank, const int64_t *shape, bti_level level) {
    if (level == BTI_POINT && rank == domain->rank && memcmp(shape, domain->shape, (size_t)rank * sizeof *shape) == 0)
        return true;
    int axis = 0;
    int64_t left = 1; /* points of the shape's axis that are not matched yet */
    for (int i = 0; i < rank || left > 1;) {
        if (left == 1) {
            left = shape[i++];
            continue;
        }
        while (axis < domain->rank && (domain->shape[axis] == 1 || (level == BTI_ROW && folded(domain, axis)))) axis++;
        if (axis == domain->rank) return false;
        int64_t size = domain->shape[axis];
        if (size <= left) {
            if (left % size) return false;
            left /= size;
        } else {
            if (size % left || !split(domain, axis, left)) return false;
            left = 1;
        }
        axis++;
    }
    for (; axis < domain->rank; axis++)
        if (domain->shape[axis] != 1 && !(level == BTI_ROW && folded(domain, axis))) return false;
    return true;
}

/* Whether rows are gone over again by the unit that folded them: they stay in its cache, and there is one for each unit or they are so short that a unit
 * is soon done with one. Others are split over the units, and what follows is another kernel. */
static bool rows_stay(const bti_target_facts *target, int64_t rows, int64_t points) {
    const int64_t element = 4; /* bytes, of float32 */
    return points <= bti_smaller_of(target->cache_bytes / element, BTI_LONG_ROW) &&
           (rows >= target->units || points <= target->local_bytes / element);
}

#define NARROW 8 /* a line of fewer kept points is left to rows, which read with strides */

bool bti_domain_reduce(bti_domain *domain, int rank, const int64_t *shape, uint64_t axes) {
    uint8_t mask = 0;
    int axis = 0;
    for (int i = 0; i < rank; i++) {
        int64_t left = shape[i];
        if (left == 1) continue;
        while (left > 1) {
            if (axis == domain->rank) return false;
            if (axes >> i & 1) mask |= (uint8_t)(1u << axis);
            left /= domain->shape[axis++];
        }
        while (axis < domain->rank && domain->shape[axis] == 1) axis++;
    }
    if (!mask) return false; /* only axes of one point: nothing to fold in a nest */
    if (domain->reduced) return domain->reduced == mask;
    domain->reduced = mask;
    int64_t line = 1; /* points of the last run of kept axes */
    for (int i = domain->rank - 1; i >= 0 && (domain->shape[i] == 1 || !folded(domain, i)); i--)
        line *= domain->shape[i];
    domain->rows = line < NARROW;
    int64_t kept = kept_points(domain), row = bti_domain_count(domain) / kept;
    domain->again = domain->rows && rows_stay(domain->target, kept, row);
    return true;
}

bool bti_domain_unite(bti_domain *domain, const bti_domain *other) {
    if (!bti_domain_refine(domain, other->rank, other->shape, BTI_POINT)) return false;
    if (!other->reduced) return true;
    bti_domain theirs = *other;
    if (!bti_domain_refine(&theirs, domain->rank, domain->shape, BTI_POINT)) return false;
    bti_domain plain = *domain; /* both have the same axes now, but for those of one point */
    plain.reduced = 0;
    if (!bti_domain_reduce(&plain, theirs.rank, theirs.shape, theirs.reduced)) return false;
    if (domain->reduced && domain->reduced != plain.reduced) return false;
    *domain = plain;
    return true;
}

bool bti_domain_strides(const bti_domain *domain, const bti_value *value, bti_level level, int64_t *stride) {
    int64_t shape[BTI_MAX_RANK];
    bti_layout layout;
    for (int i = 0; i < domain->rank; i++) shape[i] = level == BTI_ROW && folded(domain, i) ? 1 : domain->shape[i];
    if (!bti_layout_reshape(value->rank, value->shape, &value->layout, domain->rank, shape, &layout)) return false;
    for (int i = 0; i < domain->rank; i++) stride[i] = shape[i] == 1 ? 0 : layout.stride[i];
    return true;
}

bool bti_domain_folds(const bti_domain *domain, const int64_t *stride) {
    int last = -1; /* axis of the current run of reduced ones */
    for (int i = 0; i < domain->rank; i++) {
        if (domain->shape[i] == 1) continue;
        if (!folded(domain, i)) {
            last = -1;
            continue;
        }
        if (last >= 0 && stride[last] != stride[i] * domain->shape[i]) return false;
        last = i;
    }
    return true;
}
