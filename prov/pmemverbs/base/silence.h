/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * silence.h -- a peer whose machine is gone is given up
 *
 * For cores whose connections are TCP sockets of this process.  Of one that is watched the kernel
 * probes the peer while the connection is idle (SO_KEEPALIVE), and a thread asks the kernel about
 * it (TCP_INFO).  Once the peer's machine has answered nothing for FI_PMEMVERBS_TIMEOUT seconds,
 * the socket is shut down: then the core ends all that is under way there, whatever the application
 * waits in.  It is watched while it is being connected, too.
 *
 * It is the peer's kernel that answers, so a process that is stopped or busy is waited for.
 * TCP_USER_TIMEOUT can't do this: it also ends a connection whose peer answers each probe, but
 * has had no room for data for that time, as one that is stopped.  Only a kernel whose queue of new
 * connections is full answers nothing to a new one, and that is given up.
 *
 * A socket is found by its two addresses.  Its number stays right, since the core closes it only
 * when its endpoint is closed, and pmv_silence_forget comes before that.
 *
 * A child (fork) looks for the peers of its own connections, and not for its parent's.
 */
#ifndef PMV_SILENCE_H
#define PMV_SILENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* struct tcp_info; not the kernel's header of that name */
#include <netinet/in.h>
#include <netinet/tcp.h>

#define PMV_SILENCE_NONE (-1)

union pmv_silence_addr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	char room[128];
};

/* A connection. */
struct pmv_silence {
	LIST_ENTRY(pmv_silence) next;
	unsigned int watched; /* in a list of this process (fork_lock.h); or 0 */
	bool connecting;      /* the core does not read data from the socket yet */
	bool offered;         /* the open descriptors, from the first one on */
	atomic_bool given_up; /* before the core can notice */
	int socket;           /* or -1 */
	uint64_t cookie;
	int64_t since_ms; /* the peer owes an answer since then, or PMV_SILENCE_NONE */
	union pmv_silence_addr own;
	union pmv_silence_addr peer;
};

/*
 * pmv_silence_since -- since when the peer owes an answer, if it was since_ms when the kernel was
 * asked last: PMV_SILENCE_NONE, or a time in ms
 */
int64_t pmv_silence_since(int64_t since_ms, int64_t now_ms, const struct tcp_info *info);

/*
 * pmv_silence_watch -- own and peer are filled in; if it is watched already, it may only be
 * connected from now on
 */
void pmv_silence_watch(struct pmv_silence *silence, const union pmv_silence_addr *own,
		       const union pmv_silence_addr *peer, bool connecting);

/* pmv_silence_forget -- before the core closes the socket */
void pmv_silence_forget(struct pmv_silence *silence);

#endif /* PMV_SILENCE_H */
