/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start.c -- a program on libfabric begins with three naps instead of seven hundred
 *
 * To be preloaded (LD_PRELOAD).  Libraries that libfabric 1.17 loads for NICs that are not here
 * (infinipath, psm2, and its own psm3) measure the processor's clock in each process, in naps of
 * 125 us until 100 ms have passed.  To wake up so often costs more processor time than all else
 * that such a program does at its start.
 */
#include <time.h>
#include <unistd.h>

#define NAP_US 125
#define MEASURED_US 100000

int usleep(useconds_t us)
{
	useconds_t all = us == NAP_US ? MEASURED_US : us;
	struct timespec time = {.tv_sec = all / 1000000, .tv_nsec = (long) (all % 1000000) * 1000};

	return nanosleep(&time, NULL);
}
