/* SPDX-License-Identifier: BSD-2-Clause */
/* server_oracle.c -- what the server may do; server_oracle.h says who asks */
#include "server_oracle.h"

#include <xxhash.h>

struct scene scene;

/* What is executed */

struct rpc_store *scene_store(void)
{
	return &scene.server->store;
}

struct owner *oracle_owner(unsigned int slot)
{
	struct owner *owner = &scene.owners[slot];
	uint64_t life = rpc_store_slot(scene_store(), slot)->life;

	if (owner->life != life)
		*owner = (struct owner){.life = life, .count = owner->count};
	return owner;
}

static bool was_written(const struct pmemrpc_request *request)
{
	const struct rpc_slot *slot = rpc_store_slot(scene_store(), request->client);
	uint64_t hash = XXH3_64bits(request->argument, request->argument_len);

	for (size_t i = scene.num_entries; i-- > 0;) {
		const struct entry *entry = &scene.entries[i];

		if (entry->key == slot->key && entry->place.sequence == request->sequence &&
		    entry->place.position == slot->position && entry->op == request->op &&
		    entry->len == request->argument_len && entry->hash == hash)
			return true;
	}
	return false;
}

int oracle_handle(struct pmemrpc_request *request, void *context)
{
	struct owner *owner;
	struct ledger *ledger = pmemrpc_memory(request->server, &(size_t){0});
	uint64_t count = ledger->count[request->client] + 1;
	uint32_t how = request->op % 8;

	(void) context;
	/* When it is opened nobody has told us yet. */
	scene.server = request->server;
	owner = oracle_owner(request->client);
	cr_assert(was_written(request));
	cr_assert_eq(request->sequence, owner->executed + 1);
	owner->executed++;
	pmemrpc_exclude(request);
	request->reply_len = how == 1 ? REPLY_MAX + 1 : request->op % (REPLY_MAX + 1);
	memset(request->reply, (int) request->sequence, REPLY_MAX);
	if (READS(request->op)) {
		cr_assert(request->op & 8 ||
			  pmemrpc_store(request, ledger, &count, 1) == -FI_EACCES);
		return 0;
	}
	owner->kept = owner->executed;
	if (how == 2)
		cr_assert_eq(pmemrpc_store(request, (char *) ledger + sizeof(*ledger), &count, 1),
			     -FI_EINVAL);
	cr_assert_eq(pmemrpc_store(request, &ledger->count[request->client], &count, sizeof(count)),
		     0);
	if (how == 3)
		cr_assert_eq(pmemrpc_store(request, ledger, ledger, sizeof(*ledger)), -FI_ENOSPC);
	if (how == 4)
		return -FI_EIO;
	owner->count += how != 1 && how != 3;
	return 0;
}

void oracle_forget_reads(void)
{
	for (unsigned int i = 0; i < CLIENTS; i++) {
		struct owner *owner = oracle_owner(i);
		uint64_t kept = rpc_store_kept(scene_store(), i);

		if (!rpc_store_slot(scene_store(), i)->used)
			continue;
		cr_assert(kept >= owner->kept && kept <= owner->executed);
		owner->executed = kept;
	}
}

/* What the server sends */

static struct conn *conn_of(const struct net_ep *ep)
{
	for (size_t i = 0; i < MAX_CONNS; i++) {
		if (scene.conns[i].ep == ep)
			return &scene.conns[i];
	}
	return NULL;
}

bool oracle_is_lent(const struct conn *conn, const unsigned char *ring)
{
	const struct testcore_mr *mr;
	const struct net_ep *ep = net.eps;

	while (ep && ep != conn->ep)
		ep = ep->next;
	/* The server has closed it: nothing comes that way any more. */
	if (!ep)
		return false;
	LIST_FOREACH(mr, &conn->ep->domain->mrs, next)
	{
		if (mr->iov[0].iov_base == ring)
			return true;
	}
	return false;
}

/* check_region -- it may write there, and nowhere else */
static void check_region(const struct conn *conn, const unsigned char *ring,
			 const struct rpc_welcome_message *message)
{
	const struct testcore_mr *mr =
		testcore_mr_find(&conn->ep->domain->mrs, le64toh(message->ring_mr_key));

	cr_assert(mr && mr->iov_count == 1);
	cr_assert(mr->iov[0].iov_base == ring && mr->iov[0].iov_len == RING);
	cr_assert_eq(le64toh(message->ring_addr), (uintptr_t) ring);
}

