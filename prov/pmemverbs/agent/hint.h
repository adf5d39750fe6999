/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hint.h -- datagrams that wake sleeping agents
 *
 * A NIC places data without telling anybody, so an agent that sleeps does not notice a
 * request.  The initiator therefore sends a datagram behind a request if the peer's agent
 * may be asleep.  A hint only says which mailbox to look into.  What is believed is the
 * mailbox: a hint that is lost, late or forged costs time and nothing else.
 *
 * Cores that move data in calls need no hints: their descriptors wake the agent.
 */
#ifndef PMV_HINT_H
#define PMV_HINT_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct fid_ep;

/* A domain's socket: hints are sent from it, and the agent sleeps on it. */
struct pmv_hint_socket {
	atomic_int fd; /* -1: no hints can be sent or received ... */
	bool tried;    /* ... and it stays so */
	int family;
	uint16_t port;
};

/* pmv_hint_open -- without a socket there are no hints, and agents poll */
void pmv_hint_open(struct pmv_hint_socket *hints);
void pmv_hint_close(struct pmv_hint_socket *hints);

/* Where a peer's hints go. */
struct pmv_hint_peer {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr;
	socklen_t len; /* 0: it gets none */
};

/*
 * pmv_hint_find_peer -- the address of an endpoint's peer, with the port that its agent
 * listens to; 0: it does not.  A peer that has no Internet address gets no hints.
 */
void pmv_hint_find_peer(const struct pmv_hint_socket *hints, struct fid_ep *core_ep, uint16_t port,
			struct pmv_hint_peer *peer);

/* Both never wait.  pmv_hint_receive returns the length, or -1: there is no datagram. */
void pmv_hint_send(const struct pmv_hint_socket *hints, const struct pmv_hint_peer *peer,
		   const void *buf, size_t len);
ssize_t pmv_hint_receive(const struct pmv_hint_socket *hints, void *buf, size_t len);

#endif /* PMV_HINT_H */
