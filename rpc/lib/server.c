/* SPDX-License-Identifier: BSD-2-Clause */
/* server.c -- a server's memory, opening and closing it */
#include "server.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

int rpc_server_random(void *key, size_t len)
{
	return getrandom(key, len, 0) == (ssize_t) len ? 0 : -FI_EIO;
}

int rpc_server_fail(struct pmemrpc_server *server, const char *what, ssize_t ret)
{
	pthread_mutex_lock(&server->lock);
	explain_call(&server->error, what, ret);
	pthread_mutex_unlock(&server->lock);
	return (int) ret;
}

#define COMPLAIN_MS 1000

void rpc_server_say(struct pmemrpc_server *server, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&server->lock);
	va_start(args, format);
	vsnprintf(server->error.text, sizeof(server->error.text), format, args);
	va_end(args);
	if (server->complain && rpc_now_ms() >= server->complains_at) {
		server->complains_at = rpc_now_ms() + COMPLAIN_MS;
		server->complain(server->error.text, server->context);
	}
	pthread_mutex_unlock(&server->lock);
}

static int open_store(struct pmemrpc_server *server, const struct pmemrpc_server_attr *attr)
{
	const struct rpc_sizes sizes = {.clients = attr->clients,
					.ring = attr->ring,
					.window = attr->window,
					.reply_max = attr->reply_max,
					.effects_max = attr->effects_max,
					.memory = attr->memory};
	uint64_t len = rpc_store_len(&sizes), secret;
	int ret = attr->ring % RPC_PAGE ? -FI_EINVAL : 0;

	if (!ret)
		ret = rpc_pmem_open(&server->pmem, attr->path, len, &server->error);
	else
		explain(&server->error, ret, "a ring has a multiple of %u bytes", RPC_PAGE);
	if (ret)
		return ret;
	if (rpc_store_is_new(&server->pmem.memory)) {
		if (!len || len > server->pmem.memory.len)
			return explain(&server->error, -FI_EINVAL,
				       "%s is new and has %zu bytes; these sizes need %llu (0: one "
				       "of them is out of range)",
				       attr->path, server->pmem.memory.len,
				       (unsigned long long) len);
		ret = rpc_server_random(&secret, sizeof(secret));
		if (!ret)
			ret = rpc_store_format(&server->pmem.memory, &sizes, secret);
		if (ret)
			return explain_call(&server->error, attr->path, ret);
	}
	ret = rpc_store_open(&server->store, &server->pmem.memory, &sizes);
	if (ret == -EUCLEAN)
		return explain(&server->error, ret, "%s is no store, or it is damaged", attr->path);
	if (ret == -EINVAL)
		return explain(&server->error, ret, "%s was made with other sizes", attr->path);
	return ret ? explain_call(&server->error, attr->path, ret) : 0;
}

/* open_workers -- one for each processor that there is for this process, if nothing else is said */
static int open_workers(struct pmemrpc_server *server, unsigned int threads)
{
	cpu_set_t set;
	int ret = rpc_worker_open(&server->listener, server);

	if (!threads)
		threads = sched_getaffinity(0, sizeof(set), &set) ? 1
								  : (unsigned int) CPU_COUNT(&set);
	if (threads > server->store.sizes.clients)
		threads = (unsigned int) server->store.sizes.clients;
	/* analyse clang-analyzer-optin.portability.UnixAPI: there is a processor, and a client. */
	server->workers = calloc(threads, sizeof(*server->workers));
	if (!server->workers)
		return rpc_server_fail(server, "memory", -FI_ENOMEM);
	server->threads = threads;
	server->work = calloc(server->store.sizes.clients, sizeof(*server->work));
	if (!server->work)
		return rpc_server_fail(server, "memory", -FI_ENOMEM);
	for (unsigned int i = 0; i < server->store.sizes.clients; i++)
		server->work[i] = (struct rpc_work){.server = server, .slot = i};
	for (unsigned int i = 0; i < threads; i++)
		server->workers[i].epoll_fd = server->workers[i].wake_fd = -1;
	for (unsigned int i = 0; !ret && i < threads; i++)
		ret = rpc_worker_open(&server->workers[i], server);
	return ret;
}

