/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * functional.h -- what a case of the functional program is made of
 *
 * A case is a function that returns 0 if all was right, and else what failed()
 * or skipped() returns, which keep the reason.  So do all functions below that
 * return int, unless they say otherwise: a case chains them with ||.
 *
 * Whatever a case opens belongs to the runner, which closes it after the case.
 */
#ifndef PMEM_FUNCTIONAL_H
#define PMEM_FUNCTIONAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"

#define MAX_LINKS 80
#define MAX_REMOTES 12
#define MAX_TARGETS 3
#define MAX_POSTED 32768
#define REASON 400

#define COMMIT (FI_COMMIT_COMPLETE | FI_COMPLETION)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

struct fx;

/* A process that plays the target, and our use of the provider towards it */
struct target_proc {
	struct fx *fx;
	int control;
	unsigned int port; /* of its listening endpoint */
	pid_t pid;
	struct node node;
	bool is_open;
	bool has_domain; /* it opens one at the first connection */
	bool has_file;   /* its memory is one, or a device: not anonymous */
	bool can_sync;   /* msync works there */
};

/* One posted operation; its completions and errors are counted here. */
struct op {
	struct fi_context2 context; /* first: completions name it */
	atomic_uint completions;
	atomic_uint errors;
	int err;
	uint64_t flags; /* of the completion */
	uint64_t data;
	size_t offset; /* where a write went, how much and what */
	size_t len;
	uint64_t seed;
};

/* A connection to a target */
struct link {
	struct fx *fx;
	struct target_proc *target;
	struct conn conn;
	enum fi_cq_format format;
	uint64_t id; /* at the target */
	struct memory memory;
	struct region local; /* what writes are made from */
	size_t used;
};

/* A region at a target, and what has to be in it */
struct remote {
	struct target_proc *target;
	uint64_t id;
	uint64_t addr;
	uint64_t key;
	uint64_t seed; /* of what was there first */
	size_t len;
	unsigned char *shadow;
	unsigned char *image; /* what was read from the target last */
};

struct fx {
	const struct options *opts;
	int session;
	uint64_t caps;                       /* what all targets are asked for */
	struct target_proc *target;          /* the one that most cases use */
	struct target_proc own[MAX_TARGETS]; /* what only this case uses */
	struct link links[MAX_LINKS];
	unsigned int nlinks;
	struct remote remotes[MAX_REMOTES];
	unsigned int nremotes;
	struct op *ops;
	atomic_uint nops;
	atomic_ullong seed;
	uint64_t deadline;
	pthread_mutex_t lock; /* of what follows */
	bool has_failed;
	bool has_skipped;
	char reason[REASON];
};

struct test_case {
	const char *name;
	int (*run)(struct fx *fx);
};

/* Each ends with an entry without a name. */
extern const struct test_case data_cases[];
extern const struct test_case completion_cases[];
extern const struct test_case order_cases[];
extern const struct test_case mix_cases[];
extern const struct test_case error_cases[];
extern const struct test_case loss_cases[];
extern const struct test_case domain_cases[];
extern const struct test_case wait_cases[];
extern const struct test_case sharing_cases[];
extern const struct test_case agent_cases[];
extern const struct test_case agent_waits_cases[];
extern const struct test_case message_cases[];
extern const struct test_case hostile_cases[];
extern const struct test_case stranger_cases[];
extern const struct test_case crowd_cases[];
extern const struct test_case file_cases[];
extern const struct test_case flush_cases[];
extern const struct test_case gone_cases[];
extern const struct test_case event_cases[];
extern const struct test_case call_cases[];
extern const struct test_case chain_cases[];

