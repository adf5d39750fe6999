/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_ext_pmemverbs.h -- what pmemverbs adds to libfabric's API
 *
 * A program needs this header only for the names of the OFA proposal for
 * remote persistent memory (FI_PMEM, FI_COMMIT, FI_IMMED, FI_UNCACHED) and for
 * the queries below; upstream's FI_RMA_PMEM, FI_COMMIT_COMPLETE, FI_FENCE and
 * FI_REMOTE_CQ_DATA do the same without it.  fi_pmemverbs(7) has the semantics.
 */
#ifndef FI_EXT_PMEMVERBS_H
#define FI_EXT_PMEMVERBS_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Capability (fi_info::caps, needs FI_RMA) and fi_mr_reg flag: the region is
 * persistent memory, and writes to it can be committed.
 */
#define FI_PMEM FI_RMA_PMEM

/*
 * Flag of fi_writemsg and the atomic *msg calls: the completion comes when the
 * data of this operation and of all earlier writes of the endpoint to the same
 * rkey are durable (volatile memory: globally visible).  Of fi_sendmsg: when this
 * message and all earlier ones of the endpoint are, where they were received.
 */
#define FI_COMMIT FI_COMMIT_COMPLETE

/*
 * With FI_COMMIT: the target's completion, which carries fi_msg_rma::data,
 * follows durability.  Without FI_COMMIT, or with a message, the call fails with
 * -FI_EINVAL.
 * FI_COMMIT | FI_REMOTE_CQ_DATA means the same.
 */
#define FI_IMMED (1ULL << 63)

/*
 * fi_mr_reg flag: data written to the region should bypass the target's
 * caches where that can be had.  A hint: it changes no promise.
 */
#define FI_UNCACHED (1ULL << 63)

/*
 * Option of an endpoint that receives messages, level FI_OPT_ENDPOINT, value a
 * struct fid_mr *: all receives of this endpoint will be in memory like this
 * region's (the same persistence domain), registered with FI_PMEM in the same
 * domain.  Then messages are committed as writes to such memory are: without the
 * processor, where these are.  To be set before the endpoint is connected or
 * accepted and before its first receive, -FI_EBUSY; a receive elsewhere is refused,
 * -FI_EINVAL.  The region may be closed afterwards.
 */
#define FI_PROV_SPECIFIC_PMEMVERBS (0x93e << 16)
enum {
	FI_OPT_PMEMVERBS_RECV_MR = -FI_PROV_SPECIFIC_PMEMVERBS,
	/*
	 * Of an initiator's FI_EP_MSG endpoint, an int: not 0 if its plain writes need no order
	 * behind commits.  They may be executed, and become durable, before commits that were
	 * posted earlier, fenced or not, unless both go to the same bytes by the same key.  In
	 * return they need not wait for commits that the target's agent is working on.  0 at first.
	 */
	FI_OPT_PMEMVERBS_WRITES_PASS,
	/*
	 * Of an FI_EP_MSG endpoint, read only, a struct fi_pmemverbs_peer: whose key its peer has
	 * proved (FI_PMEMVERBS_KEYS).  Of one that accepts it can be read before fi_accept, of one
	 * that connects after FI_CONNECTED.  -FI_ENODATA: no key was proved.  -FI_ETOOSMALL.
	 */
	FI_OPT_PMEMVERBS_PEER,
};

/* What the file peers says of a key, fi_pmemverbs_keys(7). */
struct fi_pmemverbs_peer {
	char name[64];
	char rights[192]; /* words RIGHT=VALUE with a blank in between; "": there are none */
};

/* What survives a power failure at the target. */
enum fi_pmemverbs_domain {
	FI_PMEMVERBS_NONE, /* nothing; a commit means global visibility */
	FI_PMEMVERBS_PAGE, /* a plain file: what msync has written */
	FI_PMEMVERBS_DMP,  /* DIMMs and memory controller (ADR) */
	FI_PMEMVERBS_MHP,  /* CPU caches too (eADR, CXL GPF) */
	FI_PMEMVERBS_WSP,  /* I/O controller and NIC buffers too */
};

