/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world.h -- a target, its initiators, and what a seed makes of them
 *
 * Each is a process with a domain, a completion queue and an event queue of the provider's, over
 * the simulated core.  Its applications are in apps.c.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "core.h"
#include "objects/fabric.h"
#include "scheduler.h"

#define WORLD_INITIATORS 3
#define WORLD_EPS 2                                /* of an initiator, at most */
#define WORLD_CONNS (WORLD_INITIATORS * WORLD_EPS) /* of a process, at most */
#define WORLD_DEPTH 16
/* Besides, those of connections that were given up. */
#define WORLD_OPS ((1 + WORLD_EPS) * WORLD_DEPTH)
#define WORLD_REGION 65536
#define WORLD_STEPS 3 /* of a chain, at most */

/* What an application does while it waits for completions. */
enum waits {
	WAITS_POLLING,    /* it reads its queue without pause */
	WAITS_SREAD,      /* fi_cq_sread, without a timeout */
	WAITS_SREAD_MS,   /* ... with a short one */
	WAITS_DESCRIPTOR, /* fi_trywait, then poll */
	WAITS_COUNTER,    /* fi_cntr_wait */
	WAITS_ASIDE,      /* a target that makes no call at all */
	WAITS_KINDS,
};

/* The target's memory. */
enum memory {
	MEMORY_DMP,
	MEMORY_PAGE,
	MEMORY_NONE,
	MEMORIES,
};

/* When the target posts receives of a connection. */
enum receives {
	RECEIVES_AHEAD,
	RECEIVES_LATE, /* while a message waits for one */
	RECEIVES_NEVER,
	RECEIVES_KINDS,
};

/* One process's end of a connection. */
struct conn {
	struct fid_ep *ep;
	bool open; /* the application may use it */
	struct party *party;
	struct conn *other;
	bool cut;           /* by an accident, or because it is to be closed */
	unsigned int calls; /* under way, of its endpoint */
	bool lost;          /* the application knows that it is */
	int64_t silent_ns;  /* nothing reaches the other end since then; or 0 */
	int64_t heard_ns;   /* FI_SHUTDOWN; or 0 */
	int64_t heard_excused_ns;
	/* Messages go to the target. */
	uint64_t sent, posted; /* messages; receives for them */
	enum receives receives;
	bool one_kind;    /* of memory, in which it receives */
	uint64_t notices; /* commits that the target's application is told of */
	/* The other end has no receive for a message, or reads no notices: nothing moves. */
	int64_t stuck_ns, stuck_since_ns;
	int64_t naps_until_ns; /* who could move it; in stuck_ns from the beginning of the nap on */
	bool given_up;         /* for that reason: what is under way ends when it is closed */
};

enum op_kind {
	OP_WRITE,
	OP_READ,
	OP_SEND,
	OP_ATOMIC,
	OP_FETCH,
	OP_COMPARE,
	OP_CHAIN,
};

struct op {
	bool under_way;
	enum op_kind kind;
	int64_t begin_ns;
	/* As these times were then. */
	int64_t excused_ns, synced_ns, stuck_ns;
	struct conn *conn;
	bool on_page;
	bool notifies; /* the target's application, by immediate data */
	bool tells;    /* ... by an entry in its queue */
	uint64_t result;
	struct fi_pmemverbs_step steps[WORLD_STEPS];
};

/* A thread that sleeps until something comes into a queue. */
struct sleeper {
	struct party *party;
	struct fid_cq *cq;
	enum waits waits;
	bool ends, received; /* no more operations, no more receives */
	struct sched_task *task;
};

struct party {
	struct sched_process process;
	struct core_domain core;
	struct pmv_core row;
	struct pmv_fabric fabric;
	struct fid_domain *domain;
	struct fid_cq *cq, *rx_cq; /* the same, unless it splits */
	struct fid_eq *eq;
	struct fid_cntr *cntr;
	struct conn conns[WORLD_CONNS];
	unsigned int num_conns;
	enum waits waits;
	bool watches; /* its event queue */
	bool reaps;   /* a thread of its own reads the queue of an initiator */
	bool splits;  /* endpoints receive into a queue of their own, on which a thread sleeps */
	enum waits rx_waits; /* ... in this way */
	bool twins;          /* two threads sleep on one queue ... */
	bool is_busy;        /* ... and one of them computes */
	struct sleeper sleeper, twin, rx_sleeper;
	struct sched_task *watcher, *receiver;
	unsigned int rests;  /* of who polls, since something was there */
	bool ends, received; /* no more operations, no more receives */
	bool away, silent;   /* its machine is cut off: for a while, for good */
	int64_t watches_ns;
	uint64_t wakes_before;
	int64_t worked_before_ns;
	/* Of an initiator: */
	unsigned int depth;
	int64_t most_pause_ns; /* between bursts */
	bool uses_page;
	struct op ops[WORLD_OPS];
	bool is_away; /* it looks at none of them */
	bool was_cut; /* while it did the next: */
	bool reacts;  /* it looks only at what it receives, and waits for the target's agent */
	int64_t back_ns;
	uint64_t ended; /* so many have */
	/* What the target's application writes to, if it answers. */
	char *own_memory;
	struct fid_mr *own_mr;
};

