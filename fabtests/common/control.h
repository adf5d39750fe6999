/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control.h -- the functional program's talk over TCP, beside the connections
 * that it tests
 *
 * The initiator commands, the other side does and answers.  Both run the same
 * program on machines of one kind, so that structures travel as they are.
 */
#ifndef PMEM_CONTROL_H
#define PMEM_CONTROL_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

enum control_command {
	/* first on a connection: what the peer shall be */
	CTL_SESSION, /* the server itself, until CTL_BYE */
	CTL_TARGET,  /* a new process with the payload in its environment; -> pid */
	/* to the server */
	CTL_SIGNAL, /* pid, signal */
	CTL_BYE,    /* failed cases */
	/* to a target */
	CTL_OPEN,   /* caps -> port, 1 if its memory outlives it, 1 if that can be synced */
	CTL_ACCEPT, /* enum accept_flags, region -> connection; payload: private data */
	CTL_REJECT, /* payload: private data */
	CTL_CLOSE,  /* connection, 1: shut it down only */
	CTL_REG,    /* length, access, flags, seed, skew -> region, address, key */
	CTL_DEREG,  /* region */
	CTL_FILE,   /* length, seed; payload: one that is there, or nothing -> as CTL_REG */
	CTL_SPOIL,  /* region in such a file, enum spoil */
	CTL_READ,   /* region -> 1 if the bytes around it are unchanged; payload: its bytes */
	CTL_ARM,    /* struct expectation */
	CTL_LOG,    /* connection, entries to wait for, milliseconds -> payload: log entries */
	CTL_SEND,   /* connection; payload */
	CTL_RECV,   /* connection, region, offset, length, stride, how many */
	CTL_WATCH,  /* struct watch -> records seen */
	CTL_PAIRS,  /* struct pairs -> pairs seen */
	CTL_COUNT,  /* region: count peers' writes there */
	CTL_COUNTS, /* connection, region, writes to sleep for -> the counts of both, all errors */
	CTL_LIST,   /* region, offset, size, count: a list of free buffers -> its number */
	CTL_EQ,     /* in fi_eq_sread, until so many connections have ended, which are closed */
	/* These last until the next command is there; then a completion has to end the second. */
	CTL_IDLE,  /* at most milliseconds without any call of libfabric's -> us of CPU time */
	CTL_SREAD, /* connection: stay in fi_cq_sread */
	CTL_ON,    /* nothing: go on */
	CTL_RESET, /* close connections and regions */
};

enum accept_flags {
	ACCEPT_SRX = 1,
	ACCEPT_SEPARATE = 2,
	ACCEPT_WAIT = 4,
	ACCEPT_BARE = 8,      /* no receives but those of CTL_RECV */
	ACCEPT_KIND = 16,     /* all receives will be in memory like that of the region */
	ACCEPT_COUNT = 32,    /* count peers' writes */
	ACCEPT_ONE_SRX = 128, /* with ACCEPT_SRX: one for all such */
	ACCEPT_UNREAD = 64, /* its completions go to one queue for all such, which is never read */
};

struct control_msg {
	uint32_t command;
	int32_t status; /* of an answer: 0 or negative */
	uint64_t arg[6];
	uint64_t len; /* of the payload behind it */
};

/* What the target got on a connection. */
struct log_entry {
	uint64_t flags;
	uint64_t data;
	uint64_t len;
	int32_t err;
	uint32_t visible; /* the expectation was met when it came */
	uint8_t head[16]; /* the message's first bytes */
};

/*
 * When immediate data d arrive, the len bytes from offset d * stride on are the
 * pattern of seed + d.
 */
struct expectation {
	uint64_t region;
	uint64_t stride;
	uint64_t len;
	uint64_t seed;
};

/*
 * Whenever the tail (8 bytes, at its offset) is n, the records 1 to n, of size
 * bytes each from offset 0 on, are the patterns of seed + their number.
 */
struct watch {
	uint64_t region;
	uint64_t tail;
	uint64_t size;
	uint64_t count;
	uint64_t seed;
};

/*
 * Pair n (from 0 on) is at n * stride: a first part, which becomes the pattern of
 * seed + n, and behind it a second one.  No byte of that may change from the
 * pattern of old before all of the first part is there.
 */
struct pairs {
	uint64_t region;
	uint64_t count;
	uint64_t stride;
	uint64_t first; /* lengths */
	uint64_t second;
	uint64_t seed;
	uint64_t old;
};

int control_listen(const char *address, const char *port);

/* control_accept -- listen for one peer, and no other: its connection, or -1 */
int control_accept(const char *address, const char *port);
int control_connect(const char *host, const char *port, unsigned long timeout);

/* control_address -- where the peer has reached this process, other connections can: 0 or -1 */
int control_address(int fd, char *node, size_t room);

/* Both return 0 or -1; -1 without a word for a closed connection. */
int control_send(int fd, const struct control_msg *msg, const void *payload);
int control_receive(int fd, struct control_msg *msg, void *payload, size_t room,
		    unsigned long timeout);

/* control_end -- say that there is no more, and wait until the peer has closed it, too: 0 or -1 */
int control_end(int fd, unsigned long timeout);

/* control_waits -- is there something to receive, perhaps after so many milliseconds? */
bool control_waits(int fd, int ms);

/*
 * control_stop -- stop this process with all its threads until the peer sends
 * something; a child says to the peer when it has stopped, and wakes it up.  0 or -1.
 */
int control_stop(int fd);

/* control_is_stopped -- are all threads of a process, or is it gone? */
bool control_is_stopped(pid_t pid);

/* control_have -- done what the command in a variable of the environment does: 0 or -1 */
int control_have(const char *variable);

/* target_run -- be a target, commanded over the socket opts->target_fd */
struct options;
int target_run(const struct options *opts);

#endif /* PMEM_CONTROL_H */
