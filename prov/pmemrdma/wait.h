/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h -- one descriptor for what the device tells, and what is told here */
#ifndef PMR_WAIT_H
#define PMR_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_eq.h>

struct pmr_wait {
	int fd;       /* an application sleeps on this one; -1: it does not wait */
	int event_fd; /* readable after pmr_wait_wake */
	atomic_bool signalled;
};

/* pmr_wait_open -- source: the device's descriptor, which does not block any more; 0 or -errno */
int pmr_wait_open(struct pmr_wait *wait, int source);
void pmr_wait_close(struct pmr_wait *wait);

/* pmr_wait_control -- FI_GETWAIT and FI_GETWAITOBJ of a queue with that wait object */
int pmr_wait_control(const struct pmr_wait *wait, enum fi_wait_obj wait_obj, int command,
		     void *arg);

/* pmr_wait_wake -- whoever sleeps; pmr_wait_reset -- the next one sleeps again */
void pmr_wait_wake(struct pmr_wait *wait);
void pmr_wait_reset(struct pmr_wait *wait);

/* pmr_wait_signal -- wake one call that sleeps, without anything to read */
void pmr_wait_signal(struct pmr_wait *wait);

static inline bool pmr_wait_take_signal(struct pmr_wait *wait)
{
	return atomic_load(&wait->signalled) && atomic_exchange(&wait->signalled, false);
}

/* pmr_wait_deadline -- of a timeout in ms, for pmr_wait_sleep; a negative one never ends */
int64_t pmr_wait_deadline(int timeout);

/* pmr_wait_sleep -- until there may be something: 0; -FI_EAGAIN after the deadline; or an error */
int pmr_wait_sleep(struct pmr_wait *wait, int64_t deadline);

#endif /* PMR_WAIT_H */
