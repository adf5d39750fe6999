/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rpc_formats.c -- formats that have a version: what libpmemrpc and fi_pmem_cp send, and what
 * a store is
 *
 * Whoever changes one finds its digest changed here.  Then its version, or the store's magic, needs
 * a new number, unless the old one was never released; and the new digest goes here.  The test of
 * the provider's formats is test_wire.c: its bytes have the version among them.
 */
#include <string.h>

#include <criterion/criterion.h>
#include <xxhash.h>

#include "../../../util/cp/pack.h"
#include "log_world.h"
#include "wire.h"

#define AT(type, member) offsetof(struct type, member), sizeof(((struct type *) NULL)->member)

static void expect_format(const char *what, const void *format, size_t len, uint64_t digest)
{
	cr_expect_eq(XXH3_64bits(format, len), digest,
		     "%s: another format, with the digest %#llx: the comment above says what to do",
		     what, (unsigned long long) XXH3_64bits(format, len));
}

Test(formats, of_the_calls_protocol_are_those_of_its_version)
{
	const size_t format[] = {
		RPC_LOWEST,
		RPC_HIGHEST,
		RPC_MSG_HELLO,
		RPC_MSG_GONE,
		AT(rpc_connect_message, transport),
		AT(rpc_request_message, lowest),
		AT(rpc_request_message, highest),
		AT(rpc_request_message, replies_from),
		AT(rpc_request_message, id),
		AT(rpc_request_message, process),
		AT(rpc_request_message, resumes),
		AT(rpc_request_message, argument_max),
		AT(rpc_request_message, executed),
		AT(rpc_request_message, position),
		AT(rpc_request_message, durable),
		AT(rpc_request_message, in_order),
		AT(rpc_welcome_message, error),
		AT(rpc_welcome_message, window),
		AT(rpc_welcome_message, ring),
		AT(rpc_welcome_message, cell),
		AT(rpc_welcome_message, ring_addr),
		AT(rpc_welcome_message, ring_mr_key),
		AT(rpc_welcome_message, check_key),
		AT(rpc_welcome_message, reply_max),
		AT(rpc_welcome_message, executed),
		AT(rpc_welcome_message, position),
		AT(rpc_welcome_message, pace),
		AT(rpc_welcome_message, text),
		AT(rpc_reply_message, status),
		AT(rpc_reply_message, sequence),
		AT(rpc_reply_message, len),
		AT(rpc_reply_message, pace),
		sizeof(struct rpc_reply_message),
	};

	expect_format("rpc/lib/wire.h", format, sizeof(format), UINT64_C(0xa8f5bfc126b09f6a));
}

Test(formats, of_the_copies_protocol_are_those_of_its_version)
{
	const size_t format[] = {
		CP_LOWEST,
		CP_HIGHEST,
		CP_FAILED,
		CP_READING,
		AT(cp_message, status),
		AT(cp_message, flags),
		AT(cp_message, size),
		AT(cp_message, mtime),
		AT(cp_message, mode),
		AT(cp_message, committed),
		AT(cp_message, sequence),
		AT(cp_message, addr),
		AT(cp_message, key),
		AT(cp_message, digest),
		AT(cp_message, text),
		AT(cp_state, sequence),
		AT(cp_state, size),
		AT(cp_state, mtime),
		AT(cp_state, committed),
		AT(cp_state, digest),
		AT(cp_state, check),
		CP_STATES,
		CP_UNREAD,
		AT(cp_record, mode),
		AT(cp_record, size),
		AT(cp_record, mtime),
		AT(cp_record, name_len),
		AT(cp_record, has_data),
		AT(cp_record, digest),
	};

	expect_format("util/cp/proto.h and pack.h", format, sizeof(format),
		      UINT64_C(0x8d1b6aa8fbfc79a5));
}

/* A store with a client, an entry in its ring, and the reply to it */
Test(formats, of_a_store_are_those_of_its_magic)
{
	static const uint8_t me[RPC_ID] = "the test's id";
	const struct rpc_sizes sizes = {.clients = 2,
					.ring = 256,
					.window = 1,
					.reply_max = 8,
					.effects_max = 32,
					.memory = 64};
	static struct rpc_store store;
	static struct cut cut;
	struct rpc_ring ring;

	mutant = NONE;
	cut_init(&cut, NULL);
	cr_assert_eq(rpc_store_format(&cut.memory, &sizes, 77), 0);
	cr_assert_eq(rpc_store_open(&store, &cut.memory, &any), 0);
	cr_assert_eq(rpc_store_claim(&store, me, true, NULL), 0);
	cr_assert_eq(rpc_store_greet(&store, 0, 1, 1, 0, false), 0);
	ring = rpc_store_ring(&store, 0);
	rpc_ring_write(&ring, (struct rpc_place){1, 0}, 5, 0, "argument", 8);
	cr_assert_eq(rpc_store_executed(&store, &store.own, 0, 16, 0, "reply", 5), 0);
	expect_format("rpc/lib/store.h, ring.h and journal.h", cut.memory.base,
		      rpc_store_len(&sizes), UINT64_C(0x46d7c997ce23884e));
	rpc_store_close(&store);
}
