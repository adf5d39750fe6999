/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_rpc_server.c -- clients that write and say anything to a server of libpmemrpc
 *
 * The real server without its threads: events, messages and notices come from the input, and
 * so does what is in the rings.  Some clients keep to the protocol, and write entries that are
 * right, or wrong in one thing.  The server must
 *   - execute all entries that are right, at the latest when their client's connection has ended,
 *   - execute nothing but entries that a client has written for that call, at that place, with the
 *     key that it has now; each once, and in order; what they have sent is what the handler gets,
 *   - lend a client its own ring and nothing else,
 *   - send replies that are kept, to the client whose they are, and in order,
 *   - keep the application's memory as its handler has left it,
 *   - have the same after it was closed and opened again.
 *
 * Keys are random but the same for the same input, and others for every other input: else libFuzzer
 * would learn the checks that make an entry valid.
 */
#include "server_oracle.h"

#include <stdlib.h>
#include <sys/types.h>

#include <xxhash.h>

#define HANDSHAKE_MESSAGES 2U

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);
int64_t __wrap_rpc_now_ms(void);
int64_t __wrap_rpc_now_ns(void);
int __wrap_rpc_pmem_open(struct rpc_pmem *pmem, const char *path, uint64_t len,
			 struct connection_error *error);
void __wrap_rpc_pmem_close(struct rpc_pmem *pmem);

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	(void) flags;
	for (size_t i = 0; i < len; i++) {
		scene.random = scene.random * UINT64_C(6364136223846793005) + 1442695040888963407;
		((unsigned char *) buf)[i] = (unsigned char) (scene.random >> 56);
	}
	return (ssize_t) len;
}

/* The input says when time is over. */
static int64_t now;

int64_t __wrap_rpc_now_ns(void)
{
	return now * 1000000;
}

int64_t __wrap_rpc_now_ms(void)
{
	return now;
}

/* The store's memory outlives servers. */

static void write_memory(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	(void) memory;
	memcpy(place, data, len);
}

static int persist_memory(struct rpc_memory *memory, const void *place, size_t len)
{
	cr_assert((const unsigned char *) place >= memory->base);
	cr_assert((const unsigned char *) place + len <= memory->base + memory->len);
	return 0;
}

int __wrap_rpc_pmem_open(struct rpc_pmem *pmem, const char *path, uint64_t len,
			 struct connection_error *error)
{
	(void) path, (void) error;
	if (!scene.memory.base) {
		scene.memory = (struct rpc_memory){.base = calloc(1, len),
						   .len = len,
						   .write = write_memory,
						   .persist = persist_memory};
		cr_assert_not_null(scene.memory.base);
	}
	*pmem = (struct rpc_pmem){.memory = scene.memory, .fd = -1};
	return 0;
}

void __wrap_rpc_pmem_close(struct rpc_pmem *pmem)
{
	(void) pmem;
}

/* What clients do */

static struct conn *pick(void)
{
	return &scene.conns[input_8(&scene.input) % MAX_CONNS];
}

static void connect_client(void)
{
	struct conn *conn = pick();
	uint8_t how = input_8(&scene.input);
	unsigned int opened = net.opened;
	struct rpc_connect_message message = {.magic = RPC_MAGIC,
					      .transport = how & 4 ? PMEMRPC_SEND : PMEMRPC_WRITE};

	if (conn->ep)
		return;
	if (how & 1)
		message.magic[0] = '?';
	net_raise(scene.server->eq, FI_CONNREQ, NULL, net_info(), &message,
		  how & 2 ? 3 : sizeof(message));
	while (rpc_server_hear(scene.server) > 0)
		;
	*conn = (struct conn){.slot = -1, .sends = how & 4};
	if (net.opened > opened)
		conn->ep = net.eps;
	cr_assert((net.opened > opened) <= !(how & 3));
}

/* spoil -- what the ring has is not known any more, but for what is executed */
static void spoil(const struct conn *conn)
{
	oracle_owner((unsigned int) conn->slot)->right = 0;
}

