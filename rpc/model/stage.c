/* SPDX-License-Identifier: BSD-2-Clause */
/* stage.c -- client and server, step by step; stage.h says what of them is real */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET 77
#define REPLY_MAX sizeof(struct answer)
#define LINES(len) (((len) + HW_LINE - 1) / HW_LINE * HW_LINE)
/* Two calls, or one with the replies to others: then it is settled. */
#define RECORDS_LEN ((size_t) 7 * HW_LINE)
#define JOURNAL_LEN (RPC_JOURNAL_HEAD + RECORDS_LEN)

/* Larger objects are not put back with the arena. */
_Static_assert(sizeof(struct stage) <= 8192, "the stage is a small object");

static const uint8_t ids[MAX_CLIENTS][RPC_ID] = {"the model's id", "somebody else"};

static struct stage *stage_of(const struct world *world)
{
	return world->own;
}

/* Calls */

size_t stage_fill(const struct scene *scene, uint64_t sequence, unsigned char *argument)
{
	size_t len = sequence <= MAX_CALLS ? scene->arguments[sequence] : 0;

	if (!len)
		len = 8;
	for (size_t i = 0; i < len; i++)
		argument[i] = (unsigned char) (sequence * 17 + i / 8);
	return len;
}

struct ledger stage_ledger_of(const struct scene *scene, uint64_t sequence)
{
	struct ledger ledger = {0};

	for (uint64_t i = 1; i <= sequence; i++) {
		if (!stage_reads(scene, i))
			ledger = (struct ledger){ledger.count + 1, ledger.order * 31 + i};
	}
	return ledger;
}

void stage_set_readers(struct pmemrpc_server *server, const struct scene *scene,
		       uint32_t readers[MAX_CALLS])
{
	server->readers = readers;
	server->num_readers = 0;
	for (uint32_t i = 1; i <= MAX_CALLS; i++) {
		if (stage_reads(scene, i))
			readers[server->num_readers++] = i;
	}
}

struct ledger *stage_ledger(const struct rpc_store *store, unsigned int client)
{
	return (struct ledger *) (store->memory->base + store->app) + client;
}

int stage_handle(struct pmemrpc_request *request, void *context)
{
	struct actor *actor = context;
	struct ledger *place = stage_ledger(&request->server->store, request->client);
	bool reads = stage_reads(actor->scene, request->sequence);
	struct ledger ledger = {place->count + 1, place->order * 31 + request->sequence};
	const struct answer answer = {place->count + !reads, actor->life};
	struct rpc_memory *memory = request->server->store.memory;
	unsigned char argument[1024];
	size_t len = stage_fill(actor->scene, request->sequence, argument);

	if (request->op != (uint32_t) request->sequence || request->argument_len != len ||
	    memcmp(request->argument, argument, len))
		actor->wrong = "a call is executed that nobody has made";
	if (reads && mutant == READER_WRITES)
		memory->write(memory, place, &ledger, sizeof(ledger));
	if (!reads)
		pmemrpc_store(request, place, &ledger, sizeof(ledger));
	memcpy(request->reply, &answer, sizeof(answer));
	request->reply_len = sizeof(answer);
	return STATUS;
}

/* The server's memory */

static void write_plain(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	(void) memory;
	memcpy(place, data, len);
}

static int persist_plain(struct rpc_memory *memory, const void *place, size_t len)
{
	(void) memory, (void) place, (void) len;
	return 0;
}

static bool in_journal(const struct stage *stage, const void *place)
{
	size_t offset = (size_t) ((const unsigned char *) place - stage->memory.base);

	return offset >= stage->server.store.journal && offset < stage->server.store.slots;
}

/* Stores are cached: piece by piece visible, and durable when the line leaves the cache. */
static void write_modelled(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	struct stage *stage = (struct stage *) memory;
	size_t granule = world_current->config.rules.granule;

	if (mutant == JOURNAL_LOST && in_journal(stage, place))
		return;
	for (size_t done = 0; done < len;) {
		char *to = (char *) place + done;
		size_t piece = granule - (uintptr_t) to % granule;

		if (piece > len - done)
			piece = len - done;
		world_pause("stores");
		memcpy(to, (const char *) data + done, piece);
		done += piece;
	}
}

