/* SPDX-License-Identifier: BSD-2-Clause */
/* report.c -- what was measured, as a table and as CSV */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../fabtests/common/stats.h"
#include "load.h"

static const char *const kinds[] = {"all", "read", "write"};

/* collect -- the samples of all clients, sorted; kind NUM_KINDS: all */
static struct samples collect(const struct load *load, bool reads, bool writes)
{
	struct samples all = {0};
	size_t count = 0;

	for (unsigned int i = 0; i < load->settings->clients; i++) {
		const struct client *client = &load->clients[i];

		count += reads ? client->samples[KIND_READ].count : 0;
		count += writes ? client->samples[KIND_WRITE].count : 0;
	}
	all.at = calloc(count + 1, sizeof(*all.at));
	for (unsigned int i = 0; all.at && i < load->settings->clients; i++) {
		for (unsigned int kind = KIND_READ; kind <= KIND_WRITE; kind++) {
			const struct samples *samples = &load->clients[i].samples[kind];

			if (!(kind == KIND_READ ? reads : writes) || !samples->count)
				continue;
			memcpy(all.at + all.count, samples->at,
			       samples->count * sizeof(*samples->at));
			all.count += samples->count;
		}
	}
	if (all.at)
		sort_samples(all.at, all.count);
	return all;
}

static double quantile(const struct samples *samples, unsigned int per)
{
	size_t at = samples->count * (per - 1) / per;

	return samples->count ? (double) samples->at[at] / 1e3 : 0;
}

static double mean(const struct samples *samples)
{
	double sum = 0;

	for (size_t i = 0; i < samples->count; i++)
		sum += (double) samples->at[i];
	return samples->count ? sum / (double) samples->count / 1e3 : 0;
}

static void write_row(FILE *file, const struct load *load, const char *kind,
		      const struct samples *samples, const char *rest)
{
	const struct settings *settings = load->settings;

	fprintf(file,
		"%s,%s,%zu,%llu,%.2f,%u,%u,%u,%u,%u,%s,%zu,%.6f,%.1f,%.3f,%.3f,%.3f,%.3f,%s\n",
		settings->mode, settings->workload->name, settings->size,
		(unsigned long long) settings->objects, settings->theta, settings->handler_us,
		settings->read_percent, settings->clients, settings->in_flight, settings->batch,
		kind, samples->count, load->seconds,
		load->seconds > 0 ? (double) samples->count / load->seconds : 0, mean(samples),
		quantile(samples, 2), quantile(samples, 100), quantile(samples, 1000), rest);
}

static void write_csv(const struct load *load, const struct samples *samples, const char *rest)
{
	const char *path = load->settings->csv;
	FILE *file = fopen(path, "a");

	if (!file) {
		bench_fail("%s: %s", path, strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (!ftell(file))
		fprintf(file, "mode,workload,size,objects,theta,handler_us,read_percent,clients,"
			      "in_flight,batch,kind,count,seconds,per_second,mean_us,p50_us,p99_us,"
			      "p999_us,connected_again,sent_again,executed_again\n");
	for (unsigned int i = 0; i < 3; i++) {
		if (samples[i].count || !i)
			write_row(file, load, kinds[i], &samples[i], rest);
	}
	if (fclose(file)) {
		bench_fail("%s: it can't be written", path);
		exit(EXIT_FAILURE);
	}
}

void report(struct load *load)
{
	struct samples samples[] = {collect(load, true, true), collect(load, true, false),
				    collect(load, false, true)};
	unsigned long long again = 0, sent = 0, total = 0;
	char rest[100];

	for (unsigned int i = 0; i < load->settings->clients; i++) {
		again += load->clients[i].reconnects;
		sent += load->clients[i].caller->sent_again;
		total += load->clients[i].total;
	}
	printf("%-10s %-10s %-6s %10s %12s %10s %10s %10s %10s\n", "mode", "workload", "kind",
	       "calls", "calls/s", "mean us", "p50 us", "p99 us", "p99.9 us");
	for (unsigned int i = 0; i < 3; i++) {
		if (!samples[i].count && i)
			continue;
		printf("%-10s %-10s %-6s %10zu %12.1f %10.2f %10.2f %10.2f %10.2f\n",
		       load->settings->mode, load->settings->workload->name, kinds[i],
		       samples[i].count, (double) samples[i].count / load->seconds,
		       mean(&samples[i]), quantile(&samples[i], 2), quantile(&samples[i], 100),
		       quantile(&samples[i], 1000));
	}
	printf("%.3f s; %llu times connected again, %llu calls sent again, %llu executed again; "
	       "what was written is there\n",
	       load->seconds, again, sent, (unsigned long long) load->handled - total);
	snprintf(rest, sizeof(rest), "%llu,%llu,%llu", again, sent,
		 (unsigned long long) load->handled - total);
	if (load->settings->csv)
		write_csv(load, samples, rest);
	for (unsigned int i = 0; i < 3; i++)
		free(samples[i].at);
}
