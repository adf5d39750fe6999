/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_method.c -- the choice of the method, cell by cell
 *
 * The tables are those of the taxonomy for RDMA writes, written out for all
 * that a plan depends on; nothing in here computes an expected value.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "commit/method.h"

/* A value of an axis with two values, or both. */
enum axis { NO, YES, ANY };

/*
 * A cell of a table:
 *   w   write with immediate, its completion is the proof
 *   r   write, READ, and the notice behind the READ
 *   a   write, and the target's processor has to do the rest
 *   ra  the same, but it must hear of it behind a READ
 *   f   in front of those: a READ in front, and the write fenced
 *   -   refused
 * After writes that the agent has not dealt with each of them is A and itself:
 * it has to, first.
 */
struct row {
	enum pmv_persist persist;
	enum axis ddio;
	enum axis local; /* a write completes when it was handed over */
	enum axis relaxed;
	enum axis readable;
	const char *single;
	/* Fenced, by what may still be volatile of what was written before: */
	const char *nothing;
	const char *ordered;
	const char *flush;
	const char *flush_ordered;
};

/* clang-format off */
static const struct row rows[] = {
	/* persist  ddio local relaxed readable single nothing ordered flush flush+ordered */
	{PMV_DMP,  YES, ANY,  NO,     ANY,     "a",   "a",    "fa",   "a",  "fa"},
	{PMV_DMP,  YES, ANY,  YES,    YES,     "ra",  "ra",   "fra",  "ra", "fra"},
	{PMV_DMP,  YES, ANY,  YES,    NO,      "-",   "-",    "-",    "-",  "-"},
	{PMV_DMP,  NO,  ANY,  NO,     YES,     "r",   "r",    "fr",   "r",  "fr"},
	/* What the owner lets nobody read is the agent's. */
	{PMV_DMP,  NO,  ANY,  NO,     NO,      "a",   "a",    "fa",   "a",  "fa"},
	{PMV_DMP,  NO,  ANY,  YES,    YES,     "ra",  "ra",   "fra",  "ra", "fra"},
	{PMV_DMP,  NO,  ANY,  YES,    NO,      "-",   "-",    "-",    "-",  "-"},

	{PMV_MHP,  ANY, ANY,  NO,     YES,     "r",   "r",    "fr",   "r",  "fr"},
	{PMV_MHP,  ANY, ANY,  NO,     NO,      "a",   "a",    "fa",   "a",  "fa"},
	{PMV_MHP,  ANY, ANY,  YES,    YES,     "ra",  "ra",   "fra",  "ra", "fra"},
	{PMV_MHP,  ANY, ANY,  YES,    NO,      "-",   "-",    "-",    "-",  "-"},

	{PMV_WSP,  ANY, NO,   NO,     YES,     "w",   "w",    "fw",   "r",  "fr"},
	{PMV_WSP,  ANY, NO,   NO,     NO,      "w",   "w",    "fa",   "a",  "fa"},
	/* The write's completion still is a proof of itself, but nothing keeps an order. */
	{PMV_WSP,  ANY, NO,   YES,    YES,     "w",   "ra",   "fra",  "ra", "fra"},
	{PMV_WSP,  ANY, NO,   YES,    NO,      "w",   "-",    "-",    "-",  "-"},
	/* The completion says nothing of the target: as MHP. */
	{PMV_WSP,  ANY, YES,  NO,     YES,     "r",   "r",    "fr",   "r",  "fr"},
	{PMV_WSP,  ANY, YES,  NO,     NO,      "a",   "a",    "fa",   "a",  "fa"},
	{PMV_WSP,  ANY, YES,  YES,    YES,     "ra",  "ra",   "fra",  "ra", "fra"},
	{PMV_WSP,  ANY, YES,  YES,    NO,      "-",   "-",    "-",    "-",  "-"},

	{PMV_PAGE, ANY, ANY,  NO,     ANY,     "a",   "a",    "fa",   "a",  "fa"},
	{PMV_PAGE, ANY, ANY,  YES,    YES,     "ra",  "ra",   "fra",  "ra", "fra"},
	{PMV_PAGE, ANY, ANY,  YES,    NO,      "-",   "-",    "-",    "-",  "-"},

	/* Volatile memory: a commit is about visibility, which takes what MHP takes. */
	{PMV_NONE, ANY, ANY,  NO,     YES,     "r",   "r",    "fr",   "r",  "fr"},
	{PMV_NONE, ANY, ANY,  NO,     NO,      "a",   "a",    "fa",   "a",  "fa"},
	{PMV_NONE, ANY, ANY,  YES,    YES,     "ra",  "ra",   "fra",  "ra", "fra"},
	{PMV_NONE, ANY, ANY,  YES,    NO,      "-",   "-",    "-",    "-",  "-"},
};
/* clang-format on */

