/* SPDX-License-Identifier: BSD-2-Clause */
/* pair.c -- two rigs whose endpoints are connected; pair.h says how they are used */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/platform.h"
#include "objects/cq.h"
#include "objects/handshake.h"
#include "pair.h"

/* The one that memory is written back for. */
static struct pair *current;

/* Writing back */

/*
 * meet -- all that was delivered before is there: the thread sanitizer does not
 * see how the provider can tell
 */
static void meet(struct rig *rig)
{
	pthread_mutex_lock(&rig->fake.lock);
	pthread_mutex_unlock(&rig->fake.lock);
}

static void record(char what, const void *at, size_t len)
{
	meet(current->home);
	if (current->on_event)
		current->on_event(current->on_event_arg);
	if (current->forgets_events)
		return;
	cr_assert_lt(current->num_events, sizeof(current->events) / sizeof(current->events[0]));
	current->events[current->num_events++] = (struct pair_event){what, at, len};
}

static enum pair_memory memory_of(const void *at, size_t len)
{
	const char *start = at;

	for (int i = 0; i < PAIR_MEMORIES; i++) {
		if (start >= current->memory[i] && start + len <= current->memory[i] + PAIR_SIZE)
			return (enum pair_memory) i;
	}
	cr_assert_fail("%zu bytes at %p are in no region", len, at);
	return DMP;
}

static void name(const void *at, size_t len)
{
	enum pair_memory memory = memory_of(at, len);
	size_t offset = (const char *) at - current->memory[memory];

	memcpy(current->named[memory] + offset, at, len);
}

static void no_notice_yet(void)
{
	if (current->expects_notice)
		cr_assert_eq(atomic_load(&pmv_to_cq(current->away->rx_cq)->queue.num_ready), 0,
			     "a notice has come too early");
}

static void flush(const void *addr, size_t len)
{
	record('F', addr, len);
	name(addr, len);
	no_notice_yet();
}

static void drain(void)
{
	record('D', NULL, 0);
	for (int i = 0; i < PAIR_MEMORIES; i++)
		memcpy(current->durable[i], current->named[i], PAIR_SIZE);
	no_notice_yet();
}

static void store(void *to, const void *from, size_t len)
{
	record('S', to, len);
	memcpy(to, from, len);
	name(to, len);
	no_notice_yet();
}

/* What a device writes is written back by sync only where the kernel was told of it. */
static int touch(void *addr, size_t len)
{
	enum pair_memory memory = memory_of(addr, len);
	size_t offset = (char *) addr - current->memory[memory];

	memset(current->touched[memory] + offset, 1, len);
	return 0;
}

static int sync_pages(void *addr, size_t len)
{
	enum pair_memory memory = memory_of(addr, len);
	size_t offset = (char *) addr - current->memory[memory];

	record('Y', addr, len);
	no_notice_yet();
	if (current->sync_fails && memory == PAGE)
		return -FI_EIO;
	for (size_t i = offset; i < offset + len; i++) {
		if (!current->touched[memory][i])
			continue;
		current->named[memory][i] = current->memory[memory][i];
		current->durable[memory][i] = current->memory[memory][i];
	}
	return 0;
}

static const struct pmv_flush_ops recorder = {
	.flush = flush,
	.drain = drain,
	.store = store,
	.touch = touch,
	.sync = sync_pages,
};

static void see_ack(struct fake *fake, const struct fake_post *post, void *arg)
{
	const struct pair *pair = arg;

	(void) fake;
	if (post->op.key == pair->ack_key)
		record('K', NULL, 0);
}

/* Opening and closing */

static void introduce(struct pmv_ep *ep, struct pmv_ep *to, const struct pair_options *options)
{
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake;

	pmv_mailbox_handshake(&ep->mailbox, buf);
	cr_assert_eq(pmv_handshake_decode(buf, sizeof(buf), &handshake), 0);
	handshake.notices = handshake.notices && !options->no_notices;
	handshake.agent = handshake.agent && !options->no_agent;
	handshake.messages = handshake.messages && handshake.agent && !options->older;
	if (options->port)
		handshake.port = options->port;
	pmv_handshake_connect(to, &handshake);
}

