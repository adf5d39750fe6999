# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# report.sh -- a page of figures, and whether it is whole

# report_whole DIR CSV... -- a page that browsers can show; CSVs with a figure in each cell
report_whole()
{
	local dir=$1 name

	shift
	xmllint --noout "$dir/report.html" || return
	# It stands alone, and has no cell without a figure or a reason.
	! sed 's,http://www.w3.org/,,g' "$dir/report.html" | grep -nE '://|<td[^>]*></td>|[^a-z](nan|inf)[^a-z]' || return
	[ "$(grep -c '<svg' "$dir/report.html")" -ge 1 ] || return
	! grep -oE "[ ]id=[\"'][^\"']*" "$dir/report.html" | sort | uniq -d | grep . || return
	for name; do
		awk -F, -v name="$name" '
			NR == 1 { columns = NF; split($0, title, ",") }
			NF != columns { print name ": line " NR " has " NF " columns instead of " columns; bad = 1 }
			NR > 1 { for (i = 1; i <= NF; i++)
				if (($i == "" && title[i] != "setting" && (name != "missing" || title[i] == "reason")) || tolower($i) ~ /^-?(nan|inf)/) {
					print name ": line " NR " has no " title[i]; bad = 1 } }
			END { if (NR < 2) print name ": no rows"; exit bad || NR < 2 }' "$dir/$name.csv" || return
	done
}