#define NUM_ROWS (sizeof(rows) / sizeof(rows[0]))

/* How one write becomes durable by itself: what a later fence has to know of it. */
static const struct {
	enum pmv_persist persist;
	enum axis ddio;
	enum axis local;
	enum axis relaxed;
	enum pmv_method method; /* where peers may read; else the agent's, if it is a READ */
} writes[] = {
	{PMV_DMP, YES, ANY, ANY, PMV_METHOD_AGENT},  {PMV_DMP, NO, ANY, NO, PMV_METHOD_READ},
	{PMV_DMP, NO, ANY, YES, PMV_METHOD_AGENT},   {PMV_MHP, ANY, ANY, NO, PMV_METHOD_READ},
	{PMV_MHP, ANY, ANY, YES, PMV_METHOD_AGENT},  {PMV_WSP, ANY, NO, ANY, PMV_METHOD_WRITE},
	{PMV_WSP, ANY, YES, NO, PMV_METHOD_READ},    {PMV_WSP, ANY, YES, YES, PMV_METHOD_AGENT},
	{PMV_PAGE, ANY, ANY, ANY, PMV_METHOD_AGENT}, {PMV_NONE, ANY, ANY, NO, PMV_METHOD_READ},
	{PMV_NONE, ANY, ANY, YES, PMV_METHOD_AGENT},
};

static enum pmv_method method_of(size_t i, bool readable)
{
	return writes[i].method == PMV_METHOD_READ && !readable ? PMV_METHOD_AGENT
								: writes[i].method;
}

#define NUM_WRITES (sizeof(writes) / sizeof(writes[0]))

/* A configuration: persist, and a bit for each axis. */
#define NUM_CONFIGS ((PMV_WSP + 1) << 4)

struct config {
	struct pmv_attr attr;
	enum pmv_transport transport;
};

static struct config config_of(unsigned n)
{
	return (struct config){
		.attr =
			{
				.persist = (enum pmv_persist)(n >> 4),
				.pmem = true,
				.writable = true,
				.ddio = n & 1,
				.relaxed = n & 2,
				.readable = n & 4,
			},
		.transport = n & 8 ? PMV_TRANSPORT_LOCAL : PMV_TRANSPORT_IB,
	};
}

static bool fits(enum axis axis, bool value)
{
	return axis == ANY || (axis == YES) == value;
}

static const struct row *row_of(const struct config *config)
{
	const struct row *found = NULL;

	for (size_t i = 0; i < NUM_ROWS; i++) {
		if (rows[i].persist != config->attr.persist ||
		    !fits(rows[i].ddio, config->attr.ddio) ||
		    !fits(rows[i].local, config->transport == PMV_TRANSPORT_LOCAL) ||
		    !fits(rows[i].relaxed, config->attr.relaxed) ||
		    !fits(rows[i].readable, config->attr.readable))
			continue;
		cr_assert_null(found, "two rows for one configuration");
		found = &rows[i];
	}
	cr_assert_not_null(found, "no row for a configuration");
	return found;
}

