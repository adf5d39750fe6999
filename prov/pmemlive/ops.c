/* SPDX-License-Identifier: BSD-2-Clause */
/* ops.c -- operations: what the applications post, and how it ends */
#include "world.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>
#include <rdma/fi_rma.h>

/* Ends */

/* fails -- allowed only where the connection was cut, or is being closed */
static void fails(struct conn *conn, int err)
{
	if (!conn->cut)
		sched_fail("an operation fails: %s", fi_strerror(err));
	conn->lost = true;
	world.ops_failed++;
}

void ops_end(struct party *party, struct op *op, int err)
{
	int64_t took = sched_now_ns - op->begin_ns - (world_stopped_ns() - op->excused_ns) -
		       (messages_stuck_ns(op->conn) - op->stuck_ns);

	if (!op->under_way)
		sched_fail("an operation ends twice");
	sched_trace("operation %d ends: %s", (int) (op - party->ops),
		    err ? fi_strerror(err) : "ok");
	op->under_way = false;
	party->ended++;
	world.ops_ended++;
	if (!err && op->kind == OP_CHAIN)
		chains_check(op);
	if (!err && party != &world.target)
		events_add(op->kind);
	if (!err && (op->notifies || op->tells) && world.told++ == world.heard) {
		world.told_ns = sched_now_ns;
		world.told_excused_ns = world_stopped_ns();
	}
	if (err && op->conn->silent_ns && core_rules.sockets && op->conn->open &&
	    op->conn->other->open && err != FI_ETIMEDOUT)
		sched_fail("an operation to a silent peer fails: %s", fi_strerror(err));
	if (err)
		fails(op->conn, err);
	else if (!op->on_page && took > world.longest_ns)
		world.longest_ns = took;
}

/* Which ones */

unsigned int ops_under_way(const struct party *party)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < WORLD_OPS; i++)
		count += party->ops[i].under_way && !party->ops[i].conn->given_up;
	return count;
}

struct op *ops_find_free(struct party *party)
{
	if (ops_under_way(party) >= party->depth)
		return NULL;
	for (unsigned int i = 0; i < WORLD_OPS; i++) {
		if (!party->ops[i].under_way)
			return &party->ops[i];
	}
	return NULL;
}

static struct conn *find_conn(struct party *party)
{
	unsigned int first = (unsigned int) sched_dice(party->num_conns);

	for (unsigned int i = 0; i < party->num_conns; i++) {
		struct conn *conn = &party->conns[(first + i) % party->num_conns];

		if (conn->open && !conn->lost && !conn->given_up)
			return conn;
	}
	return NULL;
}

static enum memory choose_memory(const struct party *party)
{
	if (party == &world.target)
		return MEMORY_DMP;
	if (world.elsewhere || world.plain)
		return MEMORY_NONE;
	if (party->uses_page && sched_one_in(3))
		return MEMORY_PAGE;
	return sched_one_in(5) ? MEMORY_NONE : MEMORY_DMP;
}

static uint64_t choose_flags(const struct party *party)
{
	static const uint64_t flags[] = {
		FI_COMMIT, FI_COMMIT, FI_COMMIT, FI_COMMIT | FI_FENCE, 0, FI_DELIVERY_COMPLETE};

	/* Behind messages a commit may need the agent wherever it is to. */
	if (world.plain && party != &world.target)
		return sched_one_in(2) ? FI_DELIVERY_COMPLETE : 0;
	return flags[sched_dice(sizeof(flags) / sizeof(flags[0]))];
}

static size_t choose_len(void)
{
	static const size_t lens[] = {8, 64, 300, 4096, 20000};

	return lens[sched_dice(sizeof(lens) / sizeof(lens[0]))];
}

static enum op_kind choose_kind(const struct party *party)
{
	/* tcp has none. */
	if (core_rules.nic && sched_one_in(6))
		return OP_ATOMIC + (enum op_kind) sched_dice(3);
	if (world.chains && party != &world.target && sched_one_in(4))
		return OP_CHAIN;
	if (world.sends && party != &world.target && sched_one_in(4))
		return OP_SEND;
	return sched_one_in(12) ? OP_READ : OP_WRITE;
}

/* Posting */

static ssize_t post_rma(enum memory memory, size_t len, uint64_t flags, struct op *op)
{
	struct party *peer = op->conn->other->party;
	bool answers = op->conn->party == &world.target;
	struct iovec iov = {world.source, len};
	struct fi_rma_iov rma_iov = {
		(uintptr_t) (answers ? peer->own_memory : world.memory[memory]), len,
		fi_mr_key(answers ? peer->own_mr : world.mr[memory])};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = op,
	};

	ssize_t ret;

	if (op->kind == OP_READ)
		return fi_readmsg(op->conn->ep, &msg, 0);
	ret = fi_writemsg(op->conn->ep, &msg, flags);
	if (!ret && op->notifies) {
		op->conn->notices++;
		messages_note(op->conn);
	}
	return ret;
}

