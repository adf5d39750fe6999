/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stress.h -- random operations, and an oracle that knows what has to be durable
 *
 * One process is the target, others are initiators.  All of them share a `struct world`: what is
 * written there is no part of what is tested, it is how they are watched.
 *
 * Memory is there twice.  The live memory is what peers write and everybody reads.  The shadow is
 * what a power failure would leave: shadow.c stands in for the functions that write memory
 * back, and copies to the shadow what they were called for.  Memory that needs no write-back is
 * its own shadow.
 *
 * Each thread of each connection has a lane in each region, where nobody else writes.  The lane's
 * journal has the writes that no commit covers yet.  What they write are pieces of a pool of random
 * bytes that never changes.  When a commit is said to be durable, oracle.c looks
 * whether all the writes that it covers are in the shadow, or newer ones of the same bytes.
 *
 * A completion says so, or a counter.  Counters don't tell which operations they have counted, so
 * one says something when it has counted all that were posted.
 */
#ifndef PMEM_STRESS_H
#define PMEM_STRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/common.h"

#define PROCESSES 8
#define CONNECTIONS 8 /* of a process */
#define SLOTS 16      /* connections of all processes */
#define THREADS 4     /* of a connection */
#define REGIONS 2     /* of a connection, and a third one for messages */
#define WINDOW 16     /* operations of a thread under way */
#define PLACES 3      /* that one operation writes */
#define JOURNAL 256
#define AREA 40008 /* of a lane; neighbours share cache lines and pages */
#define WORDS 16   /* behind it, for atomics */
#define LANE (AREA + 8 * WORDS)
#define MAX_WRITE 20000
#define MAX_READ 4096
#define BUFFERS 64 /* for messages; the later half of them need not be looked at by anybody */
#define BUFFER 512
#define HEADER 16   /* of a message: whose it is, and its number */
#define MESSAGES 32 /* that are sent before it is known where they are */
#define NAME 64     /* of an endpoint */
#define POOL ((size_t) 4 << 20)

/* A part of a lane's area, or (atomics) a word: its index is the offset. */
struct place {
	uint32_t offset;
	uint32_t len;
};

/* A write: its bytes are those of the pool from `from` on. */
struct entry {
	uint32_t from;
	uint32_t count;
	struct place places[PLACES];
	uint64_t operand; /* of an atomic sum; 0: a write */
	bool alone;       /* no other operation covers it: an atomic of FI_EP_RDM */
	bool commits;     /* by a flag or by the setting: it may be refused after it was posted */
	bool failed;      /* it was said to have failed: its bytes may be there or not */
};

struct lane {
	uint64_t head; /* of the journal: the first that no commit covers ... */
	uint64_t next;
	atomic_uint_fast64_t posted; /* ... and behind the last whose call has returned */
	struct entry journal[JOURNAL];
	/* What the covered writes have left, where that is known. */
	uint8_t floor[AREA];
	uint8_t known[AREA];
	uint64_t base[WORDS], covered[WORDS], all[WORDS]; /* sums since the connection began */
};

/* How far the journals have to be durable. */
struct extent {
	uint64_t upto[THREADS][REGIONS];
	uint64_t messages;
};

/* What a counter has to count since the connection began, and what it says when it has */
struct tally {
	uint64_t posted; /* or is about to be: incremented before the call */
	struct extent extent;
};

/* Counters of a connection: the initiator's, and with FI_RMA_EVENT those at the target */
enum tally_kind {
	OF_INITIATOR,
	OF_ENDPOINT, /* the target's */
	OF_REGION,   /* and those behind it, of each region */
	TALLIES = OF_REGION + REGIONS,
};

enum op_state { OP_FREE, OP_UNDER_WAY };

struct op {
	atomic_int state;
	uint32_t generation; /* tells it from those before it in this place */
	const char *name;
	uint64_t number; /* in its thread's program */
	uint64_t flags;
	bool claims;          /* its completion says that `extent` is durable */
	struct extent extent; /* with its own write */
	struct extent before; /* fenced commit: durable before it is executed */
	unsigned int thread, region;
	uint64_t seq;     /* of its own write in the journal; UINT64_MAX: none */
	uint64_t message; /* its number; 0: it is none */
	uint64_t sum;     /* what a fetching atomic has to return */
	bool fetches, reads, visible;
	bool alone;       /* see struct entry: it claims nothing but this */
	uint64_t operand; /* ... its own, and its word */
	uint32_t word;
	bool counted[TALLIES];
	atomic_bool sure; /* its call has returned before any sync failed */
	struct place read;
	uint64_t read_seq;
};

