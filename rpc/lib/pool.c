/* SPDX-License-Identifier: BSD-2-Clause */
/* pool.c -- threads that execute calls; pool.h says for whom */
#include "pool.h"

#include <stdlib.h>

#include "server.h"

int rpc_threads_open(struct rpc_threads *pool, struct pmemrpc_server *server, unsigned int count)
{
	/* No more calls than that are executed at a time. */
	if (count > server->store.sizes.clients)
		count = (unsigned int) server->store.sizes.clients;
	if (!count)
		return 0;
	pool->threads = calloc(count, sizeof(*pool->threads));
	pool->executors = calloc(count, sizeof(*pool->executors));
	if (!pool->threads || !pool->executors)
		return rpc_server_fail(server, "memory", -FI_ENOMEM);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->more, NULL);
	pool->server = server;
	pool->last = &pool->first;
	pool->count = count;
	for (unsigned int i = 0; i < count; i++) {
		int ret = rpc_executor_open(&pool->executors[i], server);

		if (ret)
			return ret;
	}
	return 0;
}

void rpc_threads_close(struct rpc_threads *pool)
{
	for (unsigned int i = 0; i < pool->count; i++)
		rpc_executor_close(&pool->executors[i]);
	/* What is queued is in the rings. */
	for (unsigned int i = 0; pool->count && i < pool->server->store.sizes.clients; i++)
		pool->server->seats[i].busy = pool->server->seats[i].drains = false;
	if (pool->count) {
		pthread_mutex_destroy(&pool->lock);
		pthread_cond_destroy(&pool->more);
	}
	free(pool->executors);
	free(pool->threads);
	*pool = (struct rpc_threads){0};
}

/* next_seat -- NULL: it is time to end; the lock is held */
static struct rpc_seat *next_seat(struct rpc_threads *pool)
{
	struct rpc_seat *seat;

	while (!pool->first && !pool->stopping)
		pthread_cond_wait(&pool->more, &pool->lock);
	if (pool->stopping)
		return NULL;
	seat = pool->first;
	pool->first = seat->next;
	if (!pool->first)
		pool->last = &pool->first;
	return seat;
}

static void *execute_calls(void *arg)
{
	struct rpc_executor *executor = arg;
	struct rpc_threads *pool = &executor->server->pool;
	struct rpc_seat *seat;

	pthread_mutex_lock(&pool->lock);
	while ((seat = next_seat(pool))) {
		struct rpc_worker *worker = rpc_worker_of(pool->server, seat->slot);

		pthread_mutex_unlock(&pool->lock);
		seat->result = rpc_server_execute(executor, seat->slot);
		pthread_mutex_lock(&pool->lock);
		seat->next = worker->returned;
		worker->returned = seat;
		rpc_worker_wake(worker);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int rpc_threads_start(struct rpc_threads *pool)
{
	pool->stopping = false;
	for (pool->started = 0; pool->started < pool->count; pool->started++) {
		int ret = rpc_server_thread(pool->server, &pool->threads[pool->started],
					    execute_calls, &pool->executors[pool->started]);

		if (ret)
			return ret;
	}
	return 0;
}

void rpc_threads_stop(struct rpc_threads *pool)
{
	if (!pool->count)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->more);
	pthread_mutex_unlock(&pool->lock);
	while (pool->started)
		pthread_join(pool->threads[--pool->started], NULL);
}

void rpc_seat_execute(struct rpc_seat *seat)
{
	struct rpc_threads *pool = &seat->server->pool;

	seat->busy = true;
	seat->next = NULL;
	pthread_mutex_lock(&pool->lock);
	*pool->last = seat;
	pool->last = &seat->next;
	pthread_cond_signal(&pool->more);
	pthread_mutex_unlock(&pool->lock);
}

int rpc_seat_drain(struct rpc_seat *seat)
{
	struct rpc_worker *worker = rpc_worker_of(seat->server, seat->slot);

	if (!seat->server->pool.count)
		return rpc_server_drain(&worker->executor, seat->slot);
	seat->drains = true;
	if (!seat->busy)
		rpc_seat_execute(seat);
	return -FI_EAGAIN;
}

/* take_back -- what has come of a seat's call */
static int take_back(struct rpc_seat *seat)
{
	seat->busy = false;
	if (seat->result < 0)
		return seat->result;
	if (!seat->drains)
		return rpc_session_executed(seat->session, seat->result);
	seat->server->counters.recovered += (uint64_t) seat->result;
	if (seat->result)
		rpc_seat_execute(seat);
	else
		seat->drains = false;
	return 0;
}

int rpc_worker_collect(struct rpc_worker *worker)
{
	struct rpc_threads *pool = &worker->server->pool;
	struct rpc_seat *seat;
	int ret = 0, count = 0;

	if (!pool->count)
		return 0;
	pthread_mutex_lock(&pool->lock);
	seat = worker->returned;
	worker->returned = NULL;
	pthread_mutex_unlock(&pool->lock);
	while (seat) {
		struct rpc_seat *next = seat->next;
		int other = take_back(seat);

		ret = ret ? ret : other;
		count = 1;
		seat = next;
	}
	return ret ? ret : count;
}
