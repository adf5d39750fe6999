/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_functional.h -- what a case over FI_EP_RDM is made of
 *
 * A case is a function that returns 0 if all was right, and else what FAIL does, which
 * keeps the reason.  So do the functions below that return int and take a client, unless
 * they say otherwise: a case chains them with ||.
 */
#ifndef PMEM_RDM_FUNCTIONAL_H
#define PMEM_RDM_FUNCTIONAL_H

#include <stdio.h>

#include <rdma/fi_atomic.h>

#include "../../common/common.h"
#include "../../common/control.h"
#include "memory/key.h"
#include "../../common/memory.h"
#include "../../common/stats.h"

#define SIZE 262144
#define INJECT 32
#define MAX_NOTICES 64
#define MAX_EARLY 64
#define STOPPED_NS UINT64_C(100000000)
#define PATIENCE_NS UINT64_C(20000000000)

extern bool commit_all; /* FI_PMEMVERBS_COMMIT=all */

/* What the client asks the server to do. */
enum {
	ASK_NAME,    /* library: to open it as that one does -> struct offer */
	ASK_BYTES,   /* offset, len -> payload */
	ASK_NOTICES, /* number to wait for -> their struct notice */
	ASK_STOP,    /* until something else comes */
	ASK_AWAY,    /* call nothing of libfabric's until something else comes */
	ASK_REOPEN,  /* the endpoint, at the same address */
	ASK_RESTART, /* with all else and other memory, as a program starts again -> struct offer */
	ASK_RECV,    /* length: of a message, into the memory */
	ASK_BYE,
};

struct notice {
	uint64_t data;
	uint64_t seen; /* the first bytes of the memory when it came */
};

struct offer {
	uint64_t key, addr;
	uint64_t volatile_key, volatile_addr;
	size_t name_len;
	char name[128];
};

/* ---- what both sides open ---- */

/* Who opens it so, and asks for the same: see libraries.c. */
enum library {
	NO_LIBRARY,
	SOS, /* Sandia OpenSHMEM: the endpoint that is the default context and the target */
	SOS_CONTEXTS, /* the same with an endpoint of its own for the default context */
	OPENFAM,
};

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	uint64_t next_key;
	/* of libraries only */
	struct fid_eq *eq;
	struct fid_cq *recv_cq;
	struct fid_cntr *get_cntr;
	struct fid_cq *target_cq;
	struct fid_ep *target_ep; /* what peers write to, if it is another one */
};

struct settings {
	enum library library; /* the rest is its, then */
	enum fi_av_type av_type;
	uint64_t op_flags;
	bool selective;
	bool counter;
	bool waits;
	bool fences; /* with the capability FI_FENCE */
};

/* make_hints -- the caller's to free, or NULL */
struct fi_info *make_hints(const struct options *opts, const struct settings *settings);

/* These have printed what failed. */
int open_side(struct side *side, const struct options *opts, const struct settings *settings,
	      const char *node, uint64_t flags);

/* open_ep -- once more, after it was closed */
int open_ep(struct side *side, const struct settings *settings);

/* open_library -- open_side as a library does it */
int open_library(struct side *side, const struct options *opts, enum library library,
		 const char *node, uint64_t flags);

/* library_hints -- the caller's to free, or NULL */
struct fi_info *library_hints(const struct options *opts, enum library library);

int close_side(struct side *side);
int side_register(struct side *side, void *buf, size_t len, uint64_t access, uint64_t flags,
		  struct fid_mr **mr);

/* serve -- be the server: 0: the client says that all is well */
int serve(const struct options *opts, int fd);

/* ---- the client ---- */

struct client {
	const struct options *opts;
	int control;
	struct side side;
	struct settings settings;
	struct offer offer;
	struct pmv_attr attr; /* what the key says */
	fi_addr_t server;
	char *buf;
	struct fid_mr *mr;
	void *desc;
	struct fi_context2 contexts[64];          /* of operations, by their number */
	struct fi_cq_data_entry early[MAX_EARLY]; /* came while something was posted */
	unsigned int num_early;
	bool stopped;       /* the server: since then ... */
	uint64_t count_was; /* ... the counter was this */
	char reason[200];
};

#define FAIL(client, ...) (snprintf((client)->reason, sizeof((client)->reason), __VA_ARGS__), -1)

int open_client(struct client *client, const struct settings *settings);
int close_client(struct client *client);

/* ask -- one command of the server, and its answer */
int ask(struct client *client, uint32_t command, uint64_t a, uint64_t b, void *payload,
	size_t room);

/* stop_server -- has stopped when this returns; go_on: if it has */
int stop_server(struct client *client);
int go_on(struct client *client);

