/* What the emulator counts of each launch, for tables of the work that kernels do: one line of JSON per launch is added to the file that
 * BERTH_FAKE_COUNTS names, and one per product of cuBLASLt. BERTH_FAKE_SAMPLE=N: of launches with more than 2 N blocks the first, the last
 * and N drawn ones run, and the counts are scaled; products are not computed. */
#include <stdio.h>
#include <stdlib.h>

#include "fakes/libcuda.h"

const char *fake_counts_path(void) {
    const char *path = getenv("BERTH_FAKE_COUNTS");
    return path && *path ? path : NULL;
}

int fake_sample_of(uint64_t blocks) {
    const char *asked = getenv("BERTH_FAKE_SAMPLE");
    int sample = asked ? atoi(asked) : 0;
    return sample > 0 && blocks > 2 * (uint64_t)sample ? sample : 0;
}

void fake_note_counts(const fake_launch_size *size, CUfunction function, const ptx_counts *c) {
    const ptx_function *f = function->ptx;
    FILE *file = fopen(fake_counts_path(), "a");
    if (!file) return;
    fprintf(file,
            "{\"kernel\": \"%s\", \"file\": \"%s\", \"blocks\": %llu, \"threads\": %u, \"registers\": %u, "
            "\"spill_bytes\": %u, "
            "\"shared_bytes\": %llu, \"resident_blocks\": %d, ",
            f->name, function->module->ptx->file, (unsigned long long)size->blocks, size->threads,
            f->hardware_registers, f->spill_bytes, (unsigned long long)f->shared_bytes + size->dynamic_bytes,
            fake_resident_blocks(size->device, function, (int)size->threads, size->dynamic_bytes));
    fprintf(file,
            "\"instructions\": %llu, \"divergent\": %llu, \"global_requests\": %llu, \"sectors\": %llu, "
            "\"sectors_needed\": %llu, "
            "\"sectors_distinct\": %llu, ",
            (unsigned long long)c->instructions, (unsigned long long)c->divergent,
            (unsigned long long)c->global_requests, (unsigned long long)c->sectors,
            (unsigned long long)c->sectors_needed, (unsigned long long)c->sectors_distinct);
    fprintf(file,
            "\"shared_requests\": %llu, \"bank_conflicts\": %llu, \"local_bytes\": %llu, \"barriers\": %llu, "
            "\"atomics\": %llu, \"load_waits\": %llu}\n",
            (unsigned long long)c->shared_requests, (unsigned long long)c->bank_conflicts,
            (unsigned long long)c->local_bytes, (unsigned long long)c->barriers, (unsigned long long)c->atomics,
            (unsigned long long)c->load_waits);
    fclose(file);
}

void fake_note_product(uint64_t multiplications, uint64_t bytes, const char *computes) {
    const char *path = fake_counts_path();
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "{\"product\": \"%s\", \"multiplications\": %llu, \"bytes\": %llu}\n", computes,
            (unsigned long long)multiplications, (unsigned long long)bytes);
    fclose(file);
}
