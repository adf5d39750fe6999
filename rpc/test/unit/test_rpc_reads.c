/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_reads.c -- calls that only read: nothing is made durable for them, and nothing is lost
 */
#include <criterion/criterion.h>

#include "log_world.h"
#include "server.h"

#define SECRET 77
#define RING 1024U
#define WINDOW 16U
#define REPLY_MAX 64U

enum { READ = 1, WRITE, READ_THAT_WRITES };

static const uint8_t me[RPC_ID] = "the test's id";

/* A server without a network, and its client's next call. */
struct fixture {
	struct cut cut;
	struct pmemrpc_server server;
	struct rpc_executor executor;
	uint32_t readers[2];
	size_t reply_len;
	const void *made; /* where the last reply was */
	struct rpc_place next;
	unsigned int handled;
};

static unsigned int persists;

static int count_persist(struct rpc_memory *memory, const void *place, size_t len)
{
	persists++;
	return cut_persist(memory, place, len);
}

static int handle(struct pmemrpc_request *request, void *context)
{
	struct fixture *fixture = context;
	size_t len;
	uint64_t *count = pmemrpc_memory(request->server, &len), next = *count + 1;
	int ret = 0;

	fixture->handled++;
	fixture->made = request->reply;
	memset(request->reply, (int) request->sequence, fixture->reply_len);
	request->reply_len = fixture->reply_len;
	if (request->op != READ)
		ret = pmemrpc_store(request, count, &next, sizeof(next));
	/* A handler need not look. */
	return request->op == READ_THAT_WRITES ? 0 : ret;
}

/* serve -- on such a memory, which is new, or what a power failure has left */
static void serve(struct fixture *fixture, const unsigned char *contents)
{
	const struct rpc_sizes sizes = {.clients = 1,
					.ring = RING,
					.window = WINDOW,
					.reply_max = REPLY_MAX,
					.effects_max = 32,
					.memory = 64};
	struct pmemrpc_server *server = &fixture->server;

	*server = (struct pmemrpc_server){.handler = handle, .context = fixture, .num_readers = 2};
	server->readers = fixture->readers;
	fixture->readers[0] = READ_THAT_WRITES;
	fixture->readers[1] = READ;
	fixture->executor = (struct rpc_executor){0};
	fixture->reply_len = 8;
	fixture->handled = 0;
	cut_init(&fixture->cut, contents);
	if (!contents)
		cr_assert_eq(rpc_store_format(&fixture->cut.memory, &sizes, SECRET), 0);
	cr_assert_eq(rpc_store_open(&server->store, &fixture->cut.memory, &any), 0);
	cr_assert_eq(rpc_store_claim(&server->store, me, true, NULL), 0);
	if (!contents)
		cr_assert_eq(rpc_store_greet(&server->store, 0, 1, 1, 0, false), 0);
	fixture->next = (struct rpc_place){rpc_store_slot(&server->store, 0)->executed + 1,
					   rpc_store_slot(&server->store, 0)->position};
	pthread_mutex_init(&server->lock, NULL);
	pthread_mutex_init(&server->exclusive, NULL);
	cr_assert_eq(rpc_executor_open(&fixture->executor, server), 0);
	fixture->cut.memory.persist = count_persist;
	persists = 0;
}

static void end(struct fixture *fixture)
{
	rpc_executor_close(&fixture->executor);
	rpc_store_close(&fixture->server.store);
}

/* fail_power -- nothing is left that was not durable; the server starts again */
static void fail_power(struct fixture *fixture, struct fixture *after)
{
	end(fixture);
	serve(after, fixture->cut.durable);
}

/* call -- the client's next one, when so many have no reply; returns how often it was flushed */
static unsigned int call(struct fixture *fixture, uint32_t op, uint32_t waiting)
{
	struct rpc_ring ring = rpc_store_ring(&fixture->server.store, 0);

	persists = 0;
	rpc_ring_write(&ring, fixture->next, op, waiting, "", 1);
	cr_assert_eq(rpc_server_execute(&fixture->executor, 0), 1);
	fixture->next.sequence++;
	fixture->next.position += RPC_ALIGN;
	return persists;
}