struct world {
	struct party target;
	struct party initiators[WORLD_INITIATORS];
	unsigned int num_initiators;
	char *memory[MEMORIES];
	struct fid_mr *mr[MEMORIES];
	struct fid_ep *srx; /* the target's context that all its connections receive from */
	struct fid_cntr *eps_events, *mrs_events; /* those of endpoints, and of regions */
	struct fi_info *info;
	char *source;
	/* What happens meanwhile. */
	int64_t bound_ns; /* in which an operation ends */
	bool stops;       /* processes are stopped for a while */
	bool cuts;        /* a connection ends */
	bool silences;    /* machines are cut off */
	int timeout_s;    /* FI_PMEMVERBS_TIMEOUT */
	bool reopens;     /* applications close connections, and open others */
	bool sends;       /* some operations are messages */
	bool shares;      /* ... that all connections receive from one context */
	bool posts;       /* ... whose receives another thread posts, at any time */
	enum receives shared;
	bool called; /* peers that know nothing of the provider come and go */
	bool chains; /* others are chains */
	bool floods; /* some commits have more messages than fit into a mailbox */
	bool naps;   /* messages without a receive are there also while all are idle */
	bool plain;  /* ... and nobody asks anything of the target's agent */
	bool fences; /* a core like verbs can */
	int64_t most_sync_ns;
	bool hangs; /* one sync takes longer than anything else ... */
	bool hung;  /* ... and has begun */
	bool idles;
	bool notices;        /* the target's application is told of some commits ... */
	bool unread;         /* ... and never reads that */
	bool answers;        /* ... or commits something itself then */
	bool immediates;     /* it is told of some plain writes as well */
	bool events;         /* it is told of all writes and atomics: FI_RMA_EVENT */
	bool reads_late;     /* it looks at nothing now and then */
	bool elsewhere;      /* ... although fi_trywait has let it wait; nobody needs its agent */
	size_t target_size;  /* of its queue */
	unsigned int opened; /* connections */
	/* So long nobody had to do anything: processes were stopped; nothing was read; disks
	 * synced. */
	int64_t stopped_ns, stops_since_ns, late_ns, late_since_ns, synced_ns, syncs_since_ns;
	unsigned int syncs; /* that go on */
	/* What the target's application is to hear of, has heard of, and since when it has not. */
	uint64_t told, heard, answered;
	int64_t told_ns, told_excused_ns;
	/* What was seen. */
	uint64_t ops_ended, ops_failed;
	uint64_t writes, atomics; /* of initiators, that have succeeded; those that fetch */
	int64_t longest_ns;
};

extern struct world world;

/* world_choose -- what a seed stands for; tells: print it */
void world_choose(void);
void world_describe(void);

/* world_cut_one -- one of its connections ends */
void world_cut_one(struct party *party);
/* world_stop -- a process, or all (NULL), and that time does not count */
void world_stop(struct party *party, int64_t ns);

/* world_live -- from the first object that is opened to the last one that is closed */
void *world_live(void *arg);

/* world_time.c: what has no time to count, and what is late */

/*
 * world_stopped_ns -- so long a process was stopped until now, or the target's application away;
 * world_synced_ns -- disks synced
 */
int64_t world_stopped_ns(void);
int64_t world_synced_ns(void);
/* world_check -- has each operation ended in its time?  world_deadline_ns -- as it has found then
 */
int64_t world_deadline_ns(void);
void world_check(void);
/* world_check_read -- all that has ended was read: is anything of a process late? */
void world_check_read(const struct party *party);

/* world_setup.c: world_prepare -- memory, as it is in each world */
void world_prepare(void);
void world_open(void);
/* world_connect -- the initiators to the target */
void world_connect(void);
void world_close(void);
/* world_in -- whatever is done from here on, that process does it */
void world_in(struct party *party);
void sure(int ret, const char *what);

/* apps.c: a burst of operations */
void *apps_burst(void *party);
/* apps_await -- until something has come, perhaps; apps_read -- true: there was something */
void apps_await(struct party *party, struct fid_cq *cq, enum waits waits);
bool apps_read(struct party *party);
/* apps_rest -- between two looks of who polls */
void apps_rest(struct party *party);

/* sleepers.c */

/* sleepers_choose -- who has two queues, or two threads at one */
void sleepers_choose(struct party *party);
void sleepers_describe(const struct party *party);
/* sleepers_be_busy -- one of two threads has taken something, and computes */
void sleepers_be_busy(struct party *party);
/*
 * sleepers_start -- who sleeps until something comes, and who watches an event queue;
 * sleepers_start_rx -- those of the queue of what is received
 */
