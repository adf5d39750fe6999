# SPDX-License-Identifier: BSD-2-Clause
# rpc.awk -- tables of report-page: durable calls by different designs
#
# Reads medians over rounds: variant, case, setting, kind, calls per second, mean, p50 and p99 in
# microseconds, seconds, connected, sent and executed again, rounds.
{
	key = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4
	rate[key] = $5
	mean[key] = $6
	p50[key] = $7
	p99[key] = $8
	seconds[key] = $9
	sent[key] = $11
	executed[key] = $12
	if (!(($2, $3) in seen)) {
		seen[$2, $3] = 1
		settings[$2] = settings[$2] (settings[$2] == "" ? "" : " ") $3
	}
}

function show(v) {
	return v >= 100 ? sprintf("%.0f", v) : sprintf("%.1f", v)
}

# of VALUE, VARIANT, CASE, SETTING -- "" if there is none
function of(value, variant, name, setting, kind, key) {
	key = variant SUBSEP name SUBSEP setting SUBSEP kind
	if (!(key in rate))
		return ""
	return value == "rate" ? rate[key] : value == "mean" ? mean[key] : value == "p99" ? p99[key] : value == "p50" ? p50[key] : seconds[key]
}

function cell(value, variant, name, setting, v, ours) {
	v = of(value, variant, name, setting, "all")
	ours = of(value, "pmemrpc", name, setting, "all")
	if (v == "")
		return "<td class=\"missing\">-</td>"
	return "<td><b>" (value == "seconds" ? sprintf("%.3f", v) : show(v)) "</b>" \
		(ours == "" || !(ours > 0) ? "" : sprintf(" ×%.2f", v / ours)) "</td>"
}

# table CASE, VALUE, TITLE -- a row for each variant
function table(name, value, title, n, at, i, k) {
	n = split(settings[name], at, " ")
	if (!n)
		return
	# Insertion sort: numbers before what is none.
	for (i = 2; i <= n; i++)
		for (k = i; k > 1 && order(at[k - 1], at[k]); k--) {
			swap = at[k]
			at[k] = at[k - 1]
			at[k - 1] = swap
		}
	printf "<table><thead><tr><th class=\"l\">%s</th>", title
	for (i = 1; i <= n; i++)
		printf "<th>%s</th>", at[i]
	print "</tr></thead><tbody>"
	for (k = 1; k <= num_variants; k++) {
		if (!has_any(variants[k], name, at, n))
			continue
		printf "<tr%s><td class=\"l\">%s</td>", variants[k] ~ /^pmemrpc/ ? " class=\"ours\"" : "", variants[k]
		for (i = 1; i <= n; i++)
			printf "%s", cell(value, variants[k], name, at[i])
		print "</tr>"
	}
	print "</tbody></table>"
}

function order(a, b) {
	return a + 0 != b + 0 ? a + 0 > b + 0 : a > b
}

function has_any(variant, name, at, n, i) {
	for (i = 1; i <= n; i++)
		if (of("rate", variant, name, at[i], "all") != "")
			return 1
	return 0
}

# range VALUE, CASE, SETTINGS, OTHERS -- libpmemrpc's next to each of theirs: the least and the greatest change
function range(value, name, list, others, n, m, i, k, at, other, ours, theirs, r, least, most, found) {
	n = split(list, at, " ")
	m = split(others, other, " ")
	for (i = 1; i <= n; i++)
		for (k = 1; k <= m; k++) {
			ours = of(value, "pmemrpc", name, at[i], "all")
			theirs = of(value, other[k], name, at[i], "all")
			if (ours == "" || theirs == "" || !(theirs > 0))
				continue
			r = 100 * (ours / theirs - 1)
			least = !found || r < least ? r : least
			most = !found || r > most ? r : most
			found = 1
		}
	return found ? sprintf("%+.0f to %+.0f %%", least, most) : "not measured in this run"
}

function line(what, paper, written, sleeping, why) {
	printf "<tr><td class=\"l\">%s</td><td>%s</td><td>%s</td><td>%s</td><td class=\"l\">%s</td></tr>\n",
		what, paper, written, sleeping, why
}

