/* The energy of a training run, by the counters of the devices (device.h): theirs as a whole, with what other programs use. */
#ifndef BTI_TRAIN_ENERGY_H
#define BTI_TRAIN_ENERGY_H

#include <berth/dist.h>

enum { BTI_METERS_MOST = 32 };

typedef struct bti_meter {
    bt_device *device;
    double last, used; /* joules: of the counter at the last reading; since the run began */
    char why[300];     /* it is not known from here on; "": it is */
} bti_meter;

typedef struct bti_meters {
    bti_meter of[BTI_METERS_MOST]; /* of the CPU, and of the cards that train */
    int count;
    double epoch;   /* joules of the epoch so far, those before a resume too; NaN: not known */
    double read_at; /* by the clock: the last reading */
    double began;   /* by the clock */
    int64_t steps;  /* since then; rows: of them */
    double rows;
} bti_meters;

/* `strategy`: NULL: none. */
void bti_meters_begin(bti_meters *meters, bt_layer *model, const bt_strategy *strategy);
/* After each step: counters that go round are read now and then. */
void bti_meters_step(bti_meters *meters, double rows);
void bti_meters_read(bti_meters *meters);
/* The joules of the epoch that ends here, of all devices whose energy is known; NaN: none is, or one of them is no longer. */
double bti_meters_end_epoch(bti_meters *meters);
/* Since the run began; NaN: of no device. */
double bti_meters_joules(const bti_meters *meters);

#endif