static const struct rpc_reply *reply_to(const struct fixture *fixture, uint64_t sequence)
{
	return rpc_store_reply(&fixture->server.store, 0, sequence);
}

static uint64_t executed(const struct fixture *fixture)
{
	return rpc_store_slot(&fixture->server.store, 0)->executed;
}

static uint64_t changes_of(struct fixture *fixture)
{
	size_t len;

	return *(uint64_t *) pmemrpc_memory(&fixture->server, &len);
}

/* README.md has these numbers. */
Test(rpc_reads, a_call_that_reads_is_not_flushed)
{
	static struct fixture fixture, after;

	serve(&fixture, NULL);
	cr_assert_eq(call(&fixture, READ, 0), 0);
	cr_assert_eq(call(&fixture, WRITE, 0), 1);
	cr_assert_eq(call(&fixture, READ, 0), 0);
	cr_assert_eq(executed(&fixture), 3);
	cr_assert_eq(reply_to(&fixture, 3)->status, 0);
	cr_assert_arr_eq(reply_to(&fixture, 3) + 1, "\3\3\3\3\3\3\3\3", 8);
	fail_power(&fixture, &after);
	cr_assert_eq(executed(&after), 2, "it has left nothing behind");
	cr_assert_eq(changes_of(&after), 1);
	end(&after);
}

/* It is taken as one that reads.  Another right does not change what its client was told. */
Test(rpc_reads, a_call_that_is_denied_is_not_flushed)
{
	static struct fixture fixture, again, after;

	serve(&fixture, NULL);
	cr_assert_eq(rpc_store_greet(&fixture.server.store, 0, 1, 1, 0, true), 0);
	cr_assert_eq(call(&fixture, WRITE, 0), 0);
	cr_assert_eq(call(&fixture, READ, 1), 0);
	cr_assert_eq(reply_to(&fixture, 1)->status, -FI_EACCES);
	cr_assert_eq(fixture.server.counters.denied, 1);
	cr_assert_eq(fixture.handled, 1);
	fail_power(&fixture, &again);
	cr_assert_eq(executed(&again), 0, "it has left nothing behind");
	cr_assert_eq(call(&again, WRITE, 0), 0);
	cr_assert_eq(reply_to(&again, 1)->status, -FI_EACCES);
	cr_assert_eq(rpc_store_greet(&again.server.store, 0, 2, 2, 0, false), 0);
	fail_power(&again, &after);
	cr_assert_eq(executed(&after), 1, "with the other right it would be executed");
	cr_assert_eq(reply_to(&after, 1)->status, -FI_EACCES);
	cr_assert_eq(call(&after, WRITE, 0), 1);
	cr_assert_eq(changes_of(&after), 1);
	end(&after);
}

/* The client may still ask for it, and its entry is behind the watermark then. */
Test(rpc_reads, a_reply_becomes_durable_with_the_call_behind_it)
{
	static struct fixture fixture, after;

	serve(&fixture, NULL);
	call(&fixture, READ, 0);
	call(&fixture, READ, 1);
	cr_assert_eq(call(&fixture, WRITE, 2), 1, "one flush for all");
	fail_power(&fixture, &after);
	for (uint64_t i = 1; i <= 3; i++)
		cr_assert_eq(((const char *) (reply_to(&after, i) + 1))[7], (char) i);
	end(&after);
}

Test(rpc_reads, a_reply_that_its_client_has_is_dropped)
{
	static struct fixture fixture, after;

	serve(&fixture, NULL);
	call(&fixture, READ, 0);
	call(&fixture, READ, 1);
	call(&fixture, WRITE, 1);
	cr_assert_null(reply_to(&fixture, 1));
	fail_power(&fixture, &after);
	cr_assert_null(reply_to(&after, 1));
	cr_assert_not_null(reply_to(&after, 2));
	cr_assert_not_null(reply_to(&after, 3));
	end(&after);
}

/* What nobody can have had replies to: nothing is dropped then. */
Test(rpc_reads, a_client_that_says_nonsense_loses_no_reply)
{
	static struct fixture fixture;

	serve(&fixture, NULL);
	call(&fixture, READ, 7);
	call(&fixture, READ, UINT32_MAX);
	cr_assert_not_null(reply_to(&fixture, 1));
	cr_assert_not_null(reply_to(&fixture, 2));
	end(&fixture);
}

