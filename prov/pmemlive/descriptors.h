/* SPDX-License-Identifier: BSD-2-Clause */
/* descriptors.h -- simulated descriptors: eventfd, timerfd, epoll, and those of the core */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* What a descriptor of the core, or a socket, reports. */
struct descriptor_core {
	bool (*ready)(void *arg);
	uint64_t (*edges)(void *arg); /* so often something has come */
	void (*closed)(void *arg);    /* or NULL */
	void *arg;
};

/* descriptors_add -- for the core or a socket; close() ends it.  core outlives it. */
int descriptors_add(const struct descriptor_core *core);

/* descriptors_is -- is it a simulated one? */
bool descriptors_is(int fd);
/* descriptors_open -- so many are */
unsigned int descriptors_open(void);
/* descriptors_kill -- close those of a process that has ended */
struct sched_process;
void descriptors_kill(const struct sched_process *owner);
/* descriptors_next -- the first one that is open, from this number on; or -1 */
int descriptors_next(int fd);

/* descriptors_start, sockets_start -- before anything else */
void descriptors_start(void);
void sockets_start(void);

#endif /* DESCRIPTORS_H */
