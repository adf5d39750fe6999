/* SPDX-License-Identifier: BSD-2-Clause */
/* mutants.c -- wrong methods; mutants.h says what for */
#include "mutants.h"

/* Which method the taxonomy has for a cell, on a path that keeps the order. */

static bool is_flushed(const struct cell *cell)
{
	return cell_flushes(cell);
}

static bool is_tail(const struct cell *cell)
{
	return cell_has_tail(cell);
}

static bool is_flushed_pair(const struct cell *cell)
{
	return is_flushed(cell) && cell->order == ORDER_PAIR;
}

static bool is_flushed_single(const struct cell *cell)
{
	return is_flushed(cell) && cell->order == ORDER_NONE;
}

static bool needs_agent(const struct cell *cell)
{
	return !cell->relaxed && !is_flushed(cell) &&
	       (cell->domain == PMV_PAGE || (cell->domain == PMV_DMP && cell->ddio));
}

static bool needs_completion_only(const struct cell *cell)
{
	return !cell->relaxed && cell->domain == PMV_WSP && !cell->local;
}

/* is_seen -- the request behind the data is answered, which says that they are visible */
static bool is_seen(const struct cell *cell)
{
	return cell->call == CALL_WRITE_EVENT && cell->domain != PMV_DMP;
}

static bool needs_flush(const struct cell *cell)
{
	return !cell->relaxed && !needs_agent(cell) && !needs_completion_only(cell) &&
	       !is_seen(cell) && !is_flushed(cell);
}

/* Once the NIC has it WSP needs no more, and any answer says that it has. */
static bool needs_push(const struct cell *cell)
{
	return needs_flush(cell) && cell->domain != PMV_WSP;
}

static bool is_dmp(const struct cell *cell)
{
	return !cell->relaxed && cell->domain == PMV_DMP;
}

static bool is_dmp_ddio(const struct cell *cell)
{
	return is_dmp(cell) && cell->ddio;
}

static bool is_dmp_flushed_by_lines(const struct cell *cell)
{
	return is_dmp_ddio(cell) && !is_flushed(cell);
}

static bool is_dmp_ordered(const struct cell *cell)
{
	return is_dmp(cell) && !cell->ddio && cell->order == ORDER_PAIR;
}

static bool is_page(const struct cell *cell)
{
	return !cell->relaxed && cell->domain == PMV_PAGE;
}

static bool has_notice(const struct cell *cell)
{
	return cell->call == CALL_WRITE_IMM && !cell->relaxed && !needs_agent(cell);
}

/*
 * A fence keeps pairs in order, and messages to the agent and notices behind
 * atomics.  Messages of the application are in order by themselves, and so durable
 * in order where what is visible persists.
 */
static bool needs_fence(const struct cell *cell)
{
	if (cell->relaxed || cell->call == CALL_WRITE_DELIVER)
		return false;
	if (cell->call >= CALL_SEND_PM)
		return cell->order == ORDER_PAIR && (needs_agent(cell) || is_dmp(cell));
	return needs_agent(cell) || cell->order == ORDER_PAIR || cell->call == CALL_WRITE_IMM;
}

/*
 * Who takes DMP for a domain in which caches persist flushes, but in no order; and not at all
 * where the core's word that data are in place is taken for a flush.
 */
static bool needs_more_than_caches(const struct cell *cell)
{
	return needs_agent(cell) || is_flushed(cell) || is_dmp_ordered(cell) ||
	       (is_dmp(cell) && cell_delivers(cell));
}

static bool is_placed(const struct cell *cell)
{
	return cell_delivers(cell) && !is_dmp(cell);
}

static bool needs_more_than_buffers(const struct cell *cell)
{
	if (cell->domain == PMV_WSP || cell->call == CALL_WRITE_DELIVER)
		return false;
	return needs_more_than_caches(cell) || (needs_flush(cell) && !cell->local);
}

static bool is_wsp_local(const struct cell *cell)
{
	return !cell->relaxed && cell->domain == PMV_WSP && cell->local && !is_seen(cell);
}

