// loops.h: a loop of C that takes long lets Python look at signals now and then, so that Ctrl-C ends it.
//
// `wg_python` has four functions of Python's: PyGILState_Ensure, PyGILState_Release, PyErr_CheckSignals, PyErr_Fetch. What a
// signal raises is fetched into `wg_raised`, for the program to raise when the call returns, and wg_error ends the loops.
// Only the thread that called the program looks: no other handles signals.
#pragma once
#include <omp.h>
#include <time.h>

extern int wg_error;
extern void *wg_python[4], *wg_raised[3];
extern double wg_looked;  // when, in seconds

static inline int wg_stopped(void)
{
    if (omp_get_thread_num() == 0 && wg_python[0]) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        double seconds = now.tv_sec + 1e-9 * now.tv_nsec;
        if (seconds - wg_looked > 0.05) {
            wg_looked = seconds;
            int state = ((int (*)(void))wg_python[0])();
            if (((int (*)(void))wg_python[2])()) {
                ((void (*)(void **, void **, void **))wg_python[3])(wg_raised, wg_raised + 1, wg_raised + 2);
                wg_error = 1;
            }
            ((void (*)(int))wg_python[1])(state);
        }
    }
    return *(volatile int *)&wg_error;
}