static const char *cell_of(const struct pmv_choice *plan)
{
	static char cell[8];

	if (plan->method == PMV_METHOD_REFUSED)
		return "-";
	snprintf(cell, sizeof(cell), "%s%s%s%s", plan->after_agent ? "A" : "",
		 plan->flush_first ? "f" : "", plan->flush_agent ? "r" : "",
		 plan->method == PMV_METHOD_WRITE  ? "w"
		 : plan->method == PMV_METHOD_READ ? "r"
						   : "a");
	return cell;
}

static void expect_plan(const struct config *config, const struct pmv_past *past, const char *cell)
{
	struct pmv_choice plan = pmv_method_choose(&config->attr, config->transport, past);

	cr_expect_str_eq(cell_of(&plan), cell,
			 "persist %d, ddio %d, transport %d, relaxed %d, readable %d, fenced %d "
			 "(agent %d, flush %d, ordered %d): %s instead of %s",
			 config->attr.persist, config->attr.ddio, config->transport,
			 config->attr.relaxed, config->attr.readable, past != NULL,
			 past && past->agent, past && past->flush, past && past->ordered,
			 cell_of(&plan), cell);
	/* Whoever can't commit is told why. */
	cr_expect_eq(plan.why != NULL, plan.method == PMV_METHOD_REFUSED ||
					       plan.method == PMV_METHOD_AGENT || plan.after_agent);
	if (plan.method == PMV_METHOD_WRITE)
		cr_expect_eq(plan.immediate, PMV_IMMEDIATE_WITH_DATA);
	if (plan.method == PMV_METHOD_READ)
		cr_expect_eq(plan.immediate, PMV_IMMEDIATE_BEHIND_FLUSH);
	/* In DMP the caches are no place to be durable in, whatever DDIO is said to be. */
	cr_expect_eq(plan.in_place,
		     plan.method == PMV_METHOD_READ && config->attr.persist != PMV_DMP);
}

Test(method, single_commits_follow_the_table)
{
	for (unsigned n = 0; n < NUM_CONFIGS; n++) {
		struct config config = config_of(n);

		expect_plan(&config, NULL, row_of(&config)->single);
	}
}

Test(method, fenced_commits_follow_the_table)
{
	for (unsigned n = 0; n < NUM_CONFIGS; n++) {
		struct config config = config_of(n);
		const struct row *row = row_of(&config);
		const char *const cells[] = {row->nothing, row->ordered, row->flush,
					     row->flush_ordered};

		for (unsigned n_past = 0; n_past < 8; n_past++) {
			struct pmv_past past = {
				.agent = n_past & 4,
				.flush = n_past & 2,
				.ordered = n_past & 1,
			};
			const char *cell = cells[n_past & 3];
			char after[8];

			snprintf(after, sizeof(after), "A%s", cell);
			expect_plan(&config, &past, past.agent && *cell != '-' ? after : cell);
		}
	}
}

Test(method, writes_become_durable_as_the_table_says)
{
	for (unsigned n = 0; n < NUM_CONFIGS; n++) {
		struct config config = config_of(n);
		int found = 0;

		for (size_t i = 0; i < NUM_WRITES; i++) {
			if (writes[i].persist != config.attr.persist ||
			    !fits(writes[i].ddio, config.attr.ddio) ||
			    !fits(writes[i].local, config.transport == PMV_TRANSPORT_LOCAL) ||
			    !fits(writes[i].relaxed, config.attr.relaxed))
				continue;
			found++;
			cr_expect_eq(pmv_method_of_write(&config.attr, config.transport),
				     method_of(i, config.attr.readable),
				     "persist %d, ddio %d, transport %d, relaxed %d",
				     config.attr.persist, config.attr.ddio, config.transport,
				     config.attr.relaxed);
		}
		cr_assert_eq(found, 1);
	}
}

