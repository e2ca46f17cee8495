/* The confusion matrix of a model that guesses classes. */
#ifndef BTI_TRAIN_CONFUSION_H
#define BTI_TRAIN_CONFUSION_H

#include <berth/array.h>

/* Sums of a metric (bt_metric.sums) [C * C]: rows of class i for which j is guessed, at i * C + j. */
bt_array *bti_confusion_sums(bt_array *output, bt_array *y, void *unused);

#endif
