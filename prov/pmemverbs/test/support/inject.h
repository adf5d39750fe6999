/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inject.h -- what is below the provider fails: one call, or one completion, at a time
 *
 * An engine stands between the provider and libfabric's functions, and some functions of the C
 * library are replaced by the linker (local.mk).  All are counted.  The n-th one of a kind fails.
 */
#ifndef INJECT_H
#define INJECT_H

#include "pair.h"

enum inject_kind {
	INJECT_POST,       /* the engine does not take a request */
	INJECT_POLL,       /* it can't be polled */
	INJECT_POLL_ERROR, /* an error entry can't be read */
	INJECT_COMPLETION, /* a request is carried out, but nobody knows: it fails */
	INJECT_BREAK,      /* it is not, nor any after it: the connection is lost */
	INJECT_OPEN,       /* the core opens no object */
	INJECT_MEMORY,     /* there is no memory, or no descriptor */
	INJECT_KINDS,
};

enum inject_side { INJECT_HOME, INJECT_AWAY, INJECT_SIDES };

struct inject_fault {
	enum inject_kind kind;
	enum inject_side side;
	unsigned int n;    /* 0: nothing fails */
	unsigned int more; /* so many behind it fail, too */
	int err;           /* a positive fi_errno */
};

#define INJECT_FAULTS 2

struct inject {
	struct inject_fault faults[INJECT_FAULTS];
	unsigned int calls[INJECT_KINDS][INJECT_SIDES];
	bool broken[INJECT_SIDES];     /* the connection is lost */
	unsigned int done;             /* so many of them have happened */
	int err;                       /* of the last one */
	bool active;                   /* else nothing is counted, and nothing fails */
	const struct fid_domain *away; /* the core's domain there; all else is at home */
};

extern struct inject inject;
extern const struct pmv_engine_ops inject_engine;

/* inject_start -- count from 1 from now on; inject_stop -- and no more */
void inject_start(const struct inject_fault *faults, const struct fake *away);
void inject_stop(void);

/* inject_hits -- one more of these: is it the one that fails? */
bool inject_hits(enum inject_kind kind, enum inject_side side);

/* inject_open -- for fake.on_open */
int inject_open(const struct fake *fake);

/* inject_run_core -- all that the core of that side was given ends; returns how much */
size_t inject_run_core(struct fake *fake, enum inject_side side);

/* inject_text -- for a message */
const char *inject_text(void);

#endif /* INJECT_H */
