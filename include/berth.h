/* berth.h: the whole interface of berth. Include this header and link with -lberth.
 *
 *     status.h    statuses, the error record, poison           device.h    finding and naming devices, their memory
 *     dtype.h     element types                                flags.h     settings
 *     array.h     arrays: making, scopes, devices, reading     ops.h       operations on arrays
 *     random.h    counter-based random numbers                 function.h  shared variables and compiled functions
 *     grad.h      gradients                                    transform.h batches, tangents, Jacobians
 *     control.h   loops and branches that are operations       nn.h        trees of layers
 *     dist.h      one model on several devices                 train.h     the training loop
 *     file.h      archives of arrays, .npy, CSV, DLPack        view.h      plans, memory forecast, timing
 *     task.h      functions and actors in workers              call.h      the macros of task.h
 *     custom.h    operations of the program's, callbacks       matrices.h  products, triangles, diagonals
 *     windows.h   convolution and pooling                  attention.h scaled dot product attention
 *     losses.h    losses with options                      linalg.h    linear algebra, by LAPACK
 *     check.h     errors of a program in one word          precision.h mixed precision
 *     data.h      data sets and loaders of batches
 *     layers.h    layers, initialisers                      metrics.h   what a model is judged by
 *     optimizers.h optimisers and schedules
 *
 * Signals, floating-point modes, stack sizes, longjmp, cancellation, fork, exit and dlclose: docs/threads-and-processes.md.
 */
#ifndef BERTH_H
#define BERTH_H

#include <berth/array.h>
#include <berth/attention.h>
#include <berth/check.h>
#include <berth/complex.h>
#include <berth/control.h>
#include <berth/custom.h>
#include <berth/data.h>
#include <berth/device.h>
#include <berth/dist.h>
#include <berth/dtype.h>
#include <berth/fft.h>
#include <berth/file.h>
#include <berth/flags.h>
#include <berth/function.h>
#include <berth/grad.h>
#include <berth/layers.h>
#include <berth/linalg.h>
#include <berth/losses.h>
#include <berth/matrices.h>
#include <berth/metrics.h>
#include <berth/nn.h>
#include <berth/ops.h>
#include <berth/optimizers.h>
#include <berth/precision.h>
#include <berth/random.h>
#include <berth/status.h>
#include <berth/task.h>
#include <berth/train.h>
#include <berth/transform.h>
#include <berth/view.h>
#include <berth/windows.h>

#endif
