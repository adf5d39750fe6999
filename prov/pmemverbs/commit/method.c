/* SPDX-License-Identifier: BSD-2-Clause */
/* method.c -- how a commit is made; method.h has the table and the argument */
#include "commit/method.h"

/* is_secret -- its owner lets nobody read it, and has an agent that knows of it: objects/mr.c */
static bool is_secret(const struct pmv_attr *attr)
{
	return attr->writable && !attr->readable && attr->pmem;
}

enum pmv_method pmv_method_of_write(const struct pmv_attr *attr, enum pmv_transport transport)
{
	if (attr->persist == PMV_PAGE || (attr->persist == PMV_DMP && attr->ddio))
		return PMV_METHOD_AGENT;
	/* The NIC's buffers persist in the order in which they were filled. */
	if (attr->persist == PMV_WSP && transport == PMV_TRANSPORT_IB)
		return PMV_METHOD_WRITE;
	return attr->relaxed || is_secret(attr) ? PMV_METHOD_AGENT : PMV_METHOD_READ;
}

/* Data is durable in the order of arrival only where arrival makes it durable. */
bool pmv_method_orders_by_flush(const struct pmv_attr *attr)
{
	return attr->persist == PMV_DMP;
}

bool pmv_method_in_place(enum pmv_method method, const struct pmv_attr *attr)
{
	return method == PMV_METHOD_READ && !pmv_method_orders_by_flush(attr);
}

bool pmv_method_may_flush(const struct pmv_attr *attr)
{
	return attr->flushable && attr->persist == PMV_DMP && attr->ddio && !attr->relaxed;
}

static const char *agent_why(const struct pmv_attr *attr)
{
	if (attr->persist == PMV_PAGE)
		return "the target's memory is a plain file, which only msync at the target makes "
		       "durable; use a DAX mapping (devdax, or fsdax with MAP_SYNC)";
	if (attr->persist == PMV_DMP && attr->ddio)
		return "the target's caches do not persist and inbound data lands in them; if DDIO "
		       "is off there, set FI_PMEMVERBS_DDIO=off at the target";
	if (!attr->relaxed)
		return "the target's region lets no peer read, so no flush can be made from here "
		       "(FI_PMEMVERBS_REMOTE_READ=explicit there); register it with FI_REMOTE_READ";
	return "the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed)";
}

const char *pmv_method_one_sided_why(const struct pmv_attr *attr, enum pmv_transport transport)
{
	if (attr->persist == PMV_NONE)
		return "the memory is volatile: a commit only means that the data is visible";
	if (pmv_method_may_flush(attr))
		return "an RDMA FLUSH has the target's NIC make the data durable";
	if (attr->persist == PMV_DMP)
		return "inbound data bypasses the caches there, and a READ pushes it to the memory "
		       "controller";
	if (attr->persist == PMV_WSP && transport == PMV_TRANSPORT_IB)
		return "the target's NIC has the data when the write completes, and its buffers "
		       "persist";
	return "the target's caches persist, and a READ pushes the data that far";
}

static struct pmv_choice refuse(const char *why)
{
	return (struct pmv_choice){.method = PMV_METHOD_REFUSED, .why = why};
}

struct pmv_choice pmv_method_choose(const struct pmv_attr *attr, enum pmv_transport transport,
				    const struct pmv_past *past)
{
	struct pmv_choice choice = {.method = pmv_method_of_write(attr, transport)};

	choice.persist_first = past && past->flushable && !past->ordered && attr->atomic_write &&
			       choice.method == PMV_METHOD_AGENT && pmv_method_may_flush(attr);
	/* Only the agent can tell when what it was asked for is done. */
	choice.after_agent = past && past->agent && !choice.persist_first;
	if (choice.after_agent)
		choice.why = "an earlier write of this endpoint, which the fence covers, went to "
			     "memory that a flush from here can't make durable";
	/* Earlier writes need a flush, and the completion of this one is no proof of theirs. */
	if (past && past->flush && choice.method == PMV_METHOD_WRITE)
		choice.method = PMV_METHOD_READ;

	choice.flush_first = past && past->ordered;
	/* A flush from here would read the region; the agent's reads the flush page. */
	if (is_secret(attr) && (choice.method == PMV_METHOD_READ || choice.flush_first))
		choice.method = PMV_METHOD_AGENT;
	/* If writes keep no order, no request from here can give them one. */
	if (attr->relaxed && (past || choice.method == PMV_METHOD_READ))
		choice.method = PMV_METHOD_AGENT;
	if (choice.method == PMV_METHOD_AGENT && pmv_method_may_flush(attr) &&
	    !(past && (choice.after_agent || past->ordered)))
		choice.method = PMV_METHOD_FLUSH;
	if (choice.method == PMV_METHOD_AGENT)
		choice.why = agent_why(attr);
	choice.flush_agent = choice.method == PMV_METHOD_AGENT && attr->relaxed;
	choice.in_place = pmv_method_in_place(choice.method, attr);
	choice.immediate = choice.method == PMV_METHOD_WRITE ? PMV_IMMEDIATE_WITH_DATA
							     : PMV_IMMEDIATE_BEHIND_FLUSH;
	if (!attr->readable && (choice.method == PMV_METHOD_READ || choice.flush_agent ||
				(choice.flush_first && choice.method != PMV_METHOD_AGENT)))
		return refuse("the target's region does not let peers read, so no flush can be "
			      "made; register it with FI_RMA_PMEM or with FI_REMOTE_READ");
	return choice;
}

enum pmv_method pmv_method_of_message(const struct pmv_attr *received, enum pmv_transport transport)
{
	return received ? pmv_method_of_write(received, transport) : PMV_METHOD_AGENT;
}

struct pmv_choice pmv_method_choose_message(const struct pmv_attr *received,
					    enum pmv_transport transport, bool relaxed,
					    const struct pmv_past *past)
{
	/* It may be any kind of memory.  A file needs most, so do what a file needs. */
	static const struct pmv_attr anything = {.persist = PMV_PAGE};
	struct pmv_choice choice;

	/* Nobody here knows where it was received, so it can't be read back. */
	if (relaxed)
		return refuse("the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed): "
			      "nothing shows when a message has reached its buffer");
	choice = pmv_method_choose(received ? received : &anything, transport, past);
	if (!received)
		choice.why = "only the target knows where it receives a message; its application "
			     "can say so with FI_OPT_PMEMVERBS_RECV_MR";
	return choice;
}