Test(method, what_does_not_matter_changes_nothing)
{
	for (unsigned n = 0; n < NUM_CONFIGS; n++) {
		struct config config = config_of(n);
		const char *cell = row_of(&config)->single;

		config.attr.uncached = true;
		expect_plan(&config, NULL, cell);
		config.attr.pmem = false;
		if (config.attr.readable)
			expect_plan(&config, NULL, cell);
	}
}

/* The agent knows nothing of memory that its owner did not call persistent. */
Test(method, other_memory_that_nobody_may_read_is_refused)
{
	for (unsigned n = 0; n < NUM_CONFIGS; n++) {
		struct config config = config_of(n);

		config.attr.pmem = false;
		config.attr.readable = false;
		config.attr.persist = PMV_NONE;
		expect_plan(&config, NULL, "-");
		cr_expect_eq(pmv_method_of_write(&config.attr, config.transport),
			     config.attr.relaxed ? PMV_METHOD_AGENT : PMV_METHOD_READ);
	}
}

/* What peers can't write is no matter of commits: messages are received there. */
Test(method, memory_for_messages_only_needs_no_reading)
{
	const struct pmv_attr attr = {.persist = PMV_MHP, .pmem = true};

	cr_expect_eq(pmv_method_of_write(&attr, PMV_TRANSPORT_IB), PMV_METHOD_READ);
}

/* An administrator who reads the reason should know what to change. */
Test(method, reasons_name_the_remedy)
{
	struct config config = {.attr = {.persist = PMV_DMP, .ddio = true, .readable = true}};
	struct pmv_choice plan = pmv_method_choose(&config.attr, PMV_TRANSPORT_IB, NULL);

	cr_expect_not_null(strstr(plan.why, "FI_PMEMVERBS_DDIO"));
	config.attr.persist = PMV_PAGE;
	plan = pmv_method_choose(&config.attr, PMV_TRANSPORT_IB, NULL);
	cr_expect_not_null(strstr(plan.why, "DAX"));
	config.attr.persist = PMV_MHP;
	config.attr.relaxed = true;
	plan = pmv_method_choose(&config.attr, PMV_TRANSPORT_IB, NULL);
	cr_expect_not_null(strstr(plan.why, "FI_PMEMVERBS_ORDERING"));
	config.attr.relaxed = false;
	config.attr.readable = false;
	plan = pmv_method_choose(&config.attr, PMV_TRANSPORT_IB, NULL);
	cr_expect_not_null(strstr(plan.why, "FI_REMOTE_READ"));
	config.attr.pmem = config.attr.writable = true;
	plan = pmv_method_choose(&config.attr, PMV_TRANSPORT_IB, NULL);
	cr_expect_eq(plan.method, PMV_METHOD_AGENT);
	cr_expect_not_null(strstr(plan.why, "FI_PMEMVERBS_REMOTE_READ"));
}

/* Messages */

/*
 * The cells of messages that are received in memory of one kind, as the initiator
 * knows; after what was written or sent before, as for writes.
 */
/* clang-format off */
static const struct {
	enum pmv_persist persist;
	enum axis ddio;
	enum axis local;
	const char *single;
	const char *nothing;
	const char *ordered;
	const char *flush;
	const char *flush_ordered;
} received[] = {
	/* persist  ddio local  single nothing ordered flush flush+ordered */
	{PMV_DMP,  YES, ANY,    "a",   "a",    "fa",   "a",  "fa"},
	{PMV_DMP,  NO,  ANY,    "r",   "r",    "fr",   "r",  "fr"},
	{PMV_MHP,  ANY, ANY,    "r",   "r",    "fr",   "r",  "fr"},
	{PMV_WSP,  ANY, NO,     "w",   "w",    "fw",   "r",  "fr"},
	{PMV_WSP,  ANY, YES,    "r",   "r",    "fr",   "r",  "fr"},
	{PMV_PAGE, ANY, ANY,    "a",   "a",    "fa",   "a",  "fa"},
	{PMV_NONE, ANY, ANY,    "r",   "r",    "fr",   "r",  "fr"},
};
/* clang-format on */

