/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_connect.c -- a peer whose connection data and keys are anything
 *
 * Events with CM data go through the event queue, to a listener and to an endpoint that
 * connects.  Then the application writes and commits to keys that it was given.  It must
 *   - see its own CM data, without a handshake behind them, and not a byte more,
 *   - have nothing posted but to the key that it named, and to the places in the handshake,
 *   - have nothing posted to a mailbox, or to a flush page, if there was no handshake,
 *   - not be told that a commit is durable which only the peer's agent can have made so,
 *   - be refused commits to a key that says nothing, or something that is not known,
 *   - be refused whatever it does with a key of another life than the peer has named.
 *
 * What a handshake and a key say is read here once more, as wire.h and key.h describe it.
 */
#include "input.h"
#include "pmemverbs/test/support/rig.h"

#include <stdlib.h>

#include <rdma/fi_cm.h>

#include "agent/status_query.h"
#include "objects/eq.h"
#include "objects/handshake.h"
#include "objects/unwrap.h"

#define MOST_OPS 64

/* A handshake, as it was sent. */
struct offer {
	bool known;
	uint64_t addr;
	uint32_t key;
	uint32_t flush_key;
	uint16_t life;
};

struct op {
	bool accepted;
	bool told;
	bool unprovable; /* nobody can have made it durable */
	uint64_t addr;
	uint64_t key; /* as the core is to see it */
	int completions;
};

struct stage {
	struct rig *rig;
	struct fid_eq *eq;
	struct fid_pep *pep;
	struct input input;
	struct offer offer; /* of the peer of rig->ep */
	bool connected;
	struct offer asked; /* of the connection request that is kept */
	bool requested;
	struct op ops[MOST_OPS];
	int num_ops;
	size_t seen; /* of what the core was given */
};

static struct stage stage;

/* Of all connection requests. */
static struct fid handle;

static uint64_t little(const uint8_t *at, size_t len)
{
	uint64_t value = 0;

	memcpy(&value, at, len);
	return value;
}

/* read_offer -- returns how much in front of it is the application's */
static size_t read_offer(const uint8_t *data, size_t len, struct offer *offer)
{
	const uint8_t *at = data + len - PMV_HANDSHAKE_SIZE;
	uint8_t kind;

	*offer = (struct offer){0};
	if (len < PMV_HANDSHAKE_SIZE || little(at, 2) != 0xf5e7)
		return len;
	kind = at[2] >> 4 & 7;
	/* Of our versions there is only one, so it has to be in the range. */
	if ((at[8] & 15) == 1 && at[8] >> 4 && kind <= PMV_WSP + 1 && (kind || !(at[2] & 128)))
		*offer = (struct offer){
			.known = true,
			.addr = little(at + 3, 5) * 4096,
			.key = (uint32_t) little(at + 16, 4),
			.flush_key = (uint32_t) little(at + 20, 4),
			.life = (uint16_t) little(at + 24, 2),
		};
	return len - PMV_HANDSHAKE_SIZE;
}

/* expect_offer -- the decoder reads the same, and nothing in front of the data */
static void expect_offer(const uint8_t *data, size_t len, size_t own, const struct offer *offer)
{
	uint8_t *copy = malloc(len);
	struct pmv_handshake handshake;

	cr_assert(copy || !len);
	if (len)
		memcpy(copy, data, len);
	cr_assert_eq(pmv_handshake_decode(copy, len, &handshake), own);
	free(copy);
	cr_assert_eq(handshake.known, offer->known);
	cr_assert_eq(handshake.addr, offer->addr);
	cr_assert_eq(handshake.key, offer->key);
	cr_assert_eq(handshake.flush_key, offer->flush_key);
	cr_assert_eq(handshake.life, offer->life);
}

/* Events */

static struct fi_info *core_request(void)
{
	struct fi_info *info = fi_allocinfo();

	cr_assert_not_null(info);
	info->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_FENCE;
	info->tx_attr->caps = info->caps;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->protocol = FI_PROTO_RDMA_CM_IB_RC;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	info->domain_attr->mr_key_size = 4;
	info->handle = &handle;
	return info;
}

#define ANSWERED SIZE_MAX

/*
 * bring -- an event with the input's CM data; returns what the application gets of them.
 * ANSWERED: it was a question, of which the application does not hear.
 */
