/* SPDX-License-Identifier: BSD-2-Clause */
/* worker.c -- a thread of a server: what it waits for, and how clients come to it */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server.h"

int rpc_worker_open(struct rpc_worker *worker, struct pmemrpc_server *server)
{
	struct epoll_event event = {.events = EPOLLIN};

	worker->server = server;
	worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->epoll_fd < 0 || worker->wake_fd < 0 ||
	    epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->wake_fd, &event))
		return rpc_server_fail(server, "descriptors", -errno);
	return rpc_executor_open(&worker->executor, server);
}

void rpc_worker_close(struct rpc_worker *worker)
{
	if (worker->epoll_fd >= 0)
		close(worker->epoll_fd);
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
	rpc_executor_close(&worker->executor);
}

static int control(struct rpc_worker *worker, struct fid *fid, int op)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd, ret = fi_control(fid, FI_GETWAIT, &fd);

	if (ret)
		return rpc_server_fail(worker->server, "FI_GETWAIT", ret);
	/* It may be so already. */
	if (epoll_ctl(worker->epoll_fd, op, fd, &event) && errno != EEXIST && errno != ENOENT)
		return rpc_server_fail(worker->server, "epoll_ctl", -errno);
	return 0;
}

int rpc_worker_watch(struct rpc_worker *worker, struct fid *fid)
{
	return control(worker, fid, EPOLL_CTL_ADD);
}

int rpc_worker_unwatch(struct rpc_worker *worker, struct fid *fid)
{
	return control(worker, fid, EPOLL_CTL_DEL);
}

void rpc_worker_wake(struct rpc_worker *worker)
{
	const uint64_t one = 1;

	/* It fails only if it was called 2^64 times. */
	while (write(worker->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	/* Last: who takes this back resets the descriptor, too. */
	worker->woken = true;
}

void rpc_worker_send(struct rpc_worker *worker, struct rpc_session *session)
{
	pthread_mutex_lock(&worker->server->lock);
	session->worker = worker;
	session->next = worker->inbox;
	worker->inbox = session;
	pthread_mutex_unlock(&worker->server->lock);
	rpc_worker_wake(worker);
}

void rpc_worker_receive(struct rpc_worker *worker)
{
	struct rpc_session *session;
	uint64_t count;

	if (!worker->woken)
		return;
	/* Before the inbox is looked at: who comes later wakes again. */
	worker->woken = false;
	while (read(worker->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&worker->server->lock);
	while ((session = worker->inbox)) {
		worker->inbox = session->next;
		session->next = worker->sessions;
		worker->sessions = session;
	}
	pthread_mutex_unlock(&worker->server->lock);
}