/*
 * try_memory -- can peers commit to the rings?  Said now, and not to the first client.
 */
static int try_memory(struct pmemrpc_server *server, const char *path)
{
	struct rpc_ring ring = rpc_store_ring(&server->store, 0);
	struct fid_domain *domain = NULL;
	struct fid_mr *mr;
	int ret = fi_domain(server->fabric, server->info, &domain, NULL);

	/* verbs has no device yet, if it listens at all addresses: the first client hears of it. */
	if (ret)
		return 0;
	ret = fi_mr_reg(domain, ring.base, ring.size, FI_REMOTE_WRITE, 0, 0, FI_RMA_PMEM, &mr,
			NULL);
	if (!ret)
		fi_close(&mr->fid);
	else
		explain(&server->error, ret,
			"nothing can be made durable in %s: %s; with FI_LOG_LEVEL=warn the "
			"provider "
			"says why",
			path, fi_strerror(-ret));
	fi_close(&domain->fid);
	return ret;
}

int rpc_server_recover(struct pmemrpc_server *server)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < server->store.sizes.clients; i++) {
		/* When it was stopped, and runs again, the pool has some. */
		if (!server->work[i].session && rpc_work_is_idle(&server->work[i]))
			ret = rpc_server_drain(&server->listener.executor, i);
	}
	return ret == -FI_EAGAIN ? 0 : ret;
}

static int listen_there(struct pmemrpc_server *server, const struct pmemrpc_server_attr *attr)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
	/* A receive for each call's notice, where notices need one, and for three messages. */
	unsigned int receives = (unsigned int) server->store.sizes.window + 3;
	int ret;

	/* With its cache verbs gives each region all rights, whatever was asked for. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
	ret = rpc_find_provider(attr->provider, true, attr->node, attr->service, receives,
				&server->info, &server->error);
	if (ret)
		return ret;
	ret = fi_fabric(server->info->fabric_attr, &server->fabric, NULL);
	if (ret)
		return explain_call(&server->error, "fi_fabric", ret);
	ret = try_memory(server, attr->path);
	if (ret)
		return ret;
	ret = fi_eq_open(server->fabric, &eq_attr, &server->eq, NULL);
	if (!ret)
		ret = fi_passive_ep(server->fabric, server->info, &server->pep, NULL);
	if (!ret)
		ret = fi_pep_bind(server->pep, &server->eq->fid, 0);
	if (!ret)
		ret = fi_listen(server->pep);
	return ret ? explain_listen(&server->error, attr->service, ret)
		   : rpc_worker_watch(&server->listener, &server->eq->fid);
}

/* copy_readers -- which operations change nothing */
static int copy_readers(struct pmemrpc_server *server, const struct pmemrpc_server_attr *attr)
{
	if (!attr->num_readers)
		return 0;
	if (!attr->readers)
		return explain_call(&server->error, "num_readers without readers", -FI_EINVAL);
	server->readers = calloc(attr->num_readers, sizeof(*server->readers));
	if (!server->readers)
		return explain_call(&server->error, "memory", -FI_ENOMEM);
	memcpy(server->readers, attr->readers, attr->num_readers * sizeof(*server->readers));
	server->num_readers = attr->num_readers;
	return 0;
}

