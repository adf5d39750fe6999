/* SPDX-License-Identifier: BSD-2-Clause */
/* flow.c -- what holds up the calls of one client: its rate, the pool; what they weigh; silence */
#include "server.h"

void rpc_session_weigh(struct rpc_session *session)
{
	unsigned int rate = session->server->rate;
	uint64_t weight = session->limited ? 0 : session->notices;

	if (rate && weight > rpc_bucket_size(rate))
		weight = rpc_bucket_size(rate);
	if (weight != session->weight)
		rpc_throttle_add(&session->server->throttle,
				 (int64_t) weight - (int64_t) session->weight);
	session->weight = weight;
}

unsigned int rpc_session_notice(struct rpc_session *session, uint64_t data)
{
	struct rpc_counters *counters = &session->server->counters;
	unsigned int calls =
		rpc_batch_notice(data, session->notices, session->server->store.sizes.window);

	counters->notices += calls != 0;
	counters->batches += calls > 1;
	counters->waiting += calls;
	session->notices += calls;
	return calls;
}

/* hear -- now: from here on its silence counts */
static void hear(struct rpc_session *session)
{
	unsigned int silence_ms = session->server->silence_ms;

	if (session->state == RPC_READY && silence_ms)
		session->deadline = rpc_now_ms() + silence_ms;
}

void rpc_session_done(struct rpc_session *session, uint64_t calls)
{
	session->server->counters.waiting -= calls;
	session->notices -= calls;
	if (session->notices)
		return;
	/* It stays so until it has none: what waits for its rate is never everybody's burden. */
	session->limited = false;
	/* Its worker may have slept, or executed, since it looked here last. */
	hear(session);
}

/* has_token -- its rate allows a call now; else the worker sleeps until it does */
static bool has_token(struct rpc_session *session, struct rpc_work *work)
{
	unsigned int rate = session->server->rate;
	int64_t now, wait;

	if (!rate)
		return true;
	now = rpc_now_ns();
	wait = rpc_bucket_take(&work->bucket, rate, now);
	if (!wait)
		return true;
	session->token_ns = now + wait;
	session->server->counters.limited += !session->limited;
	session->limited = true;
	return false;
}

bool rpc_session_may_execute(struct rpc_session *session)
{
	struct pmemrpc_server *server = session->server;
	struct rpc_work *work;

	session->token_ns = 0;
	if (!session->notices || session->state != RPC_READY || server->stopping)
		return false;
	work = &server->work[session->slot];
	/* Nobody looks at the slot while the pool has it: first the replies that it has. */
	if (server->pool.count &&
	    (work->busy || session->reply <= rpc_store_slot(&server->store, work->slot)->executed))
		return false;
	return has_token(session, work);
}

bool rpc_session_is_silent(struct rpc_session *session, bool heard)
{
	if (session->state != RPC_READY || !session->server->silence_ms)
		return false;
	/* While a call of its waits, it has to. */
	if (heard || session->notices)
		hear(session);
	return rpc_now_ms() > session->deadline;
}

int rpc_session_sleep_ms(const struct rpc_session *session, int timeout_ms)
{
	int64_t left_ms;

	if (!session->token_ns)
		return timeout_ms;
	/* Rounded up: one that came too early would have to come again. */
	left_ms = (session->token_ns - rpc_now_ns() + 999999) / 1000000;
	if (left_ms < 0)
		return 0;
	return left_ms < timeout_ms ? (int) left_ms : timeout_ms;
}
