# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# page-tables.sh -- for report-page: tables and plots, of medians and of reasons
#
# shellcheck disable=SC2034,SC2154 # report-page and its other parts set these and use them

# label METHOD -- what a reader is told of it
label()
{
	case $1 in
	one-sided) echo 'pmemverbs, one-sided commit' ;;
	agent) echo 'pmemverbs, commit by the agent' ;;
	native) echo 'pmemverbs over native, one-sided commit, one doorbell' ;;
	native-agent) echo 'pmemverbs over native, commit by the agent' ;;
	native-agent-away) echo "the same, the target's application is away" ;;
	flush) echo 'pmemverbs over native, commit by RDMA FLUSH' ;;
	flush-append) echo 'pmemverbs over native, append: a record and its tail by RDMA FLUSH' ;;
	file) echo 'pmemverbs, commit to a plain file (msync)' ;;
	core-commit) echo "tcp's own FI_COMMIT_COMPLETE" ;;
	core-write-read) echo 'core provider alone, write + read' ;;
	core-deliver) echo 'core provider alone, FI_DELIVERY_COMPLETE' ;;
	bare-write-read) echo 'bare verbs, WRITE + READ, one doorbell' ;;
	bare-two-posts) echo 'bare verbs, WRITE + READ, two doorbells' ;;
	bare-write-then-read) echo 'bare verbs, WRITE awaited, then READ' ;;
	bare-write-send) echo 'bare verbs, WRITE + SEND, target flushes' ;;
	bare-write-flush) echo 'bare verbs, WRITE + RDMA FLUSH, one doorbell' ;;
	bare-append) echo 'bare verbs, WRITE + FLUSH + ATOMIC WRITE + FLUSH, one doorbell' ;;
	bare-write) echo 'bare verbs, WRITE only' ;;
	rpma-flush) echo 'librpma, write + flush' ;;
	rpma-write-send) echo 'librpma, write + send, target flushes' ;;
	rpma-message) echo 'librpma, message, target copies and flushes' ;;
	esac
}

# table SECTION CORE X VALUE [METHOD@SETTING|REFERENCE|LABEL]... -- VALUE is p50, tail (p99 and p99.9), rate or bandwidth
table()
{
	local section=$1 core=$2 x=$3 value=$4

	shift 4
	printf '%s\n' "$@" | awk -F, -v section="$section" -v core="$core" -v x="$x" -v value="$value" \
		-v flight="${flight-}" -v corner="${corner-}" -f "$top/fabtests/report/table.awk" \
		"$dir/missing.csv" "$work/medians" -
}

# row METHOD [REFERENCE [SETTING [LABEL]]]
row()
{
	echo "$1@${3-}|${2-}|${4-$(label "$1")}"
}

# inline NAME FILE -- an SVG of gnuplot's without its head; what all plots name alike gets a name of its own
inline()
{
	sed -e '1,/^<svg/{/^<svg/!d}' -e 's/^<svg/<svg role="img"/' \
		-e "s/\(gpPt\|gpDot\|gpBackground\|gnuplot_canvas\|gnuplot_plot\|greybox\|textbox\)/$1-\1/g" "$2"
}

# draw NAME TITLE XLABEL YLABEL AXES LINE... -- an SVG of lines, in the page; AXES: gnuplot's commands for this one
draw()
{
	local name=$1 title=$2 xlabel=$3 ylabel=$4 axes=$5

	shift 5
	cat >"$work/plot" <<-END
		set terminal svg noenhanced size 1100,420 font 'sans-serif,13' name '$name' background '#ffffff'
		set output '$work/$name.svg'
		set title '$title'
		set xlabel '$xlabel'
		set ylabel '$ylabel'
		set grid lc rgb '#dddddd'
		set key outside right center Left reverse
		$axes
		plot $(IFS=,; echo "$*")
	END
	gnuplot "$work/plot" || die "gnuplot failed"
	inline "$name" "$work/$name.svg"
}