static int open_server(struct pmemrpc_server *server, const struct pmemrpc_server_attr *attr)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ret;

	if (!attr->path || !attr->service || !attr->handler)
		return explain(&server->error, -FI_EINVAL, "path, service and handler are needed");
	server->handler = attr->handler;
	server->context = attr->context;
	server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->stop_fd < 0)
		return explain_call(&server->error, "descriptors", -errno);
	ret = copy_readers(server, attr);
	if (!ret)
		ret = open_store(server, attr);
	if (!ret) {
		server->handshakes = calloc(rpc_store_connections(&server->store.sizes),
					    sizeof(*server->handshakes));
		if (!server->handshakes)
			ret = explain_call(&server->error, "memory", -FI_ENOMEM);
	}
	if (!ret)
		ret = open_workers(server, attr->threads);
	if (!ret && epoll_ctl(server->listener.epoll_fd, EPOLL_CTL_ADD, server->stop_fd, &event))
		ret = explain_call(&server->error, "descriptors", -errno);
	if (!ret)
		ret = rpc_server_recover(server);
	if (!ret)
		ret = rpc_pool_open(&server->pool, server, attr->pool);
	if (!ret)
		rpc_throttle_open(&server->throttle, attr->throttle,
				  server->pool.count ? server->pool.count : server->threads);
	server->rate = attr->rate;
	server->silence_ms = attr->silence_ms;
	server->rings_per_peer = attr->rings_per_peer;
	server->complain = attr->complain;
	for (unsigned int i = 0; !ret && i < server->threads; i++)
		rpc_spin_open(&server->workers[i].spin, attr->spin_us);
	return ret ? ret : listen_there(server, attr);
}

int pmemrpc_server_open(const struct pmemrpc_server_attr *attr, struct pmemrpc_server **server,
			char *error, size_t size)
{
	struct pmemrpc_server *made = calloc(1, sizeof(*made));
	int ret = -FI_ENOMEM;

	*server = NULL;
	if (made) {
		made->listener.epoll_fd = made->listener.wake_fd = made->stop_fd = made->pmem.fd =
			-1;
		pthread_mutex_init(&made->lock, NULL);
		pthread_mutex_init(&made->exclusive, NULL);
		ret = open_server(made, attr);
	}
	if (!ret) {
		*server = made;
		return 0;
	}
	if (size)
		snprintf(error, size, "%s", made ? made->error.text : "no memory");
	if (made)
		pmemrpc_server_close(made);
	return ret;
}

void pmemrpc_server_close(struct pmemrpc_server *server)
{
	/* What is left stays in the rings. */
	server->stopping = true;
	rpc_pool_close(&server->pool);
	while (server->all)
		rpc_session_end(server->all);
	if (server->pep)
		fi_close(&server->pep->fid);
	if (server->eq)
		fi_close(&server->eq->fid);
	if (server->fabric)
		fi_close(&server->fabric->fid);
	fi_freeinfo(server->info);
	for (unsigned int i = 0; i < server->threads; i++)
		rpc_worker_close(&server->workers[i]);
	rpc_worker_close(&server->listener);
	free(server->workers);
	free(server->readers);
	free(server->handshakes);
	free(server->work);
	rpc_store_close(&server->store);
	rpc_pmem_close(&server->pmem);
	if (server->stop_fd >= 0)
		close(server->stop_fd);
	pthread_mutex_destroy(&server->lock);
	pthread_mutex_destroy(&server->exclusive);
	free(server);
}

const char *pmemrpc_server_error(const struct pmemrpc_server *server)
{
	return server->error.text;
}

void pmemrpc_server_counters(const struct pmemrpc_server *server, struct pmemrpc_counters *counters)
{
	*counters = (struct pmemrpc_counters){.executed = server->counters.executed,
					      .recovered = server->counters.recovered,
					      .connections = server->counters.connections,
					      .refused = server->counters.refused,
					      .denied = server->counters.denied,
					      .clients = server->counters.clients,
					      .waiting = server->counters.waiting,
					      .threads = server->threads,
					      .pool = server->pool.count,
					      .notices = server->counters.notices,
					      .batches = server->counters.batches,
					      .bytes = server->counters.bytes,
					      .reply_bytes = server->counters.reply_bytes,
					      .throttled = server->throttle.times,
					      .slow = server->throttle.slow,
					      .limited = server->counters.limited};
}

void *pmemrpc_memory(struct pmemrpc_server *server, size_t *len)
{
	*len = server->store.sizes.memory;
	return server->store.memory->base + server->store.app;
}

int pmemrpc_persist(struct pmemrpc_server *server, const void *place, size_t len)
{
	return rpc_store_persist(&server->store, place, len);
}
