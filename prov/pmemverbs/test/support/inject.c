/* SPDX-License-Identifier: BSD-2-Clause */
/* inject.c -- faults below the provider; inject.h says which */
#include "inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "engine/engine.h"
#include "fake_impl.h"

struct inject inject;

void inject_start(const struct inject_fault *faults, const struct fake *away)
{
	inject = (struct inject){.active = true, .away = away ? &away->domain : NULL};
	memcpy(inject.faults, faults, sizeof(inject.faults));
}

void inject_stop(void)
{
	inject.active = false;
}

bool inject_hits(enum inject_kind kind, enum inject_side side)
{
	unsigned int n;

	if (!inject.active)
		return false;
	n = ++inject.calls[kind][side];
	for (size_t i = 0; i < INJECT_FAULTS; i++) {
		const struct inject_fault *fault = &inject.faults[i];

		if (!fault->n || n < fault->n || n > fault->n + fault->more ||
		    kind != fault->kind || side != fault->side)
			continue;
		inject.done++;
		inject.err = fault->err;
		return true;
	}
	return false;
}

const char *inject_text(void)
{
	static const char *const kinds[] = {
		"post", "poll",       "poll of an error", "completion", "broken connection",
		"open", "allocation",
	};
	static char text[256];
	int len = 0;

	*text = '\0';
	for (size_t i = 0; i < INJECT_FAULTS && inject.faults[i].n; i++) {
		const struct inject_fault *fault = &inject.faults[i];

		len += snprintf(text + len, sizeof(text) - len, ", %s %u %s: %s",
				kinds[fault->kind], fault->n,
				fault->side == INJECT_AWAY ? "away" : "at home",
				fi_strerror(fault->err));
	}
	return text;
}

int inject_open(const struct fake *fake)
{
	(void) fake;
	return inject_hits(INJECT_OPEN, INJECT_HOME) ? -inject.err : 0;
}

/* The engine */

static enum inject_side side_of(const struct pmv_engine_ep *ep)
{
	return ep->engine->domain_fid == inject.away ? INJECT_AWAY : INJECT_HOME;
}

static enum inject_side side_of_cq(struct fid_cq *cq)
{
	return &fake_to_cq(&cq->fid)->fake->domain == inject.away ? INJECT_AWAY : INJECT_HOME;
}

static ssize_t post_write(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			  uint64_t flags)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.write(ep, msg, flags);
}

static ssize_t post_read(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			 uint64_t flags)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.read(ep, msg, flags);
}

static ssize_t post_send(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.send(ep, msg, flags);
}

static ssize_t post_recv(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.recv(ep, msg, flags);
}

static ssize_t post_atomic(const struct pmv_engine_ep *ep, const struct pmv_atomic *op,
			   uint64_t flags)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.atomic(ep, op, flags);
}

static ssize_t inject_write(const struct pmv_engine_ep *ep, const struct fi_msg_rma *msg,
			    uint64_t flags)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.inject_write(ep, msg, flags);
}

static ssize_t inject_send(const struct pmv_engine_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.inject_send(ep, msg, flags);
}

static ssize_t inject_atomic(const struct pmv_engine_ep *ep, const struct pmv_atomic *op)
{
	if (inject_hits(INJECT_POST, side_of(ep)))
		return -inject.err;
	return pmv_engine_libfabric.inject_atomic(ep, op);
}

static ssize_t poll_cq(struct fid_cq *cq, void *buf, size_t count)
{
	if (inject_hits(INJECT_POLL, side_of_cq(cq)))
		return -inject.err;
	return pmv_engine_libfabric.poll(cq, buf, count);
}

static ssize_t poll_error(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	if (inject_hits(INJECT_POLL_ERROR, side_of_cq(cq)))
		return -inject.err;
	return pmv_engine_libfabric.poll_error(cq, entry, flags);
}

const struct pmv_engine_ops inject_engine = {
	.write = post_write,
	.read = post_read,
	.send = post_send,
	.recv = post_recv,
	.atomic = post_atomic,
	.inject_write = inject_write,
	.inject_send = inject_send,
	.inject_atomic = inject_atomic,
	.poll = poll_cq,
	.poll_error = poll_error,
};

/* Completions */

size_t inject_run_core(struct fake *fake, enum inject_side side)
{
	size_t done = 0;

	while (fake_under_way(fake)) {
		if (inject.broken[side]) {
			done += fake_fail_all(fake, FI_ECANCELED, 5);
		} else if (inject_hits(INJECT_BREAK, side)) {
			inject.broken[side] = true;
			done += fake_fail_all(fake, inject.err, 5);
		} else if (inject_hits(INJECT_COMPLETION, side) && fake_deliver(fake, 1)) {
			done += fake_fail(fake, inject.err, 5);
		} else {
			done += fake_complete(fake, 1);
		}
	}
	return done;
}

/* The C library.  Which side asks does not matter: the count is of both. */

static bool lacks_memory(void)
{
	if (!inject_hits(INJECT_MEMORY, INJECT_HOME))
		return false;
	errno = inject.err;
	return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __real_eventfd(unsigned int value, int flags);
int __wrap_eventfd(unsigned int value, int flags);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_epoll_ctl(int fd, int op, int what, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int op, int what, struct epoll_event *event);

void *__wrap_malloc(size_t size)
{
	return lacks_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return lacks_memory() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *at, size_t size)
{
	return lacks_memory() ? NULL : __real_realloc(at, size);
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return lacks_memory() ? MAP_FAILED : __real_mmap(addr, len, prot, flags, fd, offset);
}

int __wrap_eventfd(unsigned int value, int flags)
{
	return lacks_memory() ? -1 : __real_eventfd(value, flags);
}

int __wrap_epoll_create1(int flags)
{
	return lacks_memory() ? -1 : __real_epoll_create1(flags);
}

int __wrap_timerfd_create(int clock, int flags)
{
	return lacks_memory() ? -1 : __real_timerfd_create(clock, flags);
}

int __wrap_epoll_ctl(int fd, int op, int what, struct epoll_event *event)
{
	return lacks_memory() ? -1 : __real_epoll_ctl(fd, op, what, event);
}
