/* SPDX-License-Identifier: BSD-2-Clause */
/* pool.c -- threads that execute calls; pool.h says for whom */
#include "pool.h"

#include <stdlib.h>

#include "server.h"

int rpc_pool_open(struct rpc_pool *pool, struct pmemrpc_server *server, unsigned int count)
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

void rpc_pool_close(struct rpc_pool *pool)
{
	for (unsigned int i = 0; i < pool->count; i++)
		rpc_executor_close(&pool->executors[i]);
	/* What is queued is in the rings. */
	for (unsigned int i = 0; pool->count && i < pool->server->store.sizes.clients; i++)
		pool->server->work[i].busy = pool->server->work[i].drains = false;
	if (pool->count) {
		pthread_mutex_destroy(&pool->lock);
		pthread_cond_destroy(&pool->more);
	}
	free(pool->executors);
	free(pool->threads);
	*pool = (struct rpc_pool){0};
}

/* next_work -- wait for a work item; NULL: it is time to end; the lock is held */
static struct rpc_work *next_work(struct rpc_pool *pool)
{
	struct rpc_work *work;

	while (!pool->first && !pool->stopping)
		pthread_cond_wait(&pool->more, &pool->lock);
	if (pool->stopping)
		return NULL;
	work = pool->first;
	pool->first = work->next;
	if (!pool->first)
		pool->last = &pool->first;
	return work;
}

static void *execute_calls(void *arg)
{
	struct rpc_executor *executor = arg;
	struct rpc_pool *pool = &executor->server->pool;
	struct rpc_work *work;

	pthread_mutex_lock(&pool->lock);
	while ((work = next_work(pool))) {
		struct rpc_worker *worker = rpc_worker_of(pool->server, work->slot);

		pthread_mutex_unlock(&pool->lock);
		work->result = rpc_server_execute(executor, work->slot);
		pthread_mutex_lock(&pool->lock);
		work->next = worker->returned;
		worker->returned = work;
		rpc_worker_wake(worker);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int rpc_pool_start(struct rpc_pool *pool)
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

void rpc_pool_stop(struct rpc_pool *pool)
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

void rpc_work_execute(struct rpc_work *work)
{
	struct rpc_pool *pool = &work->server->pool;

	work->busy = true;
	work->next = NULL;
	pthread_mutex_lock(&pool->lock);
	*pool->last = work;
	pool->last = &work->next;
	pthread_cond_signal(&pool->more);
	pthread_mutex_unlock(&pool->lock);
}

int rpc_work_drain(struct rpc_work *work)
{
	struct rpc_worker *worker = rpc_worker_of(work->server, work->slot);

	if (!work->server->pool.count)
		return rpc_server_drain(&worker->executor, work->slot);
	work->drains = true;
	if (!work->busy)
		rpc_work_execute(work);
	return -FI_EAGAIN;
}

/* take_back -- look at the result that a work item has brought */
static int take_back(struct rpc_work *work)
{
	work->busy = false;
	if (work->result < 0)
		return work->result;
	if (!work->drains)
		return rpc_session_executed(work->session, work->result);
	work->server->counters.recovered += (uint64_t) work->result;
	if (work->result)
		rpc_work_execute(work);
	else
		work->drains = false;
	return 0;
}

int rpc_worker_collect(struct rpc_worker *worker)
{
	struct rpc_pool *pool = &worker->server->pool;
	struct rpc_work *work;
	int ret = 0, count = 0;

	if (!pool->count)
		return 0;
	pthread_mutex_lock(&pool->lock);
	work = worker->returned;
	worker->returned = NULL;
	pthread_mutex_unlock(&pool->lock);
	while (work) {
		struct rpc_work *next = work->next;
		int other = take_back(work);

		ret = ret ? ret : other;
		count = 1;
		work = next;
	}
	return ret ? ret : count;
}
