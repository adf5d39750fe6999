/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pair.h -- two rigs whose endpoints are connected: commits by an agent
 *
 * What is posted at home appears away when it is delivered, and the other way
 * round.  The agent away works when it is told to.  Memory is written back
 * through a table that records what is asked of it, and that knows what would
 * survive a power failure: the bytes that were named and drained or synced,
 * as they were when they were named.
 */
#ifndef PAIR_H
#define PAIR_H

#include "agent/flush.h"
#include "base/setting.h"
#include "rig.h"
#include "testcore/message.h"

/* Regions away. */
enum pair_memory {
	DMP,      /* DMP with DDIO: needs the agent */
	PAGE,     /* and so do these */
	PAGE_TOO, /* ... */
	READ_DMP, /* DMP without DDIO: a READ does */
	MHP,
	PAIR_MEMORIES,
};

#ifndef PAIR_SIZE /* fuzzers have less */
#define PAIR_SIZE 65536
#endif

/* So many bytes do not fit a message. */
#define PAIR_LARGE 600

struct pair_event {
	char what; /* see pair_done */
	const char *at;
	size_t len;
};

struct pair {
	struct rig *home;
	struct rig *away;
	struct pmv_ep *from; /* home's and away's endpoint, from inside */
	struct pmv_ep *to;
	struct fid_mr *mr[PAIR_MEMORIES];
	char *source;                 /* what is written to an offset comes from that one here */
	char *memory[PAIR_MEMORIES];  /* away */
	char *named[PAIR_MEMORIES];   /* what a flush has seen */
	char *durable[PAIR_MEMORIES]; /* what is left after a power failure */
	char *touched[PAIR_MEMORIES]; /* what the kernel knows to be dirty */

	struct pair_event events[4096];
	size_t num_events, shown_events;
	char shown[1024];
	bool sync_fails;             /* of PAGE alone */
	bool expects_notice;         /* none may be there while memory is written back */
	bool forgets_events;         /* too many are to come */
	void (*on_event)(void *arg); /* before anything that is done to memory is */
	void *on_event_arg;
	uint64_t ack_key; /* of home's mailbox */
	size_t shown_posts;
	uint64_t told; /* messages written by hand */
	uint64_t acks; /* seen by hand */
};

struct pair_options {
	struct rig_options home;
	struct rig_options away;
	bool offsets;    /* peers address regions by offsets */
	bool no_notices; /* the agent away can't give any */
	bool no_agent;   /* there is none away */
	bool older;      /* it is one that can't commit messages */
	bool one_kind;   /* it receives nowhere but in memory of this kind: */
	enum pair_memory received;
	bool hints;     /* the agents' sockets are open ... */
	uint16_t port;  /* ... and peers are told that away's is this one; 0: as it is */
	bool stores;    /* small commits may travel in the request; else they never do */
	bool thread;    /* agents have threads; else they work when they are told to */
	bool busy;      /* ... that never sleep */
	bool automatic; /* whatever is posted is delivered and succeeds at once */
};

struct pair *pair_open(const struct pair_options *options);
void pair_close(struct pair *pair);

/*
 * pair_describe_memory -- all memory of this process is one anonymous mapping, from now on: the
 * kernel takes long to describe it, for each region
 */
void pair_describe_memory(void);

/* pair_join -- one more connected endpoint away, served by the same agent; the test closes it */
struct pmv_ep *pair_join(struct pair *pair);

/* pair_agent -- the one away */
struct pmv_agent *pair_agent(struct pair *pair);

uint64_t pair_key(struct pair *pair, enum pair_memory memory);
uint64_t pair_addr(struct pair *pair, enum pair_memory memory, size_t offset);

/* pair_range -- as a message names it */
struct pmv_range pair_range(struct pair *pair, enum pair_memory memory, size_t offset, size_t len);

/* pair_put -- a write from that offset of the source to that of the memory */
ssize_t pair_put(struct pair *pair, enum pair_memory memory, size_t offset, size_t len,
		 void *context, uint64_t flags);

