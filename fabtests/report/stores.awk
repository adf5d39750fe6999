# SPDX-License-Identifier: BSD-2-Clause
# stores.awk -- a table of report-page: the stores on chains next to what their paper compares with
#
# Reads medians over rounds: store, durable, keys, design, median in microseconds, operations per second.
BEGIN {
	count = 0
	# store | design | next to | value | least or greatest quotient of the paper | what | what is different here
	row("kv|get|get-two-reads|median|0.75|GET, next to two READs (Pilaf), time", \
		"With a NIC the READs need no processor of the target, and a chain does. Over tcp both need one; for a chain the agent may have to wake.")
	row("kv|put|put-rpc|median|1|PUT, next to a PUT by libpmemrpc, time", \
		"The call is acknowledged when its record is durable, and executed later. The chain has two commits.")
	row("rs|chains|locks|rate|1.5|RS, next to ABD with locks, operations per second", \
		"All targets share this machine, and with it its processors.")
	row("tx|chains|farm|rate|1.2|TX, next to FaRM&apos;s protocol, transactions per second", \
		"The paper&apos;s FaRM reads a key in two READs. Here its server has no index, and one is enough: both protocols take three round trips.")
	row("tx|chains|farm|median|0.82|TX, next to FaRM&apos;s protocol, time", "The same.")
}

function row(text, why) {
	rows[++count] = text
	reasons[count] = why
}

{
	figure[$1, $2, $3, $4, "median"] = $5
	figure[$1, $2, $3, $4, "rate"] = $6
	if (!(($1, $3) in seen)) {
		seen[$1, $3] = 1
		keys[$1] = keys[$1] (keys[$1] == "" ? "" : " ") $3
	}
}

function cell(part, at, durable, r, met) {
	if (!(figure[part[1], durable, at, part[3], part[4]] > 0))
		return "<td class=\"missing\">-</td>"
	r = figure[part[1], durable, at, part[2], part[4]] / figure[part[1], durable, at, part[3], part[4]]
	met = part[4] == "rate" ? r >= part[5] : r <= part[5]
	return sprintf("<td class=\"%s\"><b>×%.2f</b> %s</td>", met ? "good" : "bad", r, met ? "holds" : "does not hold")
}

# across -- a cell for all rows of one comparison
function across(k, n, text) {
	return k > 1 ? "" : sprintf("<td class=\"l\" rowspan=\"%d\">%s</td>", n, text)
}

END {
	print "<table><thead><tr><th class=\"l\">what</th><th>keys, or skew</th><th>durable</th><th>not durable</th>" \
		"<th>paper</th><th class=\"l\">what is different here</th></tr></thead><tbody>"
	for (i = 1; i <= count; i++) {
		split(rows[i], part, "|")
		n = split(keys[part[1]], at, " ")
		for (k = 1; k <= n; k++)
			printf "<tr class=\"figures\">%s<td>%s</td>%s%s<td>×%s</td>%s</tr>\n", across(k, n, part[6]), at[k],
				cell(part, at[k], "yes"), cell(part, at[k], "no"), part[5], across(k, n, reasons[i])
	}
	print "</tbody></table>"
}