static void connect_eps(struct pair *pair, const struct pair_options *options)
{
	pair->from = pmv_to_ep(pair->home->ep);
	pair->to = pmv_to_ep(pair->away->ep);
	if (options->one_kind)
		accepted(fi_setopt(&pair->away->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
				   &pair->mr[options->received], sizeof(struct fid_mr *)));
	accepted(pmv_mailbox_open(&pair->from->mailbox));
	accepted(pmv_mailbox_open(&pair->to->mailbox));
	if (options->hints) {
		accepted(pmv_agent_promise(&pair->from->domain->agent,
					   &pair->from->mailbox.receiver));
		accepted(pmv_agent_promise(&pair->to->domain->agent, &pair->to->mailbox.receiver));
	}
	introduce(pair->from, pair->to, options);
	introduce(pair->to, pair->from, options);
	pair->ack_key = pair->to->mailbox.link.peer.key;
	fake_connect(pair->from->engine.fid, pair->to->engine.fid);
}

static void register_memory(struct pair *pair)
{
	static const struct {
		enum pmv_persist persist;
		bool ddio;
	} are[PAIR_MEMORIES] = {
		[DMP] = {PMV_DMP, true},       [PAGE] = {PMV_PAGE, true},
		[PAGE_TOO] = {PMV_PAGE, true}, [READ_DMP] = {PMV_DMP, false},
		[MHP] = {PMV_MHP, true},
	};

	pair->source = malloc(PAIR_SIZE);
	cr_assert_not_null(pair->source);
	/* Unlike what is there before. */
	for (size_t i = 0; i < PAIR_SIZE; i++)
		pair->source[i] = (char) (i * 37 % 251 + 1);
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		pair->memory[i] = aligned_alloc(4096, PAIR_SIZE);
		pair->named[i] = calloc(1, PAIR_SIZE);
		pair->durable[i] = calloc(1, PAIR_SIZE);
		pair->touched[i] = calloc(1, PAIR_SIZE);
		cr_assert(pair->memory[i] && pair->named[i] && pair->durable[i]);
		memset(pair->memory[i], 0, PAIR_SIZE);
		pmv_setting.domain_declared = pmv_setting.ddio_declared = true;
		pmv_setting.domain = are[i].persist;
		pmv_setting.ddio = are[i].ddio;
		accepted(fi_mr_reg(pair->away->domain, pair->memory[i], PAIR_SIZE,
				   FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, FI_PMEM, &pair->mr[i],
				   NULL));
	}
}

struct pair *pair_open(const struct pair_options *options)
{
	static const struct pair_options none;
	struct pair *pair = calloc(1, sizeof(*pair));
	struct rig_options home, away;

	cr_assert_not_null(pair);
	if (!options)
		options = &none;
	home = options->home;
	away = options->away;
	home.virt_addr = away.virt_addr = !options->offsets;
	pmv_setting.agent = options->busy     ? PMV_AGENT_BUSY
			    : options->thread ? PMV_AGENT_THREAD
					      : PMV_AGENT_PROGRESS;
	current = pair;
	pair->home = rig_open(&home);
	pair->away = rig_open(&away);
	register_memory(pair);
	connect_eps(pair, options);
	pmv_flush = &recorder;
	pair->away->fake.on_post = see_ack;
	pair->away->fake.on_post_arg = pair;
	pair->home->fake.automatic = pair->away->fake.automatic = options->automatic;
	if (!options->stores)
		pair->from->initiator.stores_from = UINT64_MAX;
	/* Last: this is where threads start. */
	accepted(pmv_agent_attach(&pair->to->domain->agent, &pair->to->mailbox.receiver));
	accepted(pmv_agent_attach(&pair->from->domain->agent, &pair->from->mailbox.receiver));
	return pair;
}

