/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_reach.c -- peers that can't be connected to; rdm_reach.h has the rules */
#include "rdm/rdm_reach.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <rdma/fi_errno.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/setting.h"

/* Whoever has not called for a quarter of the time has paused. */
#define PAUSES_OF_A_TIMEOUT 4

/* An address that is not connected. */
struct unreached {
	LIST_ENTRY(unreached) next;
	struct pmv_hooks_peer peer;
	int64_t began_ms;  /* the first attempt */
	int64_t failed_ms; /* the last one; 0: it is under way */
	bool refused;      /* once, and the next call may find the peer's own connection */
};

atomic_uint pmv_rdm_reach_count;
static LIST_HEAD(, unreached) all = LIST_HEAD_INITIALIZER(all);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of all that wait */
static int64_t next_complaint_ms;

static struct unreached *find(const void *addr, size_t len)
{
	struct unreached *unreached;

	LIST_FOREACH(unreached, &all, next)
	{
		if (unreached->peer.len == len && !memcmp(unreached->peer.addr, addr, len))
			return unreached;
	}
	return NULL;
}

/* begin -- without memory the peer is treated as one that is connected */
static void begin(const struct pmv_hooks_peer *peer)
{
	struct unreached *unreached = calloc(1, sizeof(*unreached));

	if (!unreached)
		return;
	unreached->peer = *peer;
	unreached->began_ms = pmv_clock_ms();
	LIST_INSERT_HEAD(&all, unreached, next);
	atomic_fetch_add(&pmv_rdm_reach_count, 1);
}

static void end(struct unreached *unreached)
{
	LIST_REMOVE(unreached, next);
	atomic_fetch_sub(&pmv_rdm_reach_count, 1);
	free(unreached);
}

void pmv_rdm_reach_plain(void *addr)
{
	struct sockaddr_in6 *in6 = addr;
	struct sockaddr_in *in = addr;

	if (in->sin_family == AF_INET)
		memset(in->sin_zero, 0, sizeof(in->sin_zero));
	if (in->sin_family == AF_INET6)
		in6->sin6_flowinfo = in6->sin6_scope_id = 0;
}

/* note -- of an address that is not connected: an attempt has begun, or has failed somehow */
static void note(struct unreached *unreached, enum pmv_attempt attempt)
{
	int64_t now = pmv_clock_ms();

	if (attempt == PMV_ATTEMPT_BEGUN) {
		unreached->failed_ms = 0;
		return;
	}
	unreached->failed_ms = now;
	if (attempt == PMV_ATTEMPT_REFUSED && !unreached->refused)
		unreached->failed_ms = now - PMV_RDM_REACH_PAUSE_MS;
	unreached->refused = attempt == PMV_ATTEMPT_REFUSED;
}

void pmv_rdm_reach_attempt(const struct pmv_hooks_peer *given, enum pmv_attempt attempt)
{
	struct pmv_hooks_peer peer = *given;
	struct unreached *unreached;

	pmv_rdm_reach_plain(peer.addr);
	pthread_mutex_lock(&lock);
	unreached = find(peer.addr, peer.len);
	if (unreached && attempt == PMV_ATTEMPT_OVER)
		end(unreached);
	else if (unreached)
		note(unreached, attempt);
	else if (attempt == PMV_ATTEMPT_BEGUN)
		begin(&peer);
	pthread_mutex_unlock(&lock);
}

ssize_t pmv_rdm_reach_wait(struct pmv_lost_writes_wait *wait, int64_t now_ms, int64_t began_ms,
			   int64_t failed_ms, int64_t timeout_ms)
{
	bool paused;

	if (!wait->since_ms)
		*wait = (struct pmv_lost_writes_wait){.since_ms = now_ms, .asked_ms = now_ms};
	if (wait->since_ms < began_ms) {
		wait->since_ms = began_ms;
		wait->resumed = false;
	}
	paused = PAUSES_OF_A_TIMEOUT * (now_ms - wait->asked_ms) >= timeout_ms;
	wait->asked_ms = now_ms;
	if (timeout_ms && now_ms - wait->since_ms >= timeout_ms) {
		if (!paused || wait->resumed) {
			wait->since_ms = 0;
			return -FI_ETIMEDOUT;
		}
		/* RxM connects only while it is called: it is to try, but not for as long again. */
		wait->resumed = true;
		wait->since_ms = now_ms - timeout_ms / 2;
	}
	return failed_ms && now_ms - failed_ms < PMV_RDM_REACH_PAUSE_MS ? -FI_EAGAIN : 0;
}

/* complain -- once a second at most, of all peers.  Holds the lock. */
static void complain(const void *addr, int64_t now)
{
	char name[INET6_ADDRSTRLEN] = "of unknown address";

	if (now < next_complaint_ms)
		return;
	next_complaint_ms = now + 1000;
	pmv_address_host(addr, name);
	PMV_WARN(EP_DATA,
		 "the peer %s, port %u, could not be connected to for %d s "
		 "(FI_PMEMVERBS_TIMEOUT): the call has failed, and the next one tries again\n",
		 name, pmv_address_port(addr), pmv_setting.timeout);
}

/* drop_stale -- nobody calls for them any more.  Holds the lock. */
static void drop_stale(int64_t now)
{
	struct unreached *unreached = LIST_FIRST(&all), *next;

	for (; unreached; unreached = next) {
		next = LIST_NEXT(unreached, next);
		if (unreached->failed_ms && now - unreached->failed_ms > PMV_RDM_REACH_STALE_MS)
			end(unreached);
	}
}

ssize_t pmv_rdm_reach_check(struct pmv_lost_writes *tracker)
{
	int64_t now = pmv_clock_ms();
	struct unreached *unreached;
	ssize_t ret = 0;

	pthread_mutex_lock(&lock);
	drop_stale(now);
	unreached = find(tracker->addr, tracker->addrlen);
	if (unreached)
		ret = pmv_rdm_reach_wait(&tracker->wait, now, unreached->began_ms,
					 unreached->failed_ms, pmv_setting.timeout * INT64_C(1000));
	if (ret == -FI_ETIMEDOUT)
		complain(tracker->addr, now);
	pthread_mutex_unlock(&lock);
	return ret;
}

void pmv_rdm_reach_answered(struct pmv_lost_writes *tracker, ssize_t ret)
{
	struct unreached *unreached;

	pthread_mutex_lock(&lock);
	tracker->wait.since_ms = 0;
	unreached = ret ? NULL : find(tracker->addr, tracker->addrlen);
	if (unreached)
		end(unreached);
	pthread_mutex_unlock(&lock);
}