struct message {
	uint32_t from;
	uint32_t len; /* 0: not sent */
};

/* A connection, and what the target lends it. */
struct slot {
	pthread_mutex_t lock; /* of the journals and what is known; processes die with it */
	uint64_t addr[REGIONS], key[REGIONS];
	uint32_t life; /* of the target that said so */
	/* FI_EP_RDM has no requests: an initiator increments `asked`, and the target answers. */
	atomic_uint asked, granted;
	uint8_t name[NAME];
	/* A sync was made to fail: nothing that follows is written back there. */
	atomic_bool lost[REGIONS + 1];
	atomic_uint faults; /* such syncs since the memory was registered */
	bool declares;      /* the target says beforehand where it receives */
	uint64_t sent, found;
	struct message messages[MESSAGES];
	struct tally tallies[TALLIES];
	uint64_t told[TALLIES]; /* what the target's counters were */
	bool begun;             /* the connection, and nobody has died while noting something */
	/* operations to a region that have completed: the target was told of them before */
	atomic_uint_fast64_t completed[REGIONS];
	atomic_uint_fast64_t released; /* messages whose buffers may be used again */
	struct lane lanes[THREADS][REGIONS];
	struct op ops[THREADS][WINDOW];
	/* where the program stands, for a process that goes on after another one was killed */
	uint64_t round, operations;
};

enum count {
	C_WRITES,
	C_INJECTS,
	C_ATOMICS,
	C_FETCHES,
	C_READS,
	C_MESSAGES,
	C_COMMITS,
	C_FENCED,
	C_CLAIMS,
	C_BYTES,
	C_NOTICES,
	C_FENCES,
	C_VISIBLE,
	C_COUNTED,
	C_TOLD,
	C_ERRORS,
	C_ROUNDS,
	C_CONNECTS,
	C_DEATHS,
	C_FAILURES,
	C_SYNCS,
	C_WRITTEN,
	C_DRAINS,
	COUNTS,
};

struct settings {
	struct options opts;
	const char *memory;
	unsigned long processes, connections, threads, operations, seconds;
	unsigned long kills;  /* one in so many rounds ends with a killed process; 0: none */
	unsigned long faults; /* one in so many syncs fails; 0: none */
	unsigned long forget; /* one in so many syncs and drains does nothing; 0: none */
	bool no_atomics;
	bool rdm;        /* FI_EP_RDM instead of FI_EP_MSG */
	bool events;     /* the target asks for FI_RMA_EVENT */
	bool relaxed;    /* FI_PMEMVERBS_ORDERING: messages can't be committed, so none are sent */
	bool commit_all; /* FI_PMEMVERBS_COMMIT: each write is a commit */
};

struct world {
	uint64_t seed;
	uint64_t start;      /* ns; who takes the place of a killed process does not begin anew */
	atomic_int finder;   /* the process that has found something; 0: nothing was found */
	atomic_bool written; /* ... and it has written here what it is */
	char failure[512];
	atomic_uint port; /* of all targets; 0: there was none yet */
	atomic_uint life; /* of the target: how many there were */
	pthread_mutex_t pid_lock;
	pid_t target; /* 0: dead */
	atomic_bool ending;
	atomic_int shadowed; /* is memory written back? 1: yes, 0: it is its own shadow */
	atomic_uint_fast64_t counts[COUNTS];
	struct slot slots[SLOTS];
};

/* The same in all processes, from before they were made. */
extern struct settings stress;
extern struct world *world;
extern uint8_t *live, *shadow, *pool;

/* stress_fail -- end all processes: this is what was found; what others find after it is not told
 */
void stress_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* kill_target -- if it lives */
void kill_target(void);

static inline void stress_count(enum count what, uint64_t n)
{
	atomic_fetch_add_explicit(&world->counts[what], n, memory_order_relaxed);
}