static void make_durable(const void *place, size_t len)
{
	struct hw *hw = world_current->sim->hw;

	if (world_current->config.domain == PMV_PAGE) {
		world_pause("syncs pages (msync)");
		hw_sync(hw, (void *) place, len);
		return;
	}
	world_pause("writes cache lines back (clwb)");
	hw_flush(hw, place, len);
	world_pause("waits for what it has written back (sfence)");
	hw_drain(hw);
}

static int persist_modelled(struct rpc_memory *memory, const void *place, size_t len)
{
	struct stage *stage = (struct stage *) memory;

	if ((mutant == JOURNAL_LATE && in_journal(stage, place)) ||
	    (mutant == PLACES_LATE && !in_journal(stage, place)) ||
	    (mutant == EPOCH_LATE && place == stage->memory.base + stage->server.store.journal))
		return 0;
	/* In a scene with a pool it does nothing else there. */
	if (mutant == WELCOME_EARLY && world_current->running == &world_current->target)
		return 0;
	if (mutant != REPLY_EARLY) {
		make_durable(place, len);
		return 0;
	}
	stage->owed[stage->num_owed].place = place;
	stage->owed[stage->num_owed++].len = len;
	return 0;
}

static unsigned int stage_clients(const struct scene *scene)
{
	return scene->left ? 2 : 1;
}

bool stage_is_commit(const pthread_mutex_t *lock)
{
	return lock == &stage_of(world_current)->server.store.lock;
}

static struct rpc_sizes sizes_of(const struct scene *scene)
{
	return (struct rpc_sizes){.clients = stage_clients(scene),
				  .ring = scene->ring,
				  .window = scene->window,
				  .reply_max = REPLY_MAX,
				  .effects_max = 32,
				  .memory = stage_clients(scene) * sizeof(struct ledger)};
}

size_t stage_len(const struct scene *scene)
{
	const struct rpc_sizes sizes = sizes_of(scene);

	return rpc_store_len(&sizes);
}

void stage_parts(const struct stage *stage, struct part parts[PARTS])
{
	const struct rpc_store *store = &stage->server.store;
	size_t replies = store->sizes.window * LINES(sizeof(struct rpc_reply) + REPLY_MAX);

	parts[0] = (struct part){store->journal, JOURNAL_LEN};
	parts[1] = (struct part){store->slots, RPC_ALIGN + replies};
	parts[2] = (struct part){store->rings, store->sizes.ring};
	parts[3] = (struct part){store->app, LINES(store->sizes.memory)};
	parts[4] = (struct part){0};
	if (store->sizes.clients > 1)
		parts[4] = (struct part){store->slots + store->slot_len, parts[1].len};
}

static void open_server(struct stage *stage)
{
	struct pmemrpc_server *server = &stage->server;
	struct rpc_worker *worker = &stage->worker;

	server->handler = stage_handle;
	server->context = &stage->actor;
	stage_set_readers(server, stage->scene, stage->readers);
	pthread_mutex_init(&server->lock, NULL);
	pthread_mutex_init(&server->exclusive, NULL);
	server->work = calloc(MAX_CLIENTS, sizeof(*server->work));
	for (unsigned int i = 0; i < MAX_CLIENTS; i++)
		server->work[i] = (struct rpc_work){.server = server, .slot = i};
	server->work->session = &stage->session;
	server->workers = worker;
	server->threads = 1;
	worker->server = server;
	/* It need not be woken. */
	worker->wake_fd = -1;
	world_sure(rpc_executor_open(&worker->executor, server));
}

/* execute_earlier -- those before the scene: their entries and replies are still there */
static void execute_earlier(struct stage *stage)
{
	struct rpc_ring ring = rpc_store_ring(&stage->server.store, 0);
	struct rpc_slot *slot = rpc_store_slot(&stage->server.store, 0);
	unsigned char argument[1024];

	for (unsigned int i = 1; i <= stage->scene->before; i++) {
		size_t len = stage_fill(stage->scene, i, argument);

		/* Behind the ring there is room, as in a client's copy. */
		rpc_ring_write(&ring, (struct rpc_place){i, slot->position}, i, 0, argument, len);
		if (rpc_server_execute(&stage->worker.executor, 0) != 1)
			abort();
	}
}