/* Replies that it can't ask for any more are not kept, whatever it says. */
Test(rpc_reads, a_client_that_lies_has_no_more_replies_kept_than_its_window)
{
	static struct fixture fixture;

	serve(&fixture, NULL);
	fixture.server.store.sizes.window = 2;
	for (unsigned int i = 0; i < 3; i++)
		call(&fixture, READ, UINT32_MAX);
	cr_assert_null(reply_to(&fixture, 1));
	cr_assert_not_null(reply_to(&fixture, 2));
	cr_assert_not_null(reply_to(&fixture, 3));
	end(&fixture);
}

/* fill_half -- of the ring, with calls that are not durable; the next one's is made so */
static void fill_half(struct fixture *fixture)
{
	for (unsigned int i = 0; i < RING / 2 / RPC_ALIGN; i++)
		cr_assert_eq(call(fixture, READ, 0), 0);
	cr_assert_eq(call(fixture, READ, 0), 1);
}

/* A client's ring has room for calls that it commits. */
Test(rpc_reads, half_of_the_ring_is_behind_the_durable_watermark_at_most)
{
	static struct fixture fixture, after;

	serve(&fixture, NULL);
	fill_half(&fixture);
	cr_assert_eq(call(&fixture, READ, 0), 0);
	fail_power(&fixture, &after);
	cr_assert_eq(executed(&after), RING / 2 / RPC_ALIGN + 1);
	end(&after);
}

Test(rpc_reads, replies_that_have_no_room_are_kept)
{
	static struct fixture fixture, after;

	serve(&fixture, NULL);
	fixture.reply_len = REPLY_MAX;
	for (unsigned int i = 0; i < RPC_UNKEPT; i++)
		cr_assert_eq(call(&fixture, READ, i), 0);
	cr_assert_eq(call(&fixture, READ, RPC_UNKEPT), 1);
	fail_power(&fixture, &after);
	for (uint64_t i = 1; i <= RPC_UNKEPT + 1; i++)
		cr_assert_eq(((const char *) (reply_to(&after, i) + 1))[REPLY_MAX - 1], (char) i);
	end(&after);
}

/* On a path that may reorder, where the client can only commit. */
Test(rpc_reads, a_client_that_needs_it_has_each_call_kept)
{
	static struct fixture fixture;

	serve(&fixture, NULL);
	fixture.server.store.unkept->off = true;
	cr_assert_eq(call(&fixture, READ, 0), 1);
	end(&fixture);
}

Test(rpc_reads, a_reader_that_stores_fails)
{
	static struct fixture fixture;

	serve(&fixture, NULL);
	cr_assert_eq(call(&fixture, READ_THAT_WRITES, 0), 0);
	cr_assert_eq(reply_to(&fixture, 1)->status, -FI_EACCES);
	cr_assert_eq(changes_of(&fixture), 0);
	/* And leaves nothing to the next one. */
	call(&fixture, WRITE, 0);
	cr_assert_eq(reply_to(&fixture, 2)->status, 0);
	cr_assert_eq(changes_of(&fixture), 1);
	end(&fixture);
}

/* A durable call is executed without its client, and what has read before it, again. */
Test(rpc_reads, what_has_read_is_executed_again_before_what_follows)
{
	static struct fixture fixture, after;
	struct rpc_ring ring;

	serve(&fixture, NULL);
	call(&fixture, READ, 0);
	ring = rpc_store_ring(&fixture.server.store, 0);
	rpc_ring_write(&ring, fixture.next, WRITE, 1, "", 1);
	memcpy(fixture.cut.durable + (ring.base - fixture.cut.seen), ring.base, RING);
	fail_power(&fixture, &after);
	cr_assert_eq(rpc_server_drain(&after.executor, 0), 0);
	cr_assert_eq(after.handled, 2);
	cr_assert_eq(executed(&after), 2);
	cr_assert_not_null(reply_to(&after, 1));
	cr_assert_eq(changes_of(&after), 1);
	end(&after);
}

