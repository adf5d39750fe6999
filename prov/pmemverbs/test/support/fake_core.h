/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_core.h -- a core provider without a network
 *
 * Its objects are libfabric's; the provider under test opens them as it would
 * those of verbs.  What is posted is recorded and stays under way until the
 * test says how it ends; how much is accepted, what fails and what a close
 * leaves behind is the test's to say, too.
 */
#ifndef FAKE_CORE_H
#define FAKE_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "testcore/ep.h"
#include "testcore/mr.h"

enum fake_state {
	FAKE_UNDER_WAY,
	FAKE_ENDED,
	FAKE_FORGOTTEN, /* by a close that reported nothing */
};

struct fake_ep;

struct fake_post {
	struct testcore_request op;
	enum fake_state state;
	int err; /* once it has ended */
	struct fake_ep *ep;
	bool delivered; /* at the peer, if there is one */
	char *inlined;  /* a copy of what an injected one sends */
};

/* How the core's CQ names an operation that has ended, unlike what wrappers make up. */
#define FAKE_LEN(len) ((len) + 1000)
#define FAKE_BUF ((void *) 0xb0f0)
#define FAKE_DATA UINT64_C(0xda7a)
#define FAKE_TAG UINT64_C(0x7a6)

enum fake_on_close {
	FAKE_CLOSE_CANCELS, /* an error entry for all that is under way, like verbs and tcp */
	FAKE_CLOSE_FORGETS, /* nothing is reported; the test may report it later */
	FAKE_CLOSE_IS_BUSY, /* it fails and changes nothing */
};

/* Where passive endpoints listen that were given no address. */
#define FAKE_PORT 9228

struct fake {
	struct fid_fabric fabric;
	struct fid_domain domain;
	pthread_mutex_t lock;

	struct fake_post *posts; /* in the order in which they were accepted */
	size_t num_posts;
	size_t max_posts;
	size_t first_open; /* all before it have ended */
	struct fake_ep *eps;
	struct testcore_mrs mrs;
	unsigned int denied; /* by regions that lack the access */
	bool imm_receives;   /* immediate data uses up one of the peer's receives */
	bool virt_addr;      /* peers address regions by virtual addresses, not by offsets */
	struct fi_info *domain_info; /* what the core's objects were opened with */
	struct fi_info *ep_info;
	size_t cq_size;
	bool paired;        /* queues that are opened have a pair of sockets in their descriptor */
	size_t max_cq_size; /* longer ones are refused; 0: any is fine */

	int room;           /* transmit operations accepted from now on; -1: no limit */
	int fail_in;        /* the n-th one posted from now on fails; 0: none */
	int fail_err;       /* a positive fi_errno */
	void *fail_context; /* of the one that failed so */
	int receive_in;     /* the n-th receive posted from now on finds no room; 0: none */
	bool automatic;     /* operations complete as they are posted */
	int busy_every;     /* each n-th transmit operation finds no room; 0: none does */
	int attempts;
	enum fake_on_close on_close;
	bool domain_is_busy; /* it can't be closed */
	int close_fails_in;  /* the n-th region or queue that is closed from now on; 0: none */
	int posted_to_closed;
	int shutdowns;
	int cq_reads;
	bool holds_message; /* without a receive: nobody may sleep, says the core */
	atomic_int open_objects;
	int rejections;             /* of connection requests ... */
	struct fid *rejected;       /* ... the last one's handle ... */
	uint8_t rejected_with[256]; /* ... and what it was told */
	int ports_taken;            /* so many passive endpoints with an address can't have it */
	int connects, accepts;
	int eq_fd;       /* that event queues have, whatever they are opened with; 0: none */
	size_t sent_len; /* CM data of the last one */
	uint8_t sent[256];
	size_t rejected_len;

	uint64_t remote; /* only regions with one of these rights have a key; 0: all have one */

	/* Called before an operation is looked at, without locks: what another thread might do. */
	void (*on_post)(struct fake *fake, const struct fake_post *post, void *arg);
	void *on_post_arg;
	/* Called when an object is about to be opened: a negative fi_errno, or 0. */
	int (*on_open)(const struct fake *fake);
	/* Called when a region is about to be closed. */
	void (*on_mr_close)(struct fake *fake, uint64_t key, void *arg);
	void *on_mr_close_arg;
};

void fake_init(struct fake *fake);
void fake_destroy(struct fake *fake);

/*
 * fake_connect -- from now on what one endpoint writes appears in the regions of
 * the other one's domain, what it reads comes from there, and immediate data is
 * reported there: when an operation is delivered, which succeeding implies.  A
 * message is received by the other one's oldest receive, which succeeds.  A write
 * to nowhere is lost, and so is a message that finds no receive.
 */
void fake_connect(struct fid_ep *one, struct fid_ep *other);

/* fake_deliver -- the n oldest that are not, without ending them; returns how many there were */
size_t fake_deliver(struct fake *fake, size_t n);

/* fake_complete -- the n oldest transmit operations succeed; returns how many there were */
size_t fake_complete(struct fake *fake, size_t n);

/* fake_fail -- the oldest transmit operation fails; false: there is none */
bool fake_fail(struct fake *fake, int err, int prov_errno);

/* fake_fail_all -- the oldest fails with err, those behind it are cancelled: a broken connection */
size_t fake_fail_all(struct fake *fake, int err, int prov_errno);

/* fake_receives -- receive operations that have not ended */
size_t fake_receives(struct fake *fake);

/* fake_receive -- the oldest receive operation ends; err: 0 or a positive fi_errno */
bool fake_receive(struct fake *fake, int err);

/* fake_report -- one operation ends, whatever its state: late, or out of order */
void fake_report(struct fake *fake, size_t n, int err);

/* fake_under_way -- transmit operations that have not ended */
size_t fake_under_way(struct fake *fake);

/* fake_raise, fake_raise_error -- put an event into an EQ */
void fake_raise(struct fid_eq *eq, uint32_t event, const void *entry, size_t len);
void fake_raise_error(struct fid_eq *eq, const struct fi_eq_err_entry *entry);

#endif /* FAKE_CORE_H */