static size_t bring(uint32_t event, struct fid *fid, struct fi_info *info, struct offer *offer)
{
	union {
		struct fi_eq_cm_entry cm;
		uint8_t room[sizeof(struct fi_eq_cm_entry) + UINT8_MAX];
	} sent = {.cm = {.fid = fid, .info = info}}, got = {0};
	size_t len = input_8(&stage.input), own;
	uint32_t what = 0;
	uint8_t page;
	bool known;
	ssize_t ret;

	input_copy(&stage.input, sent.cm.data, len);
	own = read_offer(sent.cm.data, len, offer);
	expect_offer(sent.cm.data, len, own, offer);
	fake_raise(pmv_to_eq(stage.eq)->core_fid, event, &sent, sizeof(sent.cm) + len);
	ret = fi_eq_read(stage.eq, &what, &got, sizeof(got), 0);
	if (event == FI_CONNREQ && pmv_status_query_decode(sent.cm.data, len, &known, &page)) {
		cr_assert_eq(ret, -FI_EAGAIN);
		return ANSWERED;
	}
	cr_assert_eq(what, event);
	cr_assert(ret == (ssize_t) (sizeof(got.cm) + own) ||
		  (event == FI_CONNECTED && stage.connected &&
		   ret == (ssize_t) (sizeof(got.cm) + len)) ||
		  event == FI_SHUTDOWN);
	cr_assert(!memcmp(got.cm.data, sent.cm.data, ret - sizeof(got.cm)));
	return len;
}

static void request(void)
{
	struct fi_info *info = core_request();
	struct offer offer;

	/* Who answers frees it, too. */
	if (bring(FI_CONNREQ, pmv_unwrap_fid(&stage.pep->fid), info, &offer) == ANSWERED)
		return;
	fi_freeinfo(info);
	stage.asked = offer;
	stage.requested = true;
}

static void connected(void)
{
	struct offer offer;
	size_t len;

	if (!stage.rig->ep)
		return;
	len = bring(FI_CONNECTED, pmv_unwrap_fid(&stage.rig->ep->fid), NULL, &offer);
	if (!len || stage.connected)
		return;
	stage.offer = offer;
	stage.connected = pmv_to_ep(stage.rig->ep)->mailbox.link.connected;
}

static void shut_down(void)
{
	struct offer offer;

	if (stage.rig->ep)
		bring(FI_SHUTDOWN, pmv_unwrap_fid(&stage.rig->ep->fid), NULL, &offer);
}

static void reject(void)
{
	if (!stage.requested)
		return;
	pmv_handshake_take(&stage.rig->fabric, &handle, NULL);
	stage.requested = false;
}

static void open_ep(struct fi_info *info)
{
	struct rig *rig = stage.rig;

	accepted(fi_endpoint(rig->domain, info, &rig->ep, NULL));
	accepted(fi_ep_bind(rig->ep, &rig->cq->fid, FI_TRANSMIT | FI_RECV));
	accepted(fi_ep_bind(rig->ep, &stage.eq->fid, 0));
	accepted(pmv_mailbox_open(&pmv_to_ep(rig->ep)->mailbox));
	accepted(fi_enable(rig->ep));
}

/* accept_request -- an endpoint for the request that is kept, in the place of the other one */
static void accept_request(void)
{
	struct fi_info *info;

	if (!stage.requested || !stage.rig->ep)
		return;
	rig_close_ep(stage.rig);
	info = fi_dupinfo(stage.rig->info);
	cr_assert_not_null(info);
	info->handle = &handle;
	open_ep(info);
	fi_freeinfo(info);
	stage.offer = stage.asked;
	stage.connected = pmv_to_ep(stage.rig->ep)->mailbox.link.connected;
	stage.requested = false;
	accepted(pmv_agent_attach(&pmv_to_domain(stage.rig->domain)->agent,
				  &pmv_to_ep(stage.rig->ep)->mailbox.receiver));
}

/* Operations */

/*
 * What a key says of DMP memory that is flushable from afar, and of such that takes ATOMIC
 * WRITE, too: here no core has either.
 */
#define FLUSHABLE (PMV_WSP + 1)
#define ATOMIC_WRITABLE (PMV_WSP + 2)

static bool is_known(uint64_t key)
{
	return key >> 58 == 0x3d && (key >> 32 & 7) <= ATOMIC_WRITABLE;
}

/* is_misfit -- it is of another life than the peer has named */
static bool is_misfit(uint64_t key)
{
	return stage.offer.known && key >> 58 == 0x3d && (key >> 42 & 0xffff) != stage.offer.life;
}

/* needs_agent -- what the key says, where a READ proves nothing */
static bool needs_agent(uint64_t key)
{
	uint64_t persist = key >> 32 & 7;
	bool pmem = key >> 35 & 1, ddio = key >> 36 & 1;

	return pmem &&
	       (persist == PMV_PAGE || ((persist == PMV_DMP || persist >= FLUSHABLE) && ddio));
}

/* is_ours -- nothing but what the handshake allows: one message, or a READ of the flush page */
static bool is_ours(const struct testcore_request *op)
{
	const struct offer *offer = &stage.offer;
	uint64_t at = op->addr - offer->addr;

	if (!offer->known)
		return false;
	if ((op->what & FI_WRITE) && op->key == offer->key)
		return at < PMV_ACKS_AT && at % PMV_MESSAGE_SIZE == 0 &&
		       op->rma_len <= PMV_MESSAGE_SIZE;
	return (op->what & FI_READ) && op->key == offer->flush_key && op->rma_len == 1 &&
	       op->addr == (offer->addr ? offer->addr + PMV_FLUSH_AT : 0);
}