/* How a commit to a region is made. */
enum fi_pmemverbs_method {
	FI_PMEMVERBS_REFUSED, /* it can't be; the call fails with -FI_EOPNOTSUPP */
	FI_PMEMVERBS_WRITE,   /* the write's own completion proves it */
	FI_PMEMVERBS_READ,    /* a small READ behind the write flushes it */
	FI_PMEMVERBS_AGENT,   /* the target's agent writes it back and acknowledges */
	FI_PMEMVERBS_FLUSH,   /* an RDMA FLUSH behind the write; some commits go by the agent */
};

struct fi_pmemverbs_region {
	enum fi_pmemverbs_domain domain;
	enum fi_pmemverbs_method method; /* from the asking endpoint; local regions: REFUSED */
	int pmem;                        /* registered with FI_PMEM */
	int ddio;                        /* inbound DMA lands in the target's caches, or may */
	int uncached;                    /* registered with FI_UNCACHED */
	int relaxed;                     /* writes of one connection may be placed out of order */
};

/*
 * Queries: fi_open_ops(&domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL).
 * The queries return 0 or a negative fi_errno.
 */
#define FI_PMEMVERBS_OPS "pmemverbs_ops_v1"

struct fi_pmemverbs_ops {
	size_t size;
	/*
	 * What a key says of the region behind it, and how the endpoint would
	 * commit to it.  The key is one of the peer's, or of the endpoint's own
	 * domain.  -FI_ENOKEY: the key carries no attributes (its owner does not
	 * use pmemverbs).  -FI_EKEYREJECTED: it is of an earlier life of the
	 * peer's domain, or of a third domain.
	 */
	int (*query_key)(struct fid_ep *ep, uint64_t key, struct fi_pmemverbs_region *region);
	/* The core provider below, as in FI_PMEMVERBS_CORE. */
	const char *(*core_name)(struct fid_domain *domain);
	/*
	 * How a connected endpoint would commit messages, and what its peer has promised of the
	 * memory in which they are received (FI_OPT_PMEMVERBS_RECV_MR).  If it has promised nothing
	 * that is PAGE, which needs most, and pmem is 0.
	 */
	int (*query_messages)(struct fid_ep *ep, struct fi_pmemverbs_region *region);
};

/*
 * Counters of a domain, of FI_EP_MSG or FI_EP_RDM:
 * fi_open_ops(&domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops, NULL).
 *
 * They begin with 0 when the domain is opened, and count what its endpoints have done since, also
 * those that are closed.  Each is exact once the calls that it counts have returned.  They are read
 * one after the other while operations go on, so one may have a commit that the next has not yet.
 * A new version of this header may have more of them, at the end.
 */
#define FI_PMEMVERBS_COUNTERS_OPS "pmemverbs_counters_v1"

