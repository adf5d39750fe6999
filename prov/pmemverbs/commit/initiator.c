/* SPDX-License-Identifier: BSD-2-Clause */
/* initiator.c -- what an endpoint knows of its own operations */
#include "commit/initiator.h"

#include "base/container.h"

/* plan_all -- for commits that depend on the method alone */
static void plan_all(struct pmv_initiator *ini)
{
	const struct pmv_plan_facts facts = {0};

	for (unsigned int i = PMV_METHOD_WRITE; i <= PMV_METHOD_AGENT; i++)
		ini->plans[i] = pmv_plan_operation(
			&(struct pmv_choice){.method = (enum pmv_method) i}, &facts);
	ini->delivered = pmv_plan_operation(
		&(struct pmv_choice){.method = PMV_METHOD_READ, .in_place = true},
		&(struct pmv_plan_facts){.delivers = true});
}

/* shares -- nobody asks whose an operation was where no peer is given up */
static void shares(struct pmv_op_owner *owner)
{
	struct pmv_initiator *ini = pmv_container_of(owner, struct pmv_initiator, owner);

	if (owner->given_up)
		atomic_fetch_or(&ini->slow, PMV_SLOW_SHARES);
}

void pmv_initiator_init(struct pmv_initiator *ini)
{
	ini->owner.shares = shares;
	ini->failures = pmv_unread_open();
	STAILQ_INIT(&ini->stalled);
	STAILQ_INIT(&ini->awaiting);
	STAILQ_INIT(&ini->group.members);
	for (int asked = 0; asked < 2; asked++)
		ini->tx_told[asked].ordinary = ini->rx_told[asked].ordinary = true;
	plan_all(ini);
	pmv_sampling_init(&ini->commits.sampling);
	pthread_mutex_init(&ini->ordering.lock, NULL);
	pthread_mutex_init(&ini->ordering.place_lock, NULL);
	pthread_mutex_init(&ini->send_lock, NULL);
	pthread_mutex_init(&ini->lock, NULL);
}

void pmv_initiator_begin_count(struct pmv_initiator *ini, unsigned slow)
{
	atomic_fetch_or(&ini->slow, slow);
	for (int asked = 0; asked < 2; asked++) {
		ini->tx_told[asked].ordinary &= !(slow & PMV_SLOW_COUNT_TX);
		ini->rx_told[asked].ordinary &= !(slow & PMV_SLOW_COUNT_RX);
	}
}

void pmv_initiator_destroy(struct pmv_initiator *ini)
{
	pmv_unread_close(ini->failures);
	pmv_dirty_free(&ini->dirty);
	pthread_mutex_destroy(&ini->ordering.lock);
	pthread_mutex_destroy(&ini->ordering.place_lock);
	pthread_mutex_destroy(&ini->send_lock);
	pthread_mutex_destroy(&ini->lock);
}

/* slow_for_messages -- what a commit has to know of messages that were sent before it */
static unsigned slow_for_messages(const struct pmv_initiator *ini)
{
	const struct pmv_handshake *peer = &ini->mailbox->link.peer;

	if (ini->message_method != PMV_METHOD_AGENT)
		return pmv_method_orders_by_flush(&peer->received) ? PMV_SLOW_ORDERED_SENDS : 0;
	if (!peer->messages)
		return 0;
	return PMV_SLOW_SENDS | (ini->engine->engine->core->imm_receives ? PMV_SLOW_IMMEDIATES : 0);
}

void pmv_initiator_connected(struct pmv_initiator *ini)
{
	const struct pmv_handshake *peer = &ini->mailbox->link.peer;

	ini->message_method = pmv_method_of_message(peer->one_kind ? &peer->received : NULL,
						    ini->engine->engine->transport);
	ini->plain_peer = !peer->known;
	if (peer->known && ini->keyed)
		ini->key_start = pmv_key_start(peer->life);
	/* What was posted before that was asked for no life. */
	atomic_store(&ini->ordering.known, 0);
	atomic_store(&ini->ordering.quiet_key, 0);
	atomic_fetch_or(&ini->slow, slow_for_messages(ini));
	/* Any message may be one of those; a needless flush is all that it can cost. */
	if (ini->message_method == PMV_METHOD_READ)
		atomic_store(&ini->ordering.wrote_flush, true);
}

/*
 * Connections that may be replaced (hooks.h), and FI_PMEMVERBS_COMMIT=all, remember writes for the
 * agent only.
 */
void pmv_initiator_established(struct pmv_initiator *ini)
{
	bool flushes = ini->keyed && !ini->plain_peer && !ini->hooks &&
		       pmv_initiator_is_fast(ini, PMV_SLOW_ALL) && !pmv_setting.no_flush &&
		       pmv_engine_flushes(ini->engine);

	pthread_mutex_lock(&ini->lock);
	/* Where there is no agent, ranges written before have not been recorded. */
	if (!ini->mailbox->link.peer.agent && atomic_load(&ini->ordering.wrote_agent))
		flushes = false;
	atomic_store(&ini->flushes, flushes);
	atomic_store(&ini->atomic_writes, flushes && pmv_engine_atomic_writes(ini->engine));
	pthread_mutex_unlock(&ini->lock);
	atomic_store(&ini->ordering.known, 0);
}

/* hurry -- no acknowledgement comes: whoever waits for one is to look */
static void hurry(struct pmv_initiator *ini)
{
	struct pmv_queue *tx = ini->owner.tx_queue, *rx = ini->owner.rx_queue;

	if (tx)
		pmv_queue_hurry(tx, &ini->on_tx_queue);
	if (rx && rx != tx)
		pmv_queue_hurry(rx, &ini->on_rx_queue);
}

void pmv_initiator_break(struct pmv_initiator *ini)
{
	atomic_store(&ini->broken, true);
	hurry(ini);
}

void pmv_initiator_wait(struct pmv_initiator *ini, enum pmv_pending pending)
{
	struct pmv_queue *tx = ini->owner.tx_queue, *rx = ini->owner.rx_queue;

	pmv_queue_wait(tx, &ini->on_tx_queue, pending);
	/* An application that waits for the target's reaction may read the other queue only. */
	if (rx && rx != tx)
		pmv_queue_wait(rx, &ini->on_rx_queue, pending);
	/* It may have been lost since this was found to wait. */
	if (atomic_load(&ini->broken))
		hurry(ini);
}

void pmv_initiator_unwait(struct pmv_initiator *ini)
{
	if (ini->owner.tx_queue)
		pmv_queue_unwait(ini->owner.tx_queue, &ini->on_tx_queue);
	if (ini->owner.rx_queue)
		pmv_queue_unwait(ini->owner.rx_queue, &ini->on_rx_queue);
}