static bool has_dirty_ranges(const struct cell *cell)
{
	if (cell->call == CALL_WRITE_EVENT && cell->order == ORDER_PAIR)
		return false; /* of its programs none has so many ranges */
	return needs_agent(cell) && cell->call < CALL_SEND_PM;
}

static bool is_relaxed(const struct cell *cell)
{
	return cell->relaxed && cell->domain != PMV_WSP;
}

static const struct mutant mutants[] = {
	{"the flush is dropped", MUTATION_FLUSH_DROPPED, NULL, needs_flush},
	{"the flush reads 0 bytes", MUTATION_FLUSH_EMPTY, NULL, needs_push},
	{"the flush stands before the write", MUTATION_FLUSH_TOO_SOON, NULL, needs_flush},
	{"no flush in front of a fenced write", MUTATION_ORDER_DROPPED, NULL, is_dmp_ordered},
	{"the fence is ignored", MUTATION_FENCE_IGNORED, NULL, needs_fence},
	{"the immediate is not fenced", MUTATION_NOTICE_TOO_SOON, NULL, has_notice},
	{"the agent acknowledges before its fence", MUTATION_ACK_TOO_SOON, NULL, needs_agent},
	{"the agent stores before its fence", MUTATION_STORE_TOO_SOON, NULL, needs_agent},
	{"the agent flushes one line too few", MUTATION_LINE_LEFT_OUT, NULL,
	 is_dmp_flushed_by_lines},
	{"the agent syncs one page too few", MUTATION_PAGE_LEFT_OUT, NULL, is_page},
	{"the kernel does not hear of writes", MUTATION_NOT_TOUCHED, NULL, is_page},
	{"a dirty range is lost at overflow", MUTATION_DIRTY_LOST, NULL, has_dirty_ranges},
	{"no RDMA FLUSH", MUTATION_PERSIST_DROPPED, NULL, is_flushed},
	{"GLOBAL for PERSISTENT", MUTATION_PERSIST_GLOBAL, NULL, is_flushed},
	{"the RDMA FLUSH is of another range", MUTATION_PERSIST_OTHER, NULL, is_flushed},
	{"the RDMA FLUSH is of the last byte", MUTATION_PERSIST_OWN, NULL, is_flushed_single},
	{"a fence is believed to wait for it", MUTATION_PERSIST_FENCED, NULL, is_flushed_pair},
	{"no RDMA FLUSH in front of the tail", MUTATION_TAIL_FIRST, NULL, is_tail},
	{"GLOBAL for PERSISTENT in front of the tail", MUTATION_TAIL_GLOBAL, NULL, is_tail},
	{"the tail is an ordinary WRITE", MUTATION_TAIL_WRITE, NULL, is_tail},
	{"any tail is taken for atomic", MUTATION_TAIL_ANY, NULL, is_tail},
	{"more RDMA FLUSHes than slots", MUTATION_SLOTS_IGNORED, NULL, cell_loses},
	{"in place before it is", MUTATION_PLACED_TOO_SOON, NULL, is_placed},
	{"taken for PAGE", MUTATION_NONE, believe_page, is_dmp},
	{"taken for DMP", MUTATION_NONE, believe_dmp, is_page},
	{"taken for MHP", MUTATION_NONE, believe_mhp, needs_more_than_caches},
	{"taken for WSP", MUTATION_NONE, believe_wsp, needs_more_than_buffers},
	{"taken for volatile", MUTATION_NONE, believe_none, needs_more_than_caches},
	{"DDIO taken to be off", MUTATION_NONE, believe_ddio_off, is_dmp_ddio},
	{"the path taken to be strict", MUTATION_NONE, believe_strict, is_relaxed},
	{"iWARP taken for InfiniBand", MUTATION_NONE, believe_infiniband, is_wsp_local},
};

bool mutant_next(size_t n, struct mutant *mutant)
{
	if (n >= sizeof(mutants) / sizeof(mutants[0]))
		return false;
	*mutant = mutants[n];
	return true;
}