/* failed, skipped -- keep the reason (the first one); -1 */
int failed(struct fx *fx, const char *format, ...) __attribute__((format(printf, 2, 3)));
int skipped(struct fx *fx, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* expect -- 0 if it is true, else failed */
int expect(struct fx *fx, bool is_true, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * failed_call -- what a libfabric call returned
 * note_failed_call -- for it: analysers have to see that it returns an error
 */
void note_failed_call(struct fx *fx, const char *call, ssize_t ret);
static inline int failed_call(struct fx *fx, const char *call, ssize_t ret)
{
	note_failed_call(fx, call, ret);
	return -1;
}

/* ---- targets ---- */

struct target_attr {
	const char *const *environment; /* NAME=VALUE strings, then NULL; or NULL */
	uint64_t caps;                  /* of the provider there; 0: fx->caps */
	uint64_t our_caps;              /* and here */
};

/* fx_target -- a new target process that only this case uses; attr NULL: the usual */
struct target_proc *fx_target(struct fx *fx, const struct target_attr *attr);
struct target_proc *target_start(struct fx *fx, struct target_proc *target,
				 const struct target_attr *attr);
void target_end(struct target_proc *target);
int target_signal(struct target_proc *target, int signo);

/* target_call -- one command; negative: what the target answered, nothing kept as failure */
int target_call(struct target_proc *target, struct control_msg *msg, void *payload, size_t room);

/* target_must_call -- the same of a command that has no reason to fail: 0, or failed to do what is
 * said */
int target_must_call(struct target_proc *target, struct control_msg *msg, void *payload,
		     size_t room, const char *what);

/* the two halves of it, for commands that take while the initiator goes on */
int target_begin(struct target_proc *target, struct control_msg *msg, const void *payload);
int target_finish(struct target_proc *target, struct control_msg *msg, void *payload, size_t room);

/* end_command -- of those that last until the next one is there; the target's answer */
int end_command(struct target_proc *target, struct control_msg *msg);

/*
 * served_link -- a link to a target of its own, whose memory only the agent makes
 * durable; NULL: it failed, or the provider under test has no agent
 */
struct link_attr;
struct link *served_link(struct fx *fx, const struct link_attr *attr);

/* served_region -- memory of such a target */
struct remote *served_region(struct link *link, size_t len);

/* query_key -- what the provider reads from the key */
struct fi_pmemverbs_region;
int query_key(struct fx *fx, struct link *link, uint64_t key, struct fi_pmemverbs_region *region);

/* query_messages -- how it would commit them */
int query_messages(struct fx *fx, struct link *link, struct fi_pmemverbs_region *region);

/* by_agent -- commits to that region need the processor there; also false: it failed */
bool by_agent(struct link *link, const struct remote *remote);

/* is_pmemverbs -- the provider under test has pmemverbs' own extensions */
bool is_pmemverbs(const struct fx *fx);

/* ---- regions at the target; NULL: it failed ---- */
#define SKEW 61

struct remote *fx_remote(struct fx *fx, struct target_proc *target, size_t len, uint64_t access,
			 uint64_t flags);
struct remote *fx_remote_skewed(struct fx *fx, struct target_proc *target, size_t len,
				uint64_t access, uint64_t flags, size_t skew);

/* remote_try -- the target's answer to the registration, nothing kept as failure */
int remote_try(struct target_proc *target, struct remote *remote, size_t len, uint64_t access,
	       uint64_t flags, size_t skew, uint64_t seed);

/*
 * fx_remote_file -- persistent memory in a file of its own: a new one beside the
 * target's memory, or the one at a path, whose bytes are left alone
 */
struct remote *fx_remote_file(struct fx *fx, struct target_proc *target, size_t len,
			      const char *path);

/* remote_same -- the target sees what has to be there, in the region and around it */
int remote_same(struct fx *fx, struct remote *remote);
int remote_fetch(struct fx *fx, struct remote *remote);

/* pmem_region -- what most cases use: persistent, writable for peers, nothing more */
struct remote *pmem_region(struct fx *fx, size_t len);

/* ---- connections ---- */
struct link_attr {
	struct conn_attr conn;
	enum accept_flags accept;
	uint64_t op_flags;         /* of the endpoint */
	bool unordered;            /* FI_OPT_PMEMVERBS_WRITES_PASS */
	const struct remote *kind; /* for ACCEPT_KIND */
	size_t local_size;         /* 0: 4 MiB */
};

/* fx_link -- connect to a target (NULL: the common one), attr NULL: selective completion */
struct link *fx_link(struct fx *fx, struct target_proc *target, const struct link_attr *attr);

/* fx_unconnected -- the same up to an endpoint that is not connected yet */
struct link *fx_unconnected(struct fx *fx, struct target_proc *target,
			    const struct link_attr *attr);
void link_close(struct link *link);

/* source -- registered memory, used in turn, with the pattern of a seed for an offset */
void *source(struct link *link, size_t len, uint64_t seed, size_t offset);

/* ---- operations ---- */
struct write {
	struct remote *remote;
	size_t offset;
	size_t len;
	uint64_t flags;
	uint64_t data;
	unsigned int iovs; /* 0: one */
	uint64_t key;      /* 0: the remote's */
};

struct op *op_new(struct fx *fx);

/*
 * post_write -- fi_writemsg of a new pattern, once; what it returned.  The op is
 * given when the call has accepted it.
 */
ssize_t post_write(struct link *link, const struct write *write, struct op **op);

/* write_at -- the same, waiting while the queue is full; failed if it is refused */
int write_at(struct link *link, const struct write *write, struct op **op);

/* commit -- one durable write, awaited */
int commit(struct link *link, struct remote *remote, size_t offset, size_t len, uint64_t flags);

/*
 * write_from -- fi_writemsg of bytes in the link's registered memory, waiting
 * while the queue is full; what the remote has to contain is the caller's matter
 */
int write_from(struct link *link, const struct remote *remote, size_t offset, void *buf, size_t len,
	       uint64_t flags, uint64_t data, struct op *op);

/* Writes that carry no commit: the calls without flags, and fi_writemsg with none */
enum plain {
	PLAIN_WRITE,
	PLAIN_WRITEV,
	PLAIN_WRITEDATA,
	PLAIN_INJECT,
	PLAIN_INJECTDATA,
	PLAIN_WRITEMSG,
	PLAIN_KINDS,
};

/* plain_has_context -- the call takes one: injecting ones never complete */
bool plain_has_context(enum plain kind);

/* plain_post -- one of those calls for a new pattern, once; what it returned */
ssize_t plain_post(struct link *link, enum plain kind, const struct write *write, struct op **op);

/* plain_at -- the same, waiting while the queue is full; failed if it is refused */
int plain_at(struct link *link, enum plain kind, struct remote *remote, size_t offset, size_t len,
	     struct op **op);

/* read_at -- post a read with a completion */
int read_at(struct link *link, const struct remote *remote, size_t offset, size_t len, void *buf,
	    struct op **op);

/* remote_expect -- the remote has to contain this from now on */
void remote_expect(struct remote *remote, size_t offset, size_t len, uint64_t seed);

/* successes_landed -- whatever has completed without an error is there, intact */
int successes_landed(struct fx *fx, struct remote *remote, struct op *const *ops, unsigned int n);

/* reap -- take what completions there are */
int reap(struct link *link);

/* await_room -- before a call is made again that a full queue has refused: reap, or time is up */
int await_room(struct link *link);

/* await -- until the op has completed; failed on an error or when time is up */
int await(struct link *link, struct op *op);

/* await_any -- the same, but an error will do */
int await_any(struct link *link, struct op *op);

/* await_error -- the op must fail */
int await_error(struct link *link, struct op *op);

/* linger -- take completions for so long: a second one for an op is a failure */
int linger(struct link *link, unsigned int ms);

/* op_done -- completed or failed */
bool op_done(const struct op *op);

/* all_done -- await_any for each */
int all_done(struct link *link, struct op *const *ops, unsigned int n);

/* is_late -- the case has taken too long */
bool is_late(const struct fx *fx);
void pause_ms(unsigned int ms);

/* get_log -- what the target got on a connection since the last time: how many, negative: failed */
int get_log(struct link *link, struct log_entry *log, size_t room, size_t wait_for,
	    unsigned int ms);

/*
 * wait_on_fd -- for an operation, on its CQ's descriptor, the way that
 * fi_trywait(3) describes; a look now and then is no way (cases_wait.c)
 */
int wait_on_fd(struct fx *fx, struct link *link, struct op *op);

#endif /* PMEM_FUNCTIONAL_H */
