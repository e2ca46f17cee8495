/* `berth bench --figures`: what a model of this CPU goes by. */
#ifndef BTI_CLI_BENCH_FIGURES_H
#define BTI_CLI_BENCH_FIGURES_H

/* Measures, on as many cores as kernels may use, and prints a device for the flag `devices`: "zen3{units=1/clock=3.5/...}". The exit status. */
int bench_figures(char **argv);

#endif
