/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_farm_server.c -- the server of FaRM's protocol: libpmemrpc's memory, which READs reach, too
 *
 * This thread lets clients in that read; another one executes calls.
 */
#include "tx_farm.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmemrpc.h"
#include "../common/common.h"

#define SLEEP_MS 100

struct server {
	const struct options *opts;
	struct pmemrpc_server *rpc;
	struct tx_record *records;
	uint64_t *owners; /* who has each lock, or 0 */
	struct node node;
	struct region region, lease_region;
	struct kv_lease lease;
	struct conn clients[KV_CLIENTS];
};

static volatile sig_atomic_t stopped;

static void stop(int signo)
{
	(void) signo;
	stopped = 1;
}

/* ---- calls ---- */

/* set_word -- of version and lock, as the last thing that READs see of a change */
static void set_word(struct tx_record *record, uint64_t word)
{
	__atomic_store_n(&record->stamp.number, word, __ATOMIC_RELEASE);
}

/* may_have -- may the owner lock a record (owner 0), or has he?  The version is the one that he
 * has read. */
static bool may_have(const struct server *server, const struct tx_record *wanted, uint64_t owner,
		     uint64_t version)
{
	const struct tx_record *record = &server->records[wanted->key];

	return server->owners[wanted->key] == owner &&
	       (record->stamp.number & ~TX_FARM_LOCK) == version;
}

static void lock(struct server *server, uint64_t key, uint64_t owner)
{
	struct tx_record *record = &server->records[key];

	server->owners[key] = owner;
	set_word(record, owner ? record->stamp.number | TX_FARM_LOCK
			       : record->stamp.number & ~TX_FARM_LOCK);
}

/* update -- the word is stored behind all else; the lock has been with the owner until now */
static void update(struct server *server, struct pmemrpc_request *request,
		   const struct tx_record *new)
{
	struct tx_record *record = &server->records[new->key];
	const size_t rest = sizeof(new->stamp);

	server->owners[new->key] = 0;
	if (request->op == TX_FARM_UPDATE_ALL) {
		pmemrpc_store(request, record, new, sizeof(*new));
		return;
	}
	memcpy((char *) record + rest, (const char *) new + rest, sizeof(*new) - rest);
	set_word(record, new->stamp.number);
}

static int carry_out(struct server *server, struct pmemrpc_request *request,
		     const struct tx_farm_argument *argument)
{
	bool locks = request->op == TX_FARM_LOCK_ALL;
	bool updates = request->op >= TX_FARM_UPDATE_ALL;

	for (uint64_t i = 0; i < argument->count; i++) {
		const struct tx_record *wanted = &argument->records[i];

		if (wanted->key >= server->lease.slots)
			return -FI_EINVAL;
		if (!may_have(server, wanted, locks ? 0 : argument->owner,
			      wanted->stamp.number - updates))
			return -FI_EAGAIN;
	}
	for (uint64_t i = 0; i < argument->count; i++) {
		if (updates)
			update(server, request, &argument->records[i]);
		else
			lock(server, argument->records[i].key, locks ? argument->owner : 0);
	}
	return 0;
}

static int handle(struct pmemrpc_request *request, void *context)
{
	struct tx_farm_argument argument = {0};
	const size_t head = offsetof(struct tx_farm_argument, records);

	if (request->op < TX_FARM_LOCK_ALL || request->op > TX_FARM_UPDATE_VOLATILE ||
	    request->argument_len > sizeof(argument) || request->argument_len < head)
		return -FI_EINVAL;
	memcpy(&argument, request->argument, request->argument_len);
	if (!argument.owner || !argument.count || argument.count > TX_KEYS ||
	    request->argument_len != head + argument.count * sizeof(argument.records[0]))
		return -FI_EINVAL;
	pmemrpc_exclude(request);
	return carry_out(context, request, &argument);
}

/* ---- memory ---- */

/* make_records -- those of a new server; and nobody has a lock now */
static int make_records(struct server *server)
{
	for (uint64_t i = 0; i < server->opts->records; i++) {
		struct tx_record *record = &server->records[i];

		record->stamp.number &= ~TX_FARM_LOCK;
		if (record->check)
			continue;
		*record = (struct tx_record){.key = i};
		record->check = tx_farm_check(record);
	}
	return pmemrpc_persist(server->rpc, server->records,
			       server->opts->records * sizeof(struct tx_record));
}