/* check_cells -- behind the handshake's, all receives are in the ring, each in its own cell */
static void check_cells(const struct conn *conn, const unsigned char *ring)
{
	size_t cells = conn->size / conn->cell, handshake = conn->ep->num_receives - cells;
	uint64_t seen = 0;

	cr_assert(handshake <= 1 && cells <= WINDOW);
	for (size_t i = 0; i < cells; i++) {
		const struct testcore_request *receive = &conn->ep->receives[handshake + i];
		size_t at = (size_t) ((const unsigned char *) receive->buf - ring);

		cr_assert(at < conn->size && !(at % conn->cell) && receive->len == conn->cell);
		cr_assert(!(seen >> at / conn->cell & 1));
		seen |= UINT64_C(1) << at / conn->cell;
	}
}

/* welcomed -- the ring is the slot's, and all that the client can reach */
static void welcomed(struct conn *conn, const struct rpc_welcome_message *message)
{
	unsigned int slot = 0;
	unsigned char *ring;

	while (slot < CLIENTS && !oracle_is_lent(conn, rpc_store_ring(scene_store(), slot).base))
		slot++;
	cr_assert(slot < CLIENTS);
	ring = rpc_store_ring(scene_store(), slot).base;
	conn->size = le64toh(message->ring);
	conn->cell = le64toh(message->cell);
	cr_assert(conn->size <= RING && conn->sends == !!conn->cell);
	if (conn->sends)
		check_cells(conn, ring);
	else
		check_region(conn, ring, message);
	/* It is nobody else's any more. */
	for (size_t i = 0; i < MAX_CONNS; i++) {
		if (scene.conns[i].slot == (int) slot)
			scene.conns[i].ring = NULL;
		cr_assert(!scene.conns[i].ep || &scene.conns[i] == conn ||
			  !oracle_is_lent(&scene.conns[i], ring));
	}
	conn->slot = (int) slot;
	conn->ring = ring;
	conn->key = le64toh(message->check_key);
	conn->next = (struct rpc_place){le64toh(message->executed) + 1, le64toh(message->position)};
	conn->reply = 0;
	if (conn->next.sequence > oracle_owner(slot)->executed + 1) {
		cr_assert_eq(conn->next.sequence, conn->has + 1);
		oracle_owner(slot)->executed = conn->has;
	}
	cr_assert_eq(conn->next.sequence, oracle_owner(slot)->executed + 1);
	cr_assert(oracle_owner(slot)->executed >= oracle_owner(slot)->right);
}

static void replied(struct conn *conn, const struct rpc_reply_message *message, size_t len)
{
	uint64_t sequence = le64toh(message->sequence);
	const unsigned char *data = (const unsigned char *) (message + 1);

	cr_assert(conn->slot >= 0 && conn->ring);
	cr_assert(!conn->reply || sequence == conn->reply);
	cr_assert(sequence && sequence <= oracle_owner((unsigned int) conn->slot)->executed);
	cr_assert_eq(le32toh(message->len), len - sizeof(*message));
	cr_assert(len - sizeof(*message) <= REPLY_MAX);
	for (size_t i = 0; i < len - sizeof(*message); i++)
		cr_assert_eq(data[i], (unsigned char) sequence);
	conn->reply = sequence + 1;
}

void oracle_see(struct net_ep *ep, const struct testcore_request *request)
{
	struct conn *conn = conn_of(ep);
	const struct rpc_welcome_message *message = request->buf;

	cr_assert(request->what & FI_SEND);
	cr_assert_not_null(conn);
	switch (le32toh(message->type)) {
	case RPC_MSG_WELCOME:
		cr_assert_eq(request->len, sizeof(*message));
		welcomed(conn, message);
		break;
	case RPC_MSG_GONE:
		cr_assert_eq(request->len, sizeof(struct rpc_reply_message));
		/* fall through */
	case RPC_MSG_READ:
	case RPC_MSG_REPLY:
		replied(conn, request->buf, request->len);
		break;
	case RPC_MSG_FORGOTTEN:
		cr_assert(!oracle_is_lent(conn, conn->ring));
		conn->slot = -1;
		conn->ring = NULL;
		break;
	default:
		cr_assert_eq(le32toh(message->type), RPC_MSG_REFUSED);
		cr_assert_eq(message->text[RPC_TEXT - 1], 0);
	}
}

/* What is left */

void oracle_check_memory(bool all)
{
	const struct ledger *ledger = pmemrpc_memory(scene.server, &(size_t){0});

	for (unsigned int i = 0; i < CLIENTS; i++) {
		cr_assert_eq(ledger->count[i], scene.owners[i].count);
		if (rpc_store_slot(scene_store(), i)->used)
			cr_assert_eq(rpc_store_slot(scene_store(), i)->executed,
				     oracle_owner(i)->executed);
		cr_assert(!all || oracle_owner(i)->executed >= oracle_owner(i)->right);
	}
}