/* Where things are, from the beginning of the memory */
size_t region_len(void);
size_t slot_len(void);
size_t memory_len(void);
size_t region_at(unsigned int slot, unsigned int region); /* REGIONS: of the messages */
size_t lane_at(unsigned int slot, unsigned int thread, unsigned int region);
size_t buffer_at(unsigned int slot, unsigned int buffer);

/* The oracle; slots are named by their numbers.  What has no lock in its name takes the lock. */
void oracle_lock(unsigned int slot);
void oracle_unlock(unsigned int slot);

/*
 * oracle_end -- the last connection is no more, so what was under way there is nobody's, and its
 * memory is about to be registered anew
 */
void oracle_end(unsigned int slot);

/* oracle_begin -- a connection begins: nothing is known of what was under way on the last one */
void oracle_begin(unsigned int slot);

/* oracle_append -- before a write is posted: choose its bytes; false: the journal has no room */
bool oracle_append(unsigned int slot, unsigned int thread, unsigned int region, struct entry *entry,
		   uint64_t *seq);

/* oracle_snapshot -- what was posted: in one region, or in all (-1) */
void oracle_snapshot(unsigned int slot, int region, struct extent *extent);

/* oracle_claim -- an operation's completion says that its extent is durable */
void oracle_claim(unsigned int slot, const struct op *op);

/* oracle_claim_alone -- the same of an atomic that claims nothing but itself */
void oracle_claim_alone(unsigned int slot, const struct op *op);

/* oracle_fail_power -- only the shadow is left; the target is dead, and counted as that */
void oracle_fail_power(unsigned int slot);

/* oracle_notice -- the target was told of a commit, or (plain) of a write that is there */
void oracle_notice(unsigned int slot, uint32_t data);

/* oracle_visible -- a completion says that the data of the operation are at their places */
void oracle_visible(unsigned int slot, const struct op *op);

/*
 * oracle_post -- an operation is about to be posted; oracle_refused: its call did not accept it;
 * oracle_accepted: it did
 */
void oracle_post(unsigned int slot, const struct op *op);
void oracle_refused(unsigned int slot, const struct op *op);
void oracle_accepted(unsigned int slot, const struct op *op);

/*
 * oracle_counted -- what a counter was, a moment ago, with its errors; true: it has counted all.
 * Then a counter of the target's says that all is visible, too.
 */
bool oracle_counted(unsigned int slot, enum tally_kind kind, uint64_t value, uint64_t errors);

/* oracle_told -- have the target's counters counted all, with what has failed? */
bool oracle_told(unsigned int slot);

/* oracle_failed -- its bytes may be there or not */
void oracle_failed(unsigned int slot, const struct op *op);

/* oracle_fences -- of no fenced commit may a byte be visible before all that is earlier is durable
 */
void oracle_fences(unsigned int slot);
void oracle_all_fences(void);

/* oracle_known -- all that was ever covered is still there */
void oracle_known(unsigned int slot);

/* oracle_expect -- what a read that is posted now has to return; known: which bytes of it */
void oracle_expect(unsigned int slot, struct op *op, uint8_t *data, uint8_t *is_known);
void oracle_read(unsigned int slot, const struct op *op, const uint8_t *data,
		 const uint8_t *expected, const uint8_t *is_known);

/* oracle_message -- what a message consists of */
void oracle_message(unsigned int slot, uint64_t number, uint8_t *data);

/* oracle_data -- an operation's name in 32 bits */
uint32_t oracle_data(const struct op *op, unsigned int index);
#define NO_OP UINT32_MAX

/* shadow_begin -- this process is the target: its write-back functions fill the shadow */
void shadow_begin(void);

/* stress_caps -- what a process asks for, but atomics and events */
uint64_t stress_caps(void);

/* stress_av -- of FI_EP_RDM; NULL: FI_EP_MSG needs none */
struct fid_av *stress_av(const struct node *node);

/* stress_atomics -- FI_ATOMIC, if it is offered together with what the attributes ask for */
uint64_t stress_atomics(const struct options *opts, const struct node_attr *attr);

int stress_target(void);
int stress_initiator(unsigned int process);

#endif /* PMEM_STRESS_H */
