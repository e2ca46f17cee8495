#ifndef BERTH_TESTS_SUPPORT_SOON_H
#define BERTH_TESTS_SUPPORT_SOON_H

enum {
    SOON = 60
}; /* seconds that are not reached where it works, also on a machine that is busy: until a test gives up */

#endif