/* connect_first -- so that a stopped server has nothing to do but to be asked */
int connect_first(struct client *client);

/* write_to_itself -- the client's own endpoint is the server from now on */
int write_to_itself(struct client *client);

/* name_volatile -- what comes goes to the server's memory that is not persistent */
void name_volatile(struct client *client);

/* is_one_sided -- are commits made by the target's NIC alone?  tcp, which is none, has offsets. */
bool is_one_sided(const struct client *client);

/* is_safe -- is memory there durable as soon as the target's processor has written to it? */
bool is_safe(const struct client *client);

/* ---- operations: the n-th of them has the n-th context ---- */

/* POST -- until it is accepted or refused; result: what it returned */
#define POST(client, result, call)                                                                 \
	do {                                                                                       \
		uint64_t end_ = now_ns() + PATIENCE_NS;                                            \
		do                                                                                 \
			(result) = (call);                                                         \
		while (busy(client, result, end_));                                                \
	} while (0)

/* busy -- a call is to be made again; what completes meanwhile is kept */
bool busy(struct client *client, ssize_t ret, uint64_t end);

/* writemsg -- fi_writemsg between the same offsets here and there, with immediate data 100 + n */
ssize_t writemsg(struct client *client, size_t offset, size_t len, int n, uint64_t flags);

/* write_plain -- fi_write */
ssize_t write_plain(struct client *client, size_t offset, size_t len, int n);

/* commit -- or with FI_PMEMVERBS_COMMIT=all a write that should be as good */
ssize_t commit(struct client *client, size_t offset, size_t len, int n, uint64_t flags);

/* fetch_sum -- the server's first word grows by the buffer's; result: what it was, or NULL */
ssize_t fetch_sum(struct client *client, uint64_t *result, int n, uint64_t flags);

/* sum -- the same without a result: over RxM the server's processor executes it, and answers */
ssize_t sum(struct client *client, int n, uint64_t flags);

/* check -- did a call return what it had to? */
int check(struct client *client, ssize_t ret, ssize_t wanted, const char *call);

/* ---- what comes of them ---- */

#define WRITTEN (FI_RMA | FI_WRITE)

/* await_any -- the next completion: of which operation */
int await_any(struct client *client, uint64_t flags);
/* await -- the completion of an operation, next of all */
int await(struct client *client, int n, uint64_t flags);

/* expect_none -- there is no completion that nobody has awaited */
int expect_none(struct client *client);

/* expect_error -- the entry that fi_cq_read has announced is of this operation */
int expect_error(struct client *client, int n, int err);

/* await_error -- the same, but it may still be under way */
int await_error(struct client *client, int n, int err);

/* expect_data -- the server's memory is what the buffer is */
int expect_data(struct client *client, size_t offset, size_t len, const char *what);

/* expect_notice -- the count-th has this data, and the memory began like the buffer by then */
int expect_notice(struct client *client, unsigned int count, uint64_t data);

/* expect_stuck -- nothing completes, and nothing is counted, for a while */
int expect_stuck(struct client *client, const char *what);

/*
 * expect_waits -- the server is stopped.  Where a NIC may commit by itself what was
 * begun, it has to complete; else it must not before the server goes on.
 */
typedef int (*done_fn)(struct client *client, uint64_t n);
int expect_waits(struct client *client, done_fn done, uint64_t n, const char *what);

/* written -- the n-th write completes */
int written(struct client *client, uint64_t n);

/* counted -- the counter comes to n, and no further */
int counted(struct client *client, uint64_t n);

/* count_commits -- those of the client's domain, by all methods; UINT64_MAX: it can't say */
uint64_t count_commits(struct client *client);

/* ---- the cases ---- */

/* The environment that a case is for. */
enum when {
	ALWAYS,     /* unless there is no agent */
	COMMIT_ALL, /* with FI_PMEMVERBS_COMMIT=all only */
	GONE,       /* where machines can go: see cases_gone.c */
	TIMEOUT,    /* with FI_PMEMVERBS_TIMEOUT only, as it takes that long some times */
	NO_AGENT,   /* and with FI_PMEMVERBS_AGENT=off, where no other can be run */
};

struct test {
	const char *name;
	int (*run)(struct client *client);
	struct settings settings;
	enum when when;
};

#define MAP .av_type = FI_AV_MAP

/* Each ends with an entry without a name. */
extern const struct test rdm_write_cases[];
extern const struct test rdm_atomic_cases[];
extern const struct test rdm_loss_cases[];
extern const struct test rdm_gone_cases[];
extern const struct test rdm_library_cases[];
extern const struct test rdm_call_cases[];
extern const struct test rdm_message_cases[];
extern const struct test rdm_fence_cases[];

#endif /* PMEM_RDM_FUNCTIONAL_H */