/* come_back -- to a server that has executed one call durably, and one that has read */
static int come_back(uint64_t has, uint64_t position, uint64_t durable)
{
	static struct fixture fixture, after;
	int ret;

	serve(&fixture, NULL);
	call(&fixture, WRITE, 0);
	call(&fixture, READ, 0);
	call(&fixture, READ, 0);
	fail_power(&fixture, &after);
	ret = rpc_store_resume(&after.server.store, 0, has, position, durable);
	cr_assert_eq(executed(&after), ret || has < 1 ? 1 : has);
	cr_assert_eq(rpc_store_greet(&after.server.store, 0, 1, 2, 0, false), 0);
	fail_power(&after, &fixture);
	cr_assert_eq(executed(&fixture), ret || has < 1 ? 1 : has, "it is durable when it is said");
	end(&fixture);
	return ret;
}

Test(rpc_reads, who_comes_back_goes_on_behind_what_it_has)
{
	cr_assert_eq(come_back(0, 0, 0), 0);
	cr_assert_eq(come_back(1, 64, 1), 0);
	cr_assert_eq(come_back(3, 192, 1), 0);
	cr_assert_eq(come_back(3, 192, 2), -ENOENT, "a call is lost that was durable");
	cr_assert_eq(come_back(3, 128, 1), -EINVAL, "two calls in one line");
	cr_assert_eq(come_back(3, 0, 1), -EINVAL);
	cr_assert_eq(come_back(3, 200, 1), -EINVAL);
	cr_assert_eq(come_back(3, 64 + RING + 64, 1), -EINVAL);
	cr_assert_eq(come_back(UINT64_MAX, UINT64_MAX / 64 * 64, 1), -EINVAL);
}

Test(rpc_reads, who_goes_leaves_no_reply_to_the_next_one)
{
	static struct fixture fixture;
	static const uint8_t other[RPC_ID] = "another";
	struct rpc_store *store = &fixture.server.store;

	serve(&fixture, NULL);
	call(&fixture, READ, 0);
	cr_assert_eq(rpc_store_forget(store, 0), 0);
	cr_assert_eq(rpc_store_claim(store, other, true, NULL), 0);
	cr_assert_null(reply_to(&fixture, 1));
	cr_assert_eq(rpc_store_kept(store, 0), 0);
	end(&fixture);
}

/* is_kept_where_it_was_made -- the last reply; what it says is right in any case */
static bool is_kept_where_it_was_made(const struct fixture *fixture)
{
	const struct rpc_reply *reply = reply_to(fixture, executed(fixture));
	const unsigned char *data = (const unsigned char *) (reply + 1);

	cr_assert_eq(reply->len, fixture->reply_len);
	for (size_t i = 0; i < reply->len; i++)
		cr_assert_eq(data[i], executed(fixture));
	return data == fixture->made;
}

Test(rpc_reads, a_reply_is_made_where_it_is_kept)
{
	static struct fixture fixture;

	serve(&fixture, NULL);
	fixture.reply_len = REPLY_MAX;
	for (unsigned int i = 0; i < RPC_UNKEPT; i++) {
		cr_assert_eq(call(&fixture, READ, i), 0);
		cr_assert(is_kept_where_it_was_made(&fixture));
	}
	cr_assert_eq(call(&fixture, READ, RPC_UNKEPT), 1, "there is no room");
	cr_assert(!is_kept_where_it_was_made(&fixture));
	cr_assert_eq(call(&fixture, READ, RPC_UNKEPT + 1), 0);
	cr_assert(is_kept_where_it_was_made(&fixture));
	/* The client has the other replies: its place is the first one. */
	cr_assert_eq(call(&fixture, READ, 0), 0);
	cr_assert(is_kept_where_it_was_made(&fixture));
	end(&fixture);
}

Test(rpc_reads, a_reply_that_becomes_durable_is_the_one_that_was_made)
{
	static struct fixture fixture, after;

	serve(&fixture, NULL);
	/* Half of the ring is behind the durable watermark: there is room, and that is no use. */
	fill_half(&fixture);
	cr_assert(!is_kept_where_it_was_made(&fixture));
	fail_power(&fixture, &after);
	cr_assert_eq(executed(&after), RING / 2 / RPC_ALIGN + 1);
	after.reply_len = fixture.reply_len;
	cr_assert(!is_kept_where_it_was_made(&after));
	end(&after);
}
