/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * method.h -- how a commit is made, as a pure function of what is known
 *
 * What makes a write durable depends on what survives a power failure at the target and on
 * what may still hold the data when it strikes:
 *
 *   persists          DDIO   single update        b after a (fenced commit of b)
 *   DMP               on     agent                agent
 *    ... flushable    on     write, FLUSH         [FLUSH], ATOMIC WRITE, FLUSH
 *   DMP               off    write, READ          [READ], fenced write, READ
 *   MHP               any    write, READ          write, READ
 *   WSP               any    write                write
 *   PAGE              any    agent                agent
 *   NONE (volatile)   any    write, READ          write, READ
 *
 * A READ flushes, because neither PCI Express nor the NIC may let it return before every
 * earlier write of the connection has reached its destination: the caches with DDIO, and the
 * memory controller without.  It holds for all addresses, not only for the one that is read,
 * unless something relaxes the order of writes.  Then only the agent can tell.  If the owner of
 * persistent memory lets nobody read it, the agent does what a READ does in this table.
 *
 * A FLUSH (IBTA 1.5) of the persistent type makes its range durable by itself, wherever inbound
 * data land.  But it says nothing of other data, and no fence is sure to wait for it.  Only an
 * ATOMIC WRITE, of 8 aligned bytes, is executed behind FLUSHes that were posted before.  So any
 * other fenced write is committed by a FLUSH only if nothing earlier is left to be made durable
 * (rdma_flush.h).
 *
 * A core may also say when the target's processor has placed a write (PMV_ENGINE_DELIVER).  That
 * says the same of all that the connection wrote before, and saves the READ where data persist as
 * they arrive: MHP, and NONE.  In DMP they may still be on their way to the memory controller.
 * Such a core tells the target of a write that it has placed, too: then that is durable, and the
 * write takes its immediate data along.
 *
 * On iWARP and TCP a write's completion says only that it was handed to the local transport.
 * WSP needs it to mean that the target's NIC has the data, so WSP is treated as MHP there.
 */
#ifndef PMV_METHOD_H
#define PMV_METHOD_H

#include "engine/core.h"
#include "memory/key.h"

enum pmv_method {
	PMV_METHOD_REFUSED, /* nothing proves durability; choice.why says why */
	PMV_METHOD_WRITE,   /* the write's completion is the proof */
	PMV_METHOD_READ,    /* a READ behind the write is the proof */
	PMV_METHOD_FLUSH,   /* a persistent RDMA FLUSH behind it is the proof */
	PMV_METHOD_AGENT,   /* the target's processor has to write the data back */
};

/* When the target's application may be told of the write, if it is told. */
enum pmv_immediate {
	PMV_IMMEDIATE_WITH_DATA,    /* write with immediate */
	PMV_IMMEDIATE_BEHIND_FLUSH, /* fenced write of 0 bytes with immediate, behind the READ */
};

/*
 * What was posted on the endpoint before a fenced commit and may still be
 * volatile.  The fence covers all of it, whatever region it went to.
 */
struct pmv_past {
	bool agent;   /* writes that only an agent makes durable */
	bool flush;   /* writes whose completion alone proves nothing (not WSP) */
	bool ordered; /* writes that later ones may overtake unless a flush is between (DMP) */
	/* An RDMA FLUSH makes all of `agent` durable, and the commit can be an ATOMIC WRITE. */
	bool flushable;
};

struct pmv_choice {
	enum pmv_method method;
	bool flush_first;   /* a READ in front of the write, and the write fenced behind it */
	bool persist_first; /* an RDMA FLUSH in front of it, and it is an ATOMIC WRITE */
	/* The agent has to be done with everything before the write is executed. */
	bool after_agent;
	/* A READ has to stand between the write and the request: nothing else keeps order. */
	bool flush_agent;
	/* What is in place is durable: an acknowledgement of that proves as much as a READ. */
	bool in_place;
	enum pmv_immediate immediate;
	const char *why;
};

/* pmv_method_of_write -- how a write to such memory becomes durable, by itself */
enum pmv_method pmv_method_of_write(const struct pmv_attr *attr, enum pmv_transport transport);

/* pmv_method_may_flush -- can an RDMA FLUSH take the place of the agent? */
bool pmv_method_may_flush(const struct pmv_attr *attr);

/* pmv_method_one_sided_why -- why a write to such memory needs no agent, if it needs none */
const char *pmv_method_one_sided_why(const struct pmv_attr *attr, enum pmv_transport transport);

/* pmv_method_choose -- how a commit is made; past is NULL without a fence */
struct pmv_choice pmv_method_choose(const struct pmv_attr *attr, enum pmv_transport transport,
				    const struct pmv_past *past);

/* pmv_method_in_place -- is what such a method commits there durable as soon as it is in place? */
bool pmv_method_in_place(enum pmv_method method, const struct pmv_attr *attr);

/* pmv_method_orders_by_flush -- do data there become durable in order only behind a flush? */
bool pmv_method_orders_by_flush(const struct pmv_attr *attr);

/*
 * pmv_method_of_message, pmv_method_choose_message -- the same for a message.  received: the kind
 * of memory that receives all messages.  NULL: only the target's processor knows which message is
 * where.  relaxed: the path may place messages out of order.
 */
enum pmv_method pmv_method_of_message(const struct pmv_attr *received,
				      enum pmv_transport transport);
struct pmv_choice pmv_method_choose_message(const struct pmv_attr *received,
					    enum pmv_transport transport, bool relaxed,
					    const struct pmv_past *past);

#endif /* PMV_METHOD_H */