struct fi_pmemverbs_counters {
	uint64_t endpoints; /* open now */
	/*
	 * Commits from here: writes, atomics and messages with FI_COMMIT_COMPLETE, and what
	 * FI_PMEMVERBS_COMMIT=all commits.  Each is counted once when it is accepted, by how it is
	 * made (enum fi_pmemverbs_method), also if it shares its flush with others.
	 */
	uint64_t commits_write;
	uint64_t commits_read;
	uint64_t commits_agent;
	uint64_t commits_refused; /* the call failed, but not with -FI_EAGAIN */
	uint64_t commits_failed;  /* accepted, and completed with an error */
	uint64_t requests_sent;   /* messages to peers' agents; a large commit takes several */
	/*
	 * What this domain's agent did for peers.  Commits that a peer makes without the agent
	 * leave no trace here: only the peer counts them.
	 */
	uint64_t requests_served;  /* messages from peers that were acknowledged ... */
	uint64_t requests_refused; /* ... with an error: nothing is promised of what they named */
	uint64_t flushes;          /* ranges whose cache lines were written back */
	uint64_t flushed_bytes;    /* of these ranges, not of their lines */
	uint64_t syncs;            /* of pages, or blocks of files */
	uint64_t synced_bytes;     /* what these spanned: more than the kernel had to write */
	uint64_t stores; /* data that came inside a request, and were put in their place */
	uint64_t stored_bytes;
	uint64_t sleeps;         /* of the agent's thread */
	uint64_t wakes;          /* sleeps that a peer or the application ended, and not the time */
	uint64_t chains;         /* accepted from here; those that commit are commits_agent, too */
	uint64_t chains_served;  /* among requests_served */
	uint64_t commits_flush;  /* from here, by RDMA FLUSH */
	uint64_t connections;    /* of endpoints ... */
	uint64_t disconnections; /* ... that ended before these were closed: by the peer, or lost */
	uint64_t peers_given_up; /* as their machines were silent (FI_PMEMVERBS_TIMEOUT) */
	uint64_t requests_awaited; /* now: operations that wait for the agent of a peer */
	uint64_t requests_pending; /* now: of peers, taken and not acknowledged */
};

struct fi_pmemverbs_counters_ops {
	size_t size;
	/*
	 * Fills in the first `len` bytes of the structure.  `len` is the caller's
	 * sizeof(struct fi_pmemverbs_counters); what this provider does not count is 0.
	 * Returns 0, or -FI_EINVAL if `len` is no multiple of 8.
	 */
	int (*read)(struct fid_domain *domain, struct fi_pmemverbs_counters *counters, size_t len);
};

/*
 * Memory with a file behind it, for any NIC and any disk: fi_pmemverbs_file(7).
 * fi_open_ops(&domain->fid, FI_PMEMVERBS_FILE_OPS, 0, (void **) &ops, NULL).
 *
 * The memory is anonymous, and has what is in the file.  Regions of it that are registered with
 * FI_PMEM are durable as a file is (FI_PMEMVERBS_PAGE): the agent writes the blocks of a commit
 * from this memory to the disk, past the page cache.
 */
#define FI_PMEMVERBS_FILE_OPS "pmemverbs_file_v1"

/* Flags: make the file if there is none; it must not be there. */
#define FI_PMEMVERBS_FILE_CREATE (1ULL << 0)
#define FI_PMEMVERBS_FILE_EXCL (1ULL << 1)

struct fi_pmemverbs_file_attr {
	const char *path;
	uint64_t offset; /* of the part that is opened; offset and len are multiples of 4,096 */
	uint64_t len;    /* 0: up to the end of the file */
	uint64_t flags;
	unsigned int mode; /* of a new file */
};

/* An open file.  All of it is to be read only. */
struct fi_pmemverbs_file {
	void *addr; /* the memory: whole pages */
	size_t len;
};

/* What a path is or would be, if it were opened. */
struct fi_pmemverbs_file_path {
	int error;            /* 0, or the negative fi_errno with which open would refuse it */
	char why[320];        /* the reason */
	char file_system[32]; /* its type; empty: unknown */
	char device[32];      /* as sysfs names it; empty: unknown */
	uint32_t block_size;  /* what is written at least: neighbours in it are written, too */
	uint32_t sector_size; /* the device's physical one; 0: unknown */
	int fua;              /* a write needs no flush behind it; -1: unknown */
};

struct fi_pmemverbs_file_ops {
	size_t size;
	/*
	 * open returns 0 or a negative fi_errno, after a warning that says what to do.
	 * -FI_EBUSY: the file is open already, here or in another process.
	 * -FI_EOPNOTSUPP: no such file can be had there.
	 */
	int (*open)(struct fid_domain *domain, const struct fi_pmemverbs_file_attr *attr,
		    struct fi_pmemverbs_file **file);
	/* Unmaps the memory.  -FI_EBUSY: a region of it is registered.  Writes nothing. */
	int (*close)(struct fi_pmemverbs_file *file);
	/*
	 * Makes the target's own stores to a range durable, and returns when they are.  Any thread
	 * may call it at any time.  -FI_EIO: they are not, or earlier ones in the file are not.
	 */
	int (*persist)(struct fi_pmemverbs_file *file, const void *addr, size_t len);
	/* What would become of a path; it need not exist.  Makes and changes nothing. */
	int (*query)(struct fid_domain *domain, const char *path,
		     struct fi_pmemverbs_file_path *answer);
};