static void expect_message(const struct pmv_attr *attr, enum pmv_transport transport,
			   const struct pmv_past *past, const char *cell)
{
	struct pmv_choice plan = pmv_method_choose_message(attr, transport, false, past);
	char expected[8];

	snprintf(expected, sizeof(expected), "%s%s", past && past->agent ? "A" : "", cell);
	cr_expect_str_eq(cell_of(&plan), expected, "persist %d: %s instead of %s",
			 attr ? (int) attr->persist : -1, cell_of(&plan), expected);
	cr_expect_eq(plan.why != NULL, plan.method == PMV_METHOD_AGENT || plan.after_agent);
	/* Without an order nothing says where it is. */
	plan = pmv_method_choose_message(attr, transport, true, past);
	cr_expect_eq(plan.method, PMV_METHOD_REFUSED);
	cr_expect_not_null(strstr(plan.why, "FI_PMEMVERBS_ORDERING"));
}

static void expect_messages(const struct pmv_attr *attr, enum pmv_transport transport,
			    const char *single, const char *const fenced[4])
{
	expect_message(attr, transport, NULL, single);
	for (unsigned n = 0; n < 8; n++) {
		struct pmv_past past = {.agent = n & 4, .flush = n & 2, .ordered = n & 1};

		expect_message(attr, transport, &past, fenced[n & 3]);
	}
}

Test(method, of_a_message_into_one_kind_of_memory_follows_the_table)
{
	for (unsigned n = 0; n < (PMV_WSP + 1) * 4; n++) {
		struct pmv_attr attr = {
			.persist = (enum pmv_persist)(n / 4),
			.ddio = n & 1,
			.pmem = true,
			.readable = true,
		};
		enum pmv_transport transport = n & 2 ? PMV_TRANSPORT_LOCAL : PMV_TRANSPORT_IB;
		int found = 0;

		for (size_t i = 0; i < sizeof(received) / sizeof(received[0]); i++) {
			const char *const fenced[] = {received[i].nothing, received[i].ordered,
						      received[i].flush, received[i].flush_ordered};

			if (received[i].persist != attr.persist ||
			    !fits(received[i].ddio, attr.ddio) ||
			    !fits(received[i].local, transport == PMV_TRANSPORT_LOCAL))
				continue;
			found++;
			expect_messages(&attr, transport, received[i].single, fenced);
			cr_expect_eq(pmv_method_of_message(&attr, transport),
				     *received[i].single == 'a'   ? PMV_METHOD_AGENT
				     : *received[i].single == 'r' ? PMV_METHOD_READ
								  : PMV_METHOD_WRITE);
		}
		cr_assert_eq(found, 1);
	}
}

/* The target's agent, always. */
Test(method, of_a_message_to_who_knows_where_is_the_agents)
{
	static const char *const fenced[] = {"a", "fa", "a", "fa"};

	for (int local = 0; local < 2; local++) {
		enum pmv_transport transport = local ? PMV_TRANSPORT_LOCAL : PMV_TRANSPORT_IB;
		struct pmv_choice plan = pmv_method_choose_message(NULL, transport, false, NULL);

		expect_messages(NULL, transport, "a", fenced);
		cr_expect_eq(pmv_method_of_message(NULL, transport), PMV_METHOD_AGENT);
		cr_expect_not_null(strstr(plan.why, "FI_OPT_PMEMVERBS_RECV_MR"));
	}
}

/* rdma_tail -- the same where an ATOMIC WRITE may be behind a FLUSH of what the agent is to know */
static struct pmv_choice rdma_tail(const struct pmv_attr *attr, bool agent, bool ordered)
{
	const struct pmv_past past = {.agent = agent, .ordered = ordered, .flushable = true};

