/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load.h -- the clients: a thread each, what it calls, and what has to be true afterwards
 *
 * Everything that is written carries who wrote it, and when.  At the end it is read again:
 * an item has to have what its last writer has written, all of it, and nobody may have begun to
 * write after that one's call was executed.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <pthread.h>

#include "call.h"
#include "../../fabtests/common/random.h"

enum call_kind { KIND_READ, KIND_WRITE, KIND_OTHER, NUM_KINDS };

/* The last write of one client to one item. */
struct last_write {
	uint64_t sequence;
	int64_t began;
	int64_t executed; /* 0: not yet */
};

struct samples {
	uint64_t *at;
	size_t count, room;
};

struct client {
	struct load *load;
	const struct settings *settings;
	unsigned int id;
	pthread_t thread;
	struct caller *caller;
	struct call *calls, **free;
	size_t num_free;
	char *argument; /* of the call that is filled in */
	char *arguments[2];
	unsigned int turn;
	uint64_t issued; /* calls of this phase */
	uint64_t total;  /* calls of all phases that the handler counts */
	uint64_t sequence;
	size_t unacknowledged;
	bool measured; /* this phase */
	bool checks;   /* this phase */
	struct random random;
	struct last_write *last; /* of each item */
	struct samples samples[NUM_KINDS];
	unsigned int reconnects;
	/* The workload's. */
	uint64_t cursor;
	void *state;
};

struct load {
	const struct settings *settings;
	struct client *clients;
	struct zipf zipf;
	pthread_barrier_t barrier;
	uint64_t items;
	int64_t end;      /* of the measured phase; 0: by count */
	uint64_t handled; /* calls by the server, in all its lives, for these clients */
	double seconds;   /* that the measured phase took */
};

/* What comes next in a phase: fills the call in; false: nothing. */
typedef bool (*next_call)(struct client *client, struct call *call);

struct workload {
	const char *name;
	void (*sizes)(struct settings *settings);
	uint64_t (*items)(const struct settings *settings); /* that can be written */
	int (*open)(struct client *client);                 /* these two may be NULL */
	void (*close)(struct client *client);
	next_call fill;                     /* before it is measured; may be NULL */
	next_call next;                     /* measured ... */
	void (*run)(struct client *client); /* ... or this */
	void (*done)(struct client *client, struct call *call); /* executed; may be NULL */
	next_call check;
};

const struct workload *workload_find(const char *name);

/* client_run -- until there is nothing more, and all of it is executed; ends the process if it
 * fails
 */
void client_run(struct client *client, next_call next);

/* client_meet -- wait for all clients; true for the first one of them */
bool client_meet(struct client *client);

/* client_goes_on -- are there more calls to be measured? */
bool client_goes_on(const struct client *client);

/* What is written: marked, and later found as it was. */
void mark_fill(struct client *client, struct call *call, void *value, uint64_t item);
void mark_check(const struct settings *settings, const void *value, size_t len, uint64_t item);
void mark_check_last(struct client *client, const void *value, size_t len, uint64_t item);

/* was_written -- by any client */
bool was_written(const struct load *load, uint64_t item);

/* report -- what was measured */
void report(struct load *load);

extern const struct workload workload_objects;
extern const struct workload workload_ycsb[6];     /* A to F */
extern const struct workload workload_pagerank[3]; /* by enum graph_kind */

#endif /* BENCH_LOAD_H */