/* leave_calls -- of the other client, in its ring, durable; the pool has its work item */
static void leave_calls(struct stage *stage)
{
	struct pmemrpc_server *server = &stage->server;
	struct rpc_slot *slot;
	struct rpc_ring ring;
	unsigned char argument[1024];

	if (!stage->scene->left)
		return;
	slot = rpc_store_slot(&server->store, 1);
	ring = rpc_store_ring(&server->store, 1);
	for (uint64_t i = 1, position = slot->position; i <= stage->scene->left; i++) {
		size_t len = stage_fill(stage->scene, i, argument);

		rpc_ring_write(&ring, (struct rpc_place){i, position}, (uint32_t) i, 0, argument,
			       len);
		position += rpc_footprint(&ring, len);
	}
	world_sure(rpc_pool_open(&server->pool, server, POOL));
	if (rpc_work_drain(&server->work[1]) != -FI_EAGAIN)
		abort();
}

static void make_memory(struct world *world, enum hw_domain domain)
{
	const struct scene *scene = world->config.arg;
	struct stage *stage = calloc(1, sizeof(*stage));
	const struct rpc_sizes sizes = sizes_of(scene);
	struct part parts[PARTS];

	world->own = stage;
	stage->scene = scene;
	stage->actor.scene = scene;
	stage->memory = (struct rpc_memory){.base = (unsigned char *) world->memory[0],
					    .len = world->config.region_size,
					    .grain = HW_LINE,
					    .write = write_plain,
					    .persist = persist_plain};
	world_sure(rpc_store_format(&stage->memory, &sizes, SECRET));
	world_sure(rpc_store_open(&stage->server.store, &stage->memory, &sizes));
	stage->server.store.commits.journal.room = RECORDS_LEN;
	for (unsigned int i = 0; i < sizes.clients; i++) {
		world_sure(rpc_store_claim(&stage->server.store, ids[i], true, NULL) != (int) i);
		world_sure(rpc_store_greet(&stage->server.store, i, 1, 1 + i, i ? 0 : scene->cell,
					   false));
	}
	open_server(stage);
	execute_earlier(stage);
	leave_calls(stage);
	stage_parts(stage, parts);
	for (size_t i = 0; i < PARTS; i++) {
		if (parts[i].len)
			hw_memory(world->sim->hw, world->memory[0] + parts[i].offset, parts[i].len,
				  domain);
	}
	stage->memory.write = write_modelled;
	stage->memory.persist = persist_modelled;
}

/* Both sides, connected */

static ssize_t read_away(struct fid_cq *cq, void *entries, size_t count)
{
	struct world *world = world_current;
	ssize_t got = world_read_away(world, entries, count);
	const struct fi_cq_data_entry *entry = entries;

	(void) cq;
	for (ssize_t i = 0; i < got; i++)
		/* A message is there before it is durable. */
		if (entry[i].flags & FI_REMOTE_CQ_DATA)
			stage_of(world)->heard += entry[i].data;
	return got;
}

static ssize_t readerr_away(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	(void) cq;
	return fi_cq_readerr(world_current->away.cq, entry, flags);
}

static struct fi_ops_cq away_cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = read_away,
	.readerr = readerr_away,
};

static ssize_t read_home_eq(struct fid_eq *eq, uint32_t *event, void *buf, size_t len,
			    uint64_t flags)
{
	(void) eq, (void) event, (void) buf, (void) len, (void) flags;
	return -FI_EAGAIN;
}

static struct fi_ops_eq home_eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = read_home_eq,
};

/* open_session -- as it is when its client is READY */
static void open_session(struct world *world, struct stage *stage)
{
	struct rpc_session *session = &stage->session;
	struct rpc_ring ring = rpc_store_ring(&stage->server.store, 0);

	stage->away_cq = *world->away.cq;
	stage->away_cq.ops = &away_cq_ops;
	session->server = &stage->server;
	session->worker = &stage->worker;
	session->state = RPC_READY;
	session->link = (struct rpc_link){.domain = world->away.domain,
					  .cq = &stage->away_cq,
					  .ep = world->away.eps[0],
					  .error = &session->error};
	session->reply = stage->scene->before + 1;
	session->handshake = -1;
	session->sends = stage->scene->cell;
	stage->server.store.unkept->off = !stage->scene->plain && !stage->scene->reads;
	world_sure(rpc_buffers_open(&session->replies, &session->link, 0, MAX_CALLS,
				    sizeof(struct rpc_reply_message) + REPLY_MAX));
	if (session->sends)
		world_sure(rpc_cells_open(&session->cells, &session->link, &ring,
					  rpc_store_slot(&stage->server.store, 0)->position));
}

