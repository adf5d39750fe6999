# SPDX-License-Identifier: BSD-2-Clause
# clients.awk -- for report-page: commits per second of many clients; lines are row,files,clients,median

BEGIN {
	n = split("ours-file ours-direct ours-dmp nbd mmap direct", rows, " ")
	label["ours-file"] = "pmemverbs, a mapped file"
	label["ours-direct"] = "pmemverbs, memory with a file behind it"
	label["ours-dmp"] = "pmemverbs, memory that is declared dmp: no disk"
	label["nbd"] = "nbdkit and fio, a flush after each write"
	label["mmap"] = "fio here, mapped, msync after each write"
	label["direct"] = "fio here, io_uring, O_DIRECT and O_DSYNC"
}

{
	value[$1, $2, $3] = $4
	if (!($3 in seen)) {
		seen[$3] = 1
		for (i = ++counts; i > 1 && count[i - 1] > $3 + 0; i--)
			count[i] = count[i - 1]
		count[i] = $3 + 0
	}
}

function table(files, title, i, j, line, lines) {
	lines = ""
	for (i = 1; i <= n; i++) {
		line = ""
		for (j = 1; j <= counts; j++)
			if ((rows[i], files, count[j]) in value)
				line = line sprintf("<td>%.0f</td>", value[rows[i], files, count[j]])
			else if (line != "")
				line = line "<td>-</td>"
		if (line != "")
			lines = lines sprintf("<tr><th class=\"l\">%s</th>%s</tr>\n", label[rows[i]], line)
	}
	if (lines == "")
		return
	printf "<table><thead><tr><th class=\"l\">%s</th>", title
	for (j = 1; j <= counts; j++)
		printf "<th>%d</th>", count[j]
	printf "</tr></thead><tbody>\n%s</tbody></table>\n", lines
}

END {
	table("one", "One file: clients")
	table("each", "A file each: clients")
}