/* say -- a message, with some of its fields as they should be */
static void say(void)
{
	struct conn *conn = pick();
	struct rpc_request_message message;
	uint8_t how = input_8(&scene.input), id = input_8(&scene.input);
	unsigned char bytes[2 * sizeof(message)];
	size_t len = sizeof(message);

	input_copy(&scene.input, &message, how & 128 ? sizeof(message) : 0);
	if (!(how & 128))
		memset(&message, 0, sizeof(message));
	if (!(how & 1))
		message.type = htole32(how & 2   ? RPC_MSG_HELLO
				       : how & 4 ? RPC_MSG_FORGET
						 : RPC_MSG_READY);
	if (!(how & 8)) {
		message.lowest = htole16(RPC_LOWEST);
		message.highest = htole16(RPC_HIGHEST);
	}
	if (!(how & 16)) {
		memset(message.id, id % 3, sizeof(message.id));
		message.process = htole64(id / 4 % 4);
		message.resumes = htole64(id & 64);
		message.replies_from = htole64(conn->next.sequence - id / 4 % 4);
		message.in_order = htole64(id & 128);
		/* As a client that was connected before, and has more or fewer replies. */
		message.executed = htole64(conn->next.sequence - 1 + id / 16 % 4);
		message.position = htole64(conn->next.position + RPC_ALIGN * (id / 16U % 4));
		message.durable = htole64(id / 32 % 4);
	}
	if (message.resumes)
		conn->has = le64toh(message.executed);
	memset(bytes, 0xa5, sizeof(bytes));
	memcpy(bytes, &message, sizeof(message));
	if (how & 32)
		len = input_8(&scene.input) % sizeof(bytes);
	if (conn->ep && net_deliver(conn->ep, bytes, len) && conn->sends &&
	    ++conn->messages > HANDSHAKE_MESSAGES) {
		/* It is in a cell. */
		conn->odd = true;
		if (conn->slot >= 0)
			spoil(conn);
	}
}

/* is_open -- the ring is registered still, so that what the client writes arrives */
static bool is_open(const struct conn *conn)
{
	return conn->ep && conn->ring && oracle_is_lent(conn, conn->ring);
}

/* add_right -- the next call's entry is there, if all before it are, and it spoils none of them */
static void add_right(const struct conn *conn, struct rpc_place place, size_t footprint)
{
	const struct rpc_slot *slot = rpc_store_slot(scene_store(), (unsigned int) conn->slot);
	struct owner *owner = oracle_owner((unsigned int) conn->slot);
	const struct rpc_unkept *unkept = &scene_store()->unkept[conn->slot];
	bool waits = owner->right > owner->executed;
	uint64_t last = waits ? owner->right : owner->executed;

	/* What has read has to be found, too. */
	if (place.position + footprint - unkept->position > conn->size) {
		spoil(conn);
	} else if (!waits && unkept->executed < owner->executed) {
		return;
	} else if (place.sequence == last + 1 &&
		   place.position == (waits ? owner->end : slot->position)) {
		owner->right = place.sequence;
		owner->end = place.position + footprint;
	}
}

static void scribble(void)
{
	struct conn *conn = pick();
	size_t at = input_16(&scene.input) % RING, len = input_8(&scene.input);
	unsigned char bytes[UINT8_MAX];

	input_copy(&scene.input, bytes, len);
	if (!is_open(conn) || conn->sends)
		return;
	memcpy(conn->ring + at, bytes, len < RING - at ? len : RING - at);
	spoil(conn);
}

static void remember(uint64_t key, struct rpc_place place, uint32_t op, const void *argument,
		     size_t len)
{
	cr_assert(scene.num_entries < MAX_ENTRIES);
	scene.entries[scene.num_entries++] = (struct entry){.key = key,
							    .place = place,
							    .op = op,
							    .len = len,
							    .hash = XXH3_64bits(argument, len)};
}

