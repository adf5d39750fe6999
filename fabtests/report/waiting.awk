# SPDX-License-Identifier: BSD-2-Clause
# waiting.awk -- report-page's table of who waits how: setting is "TARGET AGENT INITIATOR"
FILENAME ~ /missing.csv$/ {
	if ($1 == section && $2 == core)
		reason[$3 " " $4] = $5
	next
}

$1 == section && $2 == core {
	key = $3 " " $4
	figure[key] = $9
	p99[key] = $12
	split($4, part, " ")
	seen[part[1] " " part[2]] = 1
}

function show(v) {
	return v >= 10000 ? sprintf("%.0f ms", v / 1000) : v >= 100 ? sprintf("%.0f", v) : sprintf("%.1f", v)
}

function cell(key) {
	if (!(key in figure))
		return "<td class=\"missing\">" (key in reason ? reason[key] : "not measured in this run") "</td>"
	return sprintf("<td class=\"%s\"><b>%s</b><br/><small>p99 %s</small></td>", figure[key] > 5 * best ? "bad" : "", show(figure[key]), show(p99[key]))
}

END {
	target["spin"] = "polls"
	target["sread"] = "sleeps in fi_cq_sread"
	target["away"] = "calls every 200 ms"
	agent["thread"] = "a thread (the default)"
	agent["progress"] = "in the application's calls"
	split("spin fd sread", waits, " ")
	split("one-sided agent", methods, " ")
	for (key in figure)
		if (!best || figure[key] < best)
			best = figure[key]
	print "<table><thead><tr><th class=\"l\" colspan=\"2\">target</th><th colspan=\"3\">one-sided commit; initiator:</th>" \
		"<th colspan=\"3\">commit by the agent; initiator:</th></tr>"
	print "<tr><th class=\"l\">application</th><th class=\"l\">agent</th>"
	for (m = 1; m <= 2; m++)
		print "<th>spins</th><th>fd</th><th>fi_cq_sread</th>"
	print "</tr></thead><tbody>"
	nrows = split("spin thread,spin progress,sread thread,sread progress,away thread,away progress", rows, ",")
	for (r = 1; r <= nrows; r++) {
		if (!(rows[r] in seen))
			continue
		split(rows[r], part, " ")
		printf "<tr><td class=\"l\">%s</td><td class=\"l\">%s</td>", target[part[1]], agent[part[2]]
		for (m = 1; m <= 2; m++)
			for (w = 1; w <= 3; w++)
				printf "%s", cell(methods[m] " " rows[r] " " waits[w])
		print "</tr>"
	}
	print "</tbody></table>"
	print "<p>Red: more than five times the fastest cell. Where the agent runs in the application's calls and the application makes none," \
		" a commit by the agent waits for the next call." (core != "tcp" ? "" : " A one-sided commit over tcp needs somebody at the" \
		" target who calls, too: the agent's thread, or the application.") "</p>"
}
