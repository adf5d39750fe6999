# SPDX-License-Identifier: BSD-2-Clause
# table.awk -- a table of report-page: rows are methods, columns what was varied
#
# Reads missing.csv, the medians, and the rows: METHOD@SETTING|REFERENCE|LABEL, or =|TEXT.
# REFERENCE is a method whose cell in the same column is 1.00, or @0: the row's own first cell.
BEGIN {
	many = value == "rate" || value == "bandwidth"
	column = x == "bytes" ? 5 : x == "in_flight" ? 6 : x == "threads" ? 7 : 8
}

function thousands(v, text, out) {
	text = sprintf("%.0f", v)
	for (out = ""; length(text) > 3; text = substr(text, 1, length(text) - 3))
		out = "," substr(text, length(text) - 2) out
	return text out
}

function show(v) {
	return value == "rate" || v >= 1000 ? thousands(v) : v >= 100 ? sprintf("%.0f", v) : sprintf("%.1f", v)
}

function escape(text) {
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	return text
}

function title(v) {
	if (x == "bytes")
		return v >= 1048576 ? v / 1048576 " MiB" : v >= 1024 ? v / 1024 " KiB" : v " B"
	return x == "pause" ? (v == 0 ? "no pause" : v / 1000 " ms") : v
}

FILENAME ~ /missing.csv$/ {
	if ($1 == section && $2 == core)
		reason[$3 "@" $4] = $5
	next
}

FILENAME != "-" && FILENAME != "" {
	if ($1 != section || $2 != core || (flight != "" && $6 != flight))
		next
	key = $3 "@" $4 SUBSEP $column
	# Megabytes of a second; or operations of it; or microseconds of an operation
	unit = value == "bandwidth" ? $5 / 1e6 : 1
	figure[key] = many ? $15 * unit : $9
	least[key] = many ? $16 * unit : $10
	most[key] = many ? $17 * unit : $11
	p99[key] = $12
	p999[key] = $13
	count[key] = $14
	rounds[key] = $18
	if (!($column in seen)) {
		seen[$column] = 1
		xs[++nxs] = $column
	}
	next
}

{
	rows[++nrows] = $0
}

function sort_columns(i, k, v) {
	for (i = 2; i <= nxs; i++) {
		v = xs[i]
		for (k = i - 1; k > 0 && xs[k] + 0 > v + 0; k--)
			xs[k + 1] = xs[k]
		xs[k + 1] = v
	}
}

# why -- there is no figure
function why(name) {
	return name in reason ? escape(reason[name]) : "not measured in this run"
}

function tail(key) {
	# The 99.9th percentile of less than 1,000 is only the longest.
	return show(p99[key]) " / " (count[key] >= 1000 ? show(p999[key]) \
		: "<small title=\"" count[key] " samples in the shortest round, 1,000 are needed\">few</small>")
}

function ratio(name, reference, at, other, r, class) {
	other = reference == "@0" ? name SUBSEP xs[1] : reference "@" SUBSEP at
	if (reference == "" || !(other in figure) || !figure[other])
		return ""
	r = figure[name SUBSEP at] / figure[other]
	class = many ? (r >= 0.95 ? "good" : r < 0.5 ? "bad" : "") : (r <= 1.1 ? "good" : r > 2 ? "bad" : "")
	return sprintf(" <span class=\"%s\">×%.2f</span>", class, r)
}

function cell(name, reference, at, key) {
	key = name SUBSEP at
	if (!(key in figure))
		return "<td class=\"missing\">" why(name) "</td>"
	if (value == "tail")
		return "<td>" tail(key) "</td>"
	return "<td><b>" show(figure[key]) "</b>" ratio(name, reference, at) \
		(rounds[key] > 1 ? "<br/><small>" show(least[key]) "–" show(most[key]) "</small>" : "") "</td>"
}

END {
	if (!nxs)
		exit
	sort_columns()
	printf "<table><thead><tr><th class=\"l\">%s</th>", corner
	for (i = 1; i <= nxs; i++)
		printf "<th>%s</th>", title(xs[i])
	print "</tr></thead><tbody>"
	for (r = 1; r <= nrows; r++) {
		split(rows[r], part, "|")
		if (part[1] == "=") {
			printf "<tr class=\"group\"><td class=\"l\" colspan=\"%d\">%s</td></tr>\n", nxs + 1, part[2]
			continue
		}
		printf "<tr%s><td class=\"l\">%s%s</td>", part[1] ~ /^(one-sided|agent)@/ ? " class=\"ours\"" : "", escape(part[3]),
			part[1] == part[2] "@" ? " <small>(reference)</small>" : ""
		found = 0
		for (i = 1; i <= nxs; i++)
			found += (part[1] SUBSEP xs[i]) in figure
		if (!found)
			printf "<td class=\"missing\" colspan=\"%d\">%s</td>", nxs, why(part[1])
		for (i = 1; found && i <= nxs; i++)
			printf "%s", cell(part[1], part[2], xs[i])
		print "</tr>"
	}
	print "</tbody></table>"
}
