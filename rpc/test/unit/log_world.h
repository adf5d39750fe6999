/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log_world.h -- a client and a server that take turns over memory that loses power
 *
 * The client writes its entries, or sends them.  The server executes calls, crashes, recovers, and
 * is compared with what the client was told.  A mutant does one thing wrong.
 */
#ifndef RPC_LOG_WORLD_H
#define RPC_LOG_WORLD_H

#include "batch.h"
#include "cut.h"

#define CALLS 7
#define BATCH 2

/* What is broken on purpose. */
enum mutant {
	NONE,
	WATERMARK_FIRST, /* the watermark is durable before the effect */
	EFFECT_FIRST,    /* the effect is durable before the watermark */
	WORD_FIRST,      /* the word is durable before the data */
	TOLD_EARLY,      /* "durable" is said before it is */
	REPLY_EARLY,     /* the reply is given before it is durable */
	NO_SEQUENCE,     /* the check knows nothing of laps */
	NO_BODY,         /* the check does not cover the data */
	NO_KEY,          /* the check knows nothing of connections */
	JOURNAL_LOST,    /* there is no journal */
	JOURNAL_LATE,    /* the journal is not durable before its contents are written */
	JOURNAL_TORN,    /* a torn journal counts */
	PLACES_LATE,     /* the journal begins anew before the places are durable */
	EPOCH_LATE,      /* and goes on before that is durable */
	JOURNAL_UNSURE,  /* a journal that a killed process has left is taken for durable */
	CELL_EARLY,      /* a cell is posted again before its call is executed */
	CELL_STRIDE,     /* the watermark moves by the entry's length, not by its cell */
	BATCH_FAR,       /* a batch's commit is told of the call behind it, too */
	NOTICE_FAR,      /* a notice of n calls is counted as n + 1 */
	NOTICE_SHORT,    /* and as n - 1 */
	MUTANTS
};

extern enum mutant mutant;

/* The application's memory: what calls have done. */
struct ledger {
	uint64_t count;
	uint64_t sum;
};

struct answer {
	uint64_t count;
	uint64_t life;
};

struct world {
	struct cut cut; /* first: a step knows its world */
	struct rpc_store store;
	unsigned char *mirror; /* the client's copy of the ring, and room behind it */
	size_t argument_len;
	size_t cell, other_cell; /* of this connection, and perhaps of the next one; 0: written */
	uint64_t free_cells, cell_position; /* cells with a receive, and where the first one is */
	size_t long_len;                    /* of the argument of each third call, if they differ */
	unsigned int window;
	bool batches;           /* calls share flushes */
	struct rpc_batch batch; /* calls that are held back */
	uint64_t notices;       /* calls that the server was told of, and has not executed */
	uint64_t life;          /* how often it has recovered */
	struct rpc_place next;
	uint64_t posted, durable, replied; /* as the client knows */
	struct answer replies[CALLS + 1];
	unsigned int depth;
	uint64_t images;
	const char *wrong; /* what was found */
};

/* A store is opened whatever its sizes are. */
extern const struct rpc_sizes any;

/* world_complain -- what was found wrong first stays */
void world_complain(struct world *world, const char *what);

/* world_greet -- a connection: all cells of the ring get receives, from the next call's on */
void world_greet(struct world *world, uint64_t key);

/* world_run -- calls overlap: as many as there is room for, then some are executed */
void world_run(struct world *world);

/* world_explore -- power fails: the server recovers from each image that may be left */
void world_explore(struct cut *cut);

/*
 * world_die -- the server is killed, and starts again: it sees all that was written, durable or
 * not.  Then power fails while it recovers.
 */
void world_die(struct cut *cut);

/* world_open -- the world's store, with a journal that is soon full */
int world_open(struct world *world);

/* world_in_journal -- is this place a part of the journal?  world_in_epoch -- of its first word? */
bool world_in_journal(const struct cut *cut, size_t offset);
bool world_in_epoch(const struct cut *cut, size_t offset);

/* Of log_client.c, for log_server.c, and the other way round. */

/* world_post_next -- the client's next call or batch, if there is room for it */
bool world_post_next(struct world *world);

/* world_execute -- the next call, if it is there; tell: the client gets the reply */
bool world_execute(struct world *world, bool tell);

/* world_length, world_fill -- of a call's argument, and what is in it */
size_t world_length(const struct world *world, uint64_t sequence);
void world_fill(const struct world *world, uint64_t sequence, uint64_t *argument);

/* world_sum_to -- what all calls up to this one add to the sum */
uint64_t world_sum_to(uint64_t sequence);

#endif /* RPC_LOG_WORLD_H */
