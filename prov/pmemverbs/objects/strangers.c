/* SPDX-License-Identifier: BSD-2-Clause */
/* strangers.c -- who connects and asks for nothing; strangers.h says what becomes of him */
#include "objects/strangers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/silence.h"
#include "objects/handshake.h"

/* While there is no descriptor: so often they are counted, and so long a sleeper pauses. */
#define PAUSE_MS 10

/* A target may have many endpoints, and a peer may be slow: who is silent has this long. */
#define PATIENT_MS 10000

/* When no more than 1/16 of the descriptors is left. */
#define HASTY_MS 1000

/* is_shortage -- that ends: a connection that waits can be accepted then */
static bool is_shortage(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/*
 * next_descriptor -- the number that it gets: the lowest that is free; a negative errno: none.  A
 * socket, which fails as accept does, for lack of memory too; else (AF_UNIX may be forbidden) a
 * file.
 */
static int next_descriptor(void)
{
	/* The caller holds a lock. */
	int cancel = pmv_cancel_off(), fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 && !is_shortage(errno))
		fd = open("/", O_PATH | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	else
		close(fd);
	pmv_cancel_restore(cancel);
	return fd;
}

bool pmv_strangers_leave_room(struct pmv_eq *eq)
{
	int ret = next_descriptor();

	if (ret >= 0 || !is_shortage(-ret))
		return true;
	if (atomic_exchange(&eq->warned, true))
		return false;
	if (ret == -EMFILE)
		PMV_WARN(EQ, "no descriptor is left for another connection: raise the limit "
			     "(ulimit -n), or close endpoints whose peers have gone\n");
	else
		PMV_WARN(EQ, "no other connection can be accepted for now: %s\n", strerror(-ret));
	return false;
}

bool pmv_strangers_fill(struct pmv_eq *eq)
{
	int64_t now;

	if (LIST_EMPTY(&eq->listeners))
		return false;
	now = pmv_clock_ms();
	if (eq->full || now >= eq->next_count_ms) {
		eq->next_count_ms = now + PAUSE_MS;
		eq->full = !pmv_strangers_leave_room(eq);
	}
	return eq->full;
}

int pmv_strangers_pause(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};

	return nanosleep(&pause, NULL) ? -errno : 0;
}

/*
 * descriptors -- so many are in use, of how many?  Those above a limit that was lowered do not
 * matter: to close them would make room for nobody.
 */
static int descriptors(int *most)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	int next = next_descriptor();

	getrlimit(RLIMIT_NOFILE, &limit);
	*most = limit.rlim_cur < INT_MAX ? (int) limit.rlim_cur : INT_MAX;
	return next == -EMFILE ? *most : next;
}

/* give_up -- who has been silent for so many ms, of those that the listener has */
static unsigned int give_up(struct pmv_pep *pep, int end, unsigned int ms)
{
	union pmv_silence_addr own = {0};
	size_t len = sizeof(own);
	struct sockaddr_storage peer;
	unsigned int count = 0;

	if (fi_getname(&pep->core_fid->fid, &own, &len))
		return 0;
	for (int fd = 0; fd < end; fd++) {
		if (!pmv_listener_is_silent(fd, &own.any, ms, &peer) ||
		    pmv_handshake_is_kept(pep->fabric, (struct sockaddr *) &peer))
			continue;
		/* The core reads the end, and closes it. */
		count += !shutdown(fd, SHUT_RDWR);
	}
	return count;
}

void pmv_strangers_look(struct pmv_eq *eq)
{
	unsigned int count = 0;
	struct pmv_pep *pep;
	int64_t now;
	int end, most;

	if (LIST_EMPTY(&eq->listeners))
		return;
	now = pmv_clock_ms();
	if (now < eq->next_look_ms)
		return;
	eq->next_look_ms = now + PMV_STRANGERS_LOOK_MS;
	end = descriptors(&most);
	if (end < most - most / 4)
		return;
	LIST_FOREACH(pep, &eq->listeners, next_of_eq)
	count += give_up(pep, end, end < most - most / 16 ? PATIENT_MS : HASTY_MS);
	if (count)
		PMV_WARN(EQ,
			 "%u connections on which nobody has asked for anything are ended: few "
			 "descriptors are left (ulimit -n)\n",
			 count);
}