	return pmv_method_choose(attr, PMV_TRANSPORT_IB, &past);
}

static void expect_no_tail(const struct pmv_attr *attr, bool ordered)
{
	cr_expect(rdma_tail(attr, true, ordered).after_agent);
	cr_expect_not(rdma_tail(attr, true, ordered).persist_first);
	cr_expect_neq(rdma_tail(attr, true, ordered).method, PMV_METHOD_FLUSH);
}

Test(method, an_atomic_write_behind_a_flush_takes_the_agents_place)
{
	const struct pmv_attr attr = {.persist = PMV_DMP,
				      .pmem = true,
				      .ddio = true,
				      .writable = true,
				      .readable = true,
				      .flushable = true,
				      .atomic_write = true};
	struct pmv_attr other = attr;

	for (int agent = 0; agent <= 1; agent++) {
		struct pmv_choice choice = rdma_tail(&attr, agent, false);

		cr_expect_eq(choice.method, PMV_METHOD_FLUSH);
		cr_expect(choice.persist_first);
		cr_expect_not(choice.after_agent);
		cr_expect_null(choice.why);
	}
	/* An RDMA FLUSH is no proof of what only a READ makes durable. */
	expect_no_tail(&attr, true);
	other.atomic_write = false;
	expect_no_tail(&other, false);
	cr_expect_eq(rdma_tail(&other, false, false).method, PMV_METHOD_FLUSH);
	cr_expect_not(rdma_tail(&other, false, false).persist_first);
	other = attr;
	other.flushable = false;
	expect_no_tail(&other, false);
	other = attr;
	other.relaxed = true;
	expect_no_tail(&other, false);
	other = attr;
	other.persist = PMV_PAGE;
	expect_no_tail(&other, false);
	other = attr;
	other.ddio = false;
	expect_no_tail(&other, false);
	cr_expect_not(rdma_tail(&other, false, false).persist_first);
}

/* rdma_flush -- what is done for such memory */
static enum pmv_method rdma_flush(struct pmv_attr attr, bool agent, bool flush, bool ordered)
{
	const struct pmv_past past = {.agent = agent, .flush = flush, .ordered = ordered};

	return pmv_method_choose(&attr, PMV_TRANSPORT_IB, &past).method;
}

Test(method, rdma_flush_takes_the_agents_place)
{
	const struct pmv_attr attr = {.persist = PMV_DMP,
				      .pmem = true,
				      .ddio = true,
				      .writable = true,
				      .flushable = true};
	struct pmv_attr other = attr;

	cr_expect_eq(pmv_method_choose(&attr, PMV_TRANSPORT_IB, NULL).method, PMV_METHOD_FLUSH);
	cr_expect_null(pmv_method_choose(&attr, PMV_TRANSPORT_IB, NULL).why);
	cr_expect_eq(rdma_flush(attr, false, false, false), PMV_METHOD_FLUSH);
	cr_expect_eq(rdma_flush(attr, false, true, false), PMV_METHOD_FLUSH);
	/* What it does not cover. */
	cr_expect_eq(rdma_flush(attr, true, false, false), PMV_METHOD_AGENT);
	cr_expect_eq(rdma_flush(attr, false, false, true), PMV_METHOD_AGENT);
	/* A write alone still has to be remembered for the agent. */
	cr_expect_eq(pmv_method_of_write(&attr, PMV_TRANSPORT_IB), PMV_METHOD_AGENT);
	other.relaxed = other.readable = true;
	cr_expect_eq(rdma_flush(other, false, false, false), PMV_METHOD_AGENT);
	other = attr;
	other.ddio = false;
	other.readable = true;
	cr_expect_eq(rdma_flush(other, false, false, false), PMV_METHOD_READ);
	other = attr;
	other.persist = PMV_PAGE;
	cr_expect_eq(rdma_flush(other, false, false, false), PMV_METHOD_AGENT);
}