void pair_describe_memory(void)
{
	static const char maps[] = "1000-7ffffffff000 rw-p 00000000 00:00 0 \n";
	static char path[64];
	int fd;

	if (*path)
		return;
	fd = memfd_create("maps", MFD_CLOEXEC);
	cr_assert_neq(fd, -1);
	cr_assert_eq(write(fd, maps, sizeof(maps) - 1), (ssize_t) sizeof(maps) - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	pmv_platform.smaps = pmv_platform.maps = path;
}

struct pmv_ep *pair_join(struct pair *pair)
{
	struct pmv_ep *ep = pmv_to_ep(rig_ep(pair->away, pair->away->cq));

	accepted(pmv_mailbox_open(&ep->mailbox));
	ep->mailbox.link.connected = true;
	accepted(pmv_agent_attach(&ep->domain->agent, &ep->mailbox.receiver));
	return ep;
}

void pair_close(struct pair *pair)
{
	cr_assert_eq(pair->away->fake.denied, 0, "what is asked of the target is not allowed");
	cr_assert_eq(pair->home->fake.denied, 0);
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		if (pair->mr[i])
			accepted(fi_close(&pair->mr[i]->fid));
		free(pair->memory[i]);
		free(pair->named[i]);
		free(pair->durable[i]);
		free(pair->touched[i]);
	}
	rig_close(pair->home);
	rig_close(pair->away);
	free(pair->source);
	free(pair);
}

/* Working with it */

struct pmv_agent *pair_agent(struct pair *pair)
{
	return &pmv_to_domain(pair->away->domain)->agent;
}

uint64_t pair_key(struct pair *pair, enum pair_memory memory)
{
	return fi_mr_key(pair->mr[memory]);
}

uint64_t pair_addr(struct pair *pair, enum pair_memory memory, size_t offset)
{
	return (pair->away->fake.virt_addr ? (uintptr_t) pair->memory[memory] : 0) + offset;
}

struct pmv_range pair_range(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	return (struct pmv_range){pair_addr(pair, memory, offset), len,
				  (uint32_t) pair_key(pair, memory)};
}

ssize_t pair_put(struct pair *pair, enum pair_memory memory, size_t offset, size_t len,
		 void *context, uint64_t flags)
{
	struct iovec iov = {pair->source + offset, len};
	struct fi_rma_iov rma_iov = {pair_addr(pair, memory, offset), len, pair_key(pair, memory)};
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, &rma_iov, 1, context, DATA};

	return fi_writemsg(pair->home->ep, &msg, flags);
}

ssize_t pair_fetch(struct pair *pair, enum pair_memory memory, size_t offset, void *context,
		   uint64_t flags)
{
	static uint64_t operand = 1, old;
	struct fi_ioc ioc = {&operand, 1}, result = {&old, 1};
	struct fi_rma_ioc rma_ioc = {pair_addr(pair, memory, offset), 1, pair_key(pair, memory)};
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.iov_count = 1,
		.rma_iov = &rma_ioc,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = context,
	};

	return fi_fetch_atomicmsg(pair->home->ep, &msg, &result, NULL, 1, flags);
}

void pair_inject(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	accepted(fi_inject_write(pair->home->ep, pair->source + offset, len, 0,
				 pair_addr(pair, memory, offset), pair_key(pair, memory)));
}

ssize_t pair_send(struct pair *pair, size_t offset, size_t len, void *context, uint64_t flags)
{
	struct iovec iov = {pair->source + offset, len};
	struct fi_msg msg = {&iov, NULL, 1, 0, context, DATA};

	return fi_sendmsg(pair->home->ep, &msg, flags);
}

void pair_receive(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	accepted(fi_recv(pair->away->ep, pair->memory[memory] + offset, len, NULL, 0, NULL));
}

void pair_unregister(struct pair *pair, enum pair_memory memory)
{
	accepted(fi_close(&pair->mr[memory]->fid));
	pair->mr[memory] = NULL;
}

void pair_deliver(struct pair *pair)
{
	fake_complete(&pair->home->fake, SIZE_MAX);
}