static int open_rpc(struct server *server)
{
	static const uint32_t readers[] = {TX_FARM_LOCK_ALL, TX_FARM_UNLOCK_ALL,
					   TX_FARM_UPDATE_VOLATILE};
	char port[16], error[1024];
	const struct pmemrpc_server_attr attr = {
		.path = server->opts->memory,
		.service = port,
		.clients = KV_CLIENTS,
		.ring = 65536,
		.window = 8,
		.reply_max = 8,
		.effects_max = TX_KEYS * (sizeof(struct tx_record) + 16),
		.memory = server->opts->records * sizeof(struct tx_record),
		.readers = readers,
		.num_readers = sizeof(readers) / sizeof(readers[0]),
		.handler = handle,
		.context = server,
	};
	size_t len;

	snprintf(port, sizeof(port), "%d", atoi(server->opts->src_port) + 1);
	/* A call that is left in a log finds no lock, and is refused. */
	server->owners = calloc(server->opts->records, sizeof(*server->owners));
	if (!server->owners)
		return report("calloc", -FI_ENOMEM);
	if (pmemrpc_server_open(&attr, &server->rpc, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return -FI_EIO;
	}
	server->records = pmemrpc_memory(server->rpc, &len);
	return make_records(server);
}

/* ---- READs ---- */

/* lend -- the memory, when the first client comes, by whom the domain is known.  There is an agent,
 * which sees to READs as it does at the target of chains, where peers may commit writes. */
static int lend(struct server *server, struct fi_info *info)
{
	uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	int ret = node_domain(&server->node, info);

	if (ret || server->region.mr)
		return ret;
	ret = region_register(&server->node, &server->region, server->records,
			      server->opts->records * sizeof(struct tx_record), access,
			      FI_RMA_PMEM);
	return ret ? ret
		   : region_register(&server->node, &server->lease_region, &server->lease,
				     sizeof(server->lease), FI_REMOTE_READ, 0);
}

static int let_in(struct server *server, struct fi_info *info, struct conn *conn)
{
	const struct conn_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait = FI_WAIT_UNSPEC};
	struct kv_welcome welcome;
	int ret = lend(server, info);

	if (!ret)
		ret = conn_create(conn, &server->node, info, &attr);
	if (ret)
		return ret;
	welcome.addr = server->lease_region.addr;
	welcome.key = server->lease_region.key;
	memcpy(welcome.hello, TX_FARM_HELLO, KV_HELLO_LEN);
	server->lease = (struct kv_lease){
		.magic = TX_FARM_MAGIC,
		.key = server->region.key,
		.index = server->region.addr,
		.slots = server->opts->records,
	};
	ret = fi_accept(conn->ep, &welcome, KV_WELCOME_LEN);
	return ret ? report("fi_accept", ret) : 0;
}

static void welcome_client(struct server *server, struct cm_event *event)
{
	struct fi_info *info = event->entry.info;
	unsigned int place = 0;

	while (place < KV_CLIENTS && server->clients[place].ep)
		place++;
	if (place == KV_CLIENTS || event->len < KV_HELLO_LEN ||
	    memcmp(event->entry.data, TX_FARM_HELLO, KV_HELLO_LEN) != 0) {
		node_reject(&server->node, info, "too many clients, or not a client of this");
	} else if (let_in(server, info, &server->clients[place])) {
		conn_close(&server->clients[place]);
		node_reject(&server->node, info, NULL);
	} else {
		fi_freeinfo(info);
	}
}

static void take_event(struct server *server, struct cm_event *event)
{
	if (event->event == FI_CONNREQ && !event->err)
		welcome_client(server, event);
	for (unsigned int i = 0; event->event == FI_SHUTDOWN && i < KV_CLIENTS; i++) {
		if (server->clients[i].ep && &server->clients[i].ep->fid == event->entry.fid)
			conn_close(&server->clients[i]);
	}
}

static void *execute(void *arg)
{
	struct server *server = arg;

	if (pmemrpc_server_run(server->rpc)) {
		fprintf(stderr, "%s\n", pmemrpc_server_error(server->rpc));
		stopped = 1;
	}
	return NULL;
}

static int serve(struct server *server)
{
	const struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.port = server->opts->src_port,
	};
	struct cm_event event;
	pthread_t thread;
	int ret = pthread_create(&thread, NULL, execute, server);

	if (ret)
		return report("pthread_create", -ret);
	ret = fabric_listen(&server->node, server->opts, &attr);
	while (ret >= 0 && !stopped) {
		ret = node_event(&server->node, &event, SLEEP_MS);
		if (ret > 0)
			take_event(server, &event);
	}
	pmemrpc_server_stop(server->rpc);
	pthread_join(thread, NULL);
	return ret < 0 ? ret : 0;
}

int tx_farm_serve(const struct options *opts)
{
	const struct sigaction action = {.sa_handler = stop};
	struct server *server = calloc(1, sizeof(*server));
	int ret;

	if (!server)
		return report("calloc", -FI_ENOMEM);
	if (!opts->memory) {
		free(server);
		return report("memory without a name", -FI_EINVAL);
	}
	server->opts = opts;
	server->lease.slots = opts->records;
	ret = open_rpc(server);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (!ret)
		ret = serve(server);
	for (unsigned int i = 0; i < KV_CLIENTS; i++)
		conn_close(&server->clients[i]);
	region_close(&server->region);
	region_close(&server->lease_region);
	node_close(&server->node);
	if (server->rpc)
		pmemrpc_server_close(server->rpc);
	free(server->owners);
	free(server);
	return ret;
}