/* pair_inject -- the same, injected */
void pair_inject(struct pair *pair, enum pair_memory memory, size_t offset, size_t len);

/* pair_fetch -- add 1 to the 8 bytes there, and read what they were */
ssize_t pair_fetch(struct pair *pair, enum pair_memory memory, size_t offset, void *context,
		   uint64_t flags);

/* pair_send -- a message of what is at that offset of the source */
ssize_t pair_send(struct pair *pair, size_t offset, size_t len, void *context, uint64_t flags);
/* pair_receive -- the peer receives it there */
void pair_receive(struct pair *pair, enum pair_memory memory, size_t offset, size_t len);

/* pair_unregister -- close the region of that memory */
void pair_unregister(struct pair *pair, enum pair_memory memory);

/* pair_deliver -- all that is under way at home succeeds */
void pair_deliver(struct pair *pair);
/* pair_serve -- the agent away looks once; what it has posted arrives at home */
void pair_serve(struct pair *pair);
/* pair_round -- both */
void pair_round(struct pair *pair);

/*
 * pair_posted -- like rig_posted at home, where M is a message to the agent
 * pair_post -- the n-th operation from the end: 0 is the last
 */
const char *pair_posted(struct pair *pair);
const struct fake_post *pair_post(struct pair *pair, size_t n);

/* pair_message -- read what such an operation sends; false: it is no message */
bool pair_message(struct pair *pair, const struct fake_post *post,
		  struct pmv_flush_message *message);
/* pair_expect_message -- ... of the n-th from the end: it is one */
void pair_expect_message(struct pair *pair, size_t n, struct pmv_flush_message *message);
/* pair_names -- does a message have that range, and to the byte? */
bool pair_names(struct pair *pair, const struct pmv_flush_message *message, enum pair_memory memory,
		size_t offset, size_t len);

/* pair_expect_stalled -- whatever is to be posted at home is to be tried again */
void pair_expect_stalled(struct pair *pair);

/*
 * pair_done -- what was done away since the last call: F flush, D drain, S store,
 * Y sync, K an acknowledgement is posted
 * pair_event -- the n-th of all events of that kind
 */
const char *pair_done(struct pair *pair);
const struct pair_event *pair_event(struct pair *pair, char what, size_t n);

/* pair_is -- is that event about exactly these bytes? */
bool pair_is(struct pair *pair, const struct pair_event *event, enum pair_memory memory,
	     size_t offset, size_t len);

/* pair_survives -- would what is at the source now be there after a power failure? */
bool pair_survives(struct pair *pair, enum pair_memory memory, size_t offset, size_t len);

/*
 * pair_tell -- write the next message into the mailbox away, past the provider
 * pair_tell_range, pair_tell_of -- one that names a range alone
 */
void pair_tell(struct pair *pair, struct pmv_flush_message *message);
void pair_tell_range(struct pair *pair, struct pmv_range range);
void pair_tell_of(struct pair *pair, enum pair_memory memory, size_t offset, size_t len);
/* pair_expect_ack -- and look for the next acknowledgement at home; 0: there is none */
void pair_expect_ack(struct pair *pair, uint64_t done, enum pmv_fault fault);
/* pair_answer -- write an acknowledgement, as the agent would */
void pair_answer(struct pair *pair, uint64_t number, uint64_t done, enum pmv_fault fault);

/*
 * What a commit of a message has to stand, whatever makes it durable: the message
 * is received in that memory.
 *
 * pair_send_and_lose -- a part of it fails, and with it all that is under way
 * pair_send_without_room -- there is none for what comes behind the message
 */
void pair_send_and_lose(struct pair *pair, enum pair_memory memory, size_t part);
void pair_send_without_room(struct pair *pair, enum pair_memory memory, const char *behind);

#define expect_sent(pair, what) cr_assert_str_eq(pair_posted(pair), what)
#define expect_done(pair, what) cr_assert_str_eq(pair_done(pair), what)

#endif /* PAIR_H */