void pair_serve(struct pair *pair)
{
	pmv_agent_progress(&pmv_to_domain(pair->away->domain)->agent);
	fake_complete(&pair->away->fake, SIZE_MAX);
}

void pair_round(struct pair *pair)
{
	pair_deliver(pair);
	pair_serve(pair);
}

/* Looking at it */

const struct fake_post *pair_post(struct pair *pair, size_t n)
{
	cr_assert_lt(n, pair->home->fake.num_posts);
	return rig_post(pair->home, pair->home->fake.num_posts - 1 - n);
}

static bool is_message(struct pair *pair, const struct fake_post *post)
{
	return post->op.what == (FI_RMA | FI_WRITE) && post->op.len &&
	       post->op.key == pair->from->mailbox.link.peer.key;
}

const char *pair_posted(struct pair *pair)
{
	size_t at = pair->shown_posts;
	const char *posted = rig_posted(pair->home);
	char *write = pair->shown;

	cr_assert_lt(strlen(posted), sizeof(pair->shown));
	strcpy(pair->shown, posted);
	while ((write = strpbrk(write, "WRASX"))) {
		if (is_message(pair, rig_post(pair->home, at++)))
			*write = 'M';
		write++;
	}
	pair->shown_posts = pair->home->fake.num_posts;
	return pair->shown;
}

bool pair_message(struct pair *pair, const struct fake_post *post,
		  struct pmv_flush_message *message)
{
	static uint64_t slot[PMV_MESSAGE_SIZE / 8];
	size_t at = post->op.addr - pair->from->mailbox.link.peer.addr;

	if (!is_message(pair, post))
		return false;
	cr_assert_leq(post->op.len, PMV_MESSAGE_SIZE);
	memcpy(slot, post->op.buf, post->op.len);
	cr_assert_eq(at, slot[0] % PMV_SLOTS * PMV_MESSAGE_SIZE, "it is not for its slot");
	cr_assert_eq(post->op.len, post->op.rma_len);
	return pmv_message_decode((uint8_t *) slot, slot[0],
				  &pair->from->mailbox.sender.message_out,
				  (struct pmv_message *) message) &&
	       pmv_flush_message_is_valid(message);
}

void pair_expect_message(struct pair *pair, size_t n, struct pmv_flush_message *message)
{
	cr_assert(pair_message(pair, pair_post(pair, n), message));
}

bool pair_names(struct pair *pair, const struct pmv_flush_message *message, enum pair_memory memory,
		size_t offset, size_t len)
{
	for (unsigned int i = 0; i < message->count; i++) {
		const struct pmv_range *range = &message->ranges[i];

		if (range->key == (uint32_t) pair_key(pair, memory) &&
		    range->addr == pair_addr(pair, memory, offset) && range->len == len)
			return true;
	}
	return false;
}

void pair_expect_stalled(struct pair *pair)
{
	struct rig *rig = pair->home;

	refused(rig_write(rig, KEY_MHP, CONTEXT(99)), FI_EAGAIN);
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(99), 0), FI_EAGAIN);
	refused(rig_commit(rig, KEY_MHP, CONTEXT(99), 0), FI_EAGAIN);
	refused(pair_put(pair, DMP, 0, 8, CONTEXT(99), FI_COMMIT), FI_EAGAIN);
	refused(rig_read(rig, KEY_MHP, CONTEXT(99)), FI_EAGAIN);
	refused(rig_send(rig, CONTEXT(99)), FI_EAGAIN);
	refused(rig_fetch(rig, KEY_MHP, CONTEXT(99), 0), FI_EAGAIN);
	refused(fi_inject_write(rig->ep, pair->source, 8, 0, ADDR, KEY_MHP), FI_EAGAIN);
	expect_sent(pair, "");
}

const char *pair_done(struct pair *pair)
{
	size_t len = 0;

	pair->shown[0] = '\0';
	for (; pair->shown_events < pair->num_events; pair->shown_events++) {
		cr_assert_lt(len + 3, sizeof(pair->shown));
		len += sprintf(pair->shown + len, "%s%c", len ? " " : "",
			       pair->events[pair->shown_events].what);
	}
	return pair->shown;
}

