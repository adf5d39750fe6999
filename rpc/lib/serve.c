/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve.c -- a server's threads: who comes, who goes, and whom something has arrived from
 *
 * The thread that calls pmemrpc_server_run is the listener: it takes events and connections, and
 * hears who a client is.  That decides on its slot, and so on the worker that serves it from then
 * on.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server.h"

/* While a client has not done what it has to do in time; and otherwise. */
#define WATCH_MS 100
#define SLEEP_MS 1000

/* give_way -- the oldest one that has come to a worker, and has no ring there; it ends soon */
static void give_way(struct pmemrpc_server *server)
{
	struct rpc_session *oldest = NULL;

	pthread_mutex_lock(&server->lock);
	for (struct rpc_session *i = server->all; i; i = i->all_next)
		oldest = i->slot >= 0 || i->gone ? oldest : i;
	if (oldest) {
		oldest->gone = true;
		rpc_worker_wake(oldest->worker);
	}
	pthread_mutex_unlock(&server->lock);
}

/*
 * make_room -- for a newcomer, if need be in place of who has said nothing for the longest time: it
 * takes one message to say who one is, so that is somebody who won't.  Who waits for its ring, or
 * was refused, gives way, too, but not at once.
 */
static bool make_room(struct pmemrpc_server *server)
{
	struct rpc_session *oldest = NULL;

	if (server->num_sessions < rpc_store_connections(&server->store.sizes))
		return true;
	/* The last one is there for the longest time. */
	for (struct rpc_session *i = server->listener.sessions; i; i = i->next)
		oldest = i->arrives ? oldest : i;
	if (!oldest) {
		give_way(server);
		return false;
	}
	server->counters.refused++;
	rpc_server_say(server, "a connection gives way to another one: it has said nothing");
	return !rpc_session_end(oldest);
}

/* let_in -- or tell it in a few words why not */
static void let_in(struct pmemrpc_server *server, struct fi_info *info, const void *data,
		   size_t len)
{
	const struct rpc_connect_message *message = data;
	const char *reason = NULL;

	if (len < sizeof(*message) || memcmp(message->magic, RPC_MAGIC, RPC_MAGIC_LEN) ||
	    message->transport > PMEMRPC_SEND)
		reason = "this is a pmemrpc server";
	else if (!make_room(server))
		reason = RPC_CROWDED;
	else if (rpc_session_begin(server, info, message->transport == PMEMRPC_SEND))
		reason = "no room for a client";
	else
		return;
	server->counters.refused++;
	fi_reject(server->pep, info->handle, reason, strlen(reason) + 1);
	fi_freeinfo(info);
}

/* end_of -- the connection that an event is about; its worker may be another thread */
static void end_of(struct pmemrpc_server *server, const struct fid *fid)
{
	pthread_mutex_lock(&server->lock);
	for (struct rpc_session *i = server->all; i; i = i->all_next) {
		if (fid != i->fid)
			continue;
		i->gone = true;
		rpc_worker_wake(i->worker);
	}
	pthread_mutex_unlock(&server->lock);
}

int rpc_server_hear(struct pmemrpc_server *server)
{
	struct fi_eq_err_entry err = {0};
	struct rpc_event event;
	ssize_t ret = fi_eq_read(server->eq, &event.type, event.room, sizeof(event.room), 0);

	if (ret == -FI_EAVAIL) {
		if (fi_eq_readerr(server->eq, &err, 0) > 0)
			end_of(server, err.fid);
		return 1;
	}
	if (ret == -FI_EAGAIN || ret == -FI_EINTR)
		return 0;
	if (ret < (ssize_t) sizeof(event.cm))
		return rpc_server_fail(server, "fi_eq_read", ret < 0 ? ret : -FI_EOTHER);
	if (event.type == FI_CONNREQ)
		let_in(server, event.cm.info, event.cm.data, (size_t) ret - sizeof(event.cm));
	else if (event.type == FI_SHUTDOWN)
		end_of(server, event.cm.fid);
	return 1;
}

/* home -- the worker that a client belongs to */
static struct rpc_worker *home(const struct rpc_session *session)
{
	struct pmemrpc_server *server = session->server;

	return session->claimed < 0 ? &server->listener
				    : rpc_worker_of(server, (unsigned int) session->claimed);
}

/* move -- to its worker */
static void move(struct rpc_worker *worker, struct rpc_session *session)
{
	struct rpc_session **at = &worker->sessions;

	while (*at != session)
		at = &(*at)->next;
	*at = session->next;
	rpc_worker_send(home(session), session);
}

/* flush -- the calls that its clients have begun, and reply to them */
static int flush(struct rpc_worker *worker)
{
	int ret = rpc_server_flush(&worker->executor);

	for (struct rpc_session *i = worker->sessions; i && !ret; i = i->next) {
		if (i->begun)
			ret = rpc_session_flushed(i);
	}
	return ret;
}

/*
 * flush_before -- a client is served: first what others have begun, if that has waited for long
 * enough, or if this client may need the slot of one of them
 */
static int flush_before(struct rpc_worker *worker, const struct rpc_session *session)
{
	bool has_begun = worker->executor.num_begun;

	return (has_begun && (session->arrives || session->state != RPC_READY)) ||
			       rpc_server_is_due(&worker->executor)
		       ? flush(worker)
		       : 0;
}