/* is_named -- the application has named that place */
static bool is_named(const struct testcore_request *op)
{
	for (int i = 0; i < stage.num_ops; i++) {
		const struct op *named = &stage.ops[i];

		if (op->key == named->key && op->addr >= named->addr &&
		    op->addr - named->addr <= CALL_LEN)
			return true;
	}
	return false;
}

static void look(void)
{
	for (; stage.seen < stage.rig->fake.num_posts; stage.seen++) {
		const struct testcore_request *op = &rig_post(stage.rig, stage.seen)->op;

		if (!(op->what & FI_MSG))
			cr_assert(is_named(op) || is_ours(op));
	}
}

static uint64_t input_key(void)
{
	uint8_t how = input_8(&stage.input);

	/* Few of all keys begin as ours do. */
	return how & 1 ? UINT64_C(0x3d) << 58 |
				 (input_64(&stage.input) & UINT64_C(0x3ffffffffffffff))
		       : input_64(&stage.input);
}

static ssize_t write_message(struct op *op, uint64_t key, uint64_t flags)
{
	static char buf[CALL_LEN];
	struct iovec iov = {buf, input_8(&stage.input) % (CALL_LEN + 1)};
	struct fi_rma_iov rma_iov = {op->addr, iov.iov_len, key};
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, &rma_iov, 1, CONTEXT(op - stage.ops), DATA};

	return fi_writemsg(stage.rig->ep, &msg, flags);
}

static void call(void)
{
	static const uint64_t all[] = {FI_COMMIT, FI_FENCE, FI_REMOTE_CQ_DATA};
	struct op *op = &stage.ops[stage.num_ops];
	uint64_t key = input_key(), flags = 0;
	uint8_t which = input_8(&stage.input);
	ssize_t ret;

	if (stage.num_ops == MOST_OPS || !stage.rig->ep)
		return;
	stage.num_ops++;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		flags |= which & 1U << i ? all[i] : 0;
	*op = (struct op){
		.told = true,
		.addr = input_64(&stage.input),
		.key = key >> 58 == 0x3d ? key & UINT32_MAX : key,
		.unprovable = (flags & FI_COMMIT) && (!is_known(key) || needs_agent(key)),
	};
	ret = which & 8 ? rig_sendmsg(stage.rig, CONTEXT(op - stage.ops), flags & FI_COMMIT)
			: write_message(op, key, flags);
	/* A message has no key. */
	if (which & 8)
		op->unprovable = false;
	else if (is_misfit(key) || ((flags & FI_COMMIT) && !is_known(key)))
		cr_assert(ret);
	op->accepted = !ret;
	look();
}

static bool read_queue(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	ssize_t ret = fi_cq_read(stage.rig->cq, &entry, 1);
	void *context = ret == 1 ? entry.op_context : NULL;
	struct op *op;

	look();
	if (ret == -FI_EAVAIL) {
		cr_assert_eq(fi_cq_readerr(stage.rig->cq, &error, 0), 1);
		context = error.op_context;
	}
	if (!context)
		return false;
	op = &stage.ops[((char *) context - (char *) CONTEXT(0)) / 16];
	cr_assert(op >= stage.ops && op < stage.ops + stage.num_ops);
	cr_assert(op->accepted && ++op->completions == 1);
	cr_assert(ret < 0 || !op->unprovable);
	return true;
}

static void act(void)
{
	switch (input_8(&stage.input) % 9) {
	case 0:
		request();
		break;
	case 1:
		connected();
		break;
	case 2:
		shut_down();
		break;
	case 3:
		accept_request();
		break;
	case 4:
		reject();
		break;
	case 5:
		fake_complete(&stage.rig->fake, input_8(&stage.input));
		break;
	case 6:
		read_queue();
		break;
	default:
		call();
	}
}

static void open_stage(void)
{
	uint8_t how = input_8(&stage.input);
	struct rig *rig;

	pmv_setting.answers = true;
	rig = stage.rig = rig_open(&(struct rig_options){
		.not_enabled = true,
		.virt_addr = true,
		.no_fence = how & 1,
		.local = how & 1,
		.imm_receives = how & 2,
	});
	rig_close_ep(rig);
	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &stage.eq,
			     NULL));
	accepted(pmv_pep_open(&rig->fabric.fabric_fid, rig->info, &stage.pep, NULL));
	accepted(fi_pep_bind(stage.pep, &stage.eq->fid, 0));
	open_ep(rig->info);
}

static void close_stage(void)
{
	struct rig *rig = stage.rig;

	rig_close_ep(rig);
	while (read_queue())
		;
	for (int i = 0; i < stage.num_ops; i++)
		cr_assert_eq(stage.ops[i].completions, stage.ops[i].accepted);
	accepted(fi_close(&stage.pep->fid));
	accepted(fi_close(&stage.eq->fid));
	pmv_handshake_forget_all(&rig->fabric);
	rig_close(rig);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&stage, 0, sizeof(stage));
	stage.input = (struct input){data, size};
	open_stage();
	while (stage.input.left)
		act();
	close_stage();
	return 0;
}