# plot NAME SECTION CORE X Y TITLE XLABEL YLABEL METHOD@SETTING... -- an SVG in the page
plot()
{
	local name=$1 section=$2 core=$3 x=$4 y=$5 title=$6 xlabel=$7 ylabel=$8 each n=0 format
	local -a lines=()

	shift 8
	for each; do
		n=$((n + 1))
		awk -F, -v OFS=' ' -v key="$section,$core,${each%@*},${each#*@}" -v x="$x" -v y="$y" -v flight="${flight-}" '
			$1 "," $2 "," $3 "," $4 == key && (flight == "" || $6 == flight) { print $x, $y }' "$work/medians" |
			sort -n >"$work/line$n"
		[ -s "$work/line$n" ] || continue
		lines+=("'$work/line$n' using 1:2 with linespoints title '$(label "${each%@*}" | sed "s/'/''/g")${each#*@}' ls $n")
	done
	[ ${#lines[@]} -gt 0 ] || return
	format='%.0f'
	[ "$x" != 5 ] || format='%.0b%BB'
	draw "$name" "$title" "$xlabel" "$ylabel" "set logscale x 2
		set logscale y 10
		set border 3 lc rgb '#888888'
		set tics nomirror
		set format x '$format'
		set style line 1 lc rgb '#0b5fa5' lw 3 pt 7 ps 0.7
		set style line 2 lc rgb '#c0392b' lw 3 pt 7 ps 0.7
		set style line 3 lc rgb '#7f8c8d' lw 1.5 pt 5 ps 0.5
		set style line 4 lc rgb '#27ae60' lw 1.5 pt 9 ps 0.6
		set style line 5 lc rgb '#e67e22' lw 1.5 pt 11 ps 0.6
		set style line 6 lc rgb '#8e44ad' lw 1.5 pt 13 ps 0.7
		set style line 7 lc rgb '#16a085' lw 1.5 pt 4 ps 0.6" "${lines[@]}"
}

has()
{
	grep -q "^$1,$2," "$work/medians"
}

# absent SECTION CORE -- has nothing been measured there?  Then say why.
absent()
{
	! has "$1" "$2" || return 1
	echo "<h3>over $2</h3>"
	reasons "$1" "$2"
	grep -q "^$1,$2," "$dir/missing.csv" || echo '<p class="missing">Left out of this run.</p>'
}

cores()
{
	# Also one where everything has failed.
	(cut -d, -f2 "$work/medians"; awk -F, 'NR > 1 && $1 != "all" && $2 != "" { print $2 }' "$dir/missing.csv") | sort -ru
}

# fact NAME
fact()
{
	sed -n "s/^$1,//p" "$dir/machine.csv" | head -n 1
}

escape()
{
	sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g'
}

# csv_table FILE [COLUMN]... -- as it is; with columns, only these
csv_table()
{
	awk -F, '
		function cell(tag, text) { printf "<%s%s>%s</%s>", tag, text ~ /^[-0-9.]*$/ ? "" : " class=\"l\"", text, tag }
		{ gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;") }
		NR == 1 { gsub(/_/, " ") }
		{
		  printf "<tr>"
		  for (i = 1; i <= NF; i++) cell(NR == 1 ? "th" : "td", $i == "-" ? "not counted" : $i)
		  print "</tr>" }
		BEGIN { print "<table>" } END { print "</table>" }' "$1"
}

# reasons SECTION [CORE] -- why something has not been measured
reasons()
{
	awk -F, -v section="$1" -v core="${2-}" '$1 == section && (core == "" || $2 == core) {
		gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;")
		what = $2 " " $3 " " $4
		gsub(/^ +| +$/, "", what)
		printf "<p class=\"missing\">Not measured%s: %s.</p>\n", what == "" ? "" : " (" what ")", $5 }' "$dir/missing.csv"
}