static ssize_t post_atomic(enum memory memory, uint64_t flags, struct op *op)
{
	static const uint64_t operands[2] = {1, 0};
	struct party *peer = op->conn->other->party;
	bool answers = op->conn->party == &world.target;
	struct fi_ioc operand = {(void *) &operands[0], 1}, compare = {(void *) &operands[1], 1};
	struct fi_ioc result = {&op->result, 1};
	struct fi_rma_ioc place = {(uintptr_t) (answers ? peer->own_memory : world.memory[memory]),
				   1, fi_mr_key(answers ? peer->own_mr : world.mr[memory])};
	struct fi_msg_atomic msg = {
		.msg_iov = &operand,
		.iov_count = 1,
		.rma_iov = &place,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = op->kind == OP_COMPARE ? FI_CSWAP : FI_SUM,
		.context = op,
	};

	if (op->kind == OP_ATOMIC)
		return fi_atomicmsg(op->conn->ep, &msg, flags);
	if (op->kind == OP_FETCH)
		return fi_fetch_atomicmsg(op->conn->ep, &msg, &result, NULL, 1, flags);
	return fi_compare_atomicmsg(op->conn->ep, &msg, &compare, NULL, 1, &result, NULL, 1, flags);
}

static ssize_t post_send(size_t len, uint64_t flags, struct op *op)
{
	struct iovec iov = {world.source, len};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = op};
	ssize_t ret;

	/* Nobody knows which receive of a shared context such a message takes. */
	if (world.srx)
		flags &= ~(FI_COMMIT | FI_FENCE);
	ret = fi_sendmsg(op->conn->ep, &msg, flags);
	if (ret)
		return ret;
	op->conn->sent++;
	messages_note(op->conn);
	return 0;
}

static ssize_t post(enum memory memory, size_t len, uint64_t flags, struct op *op)
{
	/* Once it has ended another thread may begin one in its place. */
	struct conn *conn = op->conn;
	ssize_t ret;

	if (!conns_enter(conn))
		return -FI_ENOTCONN;
	if (op->kind == OP_SEND)
		ret = post_send(len, flags, op);
	else if (op->kind == OP_CHAIN)
		ret = chains_post(memory, op);
	else if (op->kind >= OP_ATOMIC)
		ret = post_atomic(memory, flags, op);
	else
		ret = post_rma(memory, len, flags, op);
	conns_leave(conn);
	return ret;
}

/*
 * may_notify -- what no agent makes durable has its immediate data sent behind it: those are lost
 * with a connection, and need no room
 */
static bool may_notify(const struct op *op, enum memory memory)
{
	bool by_agent = world.reopens || world.silences || world.sends || world.unread;

	return world.notices && op->conn->party != &world.target && op->kind == OP_WRITE &&
	       !(by_agent && memory == MEMORY_NONE);
}

void ops_let_pass(struct party *party)
{
	if (party->reaps)
		sched_sleep(sched_between(1000, 20000));
	else if (!apps_read(party))
		apps_rest(party);
}

/* hears_meanwhile -- the target has to: it waits for no room behind a peer that is silent */
static bool hears_meanwhile(const struct op *op)
{
	return op->conn->party == &world.target && op->conn->silent_ns;
}

void ops_begin(struct party *party, struct op *op)
{
	static const char *const kinds[] = {
		"writes",           "reads",    "sends",           "adds",
		"fetches and adds", "compares", "makes a chain of"};
	enum memory memory = choose_memory(party);
	uint64_t flags = choose_flags(party);
	size_t len = choose_len();
	struct conn *conn = find_conn(party);
	bool floods = world.floods && party != &world.target && sched_one_in(30);
	ssize_t ret;

	if (!conn)
		return;
	if (floods) {
		memory = MEMORY_DMP;
		flags = FI_COMMIT | FI_FENCE;
		floods_come(conn);
	}
	*op = (struct op){
		.under_way = true,
		.kind = floods ? OP_WRITE : choose_kind(party),
		.begin_ns = sched_now_ns,
		.excused_ns = world_stopped_ns(),
		.synced_ns = world_synced_ns(),
		.stuck_ns = messages_stuck_before_ns(conn),
		.conn = conn,
		.on_page = party->uses_page,
	};
	op->notifies = may_notify(op, memory) && ((flags & FI_COMMIT) || world.immediates) &&
		       !sched_one_in(world.reads_late ? 4 : 2);
	if (op->notifies)
		flags |= FI_REMOTE_CQ_DATA;
	/* Entries that wait for room are lost with their connection. */
	op->tells = world.events && world.notices && !world.reopens && !world.silences &&
		    !world.sends && party != &world.target &&
		    (op->kind == OP_WRITE || op->kind == OP_ATOMIC);
	sched_trace("operation %d %s %zu bytes, memory %d, flags %#llx", (int) (op - party->ops),
		    kinds[op->kind], len, memory, (unsigned long long) flags);
	while ((ret = post(memory, len, flags, op)) == -FI_EAGAIN && !messages_are_stuck(conn) &&
	       !hears_meanwhile(op)) {
		ops_let_pass(party);
	}
	if (!ret)
		return;
	sched_trace("it is refused: %s", fi_strerror((int) -ret));
	op->under_way = false;
	if (ret != -FI_EAGAIN)
		fails(conn, (int) -ret);
}