static bool write_entry(const struct conn *conn, const struct rpc_ring *ring, uint64_t position,
			size_t len)
{
	struct rpc_piece pieces[RPC_MAX_PIECES];
	unsigned int count = rpc_ring_plan(ring->size, position, len, pieces);

	for (unsigned int i = 0; i < count; i++)
		memcpy(conn->ring + pieces[i].offset, ring->base + pieces[i].offset, pieces[i].len);
	return true;
}

/* send_entry -- into the next cell; false: no receive, or the handshake's receive has taken it */
static bool send_entry(struct conn *conn, const struct rpc_ring *ring, uint64_t position,
		       size_t len)
{
	size_t at = position % ring->size;

	return net_deliver(conn->ep, ring->base + at, RPC_WORD + RPC_BODY_HEAD + len) &&
	       ++conn->messages > HANDSHAKE_MESSAGES;
}

/* enter -- an entry, which may be wrong in its key, sequence, position or word */
static void enter(void)
{
	static unsigned char mirror[2 * RING], argument[RING];
	struct conn *conn = pick();
	uint8_t how = input_8(&scene.input);
	uint32_t op = input_8(&scene.input);
	size_t len = input_16(&scene.input) % (how & 64 ? RING - 16 + 1 : 128);
	struct rpc_place place = conn->next;
	struct rpc_ring ring = {
		.base = mirror, .size = conn->size, .key = conn->key, .cell = conn->cell};

	if (!is_open(conn) || scene.num_entries == MAX_ENTRIES)
		return;
	if (len > rpc_argument_max(&ring))
		len %= 64;
	memset(argument, (int) op, len);
	ring.key ^= how & 1 ? input_8(&scene.input) : 0;
	place.sequence += how & 2 ? (uint64_t) (int8_t) input_8(&scene.input) : 0;
	/* Elsewhere, or at the same place in another lap. */
	place.position += how & 4 ? (how & 32     ? conn->size
				     : conn->cell ? conn->cell
						  : RPC_ALIGN) *
					    (uint64_t) (int8_t) input_8(&scene.input)
				  : 0;
	rpc_ring_write(&ring, place, op, op / 64, argument, len);
	remember(ring.key, place, op, argument, len);
	/* A bit of the word, or of the operation. */
	if (how & 8)
		mirror[(place.position + input_8(&scene.input) % 16) % ring.size] ^=
			(unsigned char) (1 << how % 8);
	if (!(conn->sends ? send_entry(conn, &ring, place.position, len)
			  : write_entry(conn, &ring, place.position, len)))
		how |= 8;
	if (how & 15)
		conn->odd = true;
	if ((how & 15) || (conn->sends && conn->odd))
		spoil(conn);
	else
		add_right(conn, place, rpc_footprint(&ring, len));
	if (how & 16)
		return;
	conn->next.sequence++;
	conn->next.position += rpc_footprint(&ring, len);
}

static void give_notice(void)
{
	struct conn *conn = pick();
	uint8_t how = input_8(&scene.input);

	if (!conn->ep || !net_notice(conn->ep, how & 2 ? input_8(&scene.input) : 1, how & 1) ||
	    !conn->sends || !(how & 1))
		return;
	/* It has used an entry's receive: what is sent next comes into the cell behind. */
	conn->messages++;
	conn->odd = true;
	if (conn->slot >= 0)
		spoil(conn);
}

/* The server */

/* forget_closed -- endpoints that the server has closed */
static void forget_closed(void)
{
	for (size_t i = 0; i < MAX_CONNS; i++) {
		struct net_ep *ep = net.eps;

		while (ep && ep != scene.conns[i].ep)
			ep = ep->next;
		if (!ep)
			scene.conns[i] = (struct conn){.slot = -1};
	}
}

static void serve(void)
{
	struct pmemrpc_server *server = scene.server;

	cr_assert(rpc_server_hear(server) >= 0);
	cr_assert(rpc_worker_serve(&server->listener) >= 0);
	for (unsigned int i = 0; i < server->threads; i++)
		cr_assert(rpc_worker_serve(&server->workers[i]) >= 0);
	forget_closed();
}