void sleepers_start(struct party *party);
void sleepers_stop(struct party *party);
void sleepers_start_rx(struct party *party);
void sleepers_stop_rx(struct party *party);

/* floods.c */

/* floods_open, floods_close -- the target's regions; floods_come -- before a fenced commit */
void floods_open(void);
void floods_close(void);
void floods_come(struct conn *conn);

/* conns.c */

/* conns_bind -- to the queues of its process */
void conns_bind(struct party *party, struct fid_ep *ep);
/* conns_add -- one more of an initiator's, to the target */
void conns_add(struct party *initiator);
/* conns_reopen -- close both ends, whatever goes on there, and open others */
void conns_reopen(struct conn *conn);
/* conns_renew -- all that were given up */
void conns_renew(void);
/* conns_enter -- before a call of an endpoint; false: it is closed; conns_leave -- behind it */
bool conns_enter(struct conn *conn);
void conns_leave(struct conn *conn);
/* conns_are_awaited -- does an operation wait for an answer, which whoever receives hears of? */
bool conns_are_awaited(const struct conn *conn);
/* conns_heard_end -- of the connection of this endpoint */
void conns_heard_end(struct party *party, const struct fid *ep);

/* apps_count_unread -- is what a target has never read as little as it asked for? */
void apps_count_unread(void);

/* ops.c */

/* ops_find_free -- or NULL: there are as many as the party may have */
struct op *ops_find_free(struct party *party);
/* ops_under_way -- so many, without those of connections that were given up */
unsigned int ops_under_way(const struct party *party);
void ops_begin(struct party *party, struct op *op);
/* ops_let_pass -- until a post that found no room may be repeated */
void ops_let_pass(struct party *party);
void ops_end(struct party *party, struct op *op, int err);

/* chains.c: chains_check -- of one that has ended well */
ssize_t chains_post(enum memory memory, struct op *op);
void chains_check(const struct op *op);

/* events.c: FI_RMA_EVENT */

/* events_open, events_close -- the target's counters; events_bind -- of an endpoint */
void events_open(void);
void events_close(void);
void events_bind(struct fid_ep *ep);
/* events_add -- such an operation has ended well, so it was counted before */
void events_add(enum op_kind kind);

/* messages.c */

/* messages_start, messages_end -- the shared context */
void messages_start(void);
void messages_end(void);
/* messages_bind -- an endpoint of the target */
void messages_bind(struct fid_ep *ep);
/*
 * messages_choose -- how the target's end of a new connection receives; messages_open -- when it
 * may be used
 */
void messages_choose(struct conn *conn);
void messages_open(struct conn *conn);
/* messages_post -- one more receive; messages_note -- after one more message, or notice */
void messages_post(struct conn *conn);
void messages_note(struct conn *conn);
/* messages_note_all -- of a shared context, whose receives others take at any time */
void messages_note_all(void);
/* messages_stuck_ns -- so long this end of a connection was stuck until now; 0, mostly */
int64_t messages_stuck_ns(const struct conn *conn);
/* messages_stuck_before_ns -- ... of this an operation that begins now has no use */
int64_t messages_stuck_before_ns(const struct conn *conn);
bool messages_are_stuck(const struct conn *conn);
/* messages_lack -- a receive, or somebody who reads notices */
bool messages_lack(const struct conn *conn);
/* messages_received -- a receive has ended, or (err) was cancelled */
void messages_received(struct conn *conn, int err);
/* messages_receive -- a thread of the target, until the party ends */
void *messages_receive(void *party);

/* callers.c */

/* callers_open, callers_close -- the target's passive endpoint */
void callers_open(void);
void callers_close(void);
/* callers_come -- a thread; callers_await_end -- until the target has nothing of them any more */
void *callers_come(void *arg);
void callers_await_end(void);
/* callers_answer -- a request; callers_end -- of an endpoint, if it is one of theirs */
void callers_answer(struct fi_info *info);
void callers_end(const struct fid *ep);
/* callers_deadline_ns -- when the target must have heard that the next one has gone */
int64_t callers_deadline_ns(void);

/* silences.c */

/* silences_choose, silences_restrict -- what a seed makes of a world, and of a party */
void silences_choose(void);
void silences_restrict(struct party *party);
void silences_describe(void);
/* silences_happen -- an accident of that machine's */
void silences_happen(struct party *party);
/* silences_flag -- nothing arrives on this connection any more */
void silences_flag(struct conn *conn);
/*
 * silences_known_ns -- when an end that is silent, and has had an operation since then, is known to
 * be; silences_excuse -- it need not be
 */
int64_t silences_known_ns(const struct conn *conn, int64_t begin_ns);
bool silences_excuse(const struct conn *conn);
/* silences_bound_ns -- a peer is given up so long after it owes an answer, at most */
int64_t silences_bound_ns(int timeout_s);

#endif /* WORLD_H */