int rpc_worker_serve(struct rpc_worker *worker)
{
	struct rpc_session *next;
	int busy, ret;

	rpc_worker_receive(worker);
	busy = rpc_worker_collect(worker);
	for (struct rpc_session *i = worker->sessions; i && busy >= 0; i = next) {
		ret = flush_before(worker, i);
		if (!ret)
			ret = rpc_session_serve(i);
		next = i->next;
		if (ret >= 0 && i->state == RPC_ENDED && flush(worker) < 0)
			ret = worker->executor.failed;
		if (ret >= 0 && i->state == RPC_ENDED)
			ret = rpc_session_end(i) < 0 ? -FI_EIO : 1;
		else if (ret >= 0 && i->arrives && home(i) != worker)
			move(worker, i);
		busy = ret < 0 ? ret : busy | ret;
	}
	ret = busy < 0 ? 0 : flush(worker);
	return ret < 0 ? ret : busy;
}

/* spins -- the listener never does: its clients are in no hurry */
static bool spins(struct rpc_worker *worker)
{
	if (!worker->sessions || !rpc_spin_again(&worker->spin, rpc_now_ns()))
		return false;
	if (rpc_spin_yields(&worker->spin))
		sched_yield();
	return true;
}

/* may_sleep -- nothing has arrived meanwhile; how long, if nobody comes */
static bool may_sleep(struct rpc_worker *worker, int *timeout_ms)
{
	struct pmemrpc_server *server = worker->server;
	struct fid *fid = &server->eq->fid;

	*timeout_ms = SLEEP_MS;
	if (worker == &server->listener && fi_trywait(server->fabric, &fid, 1))
		return false;
	for (struct rpc_session *i = worker->sessions; i; i = i->next) {
		fid = &i->link.cq->fid;
		if (i->state == RPC_ENDED || i->gone)
			return false;
		/* Who waits for its slot is not watched yet. */
		if (!i->arrives && fi_trywait(server->fabric, &fid, 1))
			return false;
		*timeout_ms = rpc_session_sleep_ms(i, *timeout_ms);
		if (i->state != RPC_READY && *timeout_ms > WATCH_MS)
			*timeout_ms = WATCH_MS;
	}
	return true;
}

/* end_all -- the threads end; a failure of one is the server's */
static void end_all(struct pmemrpc_server *server, int ret)
{
	pthread_mutex_lock(&server->lock);
	if (ret && !server->failed)
		server->failed = ret;
	pthread_mutex_unlock(&server->lock);
	server->stopping = true;
	rpc_worker_wake(&server->listener);
	for (unsigned int i = 0; i < server->threads; i++)
		rpc_worker_wake(&server->workers[i]);
}

/* is_woken -- nothing was to be done: look again, or sleep until there is something */
static bool is_woken(struct rpc_worker *worker)
{
	struct epoll_event event;
	int timeout_ms;

	return !spins(worker) && may_sleep(worker, &timeout_ms) &&
	       epoll_wait(worker->epoll_fd, &event, 1, timeout_ms);
}

static void *work(void *arg)
{
	struct rpc_worker *worker = arg;
	struct pmemrpc_server *server = worker->server;

	while (!server->stopping) {
		int ret = worker == &server->listener ? rpc_server_hear(server) : 0;
		int other = ret < 0 ? ret : rpc_worker_serve(worker);

		if (other < 0)
			end_all(server, other);
		else if (ret || other || is_woken(worker))
			rpc_spin_busy(&worker->spin, rpc_now_ns());
	}
	return NULL;
}

int rpc_server_thread(struct pmemrpc_server *server, pthread_t *thread, void *(*run)(void *arg),
		      void *arg)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret ? rpc_server_fail(server, "pthread_create", -ret) : 0;
}

/* begin_run -- what is left of the last run's stop is none of this one; one that comes is */
static void begin_run(struct pmemrpc_server *server)
{
	struct pollfd stop = {.fd = server->stop_fd, .events = POLLIN};

	server->stopping = server->failed != 0;
	if (poll(&stop, 1, 0))
		server->stopping = true;
}

int pmemrpc_server_run(struct pmemrpc_server *server)
{
	unsigned int started = 0;
	uint64_t stop;
	int ret;

	begin_run(server);
	ret = rpc_server_recover(server);
	if (!ret)
		ret = rpc_pool_start(&server->pool);
	while (!ret && started < server->threads) {
		struct rpc_worker *worker = &server->workers[started];

		ret = rpc_server_thread(server, &worker->thread, work, worker);
		started += !ret;
	}
	if (ret)
		end_all(server, ret);
	work(&server->listener);
	end_all(server, 0);
	for (unsigned int i = 0; i < started; i++)
		pthread_join(server->workers[i].thread, NULL);
	rpc_pool_stop(&server->pool);
	/* Who was on the way from one to the other. */
	rpc_worker_receive(&server->listener);
	for (unsigned int i = 0; i < server->threads; i++)
		rpc_worker_receive(&server->workers[i]);
	/* It may run again.  Whoever has written this may set `stopping` later: begin_run. */
	while (read(server->stop_fd, &stop, sizeof(stop)) < 0 && errno == EINTR)
		;
	return server->failed;
}

void pmemrpc_server_stop(struct pmemrpc_server *server)
{
	const uint64_t one = 1;
	int err = errno;

	/*
	 * First, so that a run which begins finds it, whatever it does to `stopping`.  It fails
	 * only if it was called 2^64 times.
	 */
	while (write(server->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	errno = err;
	/* From now on no call begins. */
	server->stopping = true;
}
