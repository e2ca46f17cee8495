/* Inside the engine of gpu.h: its files, each of which uses those above it.
 *
 *     gpu_scratch.c scratch memory (gpu_driver.h)
 *     gpu_texts.c   texts that a launch lacks
 *     gpu_module.c  loads texts, launches their functions
 *     gpu_kernel.c  fused kernels: chooses the entry for a box (launch/entry.h) and the grid
 *     gpu_work.c    primitives that run whole, as kernels of one instruction or as copies of parts
 *     gpu_job.c     the operands and words of the other primitives, which have texts of their own (gpu_job.h)
 *     gpu_sort.c    sorts, and scatters, which sort their indices (gpu_sort.h)
 *     gpu_product.c matrix products: by the driver's library, or by their own text (gpu_product.h), with epilogues or without
 *     gpu_text.c    all of these: searches, running sums, gathers
 *     gpu_custom.c  kernels of the program's
 *     gpu_fft.c     Fourier transforms by the driver's library
 *     gpu_factor.c  linear algebra by the driver's library
 *     gpu.c         programs: chooses between kernels, works, texts, kernels of the program's and libraries */
#ifndef BTI_LAUNCH_GPU_ENGINE_H
#define BTI_LAUNCH_GPU_ENGINE_H

#include "launch/gpu_driver.h"

/* --- gpu_texts.c --- */
/* Of one program: the text that its last launch lacked, or that it was given since. */
typedef struct bti_gpu_texts {
    bool wanting, is_given;
    bool of_kernel; /* of an entry of the kernel below, else of the primitive */
    int variant;    /* bti_text_wanted.variant */
    bti_kernel kernel;
    bti_str given;
} bti_gpu_texts;
/* A text of a kernel, or of the primitive (NULL), if it was given; else FAILED_PRECONDITION, and the launch wants it. Before the launch has
 * launched anything that must not run twice. */
bt_status bti_gpu_text_of(bti_gpu *gpu, const bti_kernel *kernel, int variant, const bti_str **text);
void bti_gpu_text_keep(bti_gpu_texts *texts, const bti_str *text);
void bti_gpu_text_drop(bti_gpu_texts *texts);

/* --- gpu_module.c --- */
/* A loaded text and its functions, which are looked up when they are first launched. */
typedef struct bti_gpu_module {
    void *handle; /* the driver's; NULL: not built yet */
    bti_gpu_function functions[16];
    bool found[16];
} bti_gpu_module;

/* Looks the function up before its first launch. */
bt_status bti_gpu_module_find(bti_gpu *gpu, bti_gpu_module *module, int number, const char *name);
bt_status bti_gpu_module_build(bti_gpu *gpu, const char *name, const bti_str *text, bti_gpu_module *module);
void bti_gpu_module_free(bti_gpu *gpu, bti_gpu_module *module);

/* A launch of function `number` of the module, which its text calls `name`, over `units` units of work. A group of `threads`
 * threads processes `at_once` units at a time. */
typedef struct bti_gpu_grid {
    int number;
    const char *name;
    int64_t units, at_once;
    int64_t groups; /* 0: as many as the units need */
    int threads;
    bool local; /* it has an argument for local memory, of local_bytes */
    size_t local_bytes;
} bti_gpu_grid;
bt_status bti_gpu_module_launch(bti_gpu *gpu, bti_gpu_module *module, const bti_gpu_grid *grid, bti_words *words);

/* --- gpu_kernel.c --- */
typedef struct bti_gpu_kernel bti_gpu_kernel;
bti_gpu_kernel *bti_gpu_kernel_new(const bti_kernel *kernel); /* NULL: no memory */
const bti_kernel *bti_gpu_kernel_of(const bti_gpu_kernel *kernel);
/* Whether a launch of `count` boxes, of which this is the first, lacks the text of *entry, which it can be given before; and gives it, without the lock. */
bool bti_gpu_kernel_lacks_text(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box, int count, bti_entry *entry);
bt_status bti_gpu_kernel_give(bti_gpu *gpu, bti_gpu_kernel *kernel, bti_entry entry, const bti_str *text);
void bti_gpu_kernel_free(bti_gpu *gpu, bti_gpu_kernel *kernel);
/* The text that the box needs: before launches that must not be repeated for want of it. */
bt_status bti_gpu_kernel_find_text(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box);
bt_status bti_gpu_kernel_launch(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box);
/* Boxes that do not wait for each other: maps by as few launches as their words allow. */
bt_status bti_gpu_kernel_launch_boxes(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *boxes, int count);

/* --- gpu_work.c --- */
typedef struct bti_gpu_work bti_gpu_work;
bt_status bti_gpu_work_load(const bti_program_source *source, bti_gpu_work **loaded);
void bti_gpu_work_free(bti_gpu *gpu, bti_gpu_work *work);
/* Runs it as kernels of one instruction; *done false: it is no such primitive. */
bt_status bti_gpu_work_as_kernels(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked, bool *done);
/* Copies elements between operands of the same shape, or of the same number of elements where one of them is dense. */
bt_status bti_gpu_work_copy(bti_gpu *gpu, bti_gpu_work *work, const bti_operand *from, const bti_operand *to);
/* One of the primitive's own texts, built at the first call. Of attention: bti_attention_variant; others have one, 0. */
bt_status bti_gpu_work_module(bti_gpu *gpu, bti_gpu_work *work, int variant, bti_gpu_module **module);

/* --- gpu_product.c --- */
/* A product and its epilogue: by the driver's library and then the kernel, in place if an output has room for the product, or by their own text. */
bt_status bti_gpu_launch_epilogue(bti_gpu *gpu, bti_gpu_work *work, bti_gpu_kernel *kernel, int made,
                                  const bti_work *product, const bti_box *box);

/* --- gpu_custom.c --- */
typedef struct bti_gpu_custom bti_gpu_custom;
bti_gpu_custom *bti_gpu_custom_new(const bti_custom_source *source); /* NULL: no memory */
bool bti_gpu_custom_lacks_text(const bti_gpu_custom *custom);
bt_status bti_gpu_custom_give(bti_gpu *gpu, bti_gpu_custom *custom, const bti_str *text); /* without the lock */
void bti_gpu_custom_free(bti_gpu *gpu, bti_gpu_custom *custom);
bt_status bti_gpu_custom_launch(bti_gpu *gpu, bti_gpu_custom *custom, const bti_custom_launch *asked);

/* --- gpu_fft.c --- */
typedef struct bti_gpu_fft bti_gpu_fft;
bt_status bti_gpu_fft_new(bti_gpu *gpu, const bti_fft_lines *lines, bti_gpu_fft **made);
void bti_gpu_fft_free(bti_gpu *gpu, bti_gpu_fft *fft);
/* work: its copies. */
bt_status bti_gpu_fft_launch(bti_gpu *gpu, const bti_gpu_fft *fft, bti_gpu_work *work, uint64_t from, uint64_t to);

/* --- gpu_factor.c --- */
typedef struct bti_gpu_factor bti_gpu_factor;
bt_status bti_gpu_factor_new(bti_gpu *gpu, const bti_factor *of, bti_gpu_factor **made);
void bti_gpu_factor_free(bti_gpu *gpu, bti_gpu_factor *factor);
/* work: its copies and its text. addresses: as launch_library of drivers/driver.h. */
bt_status bti_gpu_factor_launch(bti_gpu *gpu, const bti_gpu_factor *factor, bti_gpu_work *work,
                                const uint64_t *addresses);

/* --- gpu_text.c --- */
bt_status bti_gpu_text_launch(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked);

#endif