/*
 * Chains: several dependent steps at the target in one round trip, fi_pmemverbs_chain(7).
 * fi_open_ops(&ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) &ops, NULL), of an FI_EP_MSG endpoint;
 * or of a domain, for the lists of buffers at the target.
 */
#define FI_PMEMVERBS_CHAIN_OPS "pmemverbs_chain_ops_v1"

#define FI_PMEMVERBS_CHAIN_STEPS 16
/*
 * Results of one chain have this many bytes at most, those with a result_mr this many, and a step
 * of a CAS this many.
 */
#define FI_PMEMVERBS_CHAIN_RESULTS 960
#define FI_PMEMVERBS_CHAIN_LARGE 65536
#define FI_PMEMVERBS_CHAIN_CAS 32
/* Words of 8 bytes that steps of a chain hand on to later ones.  They are 0 when it begins. */
#define FI_PMEMVERBS_CHAIN_WORDS 4

enum fi_pmemverbs_step_kind {
	FI_PMEMVERBS_STEP_READ = 1,
	FI_PMEMVERBS_STEP_WRITE,
	FI_PMEMVERBS_STEP_CAS,
	FI_PMEMVERBS_STEP_FETCH_ADD,
	FI_PMEMVERBS_STEP_ALLOCATE, /* take a buffer from a list, and write data into it */
	FI_PMEMVERBS_STEP_FREE,     /* give a buffer back */
};

/* When a CAS swaps: if the memory compares so with the expected value. */
enum fi_pmemverbs_compare {
	FI_PMEMVERBS_EQ,
	FI_PMEMVERBS_NE,
	FI_PMEMVERBS_LT,
	FI_PMEMVERBS_LE,
	FI_PMEMVERBS_GT,
	FI_PMEMVERBS_GE,
};

/*
 * Flags of a step.  INDIRECT: at its place is a pointer to the memory; BOUNDED: and behind that the
 * longest length.  CONDITIONAL: only if the step before has succeeded.  REDIRECT: the result goes
 * to the words from `to` on.  COMMIT: all before is durable first, of this chain and of this
 * endpoint's writes and earlier chains; of the last step, all of the chain is in the end, too.
 */
#define FI_PMEMVERBS_STEP_INDIRECT (1ULL << 0)
#define FI_PMEMVERBS_STEP_BOUNDED (1ULL << 1)
#define FI_PMEMVERBS_STEP_CONDITIONAL (1ULL << 2)
#define FI_PMEMVERBS_STEP_REDIRECT (1ULL << 3)
#define FI_PMEMVERBS_STEP_COMMIT (1ULL << 4)
/*
 * What a step takes from words: AT_WORD: what is added to its address, from `at`; FROM_WORD: its
 * operand, from `from` on; EXPECT_WORD: the expected value, from `expect` on.  FROM_MEMORY: its
 * operand is in the target's memory, at from_addr.
 */
#define FI_PMEMVERBS_STEP_AT_WORD (1ULL << 5)
#define FI_PMEMVERBS_STEP_FROM_WORD (1ULL << 6)
#define FI_PMEMVERBS_STEP_FROM_MEMORY (1ULL << 7)
#define FI_PMEMVERBS_STEP_EXPECT_WORD (1ULL << 8)