static void hang_up(void)
{
	struct conn *conn = pick();

	if (!conn->ep)
		return;
	if (input_8(&scene.input) & 1)
		net_fail(scene.server->eq, &conn->ep->core.fid.fid, NULL, 0);
	else
		net_raise(scene.server->eq, FI_SHUTDOWN, &conn->ep->core.fid.fid, NULL, NULL, 0);
}

static void complete(void)
{
	struct conn *conn = pick();
	uint8_t how = input_8(&scene.input);

	for (unsigned int i = 0; conn->ep && i < how % 8; i++)
		net_complete(conn->ep, how & 128 ? FI_EIO : 0);
}

static void open_server(void)
{
	static uint32_t readers[UINT8_MAX];
	unsigned int num_readers = 0;
	const struct pmemrpc_server_attr attr = {.path = "anything",
						 .service = "1",
						 .clients = CLIENTS,
						 .ring = RING,
						 .window = WINDOW,
						 .reply_max = REPLY_MAX,
						 .effects_max = 40,
						 .memory = sizeof(struct ledger),
						 .threads = 1, /* calls share flushes */
						 .readers = readers,
						 .num_readers = UINT8_MAX / 8 + 1,
						 .handler = oracle_handle};
	char error[256];

	for (uint32_t op = 0; op < UINT8_MAX; op++) {
		if (READS(op))
			readers[num_readers++] = op;
	}
	cr_assert_eq(pmemrpc_server_open(&attr, &scene.server, error, sizeof(error)), 0);
}

/* close_server -- as pmemrpc_server_run leaves it: nobody is on the way from one thread to another
 */
static void close_server(void)
{
	struct pmemrpc_server *server = scene.server;

	rpc_worker_receive(&server->listener);
	for (unsigned int i = 0; i < server->threads; i++)
		rpc_worker_receive(&server->workers[i]);
	pmemrpc_server_close(server);
}

/* crash -- as if it had never been closed: what is valid is executed when it is opened */
static void crash(void)
{
	unsigned char *image = malloc(scene.memory.len);
	struct owner owners[CLIENTS];

	cr_assert_not_null(image);
	memcpy(image, scene.memory.base, scene.memory.len);
	memcpy(owners, scene.owners, sizeof(owners));
	close_server();
	memcpy(scene.memory.base, image, scene.memory.len);
	memcpy(scene.owners, owners, sizeof(owners));
	free(image);
}

static void restart(void)
{
	for (size_t i = 0; i < MAX_CONNS; i++)
		scene.conns[i].ring = NULL;
	oracle_forget_reads();
	if (input_8(&scene.input) & 1)
		crash();
	else
		close_server();
	open_server();
	forget_closed();
	oracle_check_memory(true);
}

static void act(void)
{
	switch (input_8(&scene.input) % 16) {
	case 0:
		connect_client();
		break;
	case 1:
	case 2:
	case 3:
		say();
		break;
	case 4:
		scribble();
		break;
	case 5:
	case 6:
		enter();
		break;
	case 7:
	case 8:
		give_notice();
		break;
	case 9:
		hang_up();
		break;
	case 10:
		complete();
		break;
	case 11:
		now += (int64_t) input_8(&scene.input) << 8;
		break;
	case 12:
		net.room = input_8(&scene.input) % 16;
		break;
	case 13:
		restart();
		break;
	default:
		serve();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scene = (struct scene){.input = {data, size}, .random = XXH3_64bits(data, size)};
	net = (struct net){.room = 16, .on_transmit = oracle_see};
	now = 0;
	for (size_t i = 0; i < MAX_CONNS; i++)
		scene.conns[i].slot = -1;
	open_server();
	while (scene.input.left)
		act();
	serve();
	oracle_check_memory(false);
	close_server();
	cr_assert(!net.eps && !net.objects);
	free(scene.memory.base);
	return 0;
}
