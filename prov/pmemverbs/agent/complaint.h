/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * complaint.h -- what peers do wrong is logged, but no peer fills the log
 *
 * One such message a second is logged, of all connections of an agent together: a peer may connect
 * again and again.  Each says how many were left out before it.
 */
#ifndef PMV_COMPLAINT_H
#define PMV_COMPLAINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

struct pmv_link;

/* Of an agent, under its lock. */
struct pmv_complaints {
	int64_t next_ns; /* none is logged before */
	unsigned long left_out;
};

/* The parts of a message. */
struct pmv_complaint {
	char peer[PMV_ADDRESS_TEXT]; /* its address */
	char left_out[80];
};

/* pmv_complaint_make -- false: this one is left out */
bool pmv_complaint_make(struct pmv_complaints *complaints, const struct pmv_link *link, int64_t now,
			struct pmv_complaint *complaint);

#endif /* PMV_COMPLAINT_H */