const struct pair_event *pair_event(struct pair *pair, char what, size_t n)
{
	for (size_t i = 0; i < pair->num_events; i++) {
		if (pair->events[i].what == what && !n--)
			return &pair->events[i];
	}
	cr_assert_fail("there are not so many %c", what);
	return NULL;
}

bool pair_is(struct pair *pair, const struct pair_event *event, enum pair_memory memory,
	     size_t offset, size_t len)
{
	return event->at == pair->memory[memory] + offset && event->len == len;
}

bool pair_survives(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	meet(pair->away);
	return !memcmp(pair->durable[memory] + offset, pair->source + offset, len);
}

/* What all commits of messages have to stand */

void pair_send_and_lose(struct pair *pair, enum pair_memory memory, size_t part)
{
	struct fake *fake = &pair->home->fake;

	pair_receive(pair, memory, 0, 64);
	accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
	cr_assert_eq(fake_complete(fake, part), part, "part %zu", part);
	cr_assert_eq(fake_fail_all(fake, FI_EIO, 5), 2 - part, "part %zu", part);
	rig_expect_error(pair->home, CONTEXT(1), RIG_SENT, FI_EIO);
	rig_expect_nothing(pair->home);
}

void pair_send_without_room(struct pair *pair, enum pair_memory memory, const char *behind)
{
	/* Room may come while the message is under way, or after it has arrived. */
	for (int late = 0; late < 2; late++) {
		pair_receive(pair, memory, 0, 64);
		pair->home->fake.room = 1;
		accepted(pair_send(pair, 0, 64, CONTEXT(1), FI_COMMIT));
		expect_sent(pair, "S");
		refused(pair_send(pair, 0, 64, CONTEXT(2), 0), FI_EAGAIN);
		if (late) {
			pair_deliver(pair);
			rig_expect_nothing(pair->home);
		}
		pair->home->fake.room = -1;
		rig_expect_nothing(pair->home);
		expect_sent(pair, behind);
		pair_round(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_SENT);
	}
}

/* Past the provider at home */

void pair_tell(struct pair *pair, struct pmv_flush_message *message)
{
	struct pmv_mailbox *mailbox = &pair->to->mailbox;

	message->envelope.number = ++pair->told;
	message_encode(mailbox->link.block +
			       message->envelope.number % PMV_SLOTS * PMV_MESSAGE_SIZE,
		       message, &mailbox->receiver.message_in);
}

void pair_tell_range(struct pair *pair, struct pmv_range range)
{
	pair_tell(pair, &(struct pmv_flush_message){.count = 1, .ranges = {range}});
}

void pair_tell_of(struct pair *pair, enum pair_memory memory, size_t offset, size_t len)
{
	pair_tell_range(pair, pair_range(pair, memory, offset, len));
}

void pair_expect_ack(struct pair *pair, uint64_t done, enum pmv_fault fault)
{
	const struct pmv_mailbox *mailbox = &pair->from->mailbox;
	uint64_t number = pair->acks + 1;
	struct pmv_ack ack;
	bool arrived = pmv_ack_decode(mailbox->link.block + pmv_ack_at(number), number,
				      &mailbox->sender.ack_in, &ack);

	cr_assert_eq(arrived, done != 0);
	if (!done)
		return;
	pair->acks++;
	cr_assert_eq(ack.done, done, "%d instead of %d", (int) ack.done, (int) done);
	cr_assert_eq(ack.fault, fault, "%d instead of %d", (int) ack.fault, (int) fault);
}

void pair_answer(struct pair *pair, uint64_t number, uint64_t done, enum pmv_fault fault)
{
	struct pmv_mailbox *mailbox = &pair->from->mailbox;
	struct pmv_ack ack = {.number = number, .done = done, .fault = fault};

	ack_encode(mailbox->link.block + pmv_ack_at(number), &ack, &mailbox->sender.ack_in);
}