function next_to_paper(polled, slept) {
	polled = "octopus farm l5 rfp scalerpc"
	slept = "darpc"
	print "<table><thead><tr><th class=\"l\">libpmemrpc next to others</th><th>the paper</th><th>designs by WRITE, here</th>" \
		"<th>DaRPC, here</th><th class=\"l\">if it differs, a likely reason</th></tr></thead><tbody>"
	line("Calls per second, light, 64 KiB", "+20 to +90 %; DaRPC +42 %", range("rate", "micro", "65536/0", polled),
		range("rate", "micro", "65536/0", slept), "libpmemrpc has three copies of the data in persistent memory (log, journal, place), the others two; and a reply to a read is kept there, too.")
	line("Calls per second, heavy, all sizes", "+58 to +85 %; DaRPC +43 to +69 %",
		range("rate", "micro", "32/100 1024/100 65536/100", polled), range("rate", "micro", "32/100 1024/100 65536/100", slept),
		"What overlaps is the way of a request with the execution of the last one. Over a loopback interface that way is short next to 100 µs.")
	line("99th percentile, light, 1 KiB", "-49 %; DaRPC -10 %", range("p99", "micro", "1024/0", polled), range("p99", "micro", "1024/0", slept),
		"Who looks into memory is not woken. libpmemrpc's server sleeps, as DaRPC's does here.")
	line("99th percentile, light, 64 KiB", "-24 %", range("p99", "micro", "65536/0", polled), range("p99", "micro", "65536/0", slept), "as above")
	line("Mean time, 95 % writes", "-63 to -71 %", range("mean", "mix", "5", polled), range("mean", "mix", "5", slept), "as above")
	line("Time of PageRank", "-8 to -38 %; DaRPC -30 %", range("seconds", "pagerank", "uniform attached rmat", polled),
		range("seconds", "pagerank", "uniform attached rmat", slept), "The ranks are at the server here, so two thirds of the calls are reads of 4 KiB, whose replies libpmemrpc makes durable.")
	line("Mean time, YCSB A and E", "up to -50 %; DaRPC -7 to -23 %", range("mean", "ycsb", "a e", polled), range("mean", "ycsb", "a e", slept),
		"Half of A and most of E are reads; as PageRank.")
	print "</tbody></table>"
}

# outages -- what one costs: calls that were not made in its time, as seconds
function outages(n, at, i, k, part, none, with, lost, level, levels) {
	n = split(settings["availability"], at, " ")
	split("99 99.9 99.99", levels, " ")
	if (!n)
		return
	print "<table><thead><tr><th class=\"l\">outages of 300 ms</th><th>reads</th><th>lost by one</th><th>sent again</th><th>executed again</th>"
	for (level = 1; level <= 3; level++)
		printf "<th>time at %s %%</th>", levels[level]
	print "</tr></thead><tbody>"
	for (k = 1; k <= num_variants; k++)
		for (i = 1; i <= n; i++) {
			split(at[i], part, "/")
			if (!(part[2] > 0))
				continue
			none = of("rate", variants[k], "availability", part[1] "/0", "all")
			with = of("rate", variants[k], "availability", at[i], "all")
			if (none == "" || with == "")
				continue
			lost = of("seconds", variants[k], "availability", at[i], "all") * (1 - with / none) / part[2]
			printf "<tr%s><td class=\"l\">%s</td><td>%s %%</td><td>%.2f s</td><td>%.1f</td><td>%.1f</td>",
				variants[k] ~ /^pmemrpc/ ? " class=\"ours\"" : "", variants[k], part[1], lost,
				sent[variants[k], "availability", at[i], "all"] / part[2], executed[variants[k], "availability", at[i], "all"] / part[2]
			for (level = 1; level <= 3; level++)
				printf "<td>×%.4f</td>", 1 / (1 - lost * (1 - levels[level] / 100) / 0.3)
			print "</tr>"
		}
	print "</tbody></table>"
}

END {
	num_variants = split("pmemrpc pmemrpc-send pmemrpc-executed pmemrpc-spin darpc darpc-spin fasst octopus farm l5 rfp scalerpc", variants, " ")
	next_to_paper()
	table("micro", "rate", "calls per second: bytes / µs of the handler")
	table("micro", "p99", "99th percentile, µs")
	print "<details><summary>clients, reads and writes, batches, YCSB, PageRank</summary>"
	table("clients", "rate", "calls per second, by clients")
	table("mix", "mean", "mean, µs, by percent of reads")
	table("batch", "rate", "writes per second, by calls in a message")
	table("ycsb", "mean", "YCSB: mean, µs")
	table("ycsb", "rate", "YCSB: operations per second")
	table("pagerank", "seconds", "PageRank: seconds")
	print "</details>"
	outages()
}