/* open_client -- as it is when it has said READY */
static void open_client(struct world *world, struct stage *stage)
{
	const struct scene *scene = stage->scene;
	const struct rpc_slot *slot = rpc_store_slot(&stage->server.store, 0);
	const struct rpc_ring ring = rpc_store_ring(&stage->server.store, 0);
	struct pmemrpc_client *client = calloc(1, sizeof(*client));

	stage->client = client;
	stage->home_eq.ops = &home_eq_ops;
	client->epoll_fd = -1;
	client->eq = &stage->home_eq;
	client->link = (struct rpc_link){.domain = world->home.domain,
					 .cq = world->home.cq,
					 .ep = world->home.eps[0],
					 .error = &client->error};
	client->connected = client->lived = true;
	client->in_order = scene->plain || scene->reads;
	client->window = scene->window;
	client->batch_max = rpc_batch_max(0, scene->window);
	client->reply_max = REPLY_MAX;
	client->calls = calloc(scene->window, sizeof(*client->calls));
	client->attr.transport = scene->cell ? PMEMRPC_SEND : PMEMRPC_WRITE;
	client->ring = ring;
	client->ring.base = calloc(2, ring.size);
	client->ring_addr = (uintptr_t) world->memory[0] + stage->server.store.rings;
	client->ring_mr_key = fi_mr_key(world->mr[0]);
	client->next = (struct rpc_place){slot->executed + 1, slot->position};
	client->tail = slot->position;
	client->posted = client->pushed = client->durable = client->executed = client->freed =
		slot->executed;
	client->kept = rpc_store_kept(&stage->server.store, 0);
	client->kept_position = stage->server.store.unkept->position;
	world_sure(rpc_link_register(&client->link, client->ring.base, ring.size,
				     scene->cell ? FI_SEND : FI_WRITE, 0, &client->mirror_mr));
	world_sure(rpc_buffers_open(&client->replies, &client->link, scene->window + 1, 0,
				    sizeof(struct rpc_reply_message) + REPLY_MAX));
}

static void open_ends(struct world *world)
{
	struct stage *stage = stage_of(world);

	open_session(world, stage);
	open_client(world, stage);
}

static void prepare(struct world *world)
{
	stage_of(world)->judge = judge_open(world);
}

static void add_spans(const struct world *world, struct explore_world *explored)
{
	struct stage *stage = stage_of(world);
	struct rpc_buffers *const pools[] = {&stage->session.replies, &stage->client->replies};

	world_add_span(explored, world->memory[0], world->config.region_size, 0);
	for (size_t i = 0; i < 2; i++)
		world_add_span(explored, pools[i]->memory,
			       (pools[i]->receives + pools[i]->sends) * pools[i]->len,
			       i ? GROUP_HOME : GROUP_AWAY);
	world_add_told(explored, &stage->server, sizeof(stage->server), GROUP_AWAY);
	world_add_told(explored, stage->client, sizeof(*stage->client), GROUP_HOME);
}

/* What is in the arena goes with it. */
static void close_ends(struct world *world)
{
	struct stage *stage = stage_of(world);

	rpc_buffers_close(&stage->client->replies);
	rpc_buffers_close(&stage->session.replies);
	rpc_cells_close(&stage->session.cells);
	world_sure(fi_close(&stage->client->mirror_mr->fid));
}

/* Steps */

static bool may_post(const struct world *world)
{
	const struct stage *stage = stage_of(world);

	return stage->posted < stage->scene->calls;
}

static void complain(struct world *world, const char *what, const char *why)
{
	if (!world->wrong[0])
		snprintf(world->wrong, sizeof(world->wrong), "%s: %.80s", what, why);
}