enum fi_pmemverbs_step_status {
	FI_PMEMVERBS_STEP_OK,
	FI_PMEMVERBS_STEP_FAILED,      /* a CAS: the memory does not compare so */
	FI_PMEMVERBS_STEP_NULL,        /* the pointer is 0 */
	FI_PMEMVERBS_STEP_EMPTY,       /* the list has no buffer to give out */
	FI_PMEMVERBS_STEP_SKIPPED,     /* conditional: the step before has not succeeded */
	FI_PMEMVERBS_STEP_REFUSED,     /* no such memory, list or buffer, or not for this peer */
	FI_PMEMVERBS_STEP_LOST,        /* the memory's medium has failed */
	FI_PMEMVERBS_STEP_NOT_REACHED, /* one of the last two has ended the chain */
	FI_PMEMVERBS_STEP_UNKNOWN,     /* nothing was heard of the chain's end */
};

struct fi_pmemverbs_step {
	uint32_t kind;    /* enum fi_pmemverbs_step_kind */
	uint32_t compare; /* of a CAS: enum fi_pmemverbs_compare */
	uint64_t flags;
	uint64_t addr;                /* the place, as for fi_write; of FREE: the buffer */
	uint64_t key;                 /* of the region there, or that the list's buffers are in */
	uint64_t to_key;              /* INDIRECT: of the region that the pointer points into */
	uint32_t list;                /* of ALLOCATE and FREE: struct fi_pmemverbs_list::number */
	uint8_t to, from, expect, at; /* words */
	uint64_t from_addr;           /* with FROM_MEMORY */
	uint64_t from_key;
	size_t len; /* of FETCH_ADD: 8 */
	/* The call copies these.  A mask of NULL is all ones. */
	const void *operand;  /* what is written, swapped in or added */
	const void *expected; /* of a CAS */
	const void *compare_mask;
	const void *swap_mask;
	/*
	 * Filled in when the chain has completed.  A READ's result has `len` bytes, that of CAS and
	 * FETCH_ADD is what was there before, that of ALLOCATE the buffer's address.
	 */
	void *result;    /* or NULL */
	size_t done;     /* bytes that were read or written */
	uint32_t status; /* enum fi_pmemverbs_step_status */
	uint32_t reserved;
	/*
	 * Of a READ: the target writes the result straight to `result`, which lies in this region
	 * of the endpoint's domain, with FI_REMOTE_WRITE.  NULL: it comes with the acknowledgement.
	 */
	struct fid_mr *result_mr;
};

/* Equal buffers, side by side in a region of the target.  All of it is to be read only. */
struct fi_pmemverbs_list {
	uint32_t number; /* for peers */
	uint64_t key;    /* the region's, for peers */
	uint64_t addr;   /* of the first buffer, for peers */
	size_t size;     /* of each */
	size_t count;
};

struct fi_pmemverbs_chain_ops {
	size_t size;
	/*
	 * Executes the steps at the target, one after the other.  The completion, one entry with
	 * FI_RMA | FI_WRITE, comes when all have ended.  `steps` and their results belong to the
	 * provider until then.  flags: FI_COMPLETION, or 0.  Returns 0 or a negative fi_errno;
	 * -FI_EMSGSIZE: the chain or its results are too long.
	 */
	ssize_t (*post)(struct fid_ep *ep, struct fi_pmemverbs_step *steps, size_t count,
			void *context, uint64_t flags);
	/*
	 * At the target: `count` buffers of `size` bytes, from an offset in a region with
	 * FI_REMOTE_WRITE on.  All are in use at first.
	 */
	int (*list_open)(struct fid_mr *mr, size_t offset, size_t size, size_t count,
			 struct fi_pmemverbs_list **list);
	/* Chains find it no more. */
	int (*list_close)(struct fi_pmemverbs_list *list);
	/*
	 * Nobody uses the buffer at that address (as peers know it) any more.  -FI_EALREADY: it is
	 * free, -FI_EINVAL: there is none.
	 */
	int (*list_put)(struct fi_pmemverbs_list *list, uint64_t addr);
	/* How many are free; some may have to wait for chains under way before they are given out.
	 */
	size_t (*list_num_free)(struct fi_pmemverbs_list *list);
};

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_PMEMVERBS_H */
