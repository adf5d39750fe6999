/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_judge.c -- judges the histories of fi_pmem_tx -o soak, which it reads from standard input
 *
 * A transaction has two lines:
 * call BEGIN CLIENT NUMBER KEY:READ:WRITTEN ...
 * back END CLIENT NUMBER made or aborted
 * READ and WRITTEN are identities of values; WRITTEN is 0 if the key was only read.  If there is no
 * line "back" the transaction may have been made or not.  history_lines.h has the rest.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kv/history_lines.h"
#include "tx_history.h"

struct line {
	struct history_line line;          /* first */
	struct tx_transaction transaction; /* of "back": whether it was aborted */
};

/* parse_events -- up to the end of the line */
static bool parse_events(const char *text, struct tx_transaction *transaction)
{
	while (transaction->count < TX_ACCESSES) {
		struct tx_event *event = &transaction->events[transaction->count];
		int end = 0;

		if (sscanf(text, " %" SCNu64 ":%" SCNu64 ":%" SCNu64 "%n", &event->key,
			   &event->read, &event->written, &end) != 3)
			break;
		transaction->count++;
		text += end;
	}
	return transaction->count && *text == '\n';
}

static bool parse(const char *text, void *to)
{
	struct line *line = to;
	struct tx_transaction *transaction = &line->transaction;

	transaction->begin = line->line.time;
	transaction->end = TX_NEVER;
	transaction->aborted = !strcmp(text, " aborted\n");
	return line->line.back ? transaction->aborted || !strcmp(text, " made\n")
			       : parse_events(text, transaction);
}

/* pair -- calls with what came back: how many transactions that makes */
static size_t pair(const struct line *lines, size_t count, struct tx_transaction *transactions)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct line *call = &lines[i], *back = &lines[i + 1];

		if (call->line.back)
			continue;
		transactions[found] = call->transaction;
		if (i + 1 < count && history_answers(&back->line, &call->line)) {
			transactions[found].end = back->line.time;
			transactions[found].aborted = back->transaction.aborted;
		}
		found++;
	}
	return found;
}

int main(void)
{
	struct tx_transaction *transactions;
	struct tx_verdict verdict;
	size_t count, found;
	struct line *lines = history_read(stdin, sizeof(*lines), parse, &count);

	transactions = calloc(count + 1, sizeof(*transactions));
	if (!transactions)
		abort();
	found = pair(lines, count, transactions);
	verdict = tx_judge_history(transactions, found);
	if (verdict.wrong)
		printf("key %" PRIu64 ", value %" PRIu64 ": %s\n", verdict.key, verdict.value,
		       verdict.why);
	else
		printf("%zu transactions of %zu were made, and are strictly serializable\n",
		       verdict.judged, found);
	free(transactions);
	free(lines);
	/* A history of nothing is none. */
	return verdict.wrong || !verdict.judged ? EXIT_FAILURE : EXIT_SUCCESS;
}