static void post(struct world *world)
{
	struct stage *stage = stage_of(world);
	uint64_t sequence = stage->scene->before + stage->posted + 1;
	unsigned char argument[1024];
	struct pmemrpc_call *call = &stage->calls[stage->posted];
	int ret;

	*call = (struct pmemrpc_call){.op = (uint32_t) sequence,
				      .argument = argument,
				      .argument_len = stage_fill(stage->scene, sequence, argument),
				      .reply = &stage->answers[stage->posted],
				      .reply_only = stage->posted < stage->scene->plain,
				      .reply_size = sizeof(struct answer)};
	if (mutant == OVERWRITES)
		stage->client->kept_position = stage->client->next.position;
	ret = pmemrpc_post(stage->client, call);
	/* It is copied. */
	call->argument = NULL;
	if (!ret)
		stage->posted++;
	else if (ret != -FI_EAGAIN)
		complain(world, "the client can't post", stage->client->error.text);
}

static void poll_home(struct world *world)
{
	struct stage *stage = stage_of(world);

	if (pmemrpc_progress(stage->client))
		complain(world, "the client", stage->client->error.text);
}

/* welcome -- the other client, when what it has left is executed */
static void welcome(struct stage *stage)
{
	if (!stage->scene->left || stage->welcomed || !rpc_work_is_idle(&stage->server.work[1]))
		return;
	world_sure(rpc_store_greet(&stage->server.store, 1, 1, NEW_KEY, 0, false));
	stage->welcomed = true;
}

static void poll_away(struct world *world)
{
	struct stage *stage = stage_of(world);
	int ret = rpc_worker_collect(&stage->worker);

	if (ret >= 0)
		ret = rpc_session_serve(&stage->session);
	for (unsigned int i = 0; i < stage->num_owed; i++)
		make_durable(stage->owed[i].place, stage->owed[i].len);
	memset(stage->owed, 0, sizeof(stage->owed));
	stage->num_owed = 0;
	if (ret < 0 || stage->session.state != RPC_READY)
		complain(world, "the server", stage->server.error.text);
	else
		welcome(stage);
}

/* A thread of the pool */

static bool other_may_run(const struct world *world, unsigned int other)
{
	(void) other;
	return stage_of(world)->server.pool.first;
}

/* run_other -- one call: as execute_calls in pool.c, which does not come to an end */
static void run_other(struct world *world)
{
	struct stage *stage = stage_of(world);
	struct rpc_pool *pool = &stage->server.pool;
	struct rpc_work *work = pool->first;
	size_t n = (size_t) (world->running - world->others);

	pool->first = work->next;
	if (!pool->first)
		pool->last = &pool->first;
	work->result = rpc_server_execute(&pool->executors[n], work->slot);
	work->next = stage->worker.returned;
	stage->worker.returned = work;
}

static bool is_over(void *arg)
{
	struct world *world = arg;
	const struct stage *stage = stage_of(world);

	return stage->client->executed == stage->scene->before + stage->scene->calls &&
	       (!stage->scene->left || stage->welcomed) && !world->agent.runs &&
	       !world->target.runs && !world->others[0].runs && !world->others[1].runs &&
	       !world_port(world->home.eps[0])->count && !world_port(world->away.eps[0])->count;
}

static const char *check(void *arg, bool final)
{
	struct world *world = arg;

	return world->wrong[0] ? world->wrong : judge_now(world, final);
}

static void describe_post(const struct world *world, char *buf, size_t len)
{
	const struct stage *stage = stage_of(world);
	unsigned char argument[1024];
	uint64_t sequence = stage->scene->before + stage->posted + 1;

	snprintf(buf, len, "the client posts call %llu, whose argument has %zu bytes",
		 (unsigned long long) sequence, stage_fill(stage->scene, sequence, argument));
}

static void leave(struct world *world)
{
	judge_close(stage_of(world)->judge);
}

const struct world_app stage_app = {
	.cq_format = FI_CQ_FORMAT_DATA,
	.transmit = FI_TRANSMIT | FI_SELECTIVE_COMPLETION,
	.threaded = true,
	.make_memory = make_memory,
	.open = open_ends,
	.prepare = prepare,
	.add_spans = add_spans,
	.close = close_ends,
	.leave = leave,
	.may_post = may_post,
	.post = post,
	.poll_home = poll_home,
	.poll_away = poll_away,
	.check = check,
	.is_over = is_over,
	.describe_post = describe_post,
	/* Without a pool nothing is ever queued for them. */
	.others = POOL,
	.other_may_run = other_may_run,
	.run_other = run_other,
};
